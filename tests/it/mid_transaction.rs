//! A relay that ends inside a large transaction continues there and does not repeat it.

mod configuration_changed;
mod frozen;
mod killed;
mod parked;
mod real_kafka;
mod stopped;
mod writer;

use std::time::Duration;

use self::writer::{Kind, Written};
use crate::harness::rig::{print_line, read, wait_caught_up};
use testkit::check::Verdict;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(120);
/// How many events may be repeated after a clean stop, whatever the size of the transaction.
const REPEATED_BY_STOP_MAX: usize = 100;
/// The relay is slowed down, so that it can be stopped inside the transaction.
const IN_FLIGHT: usize = 500;
/// After a kill: what is in flight, and what was done since the position was last stored.
const REPEATED_BY_KILL_MAX: usize = IN_FLIGHT + 1_000;

const LIMIT: &str = "POSTRIDER_LIMITS_IN_FLIGHT_EVENTS";
const LINGER: &str = "POSTRIDER_KAFKA_PROPERTIES_LINGER_MS";

/// One large transaction that waits to be published, and a small one after it.
struct Rig {
    fixture: Fixture,
    topic: String,
    name: &'static str,
    written: Written,
}

/// Prepares the rig on the shared servers.
#[track_caller]
fn prepare(name: &'static str, kind: Kind, events: usize) -> Rig {
    Rig::of(Fixture::new(BINARY, name), name, kind, events)
}

impl Rig {
    #[track_caller]
    fn of(mut fixture: Fixture, name: &'static str, kind: Kind, events: usize) -> Rig {
        let topic = fixture.create_topic("events", 3, &[]);
        if kind == Kind::Mixed {
            fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true").migrate();
        }
        let written = writer::write(&fixture, &topic, kind, events);
        fixture.set(LIMIT, &IN_FLIGHT.to_string());
        fixture.set(LINGER, "100");
        Rig { fixture, topic, name, written }
    }

    /// Starts the relay at full speed.
    #[track_caller]
    fn start_fast(&mut self) {
        self.fixture.unset(LIMIT);
        self.fixture.unset(LINGER);
        self.fixture.start_relay();
    }

    /// Starts the relay and waits until it has published this many more events.
    #[track_caller]
    fn publish_some(&mut self, events: usize) {
        self.fixture.start_relay();
        self.wait_published(events);
    }

    /// Waits until the relay has published this many events since it started.
    #[track_caller]
    fn wait_published(&mut self, events: usize) {
        let relay = self.fixture.relay();
        wait_until("the relay to be inside the transaction", SOON, || {
            // Before it listens, there are no metrics.
            relay.http_get("/metrics").is_ok_and(|(_, text)| published(&text) >= events)
        });
    }

    #[track_caller]
    fn stop(&mut self) {
        let relay = self.fixture.relay();
        relay.terminate();
        let status = relay.wait_exit(SOON);
        assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
    }

    /// Checks that the relay is inside the transaction and has stored its position there.
    #[track_caller]
    fn assert_inside(&self) {
        assert!(self.is_inside(), "the transaction ended too soon for this test");
    }

    #[track_caller]
    fn is_inside(&self) -> bool {
        let sql = "SELECT position < $2::text::pg_lsn FROM postrider.progress WHERE slot = $1";
        let values: [&(dyn postgres::types::ToSql + Sync); 2] =
            [&self.fixture.slot(), &self.written.before_commit];
        self.fixture.client().query_one(sql, &values).unwrap().get(0)
    }

    /// The relay catches up, and every event is there, in order.
    #[track_caller]
    fn judge(mut self, duplicates_max: usize) -> Verdict {
        wait_caught_up(&mut self.fixture);
        let verdict = read(self.fixture.broker(), &self.topic, self.written.expected);
        print_line(&format!(
            "{}: {} events, {} duplicates (at most {duplicates_max})",
            self.name, verdict.expected, verdict.duplicates.count
        ));
        verdict.assert_at_least_once(Some(duplicates_max));
        verdict
    }
}

fn published(metrics: &str) -> usize {
    let series = metrics.lines().filter(|line| line.starts_with("outbox_published_total{"));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}
