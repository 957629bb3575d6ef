//! What a standby reports, what it costs, and what it detects.

use std::time::Instant;

use crate::harness::halt::{assert_one_sentence_and_its_fix, wait_halt};
use crate::harness::instances::{start_second, status, wait_standby};
use crate::harness::metrics::metric;
use crate::harness::rig::print_line;
use crate::harness::slot_holder::SlotHolder;
use crate::standby::{BINARY, SOON, wait_watched, write};
use testkit::fixture::Fixture;
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

#[test]
fn the_second_instance_is_ready_and_reports_who_holds_the_slot() {
    let mut fixture = Fixture::new(BINARY, "ready");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let second = start_second(&fixture);
    let third = start_second(&fixture);
    let holder = fixture.slot_holder().unwrap();
    for waiting in [&second, &third] {
        let now = status(waiting);
        assert_eq!((&now["state"], &now["in_flight_events"]), (&"standby".into(), &0.into()));
        let (reason, slot) = (now["reason"].as_str().unwrap(), fixture.slot());
        for part in [&format!("slot \"{slot}\""), &format!("PID {holder} "), "at 127.0.0.1"] {
            assert!(reason.contains(part), "{part:?} is not in {reason:?}");
        }
        assert_eq!(waiting.http_get("/readyz").unwrap(), (200, format!("standby: {reason}\n")));
        assert_eq!(waiting.http_get("/livez").unwrap().0, 200);
        assert_eq!(metric(waiting, "postrider_active"), Some(0.0));
        let log = waiting.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("standing by")).collect();
        assert!(
            lines.len() == 1 && lines[0].contains(" INFO ") && lines[0].contains(reason),
            "{log}"
        );
        assert!(!log.contains(" WARN "), "{log}");
    }
    assert_eq!(metric(fixture.relay(), "postrider_active"), Some(1.0));
    write(&fixture, &topic, 3);
    fixture.consumer().read_n(3, SOON);
    assert_eq!(fixture.slot_holder(), Some(holder), "the slot has another holder");
}

/// The numbers of statements of all sessions of relays in the fixture's database, and of standbys.
fn statements() -> (usize, usize) {
    let log = shared::postgres().log_tail(usize::MAX);
    let asked = log
        .lines()
        .filter(|line| line.contains("LOG:  execute") || line.contains("LOG:  statement"));
    let ours = asked.filter(|line| line.contains("] postrider"));
    ours.fold((0, 0), |(all, standby), line| {
        (all + 1, standby + usize::from(line.contains("] postrider standby")))
    })
}

#[test]
fn a_standby_sends_few_statements() {
    /// Two per second about the slot, a full check every ten seconds, and one for parked events.
    const PER_SECOND_MAX: f64 = 10.0;
    let mut fixture = Fixture::new(BINARY, "cost");
    let database = fixture.database().to_owned();
    let sql = format!("ALTER DATABASE \"{database}\" SET log_statement = 'all'");
    fixture.client().batch_execute(&sql).unwrap();
    let _occupant = SlotHolder::take(&fixture);
    fixture.start_relay();
    wait_standby(fixture.relay());
    let (begun, before) = (Instant::now(), statements());
    wait_watched(&fixture, 12.0);
    let (after, seconds) = (statements(), begun.elapsed().as_secs_f64());
    let rates = [after.0 - before.0, after.1 - before.1].map(|count| count as f64 / seconds);
    let [all, own] = rates;
    print_line(&format!("a standby sends {all:.1} statements/s, {own:.1} of them about the slot"));
    assert!(own > 0.5, "its statements were not counted: {rates:?}");
    assert!(all <= PER_SECOND_MAX, "{rates:?}");
    let sql = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()
        AND application_name LIKE 'postrider%' ORDER BY 1";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let sessions: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(sessions, ["postrider standby", "postrider undelivered"]);
}

#[test]
fn a_standby_without_postgres_is_not_ready() {
    let mut fixture = Fixture::new(BINARY, "cut_off");
    let _occupant = SlotHolder::take(&fixture);
    let proxy = Proxy::to(fixture.postgres().port());
    let url = fixture.postgres().url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay();
    let relay = fixture.relay();
    wait_standby(relay);
    proxy.refuse();
    proxy.cut();
    wait_until("/readyz to report not ready", SOON, || {
        let answer = relay.http_get("/readyz");
        answer.is_ok_and(|(code, body)| code == 503 && body.starts_with("connecting: "))
    });
    proxy.pass();
    wait_standby(relay);
    assert_eq!(relay.http_get("/readyz").unwrap().0, 200);
}

#[test]
fn a_slot_that_is_dropped_needs_an_operator() {
    let mut fixture = Fixture::new(BINARY, "dropped");
    let slot_holder = SlotHolder::take(&fixture);
    fixture.start_relay();
    wait_standby(fixture.relay());
    // Otherwise the standby could be faster.
    fixture.relay().pause();
    drop(slot_holder);
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    fixture.relay().resume();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("is gone: it was dropped"), "{log}");
}

#[test]
fn obstacles_to_a_takeover_are_found_beforehand() {
    let cases = [
        ("ALTER PUBLICATION postrider DROP TABLE outbox", "was not in publication"),
        ("DROP PUBLICATION postrider", "there is no publication"),
    ];
    for (sql, sentence) in cases {
        // Not held by a relay, which would stop as well.
        let mut fixture = Fixture::new(BINARY, "dropped_publication");
        let _occupant = SlotHolder::take(&fixture);
        fixture.start_relay();
        let mut second = fixture.take_relay();
        wait_standby(&second);
        fixture.client().batch_execute(sql).unwrap();
        assert_eq!(second.wait_exit(SOON).code(), Some(3), "{sql}");
        let log = second.log();
        assert!(log.contains(sentence), "{log}");
        assert_one_sentence_and_its_fix(&log);
    }
}
