//! Synchronous replication makes writers wait, not the relay: a walsender sends what is flushed on its
//! own server.

use postgres::Client;

use super::{BINARY, SOON, promote, wait_promoted};
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::shared;
use testkit::wait::wait_until;

const INSERT: &str = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}')";
const ROWS: &str = "SELECT count(*) FROM public.outbox";

fn number(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn an_event_can_be_published_while_its_commit_waits_and_outlive_its_row() {
    let mut primary = PostgresServer::start(PostgresOptions::default());
    let mut standby = primary.start_standby();
    let mut fixture = Fixture::on(BINARY, "sync_wait", &primary.address(), &shared::broker());
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    wait_until("the standby to have the table", SOON, || {
        let Ok(mut client) = standby.address().try_client(fixture.database()) else { return false };
        number(&mut client, "SELECT count(*) FROM pg_tables WHERE tablename = 'outbox'") == 1
    });
    standby.stop(StopMode::Fast, SOON);
    // By name: "*" would make the relay's own walsender a synchronous standby.
    let mut admin = primary.client(fixture.database());
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'other'").unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
    wait_until("the setting", SOON, || {
        let sql = "SELECT count(*) FROM pg_settings
            WHERE name = 'synchronous_standby_names' AND setting = 'other'";
        number(&mut primary.client(fixture.database()), sql) == 1
    });

    let mut writer = fixture.client();
    // Not scoped: if something fails before the server is killed, nothing must wait for the writer.
    let to = topic.clone();
    let writing = std::thread::spawn(move || writer.execute(INSERT, &[&to]));
    fixture.consumer().read_n(1, SOON);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO public.outbox%'";
    assert_eq!(number(&mut admin, waiting), 1, "the writer has no answer yet");
    assert_eq!(number(&mut admin, ROWS), 0, "the row is not visible to others");

    // The relay does not wait for the standby: it publishes more than the limit without a stored
    // position.
    admin.batch_execute("SET synchronous_commit = local").unwrap();
    let many = "INSERT INTO public.outbox (topic, payload)
        SELECT $1, '{}' FROM generate_series(1, 10000)";
    admin.execute(many, &[&topic]).unwrap();
    fixture.consumer().read_n(10_001, SOON);
    primary.kill9();
    let answer = writing.join().unwrap();
    assert!(answer.is_err(), "the commit was never confirmed to the writer");
    standby.start_again();
    promote(&standby);
    wait_promoted(&standby);
    assert_eq!(number(&mut standby.client(fixture.database()), ROWS), 0, "Kafka has its event");
    fixture.move_to(&standby.address());
}
