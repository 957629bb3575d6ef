//! Events that Postgres can't store unchanged, and servers that lack features of others.

use super::{
    BINARY, SOON, assert_parks_and_continues, is_parked, wait_statuses, with_fast_poller, write,
};
use crate::harness::slot::wait_confirmed;
use crate::messages::content::{Values, content, event};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const FORGE: &str = "SELECT pg_logical_emit_message(true, 'postrider', $1::bytea)";

/// A LATIN1 database whose relay also reads messages.
#[track_caller]
fn latin(name: &str) -> Fixture {
    let (postgres, broker) = shared::pair();
    let mut fixture =
        with_fast_poller(Fixture::unmigrated(BINARY, name, &postgres.address(), &broker));
    let database = fixture.database().to_owned();
    let mut admin = fixture.postgres().client("postgres");
    admin.batch_execute(&format!("DROP DATABASE \"{database}\"")).unwrap();
    let sql = format!(
        "CREATE DATABASE \"{database}\" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' \
         LC_CTYPE 'C'"
    );
    admin.batch_execute(&sql).unwrap();
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.migrate();
    fixture
}

/// Writes an event that the database could not write: its encoding lacks a character of the tenant.
#[track_caller]
fn forge(fixture: &Fixture, topic: &str, key: &str, headers: &str) {
    let mut values: Values<'_> = [None; 11];
    values[0] = Some(b"0");
    values[1] = Some(topic.as_bytes());
    values[2] = Some(b"{}");
    values[4] = Some(key.as_bytes());
    values[7] = Some("中".as_bytes());
    values[9] = Some(headers.as_bytes());
    fixture.client().execute(FORGE, &[&content(&values)]).unwrap();
}

#[track_caller]
fn wait_parked(fixture: &Fixture, key: &str, expect: &[&str]) {
    let sql = "SELECT status FROM postrider.undelivered WHERE ordering_key = $1
        ORDER BY commit_lsn";
    let mut client = fixture.client();
    wait_until(&format!("events of {key} to be {expect:?}"), SOON, || {
        let rows = client.query(sql, &[&key]).unwrap();
        rows.iter().map(|row| row.get::<_, &str>(0)).eq(expect.iter().copied())
    });
}

/// Whatever Postgres can store of the key.
#[test]
fn a_dead_event_that_is_stored_with_changes_holds_its_key() {
    let mut fixture = latin("latin_key");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let (stored, escaped) = ("größe \"1\"", r"\u{4e2d}");
    forge(&fixture, &topic, stored, "[1]");
    forge(&fixture, &topic, "中", "[1]");
    write(&fixture, &topic, Some("other"), "[1]");
    wait_parked(&fixture, stored, &["dead"]);
    wait_parked(&fixture, escaped, &["dead"]);
    wait_parked(&fixture, "other", &["dead"]);
    // Keys are checked together: when this one is found free, the others would be too.
    let discard = ["dead", "discard", "--key", "other", "--yes"];
    assert!(fixture.run(&discard).status.success());
    let mut published = Vec::new();
    wait_until("the key to be free", SOON, || {
        let id = write(&fixture, &topic, Some("other"), "{}");
        wait_confirmed(&fixture);
        let is_free = !is_parked(&fixture, &id);
        published.push(id);
        is_free
    });

    write(&fixture, &topic, Some(stored), "{}");
    wait_parked(&fixture, stored, &["dead", "pending"]);
    forge(&fixture, &topic, "中", "{}");
    wait_parked(&fixture, escaped, &["dead", "dead"]);
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, Some(stored), "{}");
    wait_parked(&fixture, stored, &["dead", "pending", "pending"]);
    forge(&fixture, &topic, "中", "{}");
    wait_parked(&fixture, escaped, &["dead", "dead", "dead"]);
    published.push(write(&fixture, &topic, None, "{}"));
    let records = fixture.consumer().read_n(published.len(), SOON);
    assert!(records.iter().all(|record| published.iter().any(|id| id == record.id())));
}

/// An event without a table may contain characters that the database can't encode.
#[test]
fn a_character_that_the_database_cannot_store_stops_nothing() {
    let mut fixture = latin("latin");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    write(&fixture, &topic, None, "[1]");
    client.execute(FORGE, &[&event("7", "中 is not a topic", b"{}")]).unwrap();
    let good = write(&fixture, &topic, None, "{}");
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), good);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 2)]);
    let sql = "SELECT topic, form FROM postrider.undelivered WHERE reason = 'unstorable'";
    let row = client.query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), r"\u{4e2d} is not a topic");
    assert_eq!(row.get::<_, &str>(1), "fragment");
}

/// As on a server in FIPS mode. The right to call a function can be revoked from ordinary roles.
#[test]
fn a_server_that_refuses_md5_works_like_any_other() {
    let (postgres, broker) = shared::pair();
    let mut fixture =
        with_fast_poller(Fixture::unmigrated(BINARY, "fips", &postgres.address(), &broker));
    let role = format!("{}_role", fixture.database());
    let sql = format!(
        "CREATE ROLE \"{role}\" LOGIN REPLICATION PASSWORD 'p';
         GRANT CREATE ON DATABASE \"{}\" TO \"{role}\"; GRANT CREATE ON SCHEMA public TO \"{role}\"",
        fixture.database()
    );
    fixture.client().batch_execute(&sql).unwrap();
    let url = postgres.address().url(fixture.database());
    let (_, rest) = url.split_once('@').expect("a user in the URL");
    fixture.set("POSTRIDER_DATABASE_URL", &format!("postgres://{role}:p@{rest}"));
    fixture.migrate();
    let sql = "REVOKE EXECUTE ON FUNCTION pg_catalog.md5(text), pg_catalog.md5(bytea) FROM PUBLIC";
    fixture.postgres().client(fixture.database()).batch_execute(sql).unwrap();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    assert_parks_and_continues(&fixture, &topic);
    let mut admin = fixture.postgres().client("postgres");
    drop(fixture);
    admin.batch_execute(&format!("DROP ROLE \"{role}\"")).unwrap();
}
