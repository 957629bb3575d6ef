//! Replay beside a running relay: both process the same keys.

use crate::parking::{BINARY, SOON, statuses, wait_statuses, with_fast_poller, write};
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const KEYS: usize = 4;

#[test]
fn dead_events_and_those_waiting_for_them_are_delivered_in_order_while_more_arrive() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "replayed"));
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    let topic = fixture.topic("late");
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    let mut number = 0;
    let mut more = |fixture: &Fixture, count: usize| {
        for _ in 0..count {
            let key = format!("k{}", number % KEYS);
            number += 1;
            expected.push(&topic, &key, write(fixture, &topic, Some(&key), "{}"));
        }
    };
    more(&fixture, 10 * KEYS);
    // The first of each key was tried once; the others wait for it.
    let (dead, waiting) = (KEYS as i64, 9 * KEYS as i64);
    wait_statuses(&fixture, &[("dead", dead), ("pending", waiting)]);

    fixture.create_topic("late", 3, &[]);
    wait_until("everything to be delivered", SOON, || {
        more(&fixture, KEYS);
        let output = fixture.run(&["replay", "--all"]);
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        statuses(&fixture).into_keys().eq(["delivered"])
    });
    more(&fixture, KEYS);
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    let replayed = records.iter().filter(|record| record.header("replayed") == Some("true"));
    assert!(replayed.count() >= KEYS, "nothing was replayed");
}
