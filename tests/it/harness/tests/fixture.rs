//! A fixture leaves nothing behind in the shared servers.

use std::process::Stdio;
use std::time::Duration;

use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

#[test]
fn drop_clears_slots_prepared_transactions_and_sessions() {
    let server = shared::postgres();
    let address = server.address();
    let fixture = Fixture::unmigrated(BINARY, "untidy", &address, &shared::broker());
    let name = fixture.database().to_owned();
    let mut session = fixture.client();
    session.batch_execute("CREATE TABLE t (n int); CREATE PUBLICATION p FOR TABLE t").unwrap();
    session.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&name]).unwrap();
    session
        .batch_execute(&format!("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '{name}'"))
        .unwrap();
    let mut reader = server
        .tool("pg_recvlogical")
        .args(["--dbname", &name, "--slot", &name, "--start", "--file=-", "--no-loop"])
        .args(["--option=proto_version=1", "--option=publication_names=p"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the slot to be held", Duration::from_secs(20), || fixture.slot_holder().is_some());
    assert!(fixture.unconfirmed_bytes().is_some());

    drop(fixture);
    reader.wait().unwrap();
    let mut admin = server.client("postgres");
    let left: i64 = admin
        .query_one(
            "SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name::text = $1)
                + (SELECT count(*) FROM pg_database WHERE datname::text = $1)
                + (SELECT count(*) FROM pg_prepared_xacts WHERE gid = $1)",
            &[&name],
        )
        .unwrap()
        .get(0);
    assert_eq!(left, 0);
}

#[test]
fn the_configuration_is_passed_in_the_environment() {
    let address = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "configured", &address, &shared::broker());
    fixture.set("POSTRIDER_LOG", "debug").set("POSTRIDER_LOG", "trace");
    let values = |name: &str| -> Vec<String> {
        let matching = fixture.env().iter().filter(|(known, _)| known == name);
        matching.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(values("POSTRIDER_LOG"), ["trace"]);
    assert_eq!(values("POSTRIDER_DATABASE_URL"), [address.url(fixture.database())]);
    assert_eq!(values("POSTRIDER_SLOT"), [fixture.slot()]);
}

#[test]
fn topics_of_a_fixture_are_read_and_checked() {
    let address = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "judged", &address, &shared::broker());
    let topic = fixture.create_topic("orders", 3, &[]);
    super::real_kafka::produce(fixture.broker().brokers(), &topic, 0..50);
    let mut expected = Expected::default();
    for id in 0..50 {
        expected.push(&topic, &format!("key-{}", id % 5), id);
    }
    let records = fixture.consumer().read_n(50, Duration::from_secs(30));
    expected.verdict(&records).assert_exact();
}
