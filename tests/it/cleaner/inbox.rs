//! Claims of consumers that share the database: they are deleted only if configured.

use super::{BINARY, SOON, wait_rounds, with_fast_cleaner};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const CLAIMS: &str = "INSERT INTO postrider.inbox VALUES
    ('c', 'old', now() - interval '2 hours'), ('c', 'new', now())";

#[track_caller]
fn claims(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT idempotency_key FROM postrider.inbox ORDER BY 1";
    fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn the_retention_of_rows_does_not_delete_claims() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "claims_stay"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.client().batch_execute(CLAIMS).unwrap();
    fixture.start_relay().wait_ready(SOON);
    // The inbox comes last in a round: after two rounds it has been cleaned.
    wait_rounds(&mut fixture, &topic);
    wait_rounds(&mut fixture, &topic);
    assert_eq!(claims(&fixture), ["new", "old"]);
    let sql = "SELECT postrider.inbox_claim('c', 'old')";
    let is_new: bool = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert!(!is_new, "the effect would be repeated");
}

#[test]
fn claims_have_their_own_retention() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "claims_go"));
    fixture.set("POSTRIDER_INBOX_RETENTION", "1h").set("POSTRIDER_CLEANER_ENABLED", "false");
    fixture.client().batch_execute(CLAIMS).unwrap();
    fixture.start_relay().wait_ready(SOON);
    wait_until("the old claim to be deleted", SOON, || claims(&fixture) == ["new"]);
}

#[test]
fn a_role_without_the_right_to_delete_claims_gets_a_warning_with_the_grant() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "claims_rights"));
    fixture.set("POSTRIDER_INBOX_RETENTION", "1h");
    fixture.client().batch_execute(CLAIMS).unwrap();
    let role = format!("{}_relay", fixture.database());
    let sql = format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA postrider TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA postrider TO {role};
         REVOKE DELETE ON postrider.inbox FROM {role}"
    );
    fixture.client().batch_execute(&sql).unwrap();
    let url = fixture.postgres().url(fixture.database());
    let url = url.replace("postgres:postgres@", &format!("{role}@"));
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    let fix = format!("GRANT SELECT, DELETE ON postrider.inbox TO {role}");
    wait_until("the warning", SOON, || fixture.relay().log().contains(&fix));
    assert_eq!(claims(&fixture), ["new", "old"]);
    fixture.client().batch_execute(&fix).unwrap();
    wait_until("the old claim to be deleted", SOON, || claims(&fixture) == ["new"]);
}
