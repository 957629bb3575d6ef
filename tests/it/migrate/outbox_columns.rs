//! The column names for `postrider.enqueue`, which migrate stores as the configuration has them.

use std::process::Stdio;

use super::print::psql;
use super::{BINARY, SOON, assert_changes, prepared, stdout};
use crate::cleaner::slots::second_relay;
use postgres::Client;
use testkit::fixture::Fixture;
use testkit::shared;

const OWN: &str =
    "CREATE TABLE own (id serial PRIMARY KEY, topic text, destination text, target text,
    body json, payload json)";
const COLUMNS: &str = "POSTRIDER_POSTGRES_COLUMNS";
const THING: &str = "column names of table public.own for postrider.enqueue";

#[track_caller]
fn own(name: &str, columns: &str) -> (Fixture, Client) {
    let mut fixture = prepared(name, OWN);
    fixture.set("POSTRIDER_TABLES", "own").set(COLUMNS, columns);
    fixture.migrate();
    let client = fixture.client();
    (fixture, client)
}

/// Writes an event, and returns which columns it is in.
#[track_caller]
fn enqueue(client: &mut Client, table: &str) -> String {
    let sql = format!("SELECT postrider.enqueue('t', '1', outbox => '{table}')");
    let id: String = client.query_one(&sql, &[]).unwrap().get(0);
    let sql = format!(
        "SELECT concat_ws(',', CASE WHEN topic = 't' THEN 'topic' END,
            CASE WHEN destination = 't' THEN 'destination' END, CASE WHEN target = 't' THEN 'target' END,
            CASE WHEN body IS NOT NULL THEN 'body' END, CASE WHEN payload IS NOT NULL THEN 'payload' END)
           FROM {table} WHERE id = {id}"
    );
    client.query_one(&sql, &[]).unwrap().get(0)
}

/// What is stored: table, names and slot.
#[track_caller]
fn stored(client: &mut Client) -> Vec<String> {
    let sql =
        "SELECT concat_ws(' ', outbox, columns, slot) FROM postrider.outbox_columns ORDER BY 1";
    client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_changed_configuration_changes_what_the_functions_write() {
    let (mut fixture, mut client) = own("changed", "topic=destination,payload=body");
    assert_eq!(enqueue(&mut client, "own"), "destination,body");
    assert!(stdout(&fixture.run(&["migrate"])).contains("\nnothing to change\n"));
    fixture.set(COLUMNS, "topic=target,payload=body");
    assert_changes(&fixture.run(&["migrate"]), &[("updated", THING)]);
    assert_eq!(enqueue(&mut client, "own"), "target,body");
    assert!(stdout(&fixture.run(&["migrate"])).contains("\nnothing to change\n"));
    // The same by the script.
    for (columns, written) in [("topic=destination", "destination,payload"), ("", "topic,payload")]
    {
        fixture.set(COLUMNS, columns);
        let script = stdout(&fixture.run(&["migrate", "--print"]));
        assert!(psql(&fixture, &script).status.success());
        assert_eq!(enqueue(&mut client, "own"), written);
        assert!(stdout(&fixture.run(&["migrate"])).contains("\nnothing to change\n"));
    }
    assert_eq!(stored(&mut client), [format!("own {{}} {}", fixture.slot())]);
}

#[test]
fn the_first_migration_reports_them_if_something_is_mapped() {
    let mut fixture = prepared("reported", OWN);
    fixture.set("POSTRIDER_TABLES", "own,public.outbox").set(COLUMNS, "topic=destination");
    let output = fixture.run(&["migrate"]);
    let second = "column names of table public.outbox for postrider.enqueue";
    assert_changes(&output, &[("created", THING), ("created", second)]);
    // `public.outbox` was created with these names.
    let sql = "SELECT postrider.enqueue('t', '1', 'k'), postrider.enqueue('t', '1', 'k')";
    let row = fixture.client().query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, String>(0), row.get::<_, String>(1));
    let plain = Fixture::new(BINARY, "plain");
    assert!(!stdout(&plain.run(&["migrate"])).contains("column names"));
}

#[test]
fn a_renamed_table_keeps_them_and_another_of_its_name_does_not_get_them() {
    let (fixture, mut client) = own("renamed", "topic=destination,payload=body");
    let sql = "CREATE SCHEMA \"Else\"; ALTER TABLE own RENAME TO events; ALTER TABLE events SET SCHEMA \"Else\"";
    client.batch_execute(sql).unwrap();
    assert_eq!(enqueue(&mut client, "\"Else\".events"), "destination,body");
    client.batch_execute(OWN).unwrap();
    assert_eq!(enqueue(&mut client, "own"), "topic,payload");
    // Names of a table that is gone are forgotten: its OID can be given to another one.
    client.batch_execute("DROP TABLE \"Else\".events; DROP TABLE own").unwrap();
    let mut fixture = fixture;
    fixture.forget_slot();
    fixture.set("POSTRIDER_TABLES", "public.outbox").unset(COLUMNS);
    client.batch_execute("DROP PUBLICATION postrider").unwrap();
    fixture.migrate();
    assert_eq!(stored(&mut client), [format!("outbox {{}} {}", fixture.slot())]);
}

#[test]
fn the_names_of_the_first_relay_stay_until_it_is_gone() {
    let (first, mut client) = own("first_names", "topic=destination,payload=body");
    let mut second = second_relay(&first);
    second.set(COLUMNS, "topic=target,payload=body");
    let note = format!("which differ from those of slot {}", second.slot());
    let output = stdout(&second.run(&["migrate"]));
    assert!(output.contains("\nnothing to change\n") && output.contains(&note), "{output}");
    let script = stdout(&second.run(&["migrate", "--print"]));
    let output = psql(&first, &script);
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && warnings.contains(&note), "{warnings}");
    assert_eq!(enqueue(&mut client, "own"), "destination,body");
    // The application can continue to write events for the second relay.
    stdout(&first.run(&["teardown", "--yes"]));
    assert_eq!(enqueue(&mut client, "own"), "destination,body");
    assert!(stored(&mut client)[0].ends_with(second.slot()), "{:?}", stored(&mut client));
    assert_changes(&second.run(&["migrate"]), &[("updated", THING)]);
    assert_eq!(enqueue(&mut client, "own"), "target,body");
}

#[test]
fn a_slot_that_was_dropped_does_not_keep_names() {
    let (first, mut client) = own("dropped_slot", "topic=destination,payload=body");
    let mut second = second_relay(&first);
    second.set(COLUMNS, "topic=target,payload=body");
    first.postgres().drop_slot(first.slot()).unwrap();
    assert_changes(&second.run(&["migrate"]), &[("updated", THING)]);
    assert_eq!(enqueue(&mut client, "own"), "target,body");
}

#[test]
fn withdrawing_a_table_forgets_its_names_unless_another_slot_needs_it() {
    let (first, mut client) = own("withdrawn", "topic=destination,payload=body");
    let second = second_relay(&first);
    for fixture in [first, second] {
        let slot = fixture.slot().to_owned();
        assert_eq!(enqueue(&mut client, "own"), "destination,body");
        assert!(stored(&mut client)[0].ends_with(&slot), "{:?}", stored(&mut client));
        let mut fixture = fixture;
        fixture.set("POSTRIDER_TABLES", "public.outbox").unset(COLUMNS);
        stdout(&fixture.run(&["migrate", "--withdraw", "own"]));
        std::mem::forget(fixture);
    }
    assert_eq!(enqueue(&mut client, "own"), "topic,payload");
}

#[test]
fn a_dump_has_them() {
    let (fixture, mut client) = own("dumped", "topic=destination,payload=body");
    client.batch_execute("ALTER TABLE own RENAME TO \"Events\"").unwrap();
    let (server, broker) = shared::pair();
    let copy = Fixture::unmigrated(BINARY, "restored_names", &server.address(), &broker);
    let mut dump =
        server.tool("pg_dump").arg(fixture.database()).stdout(Stdio::piped()).spawn().unwrap();
    let mut restore = server.tool("psql");
    restore.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", copy.database()]);
    let restored = restore.stdin(dump.stdout.take().unwrap()).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert!(dump.wait().unwrap().success());
    assert_eq!(enqueue(&mut copy.client(), "\"Events\""), "destination,body");
}

/// The relay reads by the new configuration, the application writes by the old one.
#[test]
fn a_relay_with_other_names_than_those_stored_warns() {
    let (mut fixture, _client) = own("outdated", "topic=destination,payload=body");
    let warning = "run `postrider migrate`";
    fixture.start_relay().wait_ready(SOON);
    assert!(!fixture.relay().log().contains(warning), "{}", fixture.relay().log());
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.set(COLUMNS, "topic=target,payload=body");
    fixture.start_relay().wait_ready(SOON);
    assert!(fixture.relay().log().contains(warning), "{}", fixture.relay().log());
}
