//! A session that holds the slot and is not a relay's is left alone.

use crate::harness::instances::{start_second, status, streams, wait_standby};
use crate::harness::slot_holder::SlotHolder;
use crate::standby::{BINARY, SOON, wait_watched, write};
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::wait::wait_until;

/// Longer than an orphaned walsender of ours would last.
const WATCHED_SECONDS: f64 = 6.0;

/// A role with the rights of a relay.
#[track_caller]
fn relay_role(fixture: &Fixture, name: &str) -> String {
    let role = format!("{name}_{}", fixture.database());
    let sql = format!(
        "CREATE ROLE \"{role}\" LOGIN REPLICATION; GRANT USAGE ON SCHEMA postrider TO \"{role}\";
         GRANT ALL ON ALL TABLES IN SCHEMA postrider TO \"{role}\";
         GRANT SELECT, DELETE ON outbox TO \"{role}\""
    );
    fixture.client().batch_execute(&sql).unwrap();
    role
}

fn run_as(fixture: &mut Fixture, role: &str) {
    let url = fixture.postgres().url(fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url.replace("postgres:postgres@", &format!("{role}@")));
}

#[track_caller]
fn assert_left_alone(fixture: &Fixture, standby: &Relay) {
    let holder = fixture.slot_holder().expect("the slot is not held");
    wait_watched(fixture, WATCHED_SECONDS);
    assert_eq!(fixture.slot_holder(), Some(holder));
    let log = standby.log();
    assert!(!log.contains(" WARN "), "{log}");
    assert_eq!(status(standby)["state"], "standby");
}

#[test]
fn another_program_of_the_same_role_is_left_alone() {
    let mut fixture = Fixture::new(BINARY, "other_program");
    let topic = fixture.create_topic("events", 1, &[]);
    let slot_holder = SlotHolder::take(&fixture);
    fixture.start_relay();
    wait_standby(fixture.relay());
    let standby = fixture.take_relay();
    assert!(status(&standby)["reason"].as_str().unwrap().contains("(pg_recvlogical) at 127.0.0.1"));
    assert_left_alone(&fixture, &standby);
    drop(slot_holder);
    write(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
}

#[test]
fn a_relay_of_another_role_is_left_alone() {
    let mut fixture = Fixture::new(BINARY, "other_role");
    let other = relay_role(&fixture, "other");
    let name = format!("postrider {}", fixture.slot());
    let _slot_holder = SlotHolder::take_as(&fixture, &other, &name);
    // As a superuser, which could end it.
    let standby = start_second(&fixture);
    assert_left_alone(&fixture, &standby);
    drop(standby);
    // As a role that can't even see whose session it is.
    let own = relay_role(&fixture, "own");
    run_as(&mut fixture, &own);
    let standby = start_second(&fixture);
    assert!(status(&standby)["reason"].as_str().unwrap().contains("of another role"));
    assert_left_alone(&fixture, &standby);
}

/// The same name and role, but not a relay: it can't be distinguished from one of ours.
#[test]
fn an_orphaned_walsender_is_ended_if_the_role_has_the_right() {
    let mut fixture = Fixture::new(BINARY, "orphan");
    let role = relay_role(&fixture, "relay");
    run_as(&mut fixture, &role);
    let name = format!("postrider {}", fixture.slot());
    let revoke = "REVOKE EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) FROM PUBLIC";
    fixture.client().batch_execute(revoke).unwrap();
    let _slot_holder = SlotHolder::take_as(&fixture, &role, &name);
    let mut standby = start_second(&fixture);
    let grant =
        format!("GRANT EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) TO \"{role}\"");
    let denied = |log: &str| {
        log.lines().filter(|line| line.contains(" WARN ") && line.contains(&grant)).count()
    };
    wait_until("the standby to ask for the right", SOON, || denied(&standby.log()) == 1);
    wait_watched(&fixture, 1.5 * WATCHED_SECONDS);
    assert_eq!(denied(&standby.log()), 1, "{}", standby.log());
    assert_eq!(status(&standby)["state"], "standby");
    standby.kill9();
    fixture.client().batch_execute(&grant).unwrap();
    let standby = start_second(&fixture);
    wait_until("the standby to take over", SOON, || streams(&standby));
    assert!(standby.log().contains("terminated the orphaned walsender"), "{}", standby.log());
}
