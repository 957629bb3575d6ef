//! The poller on a real Postgres, with a scripted broker.

mod scripted_broker;

use std::time::Duration;

use postrider_core::parking::ParkAs;

use self::scripted_broker::{ScriptedBroker, poller, poller_with};
use super::store::rig::{Rig, key, to_park, with, with_on};
use testkit::postgres::{PostgresOptions, PostgresServer};

const END_POLLERS: &str = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'postrider undelivered' \
      AND pid <> pg_backend_pid()";

/// A key with followers, and events without a key.
fn key_with_followers() -> Vec<postrider_core::parking::EventToPark> {
    let mut events = vec![to_park("k0", 0, Some("k"), ParkAs::Retry)];
    let waiting = |n| to_park(&format!("k{n}"), n, Some("k"), ParkAs::WaitForEarlier);
    events.extend((1..25).map(waiting));
    events.push(to_park("free", 30, None, ParkAs::Retry));
    events
}

#[test]
fn parked_events_are_delivered_in_order_and_their_keys_are_reported() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &key_with_followers()).await;
        let broker = ScriptedBroker::default();
        let (poller, stop, shutdown, mut delivered_keys) = poller(&rig, &broker);
        let test = async {
            broker.until("all are delivered", |script| script.delivered == 26).await;
            let mut last = None;
            while last != Some(0) {
                last = delivered_keys.recv().await.map(|delivered_keys| delivered_keys.live);
            }
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        let of_key: Vec<String> =
            broker.with(|script| script.sent.iter().filter(|it| *it != "free").cloned().collect());
        let expect: Vec<String> = (0..25).map(|n| format!("k{n}")).collect();
        assert_eq!(of_key, expect);
        assert!(rig.states(&client).await.iter().all(|state| state.ends_with("delivered 1")));
    });
}

#[test]
fn an_event_out_of_attempts_is_dead_and_holds_its_key() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("bad", 0, Some("k"), ParkAs::Retry),
            to_park("behind", 1, Some("k"), ParkAs::WaitForEarlier),
            to_park("good", 2, None, ParkAs::Retry),
        ];
        rig.park(&mut client, &events).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.refused.insert("bad".to_owned()));
        let (poller, stop, shutdown, _news) = poller(&rig, &broker);
        let test = async {
            broker.until("it is dead", |script| script.dead == 1).await;
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        assert_eq!(
            rig.states(&client).await,
            ["bad dead 3", "behind pending 0~", "good delivered 1"]
        );
        assert_eq!(broker.with(|script| script.failed.clone()), ["retryable"; 3]);
    });
}

#[test]
fn no_attempt_counts_while_the_broker_is_unreachable() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("a", 0, Some("k"), ParkAs::Retry)]).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.unreachable = true);
        let (poller, stop, shutdown, _news) = poller(&rig, &broker);
        let test = async {
            // The first restart is the start; each other one follows a batch that was given up.
            broker.until("two batches are given up", |script| script.restarts > 2).await;
            broker.with(|script| script.unreachable = false);
            broker.until("it is delivered", |script| script.delivered == 1).await;
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        assert_eq!(rig.states(&client).await, ["a delivered 1"]);
    });
}

#[test]
fn sent_events_are_not_sent_again_when_postgres_returns() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("a", 0, Some("k"), ParkAs::Retry)]).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.silent = true);
        let (poller, stop, shutdown, _news) = poller(&rig, &broker);
        let test = async {
            wait_for(&rig, &client, "a processing 1").await;
            client.query_one(END_POLLERS, &[]).await.unwrap();
            broker.with(|script| script.silent = false);
            broker.until("it is delivered", |script| script.delivered == 1).await;
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        assert_eq!(rig.states(&client).await, ["a delivered 1"]);
        assert_eq!(broker.with(|script| (script.sent.len(), script.fetch_errors)), (1, 1));
    });
}

#[test]
fn a_stop_releases_unanswered_events() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("a", 0, Some("k"), ParkAs::Retry)]).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.silent = true);
        let (poller, stop, shutdown, _news) = poller(&rig, &broker);
        let test = async {
            wait_for(&rig, &client, "a processing 1").await;
            stop.now();
        };
        tokio::join!(poller.run(shutdown), test);
        assert_eq!(rig.states(&client).await, ["a pending 0"]);
    });
}

#[test]
fn several_pollers_share_the_work() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events: Vec<_> =
            (0..200).map(|n| to_park(&n.to_string(), n, None, ParkAs::Retry)).collect();
        rig.park(&mut client, &events).await;
        let broker = ScriptedBroker::default();
        let (one, stop_one, shutdown_one, _news_one) = poller(&rig, &broker);
        let (other, stop_other, shutdown_other, _news_other) = poller(&rig, &broker);
        let test = async {
            broker.until("all are delivered", |script| script.delivered == 200).await;
            stop_one.drain();
            stop_other.drain();
        };
        tokio::join!(one.run(shutdown_one), other.run(shutdown_other), test);
        let mut sent = broker.with(|script| script.sent.clone());
        sent.sort_unstable();
        sent.dedup();
        assert_eq!((sent.len(), broker.with(|script| script.sent.len())), (200, 200));
    });
}

/// Many events that are refused, and one after them that is not: it does not wait one pause per
/// batch.
#[test]
fn a_good_event_gets_its_turn_after_many_refused_ones() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let name = |n: u64| format!("bad{n}");
        let mut events: Vec<_> =
            (0..100).map(|n| to_park(&name(n), n, None, ParkAs::Retry)).collect();
        events.push(to_park("good", 100, None, ParkAs::Retry));
        rig.park(&mut client, &events).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.refused.extend((0..100).map(name)));
        // One pause is longer than `until` waits.
        let settings = [
            ("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "1min"),
            ("POSTRIDER_UNDELIVERED_LEASE", "3min"),
            ("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "1h"),
            ("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1h"),
        ];
        let (poller, stop, shutdown, _news) = poller_with(&rig, &broker, &settings);
        let test = async {
            broker.until("the good one is delivered", |script| script.delivered == 1).await;
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        // Each was tried once, and not again before its pause has ended.
        assert_eq!(broker.with(|script| script.failed.len()), 100);
    });
}

/// The server has committed, and the connection ends before it can answer. A commit that waits for
/// a missing standby is such a moment.
#[test]
fn an_acknowledgement_takes_effect_even_if_its_answer_is_lost() {
    const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event = 'SyncRep'";
    let server = PostgresServer::start(PostgresOptions::default());
    with_on(&server.address(), |rig| async move {
        let mut client = rig.client().await;
        client.batch_execute("SET synchronous_commit = local").await.unwrap();
        rig.park(&mut client, &[to_park("a", 0, Some("k"), ParkAs::Retry)]).await;
        let broker = ScriptedBroker::default();
        broker.with(|script| script.silent = true);
        let settings = [("POSTRIDER_UNDELIVERED_LEASE", "1min")];
        let (poller, stop, shutdown, mut delivered_keys) = poller_with(&rig, &broker, &settings);
        let test = async {
            wait_for(&rig, &client, "a processing 1").await;
            for sql in
                ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"]
            {
                client.batch_execute(sql).await.unwrap();
            }
            wait_query(&client, "SELECT (current_setting('synchronous_standby_names') <> '')::int")
                .await;
            broker.with(|script| script.silent = false);
            wait_query(&client, WAITING).await;
            client.query_one(END_POLLERS, &[]).await.unwrap();
            wait_for(&rig, &client, "a delivered 1").await;
            for sql in ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"] {
                client.batch_execute(sql).await.unwrap();
            }
            broker.until("it is reported as delivered", |script| script.delivered == 1).await;
            assert_eq!(
                delivered_keys
                    .recv()
                    .await
                    .map(|delivered_keys| (delivered_keys.key, delivered_keys.live)),
                Some((key("k"), 0))
            );
            stop.drain();
        };
        tokio::join!(poller.run(shutdown), test);
        assert_eq!(broker.with(|script| (script.sent.len(), script.fetch_errors)), (1, 1));
    });
}

/// Waits until a query counts something.
async fn wait_query(client: &tokio_postgres::Client, sql: &str) {
    for _ in 0..2000 {
        let found = client.query_one(&format!("SELECT ({sql})::bigint > 0"), &[]).await.unwrap();
        if found.get(0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {sql}");
}

async fn wait_for(rig: &Rig, client: &tokio_postgres::Client, state: &str) {
    for _ in 0..2000 {
        if rig.states(client).await.iter().any(|it| it == state) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never {state}: {:?}", rig.states(client).await);
}
