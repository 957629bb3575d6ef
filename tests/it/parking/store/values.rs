//! Values are read back as they were stored.

use postrider::internals::store;
use postrider::internals::{OutboxTable, TableName};
use postrider_core::delivery::Reason;
use postrider_core::format::{Format, ValueFormat};
use postrider_core::parking::{Completeness, ParkAs};
use postrider_core::route::Route;
use postrider_core::row::{Column, ColumnNames};

use super::rig::{to_park, with};

#[test]
fn a_record_comes_back_byte_for_byte() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut unusual = to_park("odd", 0, Some("k\u{e9}\n"), ParkAs::Retry);
        unusual.value = Some(vec![0, 255, 10]);
        unusual.value_bytes = 3;
        unusual.partition = Some(4);
        unusual.key = Some(vec![255, 0]);
        unusual.headers = r#"[["id","7"],["x",null],["n","\u0000"]]"#.to_owned();
        unusual.tenant = Some("nul\0inside".to_owned());
        let mut tombstone = to_park("", 1, None, ParkAs::Retry);
        tombstone.value = None;
        rig.park(&mut client, &[unusual.clone(), tombstone]).await;
        let rows = rig.claim(&mut client, "me").await;
        let row = &rows[0];
        assert_eq!((&row.value, &row.key, row.partition), (&unusual.value, &unusual.key, Some(4)));
        assert_eq!(row.headers, unusual.headers);
        assert_eq!(row.commit_unix_micros, unusual.commit_unix_micros);
        assert_eq!(row.ordering_key, unusual.ordering_key);
        assert_eq!((row.completeness, row.attempts, row.value_bytes), (Completeness::Whole, 1, 3));
        assert_eq!(rows[1].value, None);
    });
}

#[test]
fn a_value_left_in_the_outbox_is_read_there() {
    with(|rig| async move {
        let mut client = rig.client().await;
        client
            .batch_execute(
                r#"CREATE DOMAIN public.body AS bytea;
                   CREATE TABLE public."Odd box" ("the id" bigint PRIMARY KEY, "Body" public.body);
                   INSERT INTO public."Odd box" VALUES (1, '\x00ff'), (2, NULL);
                   CREATE TABLE public.outbox (id uuid PRIMARY KEY, payload char(4));
                   INSERT INTO public.outbox VALUES ('11111111-1111-1111-1111-111111111111', 'ab');
                   CREATE TABLE public.jsons (id text PRIMARY KEY, payload jsonb);
                   INSERT INTO public.jsons VALUES ('x', '{"a":1}')"#,
            )
            .await
            .unwrap();
        let mut columns = ColumnNames::default();
        columns.map(Column::Id, "the id".to_owned());
        columns.map(Column::Payload, "Body".to_owned());
        let table = |name: &str, columns: ColumnNames, format| OutboxTable {
            route: Route::default(),
            name: name.parse::<TableName>().unwrap(),
            columns,
            format,
            debezium: None,
        };
        let tables = [
            table(r#""Odd box""#, columns, Format::default()),
            table("outbox", ColumnNames::default(), Format::default()),
            table("jsons", ColumnNames::default(), Format::default()),
            table("wrapped", ColumnNames::default(), Format::of(ValueFormat::Protobuf)),
        ];
        let uuid = "11111111-1111-1111-1111-111111111111";
        for (place, (source, id, bytes, expect)) in [
            (r#"public."Odd box""#, "1", 2, Ok(Some(&b"\x00\xff"[..]))),
            (r#"public."Odd box""#, "2", 0, Ok(None)),
            (r#"public."Odd box""#, "3", 0, Err("not in")),
            (r#"public."Odd box""#, "1", 9, Err("changed")),
            ("public.outbox", uuid, 4, Ok(Some(&b"ab  "[..]))),
            ("public.jsons", "x", 8, Ok(Some(&br#"{"a": 1}"#[..]))),
            ("public.wrapped", "x", 8, Err("protobuf")),
            ("public.other", "x", 8, Err("postgres.tables")),
        ]
        .into_iter()
        .enumerate()
        {
            let mut to_park = to_park("", place as u64, None, ParkAs::Retry);
            to_park.source_table = source.to_owned();
            to_park.row_id = Some(id.to_owned());
            to_park.completeness = Completeness::Reference;
            to_park.value = None;
            to_park.value_bytes = bytes;
            rig.park(&mut client, &[to_park]).await;
            let rows = rig.claim(&mut client, "me").await;
            let found = store::reference_value(&client, &rows[0], &tables).await.unwrap();
            match expect {
                Ok(value) => assert_eq!(found.unwrap().as_deref(), value, "{source} {id}"),
                Err(part) => {
                    let refusal = found.unwrap_err();
                    assert_eq!(refusal.reason, Reason::ValueMissing);
                    assert!(refusal.detail.contains(part), "{}", refusal.detail);
                }
            }
        }
    });
}

#[test]
fn a_row_hidden_by_a_policy_is_not_reported_as_missing() {
    with(|rig| async move {
        let mut client = rig.client().await;
        let mut to_park = to_park("", 0, None, ParkAs::Retry);
        to_park.source_table = "public.outbox".to_owned();
        to_park.row_id = Some("1".to_owned());
        to_park.completeness = Completeness::Reference;
        to_park.value = None;
        to_park.value_bytes = 2;
        rig.park(&mut client, &[to_park]).await;
        let rows = rig.claim(&mut client, "me").await;
        // A role belongs to the whole server, which other tests use: it is removed with the
        // transaction.
        client
            .batch_execute(
                r#"BEGIN;
                   CREATE TABLE public.outbox (id bigint PRIMARY KEY, payload json);
                   INSERT INTO public.outbox VALUES (1, '{}');
                   ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;
                   CREATE ROLE sees_nothing;
                   GRANT SELECT ON public.outbox TO sees_nothing;
                   SET LOCAL ROLE sees_nothing"#,
            )
            .await
            .unwrap();
        let tables = [OutboxTable {
            name: "outbox".parse::<TableName>().unwrap(),
            columns: ColumnNames::default(),
            route: Route::default(),
            format: Format::default(),
            debezium: None,
        }];
        let found = store::reference_value(&client, &rows[0], &tables).await.unwrap();
        let refusal = found.unwrap_err();
        assert_eq!(refusal.reason, Reason::ValueMissing);
        assert!(refusal.detail.contains("row-level security hides rows"), "{}", refusal.detail);
        client.batch_execute("ROLLBACK").await.unwrap();
    });
}
