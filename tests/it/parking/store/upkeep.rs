//! Keys, counts, cleaning, rights.

use std::collections::HashSet;
use std::time::Duration;

use postrider::internals::store;
use postrider::internals::{Order, OutboxTable};
use postrider_core::format::Format;
use postrider_core::order::OrderKey;
use postrider_core::parking::ReplayedCount;
use postrider_core::parking::{EventToPark, ParkAs};
use postrider_core::route::Route;
use postrider_core::row::ColumnNames;

use super::rig::{key, to_park, with};

#[test]
fn a_key_is_held_until_its_last_event_is_done() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Dead),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
            to_park("c", 2, Some("l"), ParkAs::Retry),
            to_park("d", 3, None, ParkAs::Retry),
        ];
        rig.park(&mut client, &events).await;
        let tx = client.transaction().await.unwrap();
        assert_eq!(rig.held(&tx, 10).await, [key("k"), key("k"), key("l")]);
        let mut by_pages = rig.held(&tx, 1).await;
        by_pages.dedup();
        assert_eq!(by_pages, [key("k"), key("l")]);
        let bytes: usize = events.iter().map(EventToPark::side_table_bytes).sum();
        assert_eq!(store::live_total(&tx, &rig.slot).await.unwrap().bytes, bytes as u64);
        tx.commit().await.unwrap();
        let asked = [key("k"), key("m"), key("l")];
        let free = store::free_keys(&mut client, &rig.slot, &asked).await.unwrap();
        assert_eq!(free, [key("m")]);
        client
            .batch_execute(
                "UPDATE postrider.undelivered SET status = 'discarded' WHERE ordinal < 2",
            )
            .await
            .unwrap();
        let free = store::free_keys(&mut client, &rig.slot, &asked).await.unwrap();
        assert!(
            free.len() == 2 && free.contains(&key("k")) && free.contains(&key("m")),
            "{free:?}"
        );
    });
}

#[test]
fn many_keys_are_all_found_even_after_one_with_many_rows() {
    with(|rig| async move {
        let client = rig.client().await;
        let sql = "INSERT INTO postrider.undelivered (slot, source_table, row_id, topic, \
                     ordering_key, headers, commit_lsn, ordinal, timestamp, form, status, reason, value_bytes) \
                   SELECT $1, 't', n::text, 't', CASE WHEN n % 3 = 0 THEN 'one' ELSE 'k' || n / 2 END, \
                     '[]', '0/1', n, now(), 'whole', 'dead', 'too-large', 0 \
                     FROM generate_series(1, 9000) n";
        client.execute(sql, &[&rig.slot]).await.unwrap();
        let expect = client
            .query_one("SELECT count(DISTINCT ordering_key) FROM postrider.undelivered", &[])
            .await
            .unwrap()
            .get::<_, i64>(0);
        let expect = expect as usize;
        // Fewer rows than that, then as many.
        for rows_max in [9_001, 9_000] {
            let held = rig.held(&client, rows_max).await;
            let different: HashSet<&OrderKey> = held.iter().collect();
            assert_eq!(different.len(), expect, "{rows_max}");
        }
    });
}

#[test]
fn events_left_waiting_are_found() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, Some("k"), ParkAs::Dead),
            to_park("b", 1, Some("k"), ParkAs::WaitForEarlier),
            to_park("c", 2, Some("k"), ParkAs::WaitForEarlier),
        ];
        rig.park(&mut client, &events).await;
        assert_eq!(store::sweep(&mut client, &rig.slot, Order::ParkKey).await.unwrap(), 0);
        client
            .batch_execute(
                "UPDATE postrider.undelivered SET status = 'discarded' WHERE ordinal = 0",
            )
            .await
            .unwrap();
        assert_eq!(store::sweep(&mut client, &rig.slot, Order::ParkKey).await.unwrap(), 1);
        assert_eq!(rig.states(&client).await, ["a discarded 0", "b pending 0", "c pending 0~"]);
        store::sweep(&mut client, &rig.slot, Order::Continue).await.unwrap();
        assert_eq!(rig.states(&client).await, ["a discarded 0", "b pending 0", "c pending 0"]);
    });
}

#[test]
fn an_event_whose_predecessor_is_done_by_then_does_not_wait() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("b", 1, Some("k"), ParkAs::WaitForEarlier)]).await;
        assert_eq!(rig.states(&client).await, ["b pending 0"]);
    });
}

#[test]
fn finished_rows_are_deleted_after_the_retention_and_no_longer_counted() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let events = [
            to_park("a", 0, None, ParkAs::Retry),
            to_park("b", 1, None, ParkAs::Retry),
            to_park("c", 2, None, ParkAs::Dead),
        ];
        rig.park(&mut client, &events).await;
        let rows = rig.claim(&mut client, "me").await;
        store::acknowledge(&mut client, &rig.slot, "me", &[rows[0].id], &mut None, 1)
            .await
            .unwrap();
        client
            .batch_execute("INSERT INTO postrider.replayed VALUES ('t', 'success', 3)")
            .await
            .unwrap();
        let counts = store::counts(&client, &rig.slot).await.unwrap();
        let mut live: Vec<_> =
            counts.live.iter().map(|it| (it.status.label(), it.events)).collect();
        live.sort_unstable();
        assert_eq!(live, [("dead", 1), ("processing", 1)]);
        // The bytes counted before parking equal the bytes counted in the table.
        let bytes: usize = events[1..].iter().map(EventToPark::side_table_bytes).sum();
        assert_eq!(counts.total.bytes, bytes as u64);
        let replayed =
            ReplayedCount { topic: "t".to_owned(), result: "success".to_owned(), events: 3 };
        assert_eq!(counts.replayed, [replayed]);

        let day = Duration::from_secs(86_400);
        assert_eq!(store::clean(&client, &rig.slot, day, 10).await.unwrap(), 0);
        assert_eq!(store::clean(&client, &rig.slot, Duration::ZERO, 10).await.unwrap(), 1);
        assert_eq!(rig.states(&client).await, ["b processing 1", "c dead 0"]);
    });
}

fn configured(table: &str) -> OutboxTable {
    let columns = ColumnNames::default();
    OutboxTable {
        name: table.parse().unwrap(),
        columns,
        route: Route::default(),
        format: Format::default(),
        debezium: None,
    }
}

/// The table was renamed, or the configuration: the rows belong to a promised table.
#[test]
fn discarded_events_of_a_renamed_table_are_kept_as_long_as_its_rows() {
    with(|rig| async move {
        let mut client = rig.client().await;
        rig.park(&mut client, &[to_park("1", 0, None, ParkAs::Dead)]).await;
        rig.park(&mut client, &[to_park("2", 1, None, ParkAs::Dead)]).await;
        let sql = format!(
            "UPDATE postrider.undelivered SET status = 'discarded', source_table = 'public.before', \
                 row_id = id; \
             CREATE TABLE public.\"Events\" (id bigint PRIMARY KEY); \
             INSERT INTO public.\"Events\" SELECT min(id) FROM postrider.undelivered; \
             INSERT INTO postrider.progress (slot, position) VALUES ('{0}', '0/0'); \
             INSERT INTO postrider.coverage (slot, outbox, membership, since, schema_name, table_name) \
             VALUES ('{0}', 'public.\"Events\"', 0, '3', 'public', 'before')",
            rig.slot
        );
        client.batch_execute(&sql).await.unwrap();
        for (table, deleted) in [("public.before", 0), ("public.\"Events\"", 1)] {
            let tables = [configured(table)];
            let clean =
                store::clean_discarded(&client, &rig.slot, Duration::ZERO, 10, &tables).await;
            assert_eq!(clean.unwrap(), deleted, "{table}");
        }
        assert_eq!(rig.states(&client).await.len(), 1);
    });
}

#[test]
fn missing_rights_are_named_with_their_grant() {
    with(|rig| async move {
        let client = rig.client().await;
        assert_eq!(store::check_access(&client).await.unwrap(), None);
        let role = format!("{}_r", rig.slot);
        client
            .batch_execute(&format!(
                "CREATE ROLE {role}; GRANT USAGE ON SCHEMA postrider TO {role}; \
                 GRANT SELECT, INSERT, UPDATE ON postrider.undelivered TO {role}; \
                 GRANT SELECT, INSERT, UPDATE ON postrider.replayed TO {role}; \
                 GRANT SELECT, INSERT, UPDATE ON postrider.slot_lock TO {role}; \
                 GRANT SELECT ON postrider.schema_version TO {role}; SET ROLE {role}"
            ))
            .await
            .unwrap();
        let lacks = store::check_access(&client).await.unwrap().unwrap();
        assert_eq!(
            lacks.text,
            format!(
                "role \"{role}\" lacks SELECT, INSERT, UPDATE, DELETE on postrider.undelivered"
            )
        );
        client
            .batch_execute(&format!(
                "RESET ROLE; REVOKE ALL ON SCHEMA postrider FROM {role}; SET ROLE {role}"
            ))
            .await
            .unwrap();
        let lacks = store::check_access(&client).await.unwrap().unwrap();
        assert!(lacks.fix.contains("GRANT USAGE ON SCHEMA postrider"), "{}", lacks.fix);
        client.batch_execute(&format!("RESET ROLE; DROP TABLE postrider.undelivered; DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
        let lacks = store::check_access(&client).await.unwrap().unwrap();
        assert_eq!(lacks.fix, "run `postrider migrate`");
    });
}
