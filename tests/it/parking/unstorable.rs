//! Events that Postgres does not store as they are, and servers that lack what others have.

use super::{
    BINARY, SOON, assert_parks_and_goes_on, hurried, wait_confirmed, wait_statuses, write,
};
use crate::messages::content::event;
use crate::support::fixture::Fixture;
use crate::support::shared;

/// An event without a table may name what the database has no bytes for.
#[test]
fn a_character_that_the_database_lacks_stops_nothing() {
    let (postgres, broker) = shared::pair();
    let mut fixture = hurried(Fixture::unmigrated(BINARY, "latin", &postgres.address(), &broker));
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
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let forge = "SELECT pg_logical_emit_message(true, 'postrider', $1::bytea)";
    let mut client = fixture.client();
    write(&fixture, &topic, None, "[1]");
    client.execute(forge, &[&event("7", "中 is not a topic", b"{}")]).unwrap();
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

/// As on a server in FIPS mode. Whoever is not a superuser can be kept from a function.
#[test]
fn a_server_that_refuses_md5_is_as_good_as_another() {
    let (postgres, broker) = shared::pair();
    let mut fixture = hurried(Fixture::unmigrated(BINARY, "fips", &postgres.address(), &broker));
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
    assert_parks_and_goes_on(&fixture, &topic);
    let mut admin = fixture.postgres().client("postgres");
    drop(fixture);
    admin.batch_execute(&format!("DROP ROLE \"{role}\"")).unwrap();
}
