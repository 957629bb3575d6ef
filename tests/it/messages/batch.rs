//! Many events without a table by one call.

use super::{SOON, emit, emit_batch, fixture};
use testkit::check::Expected;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

/// Everything that a consumer sees of a record except its id.
fn visible_fields(record: &Received) -> String {
    let headers = record.headers.iter().filter(|(name, _)| name != "id").collect::<Vec<_>>();
    format!("{} {:?} {:?} {headers:?}", record.partition, record.key, record.value)
}

#[test]
fn each_event_is_what_emit_would_have_written() {
    let mut fixture = fixture("batch_record");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = r#"
        SELECT postrider.emit(topic, payload, key, ordering_key, tenant, header, traceparent, type,
                              content_type, part)
          FROM (SELECT unnest($1::text[]) AS topic, unnest($2::text[])::json AS payload, unnest($3::text[]) AS key,
                       unnest($4::text[]) AS ordering_key, unnest($5::text[]) AS tenant,
                       unnest($6::text[])::json AS header, unnest($7::text[]) AS traceparent,
                       unnest($8::text[]) AS type, unnest($9::text[]) AS content_type, unnest($10::int[]) AS part) e"#;
    let batch =
        "SELECT unnest(postrider.emit_batch($1, $2::text[]::json[], $3, $4, $5, $6::text[]::json[],
        $7, $8, $9, $10))";
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut client = fixture.client();
    let mut write = |sql: &str| -> Vec<String> {
        let rows = client.query(
            sql,
            &[
                &vec![topic.as_str(); 4],
                &vec![Some("{\"a\" : 1}"), None, Some("\"größe\""), Some("null")],
                &vec![Some("i-1"), Some("i-2"), Some("größe"), Some("i-4")],
                &vec![None, Some("order"), None, Some("")],
                &vec![Some("acme"), None, Some("größe"), None],
                &vec![Some("{\"z\": \"größe\", \"a\": 1.50}"), None, None, Some("{}")],
                &vec![None, Some(traceparent), None, None],
                &vec![Some("order.placed"), None, None, Some("")],
                &vec![None, Some("application/json"), None, None],
                &vec![Some(2), Some(1), Some(0), Some(0)],
            ],
        );
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let (single, batch) = (write(sql), write(batch));
    let records = fixture.consumer().read_n(8, SOON);
    let find =
        |id: &String| visible_fields(records.iter().find(|record| record.id() == id).unwrap());
    for (one, other) in single.iter().zip(&batch) {
        assert_eq!(find(one), find(other));
    }
    assert_eq!((single.len(), batch.len()), (4, 4));
}

#[test]
fn keys_are_made_of_ids_and_payloads_can_be_any_bytes() {
    let mut fixture = fixture("batch_bytes");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "SELECT postrider.emit_batch_bytes(array_fill($1::text, ARRAY[4]),
        ARRAY[NULL, '', decode('00ff0180', 'hex'), '{}']::bytea[], tenants => '{acme,NULL,NULL,NULL}',
        idempotency_keys => '{NULL,NULL,i,NULL}')";
    let ids: Vec<String> = fixture.client().query_one(sql, &[&topic]).unwrap().get(0);
    let records = fixture.consumer().read_n(4, SOON);
    let found: Vec<&str> = records.iter().map(Received::id).collect();
    assert_eq!(found, ids);
    let values: Vec<_> = records.iter().map(|record| record.value.as_deref()).collect();
    assert_eq!(values, [None, Some(&b""[..]), Some(&[0, 0xFF, 1, 0x80]), Some(b"{}")]);
    let keys: Vec<_> = records.iter().map(|it| it.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys, [&format!("acme/{}", ids[0]), &ids[1], "i", &ids[3]]);
}

#[test]
fn text_arrives_as_utf_8_whatever_the_encoding_of_the_database() {
    let mut fixture = super::record::latin1("batch_latin1");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = r#"SELECT postrider.emit_batch(ARRAY[$1], ARRAY['"größe"'::json], '{größe}',
        headers => ARRAY['{"größe": "größe"}'::json])"#;
    fixture.client().execute(sql, &[&topic]).unwrap();
    let records = fixture.consumer().read_n(1, SOON);
    let record = &records[0];
    assert_eq!((record.key_text(), record.header("größe")), (Some("größe"), Some("größe")));
    assert_eq!(record.value_text(), Some("\"größe\""));
}

/// Events of these sizes by one call, in order; payloads are only ever `x`.
#[track_caller]
fn sizes(fixture: &Fixture, topic: &str, sizes: &[i32]) -> Vec<String> {
    let sql = "SELECT postrider.emit_batch_bytes(array_fill($1::text, ARRAY[cardinality($2::int[])]),
        ARRAY(SELECT convert_to(repeat('x', size), 'UTF8') FROM unnest($2) WITH ORDINALITY AS s (size, n)
               ORDER BY n), ordering_keys => array_fill('k'::text, ARRAY[cardinality($2)]))";
    fixture.client().query_one(sql, &[&topic, &sizes]).unwrap().get(0)
}

#[test]
fn many_events_become_few_messages_and_large_ones_are_sent_alone() {
    let mut fixture = fixture("batch_sizes");
    let topic = fixture.create_topic("orders", 1, &[]);
    let slot = format!("{}_sizes", fixture.database());
    let mut client = fixture.client();
    let create = "SELECT pg_create_logical_replication_slot($1, 'test_decoding')";
    client.execute(create, &[&slot]).unwrap();
    let mut written = || -> Vec<i32> {
        let sql = "SELECT substring(data FROM 'sz: (\\d+)')::int FROM pg_logical_slot_get_changes($1, NULL, NULL)
            WHERE data LIKE 'message:%'";
        client.query(sql, &[&slot]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    let mut expected = Vec::new();
    expected.extend(emit_batch(&mut fixture.client(), &topic, "k", 10));
    assert_eq!(written().len(), 1);
    expected.extend(emit_batch(&mut fixture.client(), &topic, "k", 5_000));
    let found = written();
    let bytes: i32 = found.iter().sum();
    assert!(found.iter().all(|size| *size <= 65_537), "{found:?}");
    assert!(found.len() as i32 <= 2 * (bytes / 65_536) + 1, "{found:?}");
    expected.extend(sizes(&fixture, &topic, &[10, 300_000, 10, 10, 70_000, 60_000, 10]));
    let found = written();
    let large: Vec<_> = found.iter().filter(|size| **size > 65_537).map(|it| it / 10_000).collect();
    assert_eq!((large, found.len()), (vec![30, 7], 6), "{found:?}");
    client.execute("SELECT pg_drop_replication_slot($1)", &[&slot]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    let ids: Vec<&str> = records.iter().map(Received::id).collect();
    assert_eq!(ids, expected);
}

#[test]
fn an_event_refused_by_its_topic_is_parked_and_the_rest_is_published() {
    let mut fixture = fixture("batch_parked");
    let topic = fixture.create_topic("orders", 1, &[("max.message.bytes", "20000")]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "SELECT postrider.emit_batch_bytes(array_fill($1::text, ARRAY[5]),
        ARRAY(SELECT convert_to(repeat('x', size), 'UTF8') FROM unnest('{10,30000,10,10,10}'::int[]) AS size),
        ordering_keys => '{a,b,b,c,b}')";
    let ids: Vec<String> = fixture.client().query_one(sql, &[&topic]).unwrap().get(0);
    // Events of another key are published, those of the same key wait for it.
    let records = fixture.consumer().read_n(2, SOON);
    let found: Vec<&str> = records.iter().map(Received::id).collect();
    assert_eq!(found, [ids[0].as_str(), ids[3].as_str()]);
    let parked = "SELECT array_agg(row_id ORDER BY ordinal), array_agg(ordinal ORDER BY ordinal),
        array_agg(reason ORDER BY ordinal) FROM postrider.undelivered";
    let mut client = fixture.client();
    wait_until("three events to be parked", SOON, || {
        let count = "SELECT count(*) FROM postrider.undelivered";
        client.query_one(count, &[]).unwrap().get::<_, i64>(0) == 3
    });
    let row = client.query_one(parked, &[]).unwrap();
    assert_eq!(row.get::<_, Vec<String>>(0), [&*ids[1], &ids[2], &ids[4]]);
    assert_eq!(row.get::<_, Vec<i64>>(1), [1, 2, 4]);
    assert_eq!(row.get::<_, Vec<String>>(2), ["too-large", "behind", "behind"]);
}

#[test]
fn events_are_committed_or_rolled_back_with_their_transaction() {
    let mut fixture = fixture("batch_rollback");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut expected = Expected::default();
    let mut client = fixture.client();
    for number in 0..10 {
        let mut transaction = client.transaction().unwrap();
        let kept = emit_batch(&mut transaction, &topic, "k", 400);
        let mut savepoint = transaction.transaction().unwrap();
        emit_batch(&mut savepoint, &topic, "k", 400);
        savepoint.rollback().unwrap();
        match number % 3 {
            0 => transaction.rollback().unwrap(),
            _ => {
                transaction.commit().unwrap();
                kept.into_iter().for_each(|id| expected.push(&topic, "k", id));
            }
        }
    }
    expected.push(&topic, "k", emit(&fixture, &topic, Some("k")));
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}
