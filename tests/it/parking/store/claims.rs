//! Which rows are claimed, when, and by whom.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::internals::Order;
use postrider::internals::store::{self, Claim, ParkError, ParkingSession};
use postrider_core::lsn::Lsn;
use postrider_core::parking::{Completeness, ParkAs};

use super::rig::{UNCONFIRMED, names, to_park, with};

#[test]
fn the_same_event_parked_again_is_the_same_row() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let first =
            [to_park("a", 0, Some("k"), ParkAs::Retry), to_park("b", 1, None, ParkAs::Dead)];
        assert_eq!(rig.park(&mut client, &first).await, [true, true]);
        let again = [
            to_park("a", 0, Some("k"), ParkAs::Retry),
            to_park("b", 1, None, ParkAs::Retry),
            to_park("c", 2, Some("k"), ParkAs::WaitForEarlier),
        ];
        assert_eq!(rig.park(&mut client, &again).await, [false, false, true]);
        assert_eq!(rig.states(&client).await, ["a pending 0", "b dead 0", "c pending 0~"]);
    });
}

#[test]
fn nothing_is_claimed_during_its_pause_or_before_it_is_confirmed() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut late = to_park("late", 0, None, ParkAs::Retry);
        late.position.commit_lsn = Lsn::new(UNCONFIRMED);
        let mut fragment = to_park("fragment", 1, None, ParkAs::Retry);
        fragment.completeness = Completeness::Fragment;
        let waits = to_park("waits", 2, None, ParkAs::Retry);
        let due = to_park("due", 3, None, ParkAs::Retry);
        let delays = [0, 0, 60, 0].map(Duration::from_secs);
        let events = [late, fragment, waits, due];
        store::park(&mut client, &rig.parking_session(), &events, &delays).await.unwrap();
        assert!(store::due(&client, &rig.slot).await.unwrap().events);
        assert_eq!(rig.claimed(&mut client, "me").await, ["due"]);
        // Without the slot it is unknown what is confirmed.
        let mut want = rig.want("me");
        want.slot = "gone";
        client.batch_execute("UPDATE postrider.undelivered SET slot = 'gone', status = 'pending', locked_by = NULL, locked_until = NULL").await.unwrap();
        assert_eq!(store::claim(&mut client, &want).await.unwrap(), []);
        assert!(!store::due(&client, &rig.slot).await.unwrap().events);
    });
}

#[test]
fn events_waiting_for_the_first_of_their_key_are_claimed_with_it() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut unconfirmed = to_park("a4", 40, Some("a"), ParkAs::WaitForEarlier);
        unconfirmed.position.commit_lsn = Lsn::new(UNCONFIRMED);
        let events = [
            to_park("a1", 10, Some("a"), ParkAs::Retry),
            to_park("b1", 11, Some("b"), ParkAs::Dead),
            to_park("b2", 12, Some("b"), ParkAs::WaitForEarlier),
            to_park("a2", 20, Some("a"), ParkAs::WaitForEarlier),
            to_park("free", 21, None, ParkAs::Retry),
            to_park("c1", 22, Some("c"), ParkAs::Retry),
            to_park("c2", 23, Some("c"), ParkAs::Dead),
            to_park("c3", 24, Some("c"), ParkAs::WaitForEarlier),
            to_park("a3", 30, Some("a"), ParkAs::WaitForEarlier),
            unconfirmed,
        ];
        rig.park(&mut client, &events).await;
        let expect = ["a1", "a2", "a3", "free", "c1"];
        assert_eq!(rig.claimed(&mut client, "me").await, expect);
        assert_eq!(rig.claimed(&mut client, "you").await, [""; 0]);
    });
}

#[test]
fn a_batch_is_bounded_in_rows_and_bytes() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let long = "x".repeat(1000);
        let events = [
            to_park(&long, 0, Some("a"), ParkAs::Retry),
            to_park("a2", 1, Some("a"), ParkAs::WaitForEarlier),
            to_park("b1", 2, Some("b"), ParkAs::Retry),
            to_park("b2", 3, Some("b"), ParkAs::WaitForEarlier),
            to_park("b3", 4, Some("b"), ParkAs::WaitForEarlier),
            to_park("c1", 5, Some("c"), ParkAs::Retry),
        ];
        rig.park(&mut client, &events).await;
        // Larger than the bound: alone.
        let want = Claim { bytes_max: 100, ..rig.want("me") };
        assert_eq!(names(&store::claim(&mut client, &want).await.unwrap()), [long]);
        let want = Claim { batch: 3, ..rig.want("me") };
        assert_eq!(names(&store::claim(&mut client, &want).await.unwrap()), ["b1", "b2", "c1"]);
        // The rest waits for the events being tried.
        assert_eq!(rig.claimed(&mut client, "me").await, [""; 0]);
    });
}

#[test]
fn an_earlier_event_that_was_parked_late_is_still_claimed_first() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("second", 7, Some("k"), ParkAs::Retry)]).await;
        rig.park(&mut client, &[to_park("first", 3, Some("k"), ParkAs::Retry)]).await;
        assert_eq!(rig.claimed(&mut client, "me").await, ["first", "second"]);
    });
}

#[test]
fn with_continue_no_event_waits() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events =
            [to_park("a1", 0, Some("a"), ParkAs::Dead), to_park("a2", 1, Some("a"), ParkAs::Retry)];
        rig.park(&mut client, &events).await;
        assert_eq!(rig.claimed(&mut client, "me").await, [""; 0]);
        let want = Claim { order: Order::Continue, ..rig.want("me") };
        assert_eq!(names(&store::claim(&mut client, &want).await.unwrap()), ["a2"]);
    });
}

#[test]
fn a_locked_row_is_not_overtaken() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut other = rig.client().await;
        let events = [
            to_park("a1", 0, Some("a"), ParkAs::Retry),
            to_park("a2", 1, Some("a"), ParkAs::WaitForEarlier),
            to_park("a3", 2, Some("a"), ParkAs::WaitForEarlier),
        ];
        rig.park(&mut client, &events).await;
        let tx = other.transaction().await.unwrap();
        let sql = "SELECT FROM postrider.undelivered WHERE ordinal = 1 FOR UPDATE";
        tx.query(sql, &[]).await.unwrap();
        assert_eq!(rig.claimed(&mut client, "me").await, ["a1"]);
        tx.rollback().await.unwrap();
    });
}

/// Several instances, each of which delivers, fails, releases or forgets the events it claims.
#[test]
fn several_instances_share_the_work_and_keep_the_order() {
    const KEYS: u64 = 7;
    const EVENTS: u64 = 300;
    with(|rig| async move {
        let mut client = rig.client().await;
        let events: Vec<_> = (0..EVENTS)
            .map(|n| {
                let (round, key) = (n / KEYS, n % KEYS);
                let park_as = if round == 0 { ParkAs::Retry } else { ParkAs::WaitForEarlier };
                to_park(&format!("{key} {round}"), n, Some(&format!("k{key}")), park_as)
            })
            .collect();
        rig.park(&mut client, &events).await;
        let delivered = Arc::new(Mutex::new(Vec::new()));
        let rig = Arc::new(rig);
        let workers: Vec<_> = (0..4)
            .map(|number| {
                tokio::spawn(work(Arc::clone(&rig), number, Arc::clone(&delivered), EVENTS))
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        let mut next: HashMap<String, u64> = HashMap::new();
        for name in delivered.lock().unwrap().iter() {
            let name: &String = name;
            let (key, round) = name.split_once(' ').unwrap();
            let expect = next.entry(key.to_owned()).or_default();
            assert_eq!(round, expect.to_string(), "of key {key}");
            *expect += 1;
        }
        assert_eq!(next.values().sum::<u64>(), EVENTS);
    });
}

async fn work(
    rig: Arc<super::rig::Rig>,
    number: usize,
    delivered: Arc<Mutex<Vec<String>>>,
    events: u64,
) {
    let mut client = rig.client().await;
    let owner = format!("worker {number}");
    let mut turn = number;
    while (delivered.lock().unwrap().len() as u64) < events {
        turn += 1;
        let lease = if turn.is_multiple_of(7) { Duration::ZERO } else { Duration::from_secs(60) };
        let want = Claim { batch: 10, lease, ..rig.want(&owner) };
        let rows = store::claim(&mut client, &want).await.unwrap();
        if rows.is_empty() {
            store::expire(&mut client, &rig.slot, u32::MAX, Order::ParkKey).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        // Forgotten: the lease has ended already.
        if lease.is_zero() {
            continue;
        }
        // The first part is delivered, the next fails, the rest is not tried; by key, so that
        // nothing of a key is delivered after a failure.
        let mut stopped = Vec::new();
        let (mut good, mut bad, mut back) = (Vec::new(), Vec::new(), Vec::new());
        for (place, row) in rows.iter().enumerate() {
            let key = row.ordering_key.clone();
            if stopped.contains(&key) {
                back.push(row.id);
            } else if (place + turn).is_multiple_of(5) {
                stopped.push(key);
                let refusal = super::rig::refusal();
                let delay = Duration::from_millis(1);
                bad.push(store::Failure { id: row.id, refusal, is_dead: false, delay });
            } else {
                good.push(row);
            }
        }
        // Published in this order, then acknowledged.
        delivered
            .lock()
            .unwrap()
            .extend(names(&good.iter().map(|row| (*row).clone()).collect::<Vec<_>>()));
        let ids: Vec<i64> = good.iter().map(|row| row.id).collect();
        let done =
            store::acknowledge(&mut client, &rig.slot, &owner, &ids, &mut None, 10).await.unwrap();
        assert_eq!(done.ids.len(), ids.len());
        let failed =
            store::fail(&mut client, &rig.slot, &owner, &bad, Order::ParkKey).await.unwrap();
        assert_eq!(failed.len(), bad.len());
        store::release_untried(
            &mut client,
            &rig.slot,
            &owner,
            &back,
            Duration::ZERO,
            Order::ParkKey,
        )
        .await
        .unwrap();
    }
}

/// A relay that was frozen while another one replaced it.
#[test]
fn an_overtaken_session_parks_nothing() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut sessions = Vec::new();
        for _ in 0..2 {
            let tx = client.transaction().await.unwrap();
            sessions.push(store::begin_parking(&tx, &rig.slot).await.unwrap());
            tx.commit().await.unwrap();
        }
        let event = [to_park("a", 0, Some("k"), ParkAs::Retry)];
        let of = |session| ParkingSession { parker: Some(session), ..rig.parking_session() };
        let late = store::park(&mut client, &of(&sessions[0]), &event, &[]).await;
        assert!(matches!(late, Err(ParkError::Superseded)), "{late:?}");
        assert_eq!(rig.states(&client).await, [""; 0]);
        let parked = store::park(&mut client, &of(&sessions[1]), &event, &[]).await.unwrap();
        assert_eq!(parked, [true]);
    });
}
