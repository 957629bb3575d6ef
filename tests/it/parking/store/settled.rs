//! What happens to claimed rows.

use std::time::Duration;

use postrider::internals::Order;
use postrider::internals::store::{self, Claim, Failure};
use postrider_core::parking::ParkAs;

use super::rig::{key, refusal, to_park, with};

#[test]
fn only_the_holder_of_the_lease_may_acknowledge() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Retry),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
        ];
        rig.park(&mut client, &events).await;
        let want = Claim { batch: 1, ..rig.want("me") };
        let rows = store::claim(&mut client, &want).await.unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let refused =
            store::acknowledge(&mut client, &rig.slot, "you", &ids, &mut None, 5).await.unwrap();
        assert_eq!(refused, store::Acknowledged::default());
        assert_eq!(rig.states(&client).await, ["a processing 1", "b pending 0~"]);
        let done =
            store::acknowledge(&mut client, &rig.slot, "me", &ids, &mut None, 5).await.unwrap();
        assert_eq!(done.ids, ids);
        assert_eq!(done.keys, [(key("k"), 1)]);
        // The event that waited for it becomes due.
        assert_eq!(rig.states(&client).await, ["a delivered 1", "b pending 0"]);
        assert_eq!(rig.claimed(&mut client, "me").await, ["b"]);
    });
}

#[test]
fn an_event_that_was_not_tried_does_not_count() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Retry),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
            to_park("c", 2, None, ParkAs::Retry),
        ];
        rig.park(&mut client, &events).await;
        let rows = rig.claim(&mut client, "me").await;
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let failure =
            Failure { id: ids[0], refusal: refusal(), is_dead: true, delay: Duration::ZERO };
        let failures = [failure];
        let failed = store::fail(&mut client, &rig.slot, "you", &failures, Order::ParkKey).await;
        assert!(failed.unwrap().is_empty());
        let failed = store::fail(&mut client, &rig.slot, "me", &failures, Order::ParkKey).await;
        let failed = failed.unwrap();
        assert_eq!(failed, ids[..1]);
        let back = store::release_untried(
            &mut client,
            &rig.slot,
            "me",
            &ids[1..],
            Duration::ZERO,
            Order::ParkKey,
        );
        back.await.unwrap();
        let expect = ["a dead 1", "b pending 0~", "c pending 0"];
        assert_eq!(rig.states(&client).await, expect);
        let row = client
            .query_one(
                "SELECT reason, last_error FROM postrider.undelivered WHERE id = $1",
                &[&ids[0]],
            )
            .await
            .unwrap();
        assert_eq!((row.get(0), row.get(1)), ("topic-denied", "not allowed"));
    });
}

#[test]
fn a_pause_follows_a_failure() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Retry),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
        ];
        rig.park(&mut client, &events).await;
        let rows = rig.claim(&mut client, "me").await;
        let delay = Duration::from_secs(60);
        let failure = Failure { id: rows[0].id, refusal: refusal(), is_dead: false, delay };
        store::fail(&mut client, &rig.slot, "me", &[failure], Order::ParkKey).await.unwrap();
        let rest = [rows[1].id];
        let back = store::release_untried(
            &mut client,
            &rig.slot,
            "me",
            &rest,
            Duration::ZERO,
            Order::ParkKey,
        );
        back.await.unwrap();
        assert_eq!(rig.claimed(&mut client, "me").await, [""; 0]);
        let sql = "UPDATE postrider.undelivered SET next_attempt_at = now() WHERE id = $1";
        client.execute(sql, &[&rows[0].id]).await.unwrap();
        assert_eq!(rig.claimed(&mut client, "me").await, ["a", "b"]);
    });
}

#[test]
fn an_expired_lease_is_taken_over_and_the_last_attempt_makes_the_event_dead() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Retry),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
        ];
        rig.park(&mut client, &events).await;
        let want = Claim { lease: Duration::ZERO, ..rig.want("dead") };
        for attempt in 1..=2 {
            let rows = store::claim(&mut client, &want).await.unwrap();
            assert_eq!(rows.len(), 2);
            assert_eq!(rows[0].attempts, attempt);
            assert!(store::due(&client, &rig.slot).await.unwrap().leases);
            let expired = store::expire(&mut client, &rig.slot, 2, Order::ParkKey).await.unwrap();
            assert_eq!(expired.iter().filter(|it| it.is_dead).count() as u32, attempt - 1);
            // Too late: after its lease has expired, an owner can't acknowledge any more.
            let ids = [rows[0].id];
            let late = store::acknowledge(&mut client, &rig.slot, "dead", &ids, &mut None, 1).await;
            assert!(late.unwrap().ids.is_empty());
        }
        // Perhaps the second was never tried: it does not die with the first.
        assert_eq!(rig.states(&client).await, ["a dead 2", "b pending 0~"]);
        assert!(!store::due(&client, &rig.slot).await.unwrap().events);
    });
}

#[test]
fn with_continue_every_expired_lease_counts_as_an_attempt() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events =
            [to_park("a", 0, Some("k"), ParkAs::Retry), to_park("b", 1, Some("k"), ParkAs::Retry)];
        rig.park(&mut client, &events).await;
        let order = Order::Continue;
        let want = Claim { lease: Duration::ZERO, order, ..rig.want("dead") };
        assert_eq!(store::claim(&mut client, &want).await.unwrap().len(), 2);
        let expired = store::expire(&mut client, &rig.slot, 1, order).await.unwrap();
        assert_eq!(expired.iter().filter(|it| it.is_dead).count(), 2);
        assert_eq!(rig.states(&client).await, ["a dead 1", "b dead 1"]);
    });
}

/// They may have been parked independently, each with its own time.
#[test]
fn events_waiting_for_a_dead_one_are_not_due() {
    for (order, expect) in [
        (Order::ParkKey, ["a dead 1", "b pending 0~", "c pending 0~", "d pending 0"]),
        (Order::Continue, ["a dead 1", "b pending 0", "c pending 0", "d pending 0"]),
    ] {
        with(|rig| async move {
            let mut client = rig.client().await;
            let events = [
                to_park("a", 0, Some("k"), ParkAs::Retry),
                to_park("b", 1, Some("k"), ParkAs::Retry),
                to_park("c", 2, Some("k"), ParkAs::Retry),
                to_park("d", 3, Some("other"), ParkAs::Retry),
            ];
            rig.park(&mut client, &events).await;
            let want = Claim { batch: 1, order, ..rig.want("me") };
            let rows = store::claim(&mut client, &want).await.unwrap();
            let delay = Duration::from_secs(60);
            let failure = Failure { id: rows[0].id, refusal: refusal(), is_dead: true, delay };
            store::fail(&mut client, &rig.slot, "me", &[failure], order).await.unwrap();
            assert_eq!(rig.states(&client).await, expect);
        });
    }
}

#[test]
fn an_acknowledgement_whose_commit_was_not_answered_finds_its_own_result() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events =
            [to_park("a", 0, Some("k"), ParkAs::Retry), to_park("b", 1, None, ParkAs::Retry)];
        rig.park(&mut client, &events).await;
        let rows = rig.claim(&mut client, "me").await;
        let mut ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let first = [ids[0]];
        let done = store::acknowledge(&mut client, &rig.slot, "me", &first, &mut None, 5).await;
        assert_eq!(done.unwrap().ids, first);
        let sql = "SELECT xmin::text::bigint FROM postrider.undelivered WHERE id = $1";
        let committed: i64 = client.query_one(sql, &[&first[0]]).await.unwrap().get(0);
        let tx = client.transaction().await.unwrap();
        let sql = "SELECT txid_current()";
        let rolled_back: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
        tx.rollback().await.unwrap();
        // The commit failed, or the server forgot it: another instance has delivered the row.
        for earlier in [rolled_back, i64::MAX / 2] {
            let mut unsure = Some(earlier);
            let done = store::acknowledge(&mut client, &rig.slot, "me", &first, &mut unsure, 5);
            assert_eq!(done.await.unwrap(), store::Acknowledged::default());
        }
        let mut unsure = Some(committed);
        let done = store::acknowledge(&mut client, &rig.slot, "me", &ids, &mut unsure, 5).await;
        let mut done = done.unwrap();
        assert_eq!((done.keys, unsure), (vec![(key("k"), 0)], None));
        done.ids.sort_unstable();
        ids.sort_unstable();
        assert_eq!(done.ids, ids);
    });
}
