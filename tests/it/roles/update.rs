//! An update to this version in the order of docs/operations.md, by roles that are not superusers.

use super::{Roles, SOON};
use crate::harness::instances::{start_second, wait_standby};
use crate::harness::parked_events::assert_exit_code;
use crate::migrate::upgraded::migrations;

#[test]
fn grants_then_migrate_then_grants_then_one_relay_after_the_other() {
    let mut roles = Roles::new("update");
    let topic = roles.fixture.create_topic("events", 1, &[]);
    roles.grant();
    let known = migrations(i32::MAX);
    let (_, earlier) = known.split_last().unwrap();
    let mut operator = roles.client("operator");
    for (version, name, sql) in earlier {
        operator.batch_execute(sql).unwrap();
        let note = "INSERT INTO postrider.schema_version (version, name) VALUES ($1, $2)";
        operator.execute(note, &[version, name]).unwrap();
    }

    roles.grant();
    let early = roles.run_as("relay").run(&["dead", "list"]);
    assert_exit_code(&early, 3);
    let stderr = String::from_utf8_lossy(&early.stderr);
    assert!(stderr.contains("run `postrider migrate` of this version"), "{stderr}");
    roles.run_as("operator").migrate();
    roles.grant();

    let publish = |roles: &Roles, expect: usize| {
        let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";
        roles.client("application").execute(sql, &[&topic]).unwrap();
        roles.fixture.consumer().read_n(expect, SOON);
    };
    roles.run_as("relay").start_relay().wait_ready(SOON);
    let mut second = start_second(&roles.fixture);
    publish(&roles, 1);
    roles.fixture.relay().terminate();
    assert!(roles.fixture.relay().wait_exit(SOON).success());
    publish(&roles, 2);
    roles.fixture.start_relay();
    wait_standby(roles.fixture.relay());
    second.terminate();
    assert!(second.wait_exit(SOON).success());
    publish(&roles, 3);
    assert_exit_code(&roles.run_as("relay").run(&["dead", "list"]), 0);
}
