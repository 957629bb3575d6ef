//! Postgres is restarted, or its side table can't be written, while events are parked.

use std::time::Duration;

use super::super::load::{Load, Topics, Written};
use super::super::model::Model;
use super::super::{
    BINARY, QUIET, SOON, is_confirmed, wait_statuses, wal_position, with_fast_poller, write,
};
use crate::harness::rig::print_line;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::shared;
use testkit::wait::wait_until;

const ROUNDS: usize = 3;

#[track_caller]
fn restarted(name: &str, mode: StopMode) {
    let mut server = PostgresServer::start(PostgresOptions::default());
    let mut fixture =
        with_fast_poller(Fixture::on(BINARY, name, &server.address(), &shared::broker()));
    fixture.set("POSTRIDER_UNDELIVERED_LEASE", "3s");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "10000");
    let topics = Topics {
        limited: fixture.create_topic("limited", 3, &[]),
        missing: fixture.topic("missing"),
    };
    fixture.start_relay().wait_ready(SOON);
    let load = Load::start(&fixture, &topics);
    for round in 0..ROUNDS {
        load.wait_for_more(rand::random_range(200..1_500));
        if round == ROUNDS - 1 {
            // The last restart is during the delivery of parked events.
            fixture.create_topic("missing", 3, &[]);
        }
        server.stop(mode, Duration::from_secs(10));
        server.start_again();
    }
    load.wait_for_more(200);
    let written = load.finish(&fixture);
    // Without a limit the large events are good.
    let fits = |mut event: Written| {
        event.fault = event.fault.filter(|fault| fault != "too-large");
        event
    };
    let written: Vec<_> = written.into_iter().map(fits).collect();
    wait_confirmed(&fixture);
    let model = Model::by_key(&written);
    model.wait_side_table(&mut fixture);
    let verdict = model.read(&fixture, &[&topics.limited, &topics.missing]);
    print_line(&format!("{name}: {verdict}"));
    verdict.assert_at_least_once(None);
}

#[test]
fn postgres_is_stopped_while_events_are_parked() {
    restarted("parking_pg_fast", StopMode::Fast);
}

#[test]
fn postgres_crashes_while_events_are_parked() {
    restarted("parking_pg_crash", StopMode::Immediate);
}

/// Good events are published after one that can't be parked, and nothing is confirmed before it is
/// parked.
#[track_caller]
fn unwritable(
    name: &str,
    forbid: impl FnOnce(&mut postgres::Client),
    allow: impl FnOnce(&mut postgres::Client),
) {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, name));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    expected.push(&topic, "free", write(&fixture, &topic, Some("free"), "{}"));
    wait_confirmed(&fixture);
    let mut client = fixture.client();
    forbid(&mut client);
    write(&fixture, &topic, Some("held"), "[]");
    let held = wal_position(&fixture);
    for _ in 0..10 {
        expected.push(&topic, "free", write(&fixture, &topic, Some("free"), "{}"));
    }
    write(&fixture, &topic, Some("held"), "{}");
    let consumer = fixture.consumer();
    let mut records = consumer.read_n(11, SOON);
    let relay = fixture.relay();
    wait_until("a log line about it", SOON, || relay.log().contains("can't park events"));
    assert!(
        !is_confirmed(&fixture, &held),
        "the position has passed an event that is neither published nor parked"
    );
    allow(&mut client);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 1)]);
    fixture.relay().wait_ready(SOON);
    records.extend(consumer.drain_quiet(QUIET));
    expected.verdict(&records).assert_at_least_once(None);
}

#[test]
fn a_locked_side_table_holds_the_position() {
    unwritable(
        "locked_table",
        |client| {
            let sql = "BEGIN; LOCK TABLE postrider.undelivered IN SHARE ROW EXCLUSIVE MODE";
            client.batch_execute(sql).unwrap();
        },
        |client| client.batch_execute("ROLLBACK").unwrap(),
    );
}

#[test]
fn a_side_table_that_rejects_rows_holds_the_position() {
    unwritable(
        "refusing_table",
        |client| {
            let sql = "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON postrider.undelivered
                    EXECUTE FUNCTION public.refuse()";
            client.batch_execute(sql).unwrap();
        },
        |client| client.batch_execute("DROP FUNCTION public.refuse() CASCADE").unwrap(),
    );
}
