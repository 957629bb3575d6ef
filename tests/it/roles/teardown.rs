//! Only the owner of the objects can tear them down.

use super::Roles;
use crate::harness::halt::assert_one_sentence_and_its_fix;

#[test]
fn for_another_role_the_owners_are_reported_and_nothing_is_dropped() {
    let mut roles = Roles::ready("strangers");
    let owner = roles.name("operator");
    let other_role = format!("\"{}\"", roles.name("relay"));
    let output = roles.run_as("relay").run(&["teardown", "--tables", "--yes"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
    let grant = format!("GRANT \"{owner}\" TO {other_role}");
    let given = |thing| format!("ALTER {thing} OWNER TO {other_role} /* or: {grant} */;");
    let things = ["SCHEMA \"postrider\"", "TABLE \"public\".\"outbox\""];
    for statement in things.map(given).into_iter().chain([format!("{grant};")]) {
        assert!(errors.contains(&statement), "{statement:?} is not in\n{errors}");
    }
    assert!(errors.contains("nothing was dropped"), "{errors}");
    let output = roles.run_as("operator").run(&["migrate"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to change"));
}

#[test]
fn a_role_without_replication_cannot_drop_the_slot_and_drops_nothing_else() {
    let mut roles = Roles::ready("no_slot");
    roles.as_superuser("operator", "ALTER ROLE ROLE_NAME NOREPLICATION");
    let output = roles.run_as("operator").run(&["teardown", "--yes"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains("ALTER ROLE … REPLICATION"), "{errors}");
    let output = roles.fixture.run(&["migrate"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to change"));
}
