//! The real relay under load, killed repeatedly, with a cleaner that hardly waits.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::Duration;

use postgres::Client;
use rdkafka::Message;
use rdkafka::message::Headers;

use super::{BINARY, SOON};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const KILLS: usize = 6;
const WRITERS: usize = 3;

/// Writes until stopped: small transactions, every tenth event can't be published.
fn load(mut client: Client, topic: &str, number: usize, stop: &AtomicBool) -> Vec<i64> {
    let mut written = Vec::new();
    let sql =
        "INSERT INTO outbox (topic, payload, ordering_key) VALUES ($1, '{}', $2) RETURNING id";
    if number == 0 {
        client.batch_execute("SET synchronous_commit = off").unwrap();
    }
    while !stop.load(Relaxed) {
        let mut transaction = client.transaction().unwrap();
        let mut ids = Vec::new();
        for _ in 0..rand::random_range(1..20) {
            let topic = if rand::random_range(0..10) == 0 { "not a topic!" } else { topic };
            let key = format!("k{}", rand::random_range(0..1000));
            ids.push(transaction.query_one(sql, &[&topic, &key]).unwrap().get::<_, i64>(0));
        }
        if rand::random_range(0..20) == 0 {
            // It stays open for longer than the retention, so its rows are old as soon as it
            // commits.
            transaction.batch_execute("SELECT pg_sleep(1.2)").unwrap();
        }
        match rand::random_range(0..10) {
            0 => transaction.rollback().unwrap(),
            _ => {
                transaction.commit().unwrap();
                written.extend(ids);
            }
        }
    }
    written
}

#[test]
fn every_event_is_published_or_parked_whatever_is_killed() {
    let mut fixture = Fixture::new(BINARY, "clean_soak");
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "100ms");
    fixture.set("POSTRIDER_CLEANER_BATCH", "100");
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_SHARE", "1");
    let topic = fixture.create_topic("events", 3, &[]);
    let stop = AtomicBool::new(false);
    let written: Vec<i64> = scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (client, topic, stop) = (fixture.client(), topic.as_str(), &stop);
                scope.spawn(move || load(client, topic, number, stop))
            })
            .collect();
        let mut client = fixture.client();
        for _ in 0..KILLS {
            let before = oldest(&mut client);
            fixture.start_relay().wait_ready(SOON);
            wait_until("some rows to be cleaned", SOON, || oldest(&mut client) > before);
            fixture.relay().kill9();
        }
        stop.store(true, Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    fixture.start_relay().wait_ready(SOON);
    let sql = "SELECT count(*) FROM outbox o WHERE NOT EXISTS (
        SELECT FROM postrider.undelivered u WHERE u.row_id = o.id::text)";
    let mut client = fixture.client();
    wait_until("all rows that are done to be deleted", Duration::from_secs(120), || {
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 0
    });
    let parked = "SELECT u.row_id::bigint FROM postrider.undelivered u JOIN outbox o
        ON o.id::text = u.row_id WHERE u.status IN ('pending', 'processing', 'dead')";
    let mut found: HashSet<i64> =
        client.query(parked, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let all: HashSet<i64> = written.iter().copied().collect();
    fixture.consumer().for_each(SOON, |message| {
        let mut headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        let id = headers.find(|it| it.key == "id").and_then(|it| it.value).unwrap();
        found.insert(std::str::from_utf8(id).unwrap().parse().unwrap());
        if found.is_superset(&all) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let lost: Vec<&i64> = all.difference(&found).collect();
    assert!(
        lost.is_empty(),
        "{} of {} events are neither published nor parked: {lost:?}",
        lost.len(),
        all.len()
    );
}

fn oldest(client: &mut Client) -> i64 {
    let sql = "SELECT coalesce(min(id), 0) FROM outbox o WHERE NOT EXISTS (
        SELECT FROM postrider.undelivered u WHERE u.row_id = o.id::text)";
    client.query_one(sql, &[]).unwrap().get(0)
}
