//! Settings of a role that would end, refuse or slow down other sessions: ours override them.

use std::time::Duration;

use postgres::Client;

use super::{BINARY, Roles, SOON};
use crate::harness::instances::start_second;
use crate::harness::metrics::{metric_sum, state};
use crate::harness::parked_events::{ParkedEvent, assert_exit_code, insert_all};
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

/// Each would break our sessions if it took effect there.
const SETTINGS: [(&str, &str); 8] = [
    ("statement_timeout", "1ms"),
    ("lock_timeout", "1ms"),
    ("idle_in_transaction_session_timeout", "1ms"),
    ("idle_session_timeout", "200ms"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_deferrable", "on"),
    ("synchronous_commit", "off"),
];
const WRITE: &str = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";

/// Waits until the sessions of a role have existed for longer than its timeouts.
#[track_caller]
fn wait_old(client: &mut Client, role: &str, sessions: i64) {
    const SQL: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE usename = $1 AND clock_timestamp() > backend_start + interval '2s'";
    wait_until("sessions that are older than their timeouts", SOON, || {
        client.query_one(SQL, &[&role]).unwrap().get::<_, i64>(0) >= sessions
    });
}

#[track_caller]
fn assert_undisturbed(relay: &Relay) {
    let log = relay.log();
    // A parked event is logged; nothing else may go wrong.
    let is_notice = |line: &&str| line.contains("parking::notices");
    let wrong = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    assert_eq!(log.lines().filter(wrong).find(|line| !is_notice(line)), None, "{log}");
    assert_eq!(metric_sum(relay, "outbox_fetch_errors_total"), 0.0, "{log}");
}

#[test]
fn settings_of_a_role_disturb_none_of_our_sessions() {
    let mut roles = Roles::new("settings");
    roles.grant();
    for role in ["operator", "relay"] {
        for (name, value) in SETTINGS {
            let sql =
                format!("ALTER ROLE ROLE_NAME IN DATABASE DATABASE_NAME SET {name} = '{value}'");
            roles.as_superuser(role, &sql);
        }
    }
    roles.run_as("operator").migrate();
    roles.grant();
    let topic = roles.fixture.create_topic("t", 1, &[]);
    roles.fixture.set("POSTRIDER_CLEANER_RETENTION", "1ms");
    roles.fixture.set("POSTRIDER_CLEANER_INTERVAL", "200ms");
    let role = roles.name("relay");
    let fixture = roles.run_as("relay");
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    client.execute(WRITE, &[&topic]).unwrap();
    let sql = "INSERT INTO public.outbox (topic, payload, headers) VALUES ($1, '7', '3')";
    client.execute(sql, &[&topic]).unwrap();
    wait_until("the published row to be cleaned", SOON, || {
        let sql = "SELECT count(*) FROM public.outbox";
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
    });
    // Of the relay: ordinary, progress, lock, side table twice, cleaner, stream. Of the standby:
    // two.
    let second = start_second(fixture);
    wait_old(&mut client, &role, 8);
    client.execute(WRITE, &[&topic]).unwrap();
    wait_confirmed(fixture);
    assert_undisturbed(&second);
    drop(second);
    assert_undisturbed(fixture.relay());
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    insert_all(fixture, &[ParkedEvent::dead(&topic, 8)]);
    for arguments in
        [&["dead", "list"][..], &["replay", "--id", "2"], &["dead", "discard", "--all", "--yes"]]
    {
        assert_exit_code(&fixture.run(arguments), 0);
    }
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    client.execute(WRITE, &[&topic]).unwrap();
    assert_exit_code(&fixture.run(&["recover"]), 0);
    assert_exit_code(&roles.run_as("operator").run(&["migrate"]), 0);
    assert_exit_code(&roles.fixture.run(&["teardown", "--tables", "--yes"]), 0);
}

/// Our transactions can take long: that of a snapshot, and the walsender's while it reads a large
/// one for a relay that waits for the broker.
#[test]
fn settings_of_a_role_do_not_end_long_transactions() {
    let (server, broker) = (shared::postgres_17(), shared::broker());
    let mut fixture =
        Fixture::unmigrated(BINARY, "transaction_timeout", &server.address(), &broker);
    let database = format!("\"{}\"", fixture.database());
    let role = format!("\"relay_{}\"", fixture.database());
    let sql = format!(
        "CREATE ROLE {role} LOGIN SUPERUSER;
         ALTER ROLE {role} IN DATABASE {database} SET transaction_timeout = '500ms'"
    );
    fixture.client().batch_execute(&sql).unwrap();
    let url = server.url(fixture.database());
    let url = url.replace("postgres:postgres@", &format!("{}@", role.trim_matches('"')));
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    // So that nothing is fast: 300 rows of 64 kB, four at a time, each delayed by 10 ms.
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", "4");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "10");
    fixture.migrate();
    let topic = fixture.create_topic("t", 1, &[]);
    let sql = "INSERT INTO public.outbox (topic, payload)
        SELECT $1, to_json(repeat(md5(g::text), 2000)) FROM generate_series(1, 300) g";
    let mut client = fixture.client();
    client.execute(sql, &[&topic]).unwrap();
    let relay = fixture.start_relay();
    relay.wait_ready(SOON);
    wait_until("the rows to be published", Duration::from_secs(120), || {
        state(relay) == "streaming"
    });
    client.execute(sql, &[&topic]).unwrap();
    wait_confirmed(&fixture);
    assert_eq!(fixture.consumer().end_offsets(&topic), [600]);
    assert_undisturbed(fixture.relay());
    drop(fixture);
    server.client("postgres").batch_execute(&format!("DROP ROLE {role}")).unwrap();
}
