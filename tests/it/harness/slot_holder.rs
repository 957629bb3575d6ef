//! Another program that holds a slot.

use std::process::{Child, Stdio};
use std::time::Duration;

use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);

/// `pg_recvlogical` on the fixture's slot; it confirms nothing, so nothing is taken from the relay.
pub struct SlotHolder(Child);

impl SlotHolder {
    #[track_caller]
    pub fn take(fixture: &Fixture) -> SlotHolder {
        SlotHolder::take_as(fixture, "postgres", "pg_recvlogical")
    }

    /// The same with another role and under another name.
    #[track_caller]
    pub fn take_as(fixture: &Fixture, role: &str, application: &str) -> SlotHolder {
        let child = shared::postgres()
            .tool("pg_recvlogical")
            .env("PGUSER", role)
            .env("PGAPPNAME", application)
            .args(["--dbname", fixture.database(), "--slot", fixture.slot()])
            .args(["--start", "--no-loop", "--file", "/dev/null"])
            // Neither flushed nor reported: the position stays where the relay will need it.
            .args(["--fsync-interval=3600", "--status-interval=0"])
            .args(["--option", "proto_version=1"])
            .args(["--option", "publication_names=postrider"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start pg_recvlogical");
        let slot_holder = SlotHolder(child);
        wait_until("pg_recvlogical to hold the slot", SOON, || fixture.slot_holder().is_some());
        slot_holder
    }
}

impl Drop for SlotHolder {
    fn drop(&mut self) {
        // SIGKILL: on SIGINT it would confirm what it has read, which is not in Kafka.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
