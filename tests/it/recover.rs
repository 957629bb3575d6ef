//! `postrider recover`: a slot is lost, and the rows of the tables are published nevertheless.

use std::process::Output;
use std::time::Duration;

use postgres::Client;

use crate::harness::halt::assert_halts_at_start;
use crate::harness::outbox::{expected, read_all, write};
use crate::harness::slot::confirmed_lsn;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// Runs a relay that publishes a thousand events, and stops it.
#[track_caller]
fn stopped(name: &str) -> (Fixture, String) {
    stopped_on(Fixture::new(BINARY, name))
}

#[track_caller]
fn stopped_on(mut fixture: Fixture) -> (Fixture, String) {
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 1_000, 10);
    fixture.consumer().read_n(1_000, SOON);
    wait_confirmed(&fixture);
    stop(&mut fixture);
    (fixture, topic)
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}

fn drop_slot(fixture: &Fixture) {
    let sql = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
}

fn text(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

#[track_caller]
fn recover(fixture: &Fixture) -> String {
    let output = fixture.run(&["recover"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    text(&output)
}

/// How many rows may be missing according to a dry run.
#[track_caller]
fn doubtful(fixture: &Fixture) -> i64 {
    let before = confirmed_lsn(fixture);
    let output = fixture.run(&["recover", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(confirmed_lsn(fixture), before, "a dry run has touched the slot");
    let text = text(&output);
    let line = text.lines().find(|line| line.contains("may be missing"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Checks that the relay streams again and everything ever committed is published, with at most
/// this many duplicates.
#[track_caller]
fn assert_recovered(fixture: &mut Fixture, topic: &str, duplicates_max: usize) {
    fixture.start_relay().wait_ready(SOON);
    write(fixture, topic, 100, 10);
    let expected = expected(fixture);
    let records = read_all(fixture, &expected);
    expected.verdict(&records).assert_at_least_once(Some(duplicates_max));
    stop(fixture);
}

#[test]
fn nothing_is_lost_from_transactions_that_were_open_across_the_loss() {
    let (mut fixture, topic) = stopped("recover_open");
    // They begin before the slot is dropped, and write before and after that.
    let mut writers: Vec<Client> = (0..4).map(|_| fixture.client()).collect();
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'open-' || $2::int, '{}' FROM generate_series(1, 1250)";
    let write_part = |writers: &mut Vec<Client>, part: &str| {
        for (number, writer) in writers.iter_mut().enumerate() {
            writer.batch_execute(part).unwrap();
            writer.execute(sql, &[&topic, &(number as i32)]).unwrap();
        }
    };
    write_part(&mut writers, "BEGIN");
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 500, 10);
    wait_until("these are published", SOON, || {
        let sql = "SELECT done_before IS NOT NULL FROM postrider.progress WHERE slot = $1";
        fixture.client().query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    wait_confirmed_around(&fixture);
    stop(&mut fixture);
    drop_slot(&fixture);
    write_part(&mut writers, "SAVEPOINT later");
    // Two of them are committed before the new slot is created, two are open meanwhile.
    for writer in &mut writers[..2] {
        writer.batch_execute("COMMIT").unwrap();
    }
    assert_halts_at_start(&mut fixture, "is gone", "postrider recover");
    assert!(doubtful(&fixture) >= 5_000);
    let mut recovering = fixture.command(&["recover"]).spawn().unwrap();
    wait_until("recover to wait for the open transactions", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.backfill WHERE slot = $1";
        fixture.client().query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    for writer in &mut writers[2..] {
        writer.batch_execute("COMMIT").unwrap();
    }
    assert!(recovering.wait().unwrap().success());
    fixture.start_relay().wait_ready(SOON);
    let expected = unordered(&fixture);
    let records = read_all(&fixture, &expected);
    let verdict = expected.verdict(&records);
    assert_eq!(verdict.lost.count, 0, "{verdict}");
    // Only events published after the writers had begun can be repeated.
    assert!(verdict.duplicates.count <= 500, "{verdict}");
}

/// Waits until the position is stored; the open transactions are published later.
fn wait_confirmed_around(fixture: &Fixture) {
    let consumer = fixture.consumer();
    consumer.read_n(1_500, SOON);
    let sql = "SELECT pg_current_wal_lsn()::text";
    let end: String = fixture.client().query_one(sql, &[]).unwrap().get(0);
    wait_until("the position is stored", SOON, || {
        let sql = "SELECT position >= $2::text::pg_lsn FROM postrider.progress WHERE slot = $1";
        fixture.client().query_one(sql, &[&fixture.slot(), &end]).unwrap().get(0)
    });
}

/// In overlapping transactions, ids do not give the order of commits.
fn unordered(fixture: &Fixture) -> Expected {
    let mut expected = Expected::default();
    let sql = "SELECT topic, id FROM public.outbox ORDER BY id";
    for row in fixture.client().query(sql, &[]).unwrap() {
        let topic: &str = row.get(0);
        expected.push_unordered(topic, row.get::<_, i64>(1));
    }
    expected
}

/// A recovery may take less than a minute.
#[test]
fn events_parked_by_a_recovery_are_all_reported() {
    let (fixture, topic) = stopped("recover_told");
    // The event whose headers are not an object is dead, and the other waits for it.
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers)
        VALUES ($1, 'k', '1', '[1]'), ($1, 'k', '2', '{}')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    drop_slot(&fixture);
    let printed = recover(&fixture);
    let sum = printed.lines().find(|line| line.contains("more events were parked"));
    assert!(sum.is_some_and(|line| line.contains("waiting=1")), "{printed}");
}

#[test]
fn only_the_uncertain_interval_is_repeated() {
    let (mut fixture, topic) = stopped("recover_interval");
    // Rows done long ago are known to be done by a position stored later.
    fixture.start_relay().wait_ready(SOON);
    let sql = "SELECT done_before FROM postrider.progress WHERE slot = $1
                AND done_before > (SELECT max(xmin::text::bigint) FROM public.outbox)::text::xid8";
    wait_until("all rows are known to be done", SOON, || {
        write_elsewhere(&fixture);
        fixture.client().query_opt(sql, &[&fixture.slot()]).unwrap().is_some()
    });
    stop(&mut fixture);
    drop_slot(&fixture);
    write(&fixture, &topic, 200, 10);
    assert_eq!(doubtful(&fixture), 200);
    let printed = recover(&fixture);
    assert!(printed.contains("published 200 rows"), "{printed}");
    assert_recovered(&mut fixture, &topic, 0);
    let output = fixture.run(&["recover"]);
    assert!(text(&output).contains("nothing to recover"), "{}", text(&output));
}

/// Advances the log.
fn write_elsewhere(fixture: &Fixture) {
    let sql = "CREATE TABLE IF NOT EXISTS public.elsewhere (id int);
               INSERT INTO public.elsewhere SELECT generate_series(1, 2000)";
    fixture.client().batch_execute(sql).unwrap();
}

#[test]
fn a_slot_invalidated_by_the_server_can_be_recovered() {
    let options = PostgresOptions::default()
        .setting("max_slot_wal_keep_size", "16MB")
        .setting("max_wal_size", "32MB")
        .setting("min_wal_size", "32MB");
    let server = PostgresServer::start(options);
    let fixture = Fixture::on(BINARY, "recover_lost", &server.address(), &shared::broker());
    let (mut fixture, topic) = stopped_on(fixture);
    write(&fixture, &topic, 500, 10);
    wait_until("the server gives the slot up", SOON, || {
        let mut client = fixture.client();
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS filler (text text); INSERT INTO filler
                 SELECT repeat(md5(g::text), 100) FROM generate_series(1, 10000) g;
                 SELECT pg_switch_wal(); CHECKPOINT",
            )
            .unwrap();
        let sql = "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1";
        client.query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    assert_halts_at_start(&mut fixture, "was invalidated", "postrider recover");
    recover(&fixture);
    assert_recovered(&mut fixture, &topic, 1_000);
}

#[test]
fn a_slot_moved_by_somebody_else_can_be_recovered() {
    let (mut fixture, topic) = stopped("recover_moved");
    write(&fixture, &topic, 300, 10);
    let sql = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    assert_halts_at_start(&mut fixture, "somebody has moved the slot", "postrider recover");
    recover(&fixture);
    assert_recovered(&mut fixture, &topic, 1_000);
}

#[test]
fn a_lapsed_publication_is_detected_and_missed_rows_are_published() {
    let (mut fixture, topic) = stopped("recover_lapse");
    let mut client = fixture.client();
    client.batch_execute("ALTER PUBLICATION postrider DROP TABLE public.outbox").unwrap();
    write(&fixture, &topic, 200, 10);
    client.batch_execute("ALTER PUBLICATION postrider ADD TABLE public.outbox").unwrap();
    assert_halts_at_start(&mut fixture, "was not in publication", "postrider recover");
    recover(&fixture);
    assert_recovered(&mut fixture, &topic, 1_000);

    // Dropped altogether: recover recreates it.
    client.batch_execute("DROP PUBLICATION postrider").unwrap();
    write(&fixture, &topic, 200, 10);
    assert_halts_at_start(&mut fixture, "no publication", "postrider recover");
    recover(&fixture);
    assert_recovered(&mut fixture, &topic, 3_000);
}

#[test]
fn a_relay_that_streamed_through_a_lapse_is_recovered_too() {
    let mut fixture = Fixture::new(BINARY, "recover_streamed");
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 100, 10);
    fixture.consumer().read_n(100, SOON);
    let mut client = fixture.client();
    client.batch_execute("ALTER PUBLICATION postrider DROP TABLE public.outbox").unwrap();
    write(&fixture, &topic, 200, 10);
    client.batch_execute("ALTER PUBLICATION postrider ADD TABLE public.outbox").unwrap();
    // The position passes what was missed.
    write(&fixture, &topic, 100, 10);
    fixture.consumer().read_n(200, SOON);
    wait_confirmed(&fixture);
    // The relay itself detects it, unless it is stopped earlier.
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    assert_halts_at_start(&mut fixture, "was not in publication", "postrider recover");
    recover(&fixture);
    // Later events of their keys were published meanwhile: missed events can only follow them.
    let expected = unordered(&fixture);
    let verdict = expected.clone().verdict(&read_all(&fixture, &expected));
    assert_eq!(verdict.lost.count, 0, "{verdict}");
    assert!(verdict.duplicates.count <= 200, "{verdict}");
}

#[test]
fn a_killed_recovery_is_finished_by_the_relay() {
    let (mut fixture, topic) = stopped("recover_killed");
    drop_slot(&fixture);
    write(&fixture, &topic, 20_000, 1_000);
    let mut recovering = fixture.command(&["recover"]).spawn().unwrap();
    wait_until("it has begun", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.backfill WHERE slot = $1";
        fixture.client().query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    recovering.kill().unwrap();
    recovering.wait().unwrap();
    assert_recovered(&mut fixture, &topic, 30_000);
    assert_eq!(text(&fixture.run(&["recover"])).matches("nothing to recover").count(), 1);
}

#[test]
fn a_recovery_copied_from_another_server_publishes_all_rows() {
    let (mut fixture, topic) = stopped("recover_copied");
    drop_slot(&fixture);
    // As if it had begun there: with these transaction ids nothing would be published.
    let sql =
        "WITH job AS (INSERT INTO postrider.backfill (slot, kind, system_identifier, seen_before)
                   VALUES ($1, 'recover', '1', '4000000000'))
        INSERT INTO postrider.backfill_table (slot, outbox, since, last_id, is_done)
        VALUES ($1, 'public.outbox', '4000000000', 1000000, true)";
    let mut client = fixture.client();
    client.execute(sql, &[&fixture.slot()]).unwrap();
    write(&fixture, &topic, 100, 10);
    assert_recovered(&mut fixture, &topic, 1_000);
    let records = fixture.consumer().drain_quiet(Duration::from_secs(2)).len();
    assert_eq!(records, 1_000 + 1_100 + 100, "all rows are published again");
}

#[test]
fn an_unknown_slot_has_nothing_to_recover() {
    let fixture = Fixture::new(BINARY, "recover_nothing");
    let output = fixture.run(&["recover", "--dry-run", "--slot", "another"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("nothing is stored"), "{}", text(&output));
    let output = fixture.run(&["recover"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("nothing to recover"), "{}", text(&output));
}

/// Schema and publication were dropped while the slot was kept: both are recreated, but the slot
/// has WAL from before.
#[test]
fn a_slot_older_than_its_publication_can_be_recovered() {
    let (mut fixture, topic) = stopped("recover_older");
    let mut client = fixture.client();
    write(&fixture, &topic, 200, 10);
    client.batch_execute("DROP PUBLICATION postrider; DROP SCHEMA postrider CASCADE").unwrap();
    write(&fixture, &topic, 200, 10);
    // An operator recreates them beside the slot.
    let slot = fixture.slot().to_owned();
    let another = format!("{slot}_another");
    fixture.set("POSTRIDER_SLOT", &another);
    fixture.migrate();
    client.execute("SELECT pg_drop_replication_slot($1)", &[&another]).unwrap();
    fixture.set("POSTRIDER_SLOT", &slot);
    // Later servers leave out such rows silently, so the slot is not read at all.
    let missing = match fixture.postgres().major_version() {
        ..18 => "publication \"postrider\" does not exist",
        18.. => "WAL from before publication \"postrider\" was created",
    };
    assert_halts_at_start(&mut fixture, missing, "postrider recover");
    // The relay may have reached the part without a publication.
    let doubtful = doubtful(&fixture);
    assert!((200..=1_400).contains(&doubtful), "{doubtful}");
    recover(&fixture);
    assert_recovered(&mut fixture, &topic, 1_200);
    let output = fixture.run(&["recover"]);
    assert!(text(&output).contains("nothing to recover"), "{}", text(&output));
}

#[test]
fn a_publication_recreated_by_recover_itself_is_a_gap_too() {
    let (mut fixture, topic) = stopped("recover_remade");
    let sql = "DROP PUBLICATION postrider; DROP SCHEMA postrider CASCADE";
    fixture.client().batch_execute(sql).unwrap();
    write(&fixture, &topic, 200, 10);
    let printed = recover(&fixture);
    assert!(printed.contains("published 1200 rows"), "{printed}");
    assert_recovered(&mut fixture, &topic, 1_000);
}

/// Nothing has to be done: no operator is needed.
#[test]
fn an_unreachable_server_is_a_temporary_failure() {
    let (mut fixture, _) = stopped("recover_away");
    fixture.set("POSTRIDER_DATABASE_URL", "postgres://postgres@127.0.0.1:9/nowhere");
    for arguments in [&["recover"][..], &["recover", "--dry-run"]] {
        let output = fixture.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    }
}
