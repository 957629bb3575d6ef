//! Which rights publishing from the tables needs.

use super::{Roles, SOON};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::parked_events::assert_exit_code;
use crate::harness::slot::wait_confirmed;

const QUIET: std::time::Duration = std::time::Duration::from_secs(3);
const WRITE: &str = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}')";

#[test]
fn a_recovery_needs_the_right_to_read_the_table() {
    let mut roles = Roles::ready("recover");
    let topic = roles.fixture.create_topic("t", 1, &[]);
    let fixture = roles.run_as("relay");
    fixture.start_relay().wait_ready(SOON);
    fixture.client().execute(WRITE, &[&topic]).unwrap();
    wait_confirmed(fixture);
    fixture.relay().kill9();
    let sql = "SELECT pg_drop_replication_slot($1)";
    testkit::wait::wait_until("the slot is free", SOON, || fixture.slot_holder().is_none());
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    fixture.client().execute(WRITE, &[&topic]).unwrap();
    roles.as_superuser("relay", "REVOKE SELECT ON public.outbox FROM ROLE_NAME");
    let output = roles.run_as("relay").run(&["recover"]);
    assert_exit_code(&output, 3);
    let errors = String::from_utf8_lossy(&output.stderr);
    let fix = format!("GRANT SELECT ON public.outbox TO \"{}\"", roles.name("relay"));
    assert!(errors.contains(&fix), "{errors}");
    roles.as_superuser("relay", &fix);
    let fixture = roles.run_as("relay");
    assert_exit_code(&fixture.run(&["recover"]), 0);
    fixture.start_relay().wait_ready(SOON);
    let ids: std::collections::BTreeSet<String> =
        fixture.consumer().drain_quiet(QUIET).iter().map(|record| record.id().to_owned()).collect();
    assert!(ids.contains("2"), "{ids:?}");
}

#[test]
fn a_snapshot_needs_the_right_to_read_the_table() {
    let mut roles = Roles::new("initial");
    roles.fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    roles.grant();
    roles.run_as("operator").migrate();
    roles.grant();
    let topic = roles.fixture.create_topic("t", 1, &[]);
    roles.superuser().execute(WRITE, &[&topic]).unwrap();
    roles.as_superuser("relay", "REVOKE SELECT ON public.outbox FROM ROLE_NAME");
    assert_halts_at_start(
        roles.run_as("relay"),
        "lacks SELECT on public.outbox",
        "GRANT SELECT ON",
    );
    roles.grant();
    roles.run_as("relay").start_relay().wait_ready(SOON);
    assert_eq!(roles.fixture.consumer().read_n(1, SOON)[0].id(), "1");
}
