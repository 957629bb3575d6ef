//! Events of a slot that was dropped or renamed: reported, counted, and taken over.

use super::{BINARY, QUIET, SOON, wait_statuses, with_fast_poller, write};
use crate::harness::halt::assert_one_sentence_and_its_fix;
use crate::harness::metrics::metric;
use crate::harness::slot::wait_confirmed;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::wait::wait_until;

/// The slot of a relay that continues with the events of another slot.
fn renamed(fixture: &Fixture) -> String {
    format!("{}_new", fixture.slot())
}

/// Runs a command that must exit with this code, and returns its standard output and errors.
#[track_caller]
fn run_command(fixture: &Fixture, arguments: &[&str], code: i32) -> [String; 2] {
    let output = fixture.run(arguments);
    let [text, errors] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    [text, errors]
}

/// The slot's confirmed position is past what was written so far.
#[track_caller]
fn wait_new_confirmed(fixture: &Fixture) {
    let mut client = fixture.client();
    let now: String = client.query_one("SELECT pg_current_wal_lsn()::text", &[]).unwrap().get(0);
    let sql = "SELECT position >= $2::text::pg_lsn FROM postrider.progress WHERE slot = $1";
    wait_until("the position to pass the last write", SOON, || {
        client.query_one(sql, &[&renamed(fixture), &now]).unwrap().get(0)
    });
}

#[test]
fn events_of_a_renamed_slot_are_reported_and_taken_over() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "renamed"));
    let topic = fixture.create_topic("events", 1, &[]);
    let (old, new) = (fixture.slot().to_owned(), renamed(&fixture));
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, Some("k"), "[]");
    let second = write(&fixture, &topic, Some("k"), "{}");
    wait_statuses(&fixture, &[("dead", 1), ("pending", 1)]);
    wait_confirmed(&fixture);
    fixture.relay().kill9();

    fixture.set("POSTRIDER_SLOT", &new);
    fixture.migrate();
    let [_, errors] = run_command(&fixture, &["dead", "take-over", "--from", &old], 3);
    assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains(&format!("slot {old} exists")), "{errors}");
    wait_until("the slot to be free", SOON, || fixture.slot_holder().is_none());
    fixture.forget_slot();

    // Reported in the log, whether the relay parks events or not, as a metric, and in the list.
    let command = format!("postrider dead take-over --from {old}");
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "halt");
    let series = format!("postrider_orphaned_events{{slot=\"{old}\"}}");
    for halts in [true, false] {
        if !halts {
            fixture.relay().terminate();
            assert_eq!(fixture.relay().wait_exit(SOON).code(), Some(0));
            fixture.unset("POSTRIDER_UNDELIVERED_ORDER");
        }
        fixture.start_relay().wait_ready(SOON);
        wait_until("the metric", SOON, || metric(fixture.relay(), &series) == Some(2.0));
        wait_until("the warning", SOON, || fixture.relay().log().contains(&command));
    }
    for arguments in [&["dead", "list"][..], &["dead", "list", "--json"]] {
        let [_, errors] = run_command(&fixture, arguments, 0);
        assert!(errors.contains(&format!("2 events belong to slot {old}")), "{errors}");
        assert!(errors.contains(&command), "{errors}");
    }

    // First a dry run, then for real.
    for _ in 0..2 {
        let [text, _] =
            run_command(&fixture, &["dead", "take-over", "--from", &old, "--dry-run"], 0);
        assert!(text.starts_with("would take over 2 events"), "{text}");
    }
    let [text, errors] = run_command(&fixture, &["dead", "take-over", "--from", &old], 0);
    assert!(text.starts_with("took over 2 events") && errors.is_empty(), "{text}{errors}");
    let [_, errors] = run_command(&fixture, &["dead", "take-over", "--from", &old], 1);
    assert!(errors.contains("has no events"), "{errors}");
    let [_, errors] = run_command(&fixture, &["dead", "take-over", "--from", &new], 2);
    assert_one_sentence_and_its_fix(&errors);

    // The relay kept running, and holds their keys from now on.
    wait_until("the relay to read its keys again", SOON, || {
        fixture.relay().log().contains("were taken over; reading the keys again")
    });
    fixture.relay().wait_ready(SOON);
    let third = write(&fixture, &topic, Some("k"), "{}");
    wait_new_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 2)]);
    assert_eq!(fixture.consumer().drain_quiet(QUIET).len(), 0, "an event has overtaken another");
    run_command(&fixture, &["dead", "discard", "--all", "--yes"], 0);
    wait_statuses(&fixture, &[("discarded", 1), ("delivered", 2)]);
    let records = fixture.consumer().read_n(2, SOON);
    let ids: Vec<&str> = records.iter().map(Received::id).collect();
    assert_eq!(ids, [&second, &third]);
    wait_until("the metric to forget the slot", SOON, || {
        metric(fixture.relay(), &series).is_none()
    });
}

/// The snapshot was interrupted, its slot dropped, and the configuration has another slot since.
#[test]
fn events_of_an_abandoned_snapshot_are_reported_and_taken_over() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "left_job"));
    let old = fixture.slot().to_owned();
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &fixture.topic("t"), Some("k"), "[]");
    wait_statuses(&fixture, &[("dead", 1)]);
    wait_confirmed(&fixture);
    fixture.relay().kill9();
    wait_until("the slot to be free", SOON, || fixture.slot_holder().is_none());
    fixture.forget_slot();
    let sql = "INSERT INTO postrider.backfill (slot, kind, held_until)
        VALUES ($1, 'snapshot', clock_timestamp())";
    fixture.client().execute(sql, &[&old]).unwrap();
    fixture.set("POSTRIDER_SLOT", &renamed(&fixture));
    fixture.migrate();
    let command = ["dead", "take-over", "--from", &old];
    let [_, errors] = run_command(&fixture, &command, 3);
    assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains("is being recreated"), "{errors}");
    let [_, errors] = run_command(&fixture, &["dead", "list"], 0);
    assert!(!errors.contains(&old), "{errors}");

    let sql = "UPDATE postrider.backfill SET held_until = clock_timestamp() - interval '6 minutes'";
    assert_eq!(fixture.client().execute(sql, &[]).unwrap(), 1);
    let [_, errors] = run_command(&fixture, &["dead", "list"], 0);
    assert!(errors.contains(&command.join(" ")), "{errors}");
    let [text, errors] = run_command(&fixture, &command, 0);
    assert!(text.starts_with("took over 1 event of"), "{text}");
    // Its job remains, and a relay that starts with that slot would continue it.
    assert!(errors.contains(&format!("`postrider --slot {old} recover`")), "{errors}");
    let teardown = ["--slot", &old, "teardown", "--yes"];
    assert!(errors.contains(&format!("`postrider {}`", teardown.join(" "))), "{errors}");
    run_command(&fixture, &teardown, 0);
    wait_statuses(&fixture, &[("dead", 1)]);
}

/// The relay holds their keys before the first one is delivered: no later event is published in
/// between.
#[test]
fn events_that_are_taken_over_are_not_overtaken_while_they_are_delivered() {
    const EVENTS: i64 = 60;
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "taken_order"));
    let missing = fixture.topic("later");
    let old = fixture.slot().to_owned();
    fixture.start_relay().wait_ready(SOON);
    super::write_keyed(&fixture, &missing, EVENTS, 1);
    wait_statuses(&fixture, &[("pending", EVENTS)]);
    wait_confirmed(&fixture);
    fixture.relay().terminate();
    assert_eq!(fixture.relay().wait_exit(SOON).code(), Some(0));
    fixture.forget_slot();
    let topic = fixture.create_topic("later", 1, &[]);
    let new = renamed(&fixture);
    fixture.set("POSTRIDER_SLOT", &new);
    fixture.migrate();
    // A relay that polls rarely, and a standby that retries one event at a time.
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "5s");
    fixture.start_relay().wait_ready(SOON);
    let _streaming = fixture.take_relay();
    fixture.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{}", free_port()));
    fixture.set("POSTRIDER_UNDELIVERED_BATCH", "1");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "100ms");
    fixture.start_relay();
    wait_until("the other to stand by", SOON, || {
        let answer = fixture.relay().http_get("/readyz");
        answer.is_ok_and(|(_, body)| body.starts_with("standby"))
    });
    run_command(&fixture, &["dead", "take-over", "--from", &old], 0);
    let consumer = fixture.consumer();
    let mut records = consumer.read_n(1, SOON);
    write(&fixture, &topic, Some("k0"), "{}");
    records.extend(consumer.read_n(EVENTS as usize, SOON));
    let ids: Vec<i64> = records.iter().map(|record| record.id().parse().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}
