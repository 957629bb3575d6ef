//! Which rights listing, replaying and discarding dead events need.

use super::{Roles, SOON};
use crate::harness::halt::assert_one_sentence_and_its_fix;
use crate::harness::parked_events::{ParkedEvent, assert_exit_code, insert_all, states};

#[test]
fn the_relay_and_the_operator_replay_and_discard() {
    for role in ["relay", "operator"] {
        let mut roles = Roles::ready(&format!("replay_{role}"));
        let topic = roles.fixture.create_topic("t", 1, &[]);
        let rows = [
            ParkedEvent::keyed(&topic, 1, "k"),
            ParkedEvent { reason: "bad-headers", ..ParkedEvent::dead(&topic, 2) },
        ];
        insert_all(&roles.fixture, &rows);
        let fixture = roles.run_as(role);
        for arguments in [
            &["dead", "list"][..],
            &["replay", "--all", "--dry-run"],
            &["replay", "--key", "k"],
            &["dead", "discard", "--reason", "bad-headers", "--yes"],
        ] {
            assert_exit_code(&fixture.run(arguments), 0);
        }
        assert_eq!(states(fixture), ["1 delivered 1", "2 discarded 0"]);
        assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), "1");
    }
}

/// An event that can't be marked must not be published: every further run would publish it again.
#[test]
fn a_role_that_cannot_mark_events_publishes_none() {
    let mut roles = Roles::ready("no_mark");
    let topic = roles.fixture.create_topic("t", 1, &[]);
    insert_all(&roles.fixture, &[ParkedEvent::keyed(&topic, 1, "k")]);
    let role = format!("\"{}\"", roles.name("relay"));
    for (revoked, rights, table) in [
        ("INSERT", "SELECT, INSERT, UPDATE", "replayed"),
        ("UPDATE", "SELECT, INSERT, UPDATE", "replayed"),
        ("UPDATE", "SELECT, UPDATE", "undelivered"),
    ] {
        let revoke = format!("REVOKE {revoked} ON postrider.{table} FROM ROLE_NAME");
        roles.as_superuser("relay", &revoke);
        let output = roles.run_as("relay").run(&["replay", "--all"]);
        assert_exit_code(&output, 3);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_one_sentence_and_its_fix(&errors);
        // The SQL in the fix is run unchanged.
        let fix = format!("GRANT {rights} ON postrider.{table} TO {role}");
        assert!(errors.contains(&fix), "{fix:?} is not in\n{errors}");
        roles.as_superuser("relay", &fix);
    }
    assert_eq!(roles.fixture.consumer().end_offsets(&topic), [0]);
    assert_exit_code(&roles.run_as("relay").run(&["replay", "--all"]), 0);
    assert_eq!(states(&roles.fixture), ["1 delivered 1"]);
}

#[test]
fn a_role_that_cannot_change_rows_discards_none() {
    let mut roles = Roles::ready("no_discard");
    insert_all(&roles.fixture, &[ParkedEvent::dead("t", 1)]);
    roles.as_superuser("relay", "REVOKE UPDATE ON postrider.undelivered FROM ROLE_NAME");
    let output = roles.run_as("relay").run(&["dead", "discard", "--all", "--yes"]);
    assert_exit_code(&output, 3);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("GRANT SELECT, UPDATE ON postrider.undelivered TO"), "{errors}");
    assert_eq!(states(&roles.fixture), ["1 dead 0"]);
}
