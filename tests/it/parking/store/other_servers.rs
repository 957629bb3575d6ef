//! Rows of other servers and other slots, and how they keep their order.

use std::time::Duration;

use postrider::internals::store::{self, ParkError, ParkingSession, TakeOver};
use postrider_core::lsn::Lsn;
use postrider_core::order::OrderKey;
use postrider_core::parking::Orphans;
use postrider_core::parking::{EventToPark, ParkAs};
use postrider_core::transaction::Position;
use tokio_postgres::Client;

use super::rig::{Rig, to_park, with};

const HERE: &str = "1";
const ELSEWHERE: &str = "2";

/// The event `name` of key `k`, at this position of some log.
fn at(name: &str, commit_lsn: u64, ordinal: u64, park_as: ParkAs) -> EventToPark {
    let to_park = to_park(name, ordinal, Some("k"), park_as);
    let position = Position { commit_lsn: Lsn::new(commit_lsn), ..to_park.position };
    EventToPark { position, ..to_park }
}

/// A row without an id: only its position identifies it.
fn without_id(to_park: EventToPark) -> EventToPark {
    EventToPark { row_id: None, ..to_park }
}

async fn park(rig: &Rig, client: &mut Client, system: Option<&str>, events: &[EventToPark]) {
    let session = ParkingSession { system_identifier: system, ..rig.parking_session() };
    store::park(client, &session, events, &[]).await.unwrap();
}

fn of_slot<'a>(slot: &'a str, system_identifier: Option<&'a str>) -> ParkingSession<'a> {
    ParkingSession { slot, parker: None, system_identifier }
}

async fn rebase(rig: &Rig, client: &mut Client) -> u64 {
    let tx = client.transaction().await.unwrap();
    store::lock(&tx, &rig.slot).await.unwrap();
    let rebased = store::rebase(&tx, &rig.slot, HERE).await.unwrap();
    tx.commit().await.unwrap();
    rebased
}

/// The events in the order in which they are delivered.
async fn in_order(rig: &Rig, client: &Client) -> String {
    let sql = "SELECT coalesce(string_agg(convert_from(value, 'UTF8'), ' ' \
                    ORDER BY commit_lsn, change_lsn, ordinal, id), '') \
               FROM postrider.undelivered WHERE slot = $1 AND status IN ('pending', 'dead')";
    client.query_one(sql, &[&rig.slot]).await.unwrap().get(0)
}

async fn set(client: &Client, name: &str, change: &str) {
    let sql = format!(
        "UPDATE postrider.undelivered SET {change} WHERE convert_from(value, 'UTF8') = '{name}'"
    );
    assert_eq!(client.execute(&sql, &[]).await.unwrap(), 1);
}

/// A position of this server's log.
const NATIVE: u64 = 0x0100_0100;
/// A position of another server, which this one won't reach for a long time.
const FAR: u64 = 0xF0_0000_0100;

#[test]
fn events_of_another_server_come_first_and_in_their_order() {
    with(|rig| async move {
        let mut client = rig.client().await;
        assert_eq!(rebase(&rig, &mut client).await, 0);
        park(&rig, &mut client, None, &[at("b", FAR + 8, 0, ParkAs::Dead)]).await;
        park(&rig, &mut client, None, &[at("a", FAR, 7, ParkAs::Retry)]).await;
        // Positions of another server can be lower than ours, too.
        let lower = [
            at("c", NATIVE - 0x80, 1, ParkAs::WaitForEarlier),
            at("d", FAR + 9, 0, ParkAs::WaitForEarlier),
        ];
        park(&rig, &mut client, Some(ELSEWHERE), &lower).await;
        park(&rig, &mut client, Some(HERE), &[at("e", NATIVE - 0x90, 1, ParkAs::WaitForEarlier)])
            .await;
        assert_eq!(rebase(&rig, &mut client).await, 4);
        assert_eq!(in_order(&rig, &client).await, "a b c d e");
        assert_eq!(rebase(&rig, &mut client).await, 0, "once is enough");
        assert_eq!(
            rig.claimed(&mut client, "me").await,
            ["a"],
            "the event before b can be claimed"
        );
    });
}

#[test]
fn events_beyond_the_end_of_the_log_are_rebased_whichever_server_parked_them() {
    with(|rig| async move {
        let mut client = rig.client().await;
        park(&rig, &mut client, Some(HERE), &[at("b", NATIVE, 0, ParkAs::WaitForEarlier)]).await;
        park(&rig, &mut client, Some(HERE), &[at("a", FAR, 0, ParkAs::Retry)]).await;
        assert_eq!(rebase(&rig, &mut client).await, 1);
        assert_eq!(in_order(&rig, &client).await, "a b");
    });
}

#[test]
fn rows_without_ids_can_move_from_server_to_server() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let moved = |names: [&str; 3]| {
            let of = |(number, name): (usize, &&str)| {
                without_id(at(name, FAR + number as u64, 0, ParkAs::Dead))
            };
            names.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        park(&rig, &mut client, Some(ELSEWHERE), &moved(["a", "b", "c"])).await;
        assert_eq!(rebase(&rig, &mut client).await, 3);
        // One is done but still stored; the others are about to get its position and each other's.
        set(&client, "b", "status = 'delivered'").await;
        park(&rig, &mut client, Some("3"), &moved(["d", "e", "f"])).await;
        assert_eq!(rebase(&rig, &mut client).await, 5);
        assert_eq!(in_order(&rig, &client).await, "a c d e f");
        park(&rig, &mut client, Some("4"), &moved(["g", "h", "i"])).await;
        assert_eq!(rebase(&rig, &mut client).await, 8);
        assert_eq!(in_order(&rig, &client).await, "a c d e f g h i");
    });
}

#[test]
fn finished_rows_of_another_server_are_deleted() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let sql = "INSERT INTO postrider.progress (slot, position, system_identifier) \
                   VALUES ($1, '0/0', $2)";
        client.execute(sql, &[&rig.slot, &HERE]).await.unwrap();
        // The end of the log is not confirmed, and may be reached again.
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text";
        let end: String = client.query_one(sql, &[]).await.unwrap().get(0);
        let end: u64 = end.parse().unwrap();
        park(&rig, &mut client, Some(HERE), &[at("a", end, 0, ParkAs::Dead)]).await;
        park(&rig, &mut client, Some(ELSEWHERE), &[at("b", end, 1, ParkAs::Dead)]).await;
        park(&rig, &mut client, None, &[at("c", FAR, 0, ParkAs::Dead)]).await;
        client
            .batch_execute("UPDATE postrider.undelivered SET status = 'delivered'")
            .await
            .unwrap();
        assert_eq!(store::clean(&client, &rig.slot, Duration::ZERO, 10).await.unwrap(), 2);
        assert_eq!(rig.states(&client).await, ["a delivered 0"]);
    });
}

#[test]
fn events_of_a_dropped_slot_are_found_and_taken_over_in_order() {
    with(|rig| async move {
        let mut client = rig.client().await;
        park(&rig, &mut client, Some(HERE), &[at("own", NATIVE + 1, 0, ParkAs::Retry)]).await;
        let parked = [
            at("a", NATIVE, 0, ParkAs::Dead),
            // Parked by both slots: it is one event.
            at("twice", NATIVE + 1, 0, ParkAs::Dead),
            at("b", NATIVE + 2, 0, ParkAs::WaitForEarlier),
            without_id(at("low", 0x100, 0, ParkAs::Dead)),
        ];
        store::park(&mut client, &of_slot("gone", Some(HERE)), &parked, &[]).await.unwrap();
        // Positions assigned per slot: they do not identify events.
        park(&rig, &mut client, Some(HERE), &[without_id(at("mine", 0x100, 0, ParkAs::Dead))])
            .await;
        let found = store::orphans(&client, &rig.slot).await.unwrap();
        assert_eq!(found, [Orphans { slot: "gone".to_owned(), events: 4 }]);

        let none = store::take_over(&mut client, "gone", "nowhere").await.unwrap();
        assert_eq!(none, TakeOver::NoTargetSlot);
        let exists = store::take_over(&mut client, &rig.slot, "gone").await.unwrap();
        assert_eq!(exists, TakeOver::Exists);
        let sql = "INSERT INTO postrider.progress (slot, position) VALUES ($1, '0/0')";
        client.execute(sql, &[&rig.slot]).await.unwrap();
        let taken = store::take_over(&mut client, "gone", &rig.slot).await.unwrap();
        assert_eq!(taken, TakeOver::Taken(3));
        assert_eq!(store::takeovers(&client, &rig.slot).await.unwrap(), 1);
        assert_eq!(store::orphans(&client, &rig.slot).await.unwrap(), []);
        assert_eq!(rebase(&rig, &mut client).await, 2);
        assert_eq!(in_order(&rig, &client).await, "mine low a own b");
        let again = store::take_over(&mut client, "gone", &rig.slot).await.unwrap();
        assert_eq!(again, TakeOver::Taken(0));
    });
}

/// Logical replication copies rows, and not where sequences stand.
#[test]
fn an_event_whose_number_is_taken_is_not_mistaken_for_an_existing_one() {
    with(|rig| async move {
        let mut client = rig.client().await;
        park(&rig, &mut client, Some(HERE), &[at("a", NATIVE, 0, ParkAs::Dead)]).await;
        park(&rig, &mut client, Some(HERE), &[at("b", NATIVE, 1, ParkAs::WaitForEarlier)]).await;
        let sql = "SELECT setval(pg_get_serial_sequence('postrider.undelivered', 'id'), 1, false)";
        client.query_one(sql, &[]).await.unwrap();
        let next = [at("c", NATIVE, 2, ParkAs::WaitForEarlier)];
        let session = of_slot(&rig.slot, Some(HERE));
        let refused = store::park(&mut client, &session, &next, &[]).await;
        let Err(ParkError::Postgres(error)) = refused else { panic!("it was treated as parked") };
        assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));
        // The next session continues after the highest number.
        rebase(&rig, &mut client).await;
        park(&rig, &mut client, Some(HERE), &next).await;
        assert_eq!(in_order(&rig, &client).await, "a b c");
        let again = store::park(&mut client, &session, &next, &[]).await;
        assert_eq!(again.unwrap(), [false], "the same event is the same row");
    });
}

/// It no longer waits for anything, and nothing else would ever release it.
#[test]
fn events_that_waited_for_one_that_the_new_slot_delivered_can_be_claimed() {
    with(|rig| async move {
        let mut client = rig.client().await;
        park(&rig, &mut client, Some(HERE), &[at("a", NATIVE, 0, ParkAs::Retry)]).await;
        set(&client, "a", "status = 'delivered'").await;
        let parked =
            [at("a", NATIVE, 0, ParkAs::Dead), at("b", NATIVE + 1, 0, ParkAs::WaitForEarlier)];
        store::park(&mut client, &of_slot("gone", Some(HERE)), &parked, &[]).await.unwrap();
        assert_eq!(rig.claimed(&mut client, "me").await, Vec::<String>::new());
        let taken = store::take_over(&mut client, "gone", &rig.slot).await.unwrap();
        assert_eq!(taken, TakeOver::Taken(1));
        assert_eq!(rig.claimed(&mut client, "me").await, ["b"]);
    });
}

#[test]
fn a_slot_that_is_being_recreated_does_not_count_as_dropped() {
    with(|rig| async move {
        let mut client = rig.client().await;
        store::park(&mut client, &of_slot("back", None), &[at("a", NATIVE, 0, ParkAs::Dead)], &[])
            .await
            .unwrap();
        let sql = "INSERT INTO postrider.backfill (slot, kind) VALUES ('back', 'recover')";
        client.batch_execute(sql).await.unwrap();
        assert_eq!(store::orphans(&client, &rig.slot).await.unwrap(), []);
        let taken = store::take_over(&mut client, "back", &rig.slot).await.unwrap();
        assert_eq!(taken, TakeOver::BeingCreated);
        // Its holder was last seen some time ago.
        let sql = "UPDATE postrider.backfill SET held_until = now() - interval '6 minutes'";
        client.batch_execute(sql).await.unwrap();
        let found = store::orphans(&client, &rig.slot).await.unwrap();
        assert_eq!(found, [Orphans { slot: "back".to_owned(), events: 1 }]);
        // As the successor it continues the interrupted job.
        store::park(&mut client, &of_slot("gone", None), &[at("b", NATIVE, 1, ParkAs::Dead)], &[])
            .await
            .unwrap();
        let plan = store::plan_take_over(&client, "gone", "back").await.unwrap();
        assert_eq!(plan, TakeOver::Taken(1));
        let taken = store::take_over(&mut client, "back", &rig.slot).await.unwrap();
        assert_eq!(taken, TakeOver::Taken(1));
    });
}

#[test]
fn a_partition_keeps_its_order_and_so_does_a_topic_if_configured() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let to = |name: &str, ordinal, key, partition, park_as| EventToPark {
            partition,
            ..to_park(name, ordinal, key, park_as)
        };
        let events = [
            to("a", 0, None, Some(0), ParkAs::Dead),
            to("b", 1, None, Some(0), ParkAs::WaitForEarlier),
            to("c", 2, None, Some(1), ParkAs::Retry),
            to("d", 3, Some("k"), Some(0), ParkAs::Retry),
            to("e", 4, None, None, ParkAs::Retry),
        ];
        rig.park(&mut client, &events).await;
        let tx = client.transaction().await.unwrap();
        let held = rig.held(&tx, 10).await;
        tx.commit().await.unwrap();
        let mut expect: Vec<OrderKey> = events.iter().filter_map(EventToPark::order_key).collect();
        expect.sort_by_key(|key| format!("{key:?}"));
        assert_eq!(held, expect);
        assert_eq!(rig.claimed(&mut client, "me").await, ["c", "d", "e"]);
        let sql = "UPDATE postrider.undelivered SET status = 'pending', attempts = 0, \
                   locked_by = NULL, locked_until = NULL WHERE status = 'processing'";
        client.batch_execute(sql).await.unwrap();

        let tx = client.transaction().await.unwrap();
        store::rescope(&tx, &rig.slot, true).await.unwrap();
        let mut held = rig.held(&tx, 10).await;
        held.dedup();
        tx.commit().await.unwrap();
        assert_eq!(held, [OrderKey::of("t", None, None, true).unwrap()]);
        assert_eq!(rig.claimed(&mut client, "me").await, Vec::<String>::new());
        set(&client, "a", "status = 'discarded'").await;
        let tx = client.transaction().await.unwrap();
        store::promote(&tx, &rig.slot, &held).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(rig.claimed(&mut client, "me").await, ["b", "c", "d", "e"]);
    });
}
