//! Several relays in one database: tearing down one does not affect the others.

use std::process::Stdio;

use super::{BINARY, SOON, assert_lines, inventory, stdout_lines};
use crate::cleaner::slots::second_relay;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

/// How many unfinished events a slot has in the side table.
#[track_caller]
fn parked(fixture: &Fixture, slot: &str) -> i64 {
    let sql = "SELECT count(*) FROM postrider.undelivered
        WHERE slot = $1 AND status IN ('pending', 'processing', 'dead')";
    fixture.client().query_one(sql, &[&slot]).unwrap().get(0)
}

#[track_caller]
fn write(fixture: &Fixture, topic: &str, headers: &str) -> String {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers)
        VALUES ($1, 'k', '{}', $2::text::json) RETURNING id::text";
    fixture.client().query_one(sql, &[&topic, &headers]).unwrap().get(0)
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    assert_eq!(fixture.relay().wait_exit(SOON).code(), Some(0));
}

#[track_caller]
fn claim(fixture: &Fixture) -> bool {
    let sql = "SELECT postrider.inbox_claim('shipping', 'order-1')";
    fixture.client().query_one(sql, &[]).unwrap().get(0)
}

/// Rows of the slot in any of postrider's tables.
#[track_caller]
fn rows_of(fixture: &Fixture, slot: &str) -> Vec<String> {
    let tables = [
        "progress",
        "coverage",
        "cleaner_floor",
        "backfill",
        "backfill_table",
        "undelivered",
        "slot_lock",
        "outbox_columns",
    ];
    let mut client = fixture.client();
    let mut has_rows = |table: &str| -> bool {
        let sql = format!("SELECT EXISTS (SELECT FROM postrider.{table} WHERE slot = $1)");
        client.query_one(&sql, &[&slot]).unwrap().get(0)
    };
    tables.iter().filter(|table| has_rows(table)).map(|table| (*table).to_owned()).collect()
}

#[test]
fn a_relay_added_during_the_last_teardown_keeps_what_it_needs() {
    let fixture = Fixture::new(BINARY, "several_newcomer");
    let mut client = fixture.client();
    let mut coming = client.transaction().unwrap();
    let sql = "INSERT INTO postrider.progress (slot, position) VALUES ('newcomer', '0/1')";
    coming.execute(sql, &[]).unwrap();
    let mut going = fixture.command(&["teardown", "--yes"]);
    let going = going.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("teardown to wait for it", SOON, || {
        let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND datname = current_database())";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    coming.commit().unwrap();
    let output = going.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("slot newcomer began to use schema postrider"), "{errors}");
    stdout_lines(&fixture.run(&["teardown", "--yes"]), 0);
    assert_eq!(rows_of(&fixture, "newcomer"), ["progress"]);
}

#[test]
fn tearing_down_one_relay_keeps_the_events_of_the_other() {
    let mut first = Fixture::new(BINARY, "several");
    let topic = first.create_topic("events", 1, &[]);
    let mut second = second_relay(&first);
    let other = second.slot().to_owned();
    first.start_relay().wait_ready(SOON);
    second.start_relay().wait_ready(SOON);
    // Headers that are not an object can't be published, and the next event waits.
    write(&first, &topic, "[]");
    let follower = write(&first, &topic, "{}");
    for slot in [first.slot(), &other] {
        wait_until("the events to be parked", SOON, || parked(&first, slot) == 2);
    }
    assert!(claim(&first));
    stop(&mut first);

    let before = inventory(&first);
    let plan = stdout_lines(&first.run(&["teardown", "--tables"]), 2);
    let expect = [
        format!("will drop slot {} (", first.slot()),
        format!("kept      publication postrider (slot {other} reads through it)"),
        format!(
            "will drop rows of slot {} in schema postrider (with 2 events that were never published)",
            first.slot()
        ),
        format!("kept      schema postrider (slot {other} uses it; "),
        format!("kept      table public.outbox (slot {other} publishes its rows)"),
    ];
    assert_lines(&plan, &expect.each_ref().map(String::as_str));
    assert_eq!(inventory(&first), before);

    let lines = stdout_lines(&first.run(&["teardown", "--tables", "--yes"]), 0);
    let expect = expect.map(|line| once_done(&line));
    assert_lines(&lines, &expect.each_ref().map(String::as_str));
    assert_eq!(rows_of(&first, first.slot()), Vec::<String>::new());
    assert_eq!(parked(&first, &other), 2, "another relay's events are gone");
    assert!(!claim(&first), "the inbox is gone");

    // The other one continues, also with its parked events.
    let discarded = second.run(&["dead", "discard", "--all", "--yes"]);
    assert!(discarded.status.success(), "{}", String::from_utf8_lossy(&discarded.stderr));
    wait_until("the key to be free", SOON, || parked(&first, &other) == 0);
    let last = write(&first, &topic, "{}");
    let records = first.consumer().read_n(2, SOON);
    let ids: Vec<&str> = records.iter().map(Received::id).collect();
    assert_eq!(ids, [&follower, &last]);
    assert_eq!(second.relay().http_get("/readyz").unwrap().0, 200, "{}", second.relay().log());
    stop(&mut second);

    // The last one drops what they shared.
    let plan = stdout_lines(&second.run(&["teardown"]), 2);
    let with_claim = "will drop schema postrider (with 1 claim of the inbox)";
    assert!(plan.iter().any(|line| line == with_claim), "{plan:#?}");
    stdout_lines(&second.run(&["teardown", "--tables", "--yes"]), 0);
    assert_eq!(inventory(&first), Vec::<String>::new());
}

#[test]
fn a_publication_of_its_own_is_dropped_and_a_slot_without_a_relay_keeps_the_schema() {
    let mut first = Fixture::new(BINARY, "own_publication");
    let second = second_relay(&first);
    first.set("POSTRIDER_SLOT", second.slot());
    first.set("POSTRIDER_PUBLICATION", "another");
    first.set("POSTRIDER_TABLES", "public.another");
    // As if only the slot had been dropped.
    let sql = "SELECT pg_drop_replication_slot($1)";
    first.client().execute(sql, &[&second.slot()]).unwrap();
    let sql = "DELETE FROM postrider.progress WHERE slot = $1";
    first.client().execute(sql, &[&second.slot()]).unwrap();
    first.migrate();
    let slot = first.slot().to_owned();
    let lines = stdout_lines(&first.run(&["teardown", "--tables", "--yes"]), 0);
    let expect = [
        format!("dropped  slot {} (", second.slot()),
        "dropped  publication another".to_owned(),
        format!("dropped  rows of slot {} in schema postrider", second.slot()),
        format!("kept     schema postrider (slot {slot} uses it; "),
        "dropped  table public.another".to_owned(),
    ];
    assert_lines(&lines, &expect.each_ref().map(String::as_str));
    let left = ["publication postrider", "schema postrider", "slot", "table outbox"];
    assert_eq!(inventory(&first), left);
    // A dropped slot also leaves rows until it is torn down.
    first.client().execute("SELECT pg_drop_replication_slot($1)", &[&slot]).unwrap();
    let lines = stdout_lines(&first.run(&["teardown", "--yes"]), 0);
    assert!(lines[3].starts_with("kept     schema postrider"), "{lines:#?}");
    first.set("POSTRIDER_SLOT", &slot);
    first.set("POSTRIDER_PUBLICATION", "postrider");
    first.set("POSTRIDER_TABLES", "public.outbox");
    stdout_lines(&first.run(&["teardown", "--yes"]), 0);
    assert_eq!(inventory(&first), ["table outbox"]);
}

#[test]
fn a_shared_publication_is_dropped_with_the_last_relay() {
    let mut first = Fixture::new(BINARY, "several_tables");
    first.set("POSTRIDER_TABLES", "public.another");
    let second = second_relay(&first);
    first.set("POSTRIDER_TABLES", "public.outbox");
    let (slot, other) = (first.slot().to_owned(), second.slot().to_owned());
    let sql = "INSERT INTO postrider.slot_lock (slot) VALUES ($1), ($2)";
    first.client().execute(sql, &[&slot, &other]).unwrap();
    let published = || -> Vec<String> {
        let sql = "SELECT tablename::text FROM pg_publication_tables ORDER BY 1";
        let rows = first.client().query(sql, &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };

    let plan = stdout_lines(&first.run(&["teardown"]), 2);
    let expect = [
        format!("will drop slot {slot} ("),
        format!("kept      publication postrider (slot {other} reads through it)"),
        format!("will drop rows of slot {slot} in schema postrider"),
        "will drop table public.outbox in publication postrider".to_owned(),
        format!("kept      schema postrider (slot {other} uses it; "),
        "kept      table public.outbox (--tables drops it)".to_owned(),
    ];
    assert_lines(&plan, &expect.each_ref().map(String::as_str));
    assert_eq!(published(), ["another", "outbox"]);
    let lines = stdout_lines(&first.run(&["teardown", "--yes"]), 0);
    let expect = expect.map(|line| once_done(&line));
    assert_lines(&lines, &expect.each_ref().map(String::as_str));
    assert_eq!(published(), ["another"]);
    assert_eq!(rows_of(&first, &slot), Vec::<String>::new());
    assert_eq!(rows_of(&first, &other), ["progress", "coverage", "slot_lock", "outbox_columns"]);

    stdout_lines(&second.run(&["teardown", "--yes"]), 0);
    assert_eq!(inventory(&first), ["table another", "table outbox"]);
}

/// A line of a plan as it is reported afterwards. A plan has a wider first column.
fn once_done(line: &str) -> String {
    line.replace("will drop ", "dropped  ").replace("kept      ", "kept     ")
}
