//! `postrider migrate --withdraw` ends a promise on purpose.

use super::{BINARY, SOON, assert_halts, assert_published, promised, run, sql, stop, write};
use testkit::fixture::Fixture;
use testkit::port::free_port;

const BOTH: &str = "public.outbox,public.later";

fn published(fixture: &Fixture) -> Vec<String> {
    let sql =
        "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'postrider' ORDER BY 1";
    fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_withdrawn_table_is_skipped() {
    let mut fixture = Fixture::new(BINARY, "withdrawn");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    fixture.unset("POSTRIDER_TABLES");
    write(&fixture, "later", &topic, "skipped", 3);
    assert_halts(&mut fixture, &["--withdraw public.later"]);
    let printed = run(&fixture, &["migrate", "--withdraw", "public.later"], 0);
    assert!(
        printed.contains("withdrew") && printed.contains("from publication postrider"),
        "{printed}"
    );
    assert_eq!(promised(&fixture), ["outbox"]);
    assert_eq!(published(&fixture), ["outbox"]);
    fixture.start_relay().wait_ready(SOON);
    let written = write(&fixture, "outbox", &topic, "after", 3);
    assert_published(&fixture, &written);
    stop(&mut fixture);
    // Once promised again, it is published again.
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    let written = write(&fixture, "later", &topic, "again", 3);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &written);
}

#[test]
fn a_table_that_another_slot_needs_stays_in_the_publication() {
    let mut fixture = Fixture::new(BINARY, "withdrawn_shared");
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    let mut second = Fixture::unmigrated(BINARY, "second", fixture.postgres(), fixture.broker());
    for (name, value) in fixture.env() {
        second.set(name, value);
    }
    let slot = second.slot().to_owned();
    second.set("POSTRIDER_SLOT", &slot);
    second.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{}", free_port()));
    second.migrate();
    fixture.unset("POSTRIDER_TABLES");
    let printed = run(&fixture, &["migrate", "--withdraw", "public.later"], 0);
    assert!(printed.contains(&format!("slot {slot} needs it")), "{printed}");
    assert_eq!(published(&fixture), ["later", "outbox"]);
    second.unset("POSTRIDER_TABLES");
    run(&second, &["migrate", "--withdraw", "public.later"], 0);
    assert_eq!(published(&fixture), ["outbox"]);
    fixture.postgres().drop_slot(&slot).unwrap();
}

#[test]
fn a_dropped_table_can_be_withdrawn() {
    let mut fixture = Fixture::new(BINARY, "withdrawn_gone");
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    fixture.unset("POSTRIDER_TABLES");
    sql(&fixture, "DROP TABLE later");
    run(&fixture, &["migrate", "--withdraw", "later"], 0);
    assert_eq!(promised(&fixture), ["outbox"]);
}

#[test]
fn a_table_that_is_not_promised_or_still_read_cannot_be_withdrawn() {
    let fixture = Fixture::new(BINARY, "withdrawn_refused");
    let printed = run(&fixture, &["migrate", "--withdraw", "public.nothing"], 1);
    assert!(printed.contains("public.nothing is not promised"), "{printed}");
    assert!(printed.contains("fix: ") && printed.contains("public.outbox"), "{printed}");
    let printed = run(&fixture, &["migrate", "--withdraw", "public.outbox"], 1);
    assert!(printed.contains("is in postgres.tables"), "{printed}");
    run(&fixture, &["migrate", "--print", "--withdraw", "public.outbox"], 2);
    run(&fixture, &["migrate", "--withdraw", "a.b.c"], 2);
    assert_eq!(promised(&fixture), ["outbox"]);
}
