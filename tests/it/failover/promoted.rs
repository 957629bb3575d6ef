//! Promotes a standby without our slot, as all are before Postgres 17.

use super::writers::Writers;
use super::{BINARY, SOON, assert_nothing_missing, judge, promote, recover};
use crate::harness::halt::{last_two_lines, wait_halt};
use crate::harness::outbox::write;
use crate::harness::rig::print_line;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

/// Both servers, in the order in which they are tried.
pub(super) fn both(fixture: &Fixture, one: u16, two: u16) -> String {
    let database = fixture.database();
    format!(
        "host=127.0.0.1,127.0.0.1 port={one},{two} dbname={database} user=postgres \
         password=postgres target_session_attrs=read-write connect_timeout=2"
    )
}

/// Replication is asynchronous: what the standby had not received is lost with the primary, even if
/// the commit was confirmed to the writer. Events of such rows may be in Kafka, and stay there.
/// Everything on the standby must be in Kafka too, however far the old relay had come.
#[test]
fn the_relay_asks_for_a_recovery_and_continues_after_it() {
    let mut primary = PostgresServer::start(PostgresOptions::default());
    let standby = primary.start_standby();
    let mut fixture = Fixture::on(BINARY, "promoted", &primary.address(), &shared::broker());
    let topic = fixture.create_topic("events", 3, &[]);
    let url = both(&fixture, primary.port(), standby.port());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    let writers = Writers::start(&fixture, &topic);
    writers.wait_for_more(2_000);
    fixture.consumer().read_n(1_000, SOON);

    // The relay falls behind, so that some rows are only on the servers.
    fixture.relay().pause();
    writers.wait_for_more(1_000);
    let enough = i64::try_from(writers.committed()).unwrap();
    wait_until("the standby to have these", SOON, || {
        let Ok(mut client) = standby.address().try_client(fixture.database()) else { return false };
        let sql = "SELECT count(*) FROM public.outbox";
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) >= enough
    });
    primary.kill9();
    promote(&standby);
    writers.move_to(&standby.address());
    fixture.relay().resume();
    let log = wait_halt(&mut fixture);
    let [message, fix_line] = last_two_lines(&log);
    assert!(
        message.contains("is gone") && fix_line.contains("postrider recover"),
        "{message}\n{fix_line}"
    );

    fixture.move_to(&standby.address());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    recover(&fixture);
    fixture.start_relay().wait_ready(SOON);
    writers.wait_for_more(1_000);
    let committed = writers.finish();
    let verdict = judge(&mut fixture, "promoted, without a slot");
    let gone = committed.saturating_sub(verdict.expected);
    print_line(&format!("promoted, without a slot: {gone} rows that were committed are gone"));
    assert_nothing_missing(&verdict);
}

/// Neither the old primary nor its relay was stopped: it publishes what is written there, which the
/// new primary does not have. Everything on the new primary is published nevertheless, in order.
#[test]
fn a_relay_on_a_surviving_old_primary_causes_no_loss() {
    let primary = PostgresServer::start(PostgresOptions::default());
    let standby = primary.start_standby();
    let mut fixture = Fixture::on(BINARY, "divided", &primary.address(), &shared::broker());
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let old_writers = Writers::start(&fixture, &topic);
    old_writers.wait_for_more(1_000);
    promote(&standby);
    let old_relay = fixture.take_relay();
    fixture.move_to(&standby.address());
    fixture.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{}", free_port()));
    recover(&fixture);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 500, 10);
    old_writers.wait_for_more(500);
    old_writers.finish();
    let verdict = judge(&mut fixture, "the old primary lives on");
    assert_nothing_missing(&verdict);
    drop(old_relay);
}
