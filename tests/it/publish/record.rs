//! How a row's columns appear in its record.

use super::{BINARY, SOON};
use postrider::internals::partition_of;
use testkit::consumer::Received;
use testkit::fixture::Fixture;

#[test]
fn the_key_is_the_ordering_key_else_the_idempotency_key() {
    let records = publish(
        "key",
        "insert into outbox (topic, ordering_key, idempotency_key, payload) values
           ('{topic}', 'order', 'i-1', '{}'),
           ('{topic}', null, 'i-2', '{}'),
           ('{topic}', '', 'i-3', '{}')",
    );
    let key_of = |id| find(&records, id).key_text();
    assert_eq!(key_of("i-1"), Some("order"));
    assert_eq!(key_of("i-2"), Some("i-2"));
    assert_eq!(key_of("i-3"), Some(""), "an empty key is a key");
}

#[test]
fn a_key_goes_to_the_partition_that_a_java_producer_chooses() {
    let mut fixture = Fixture::new(BINARY, "murmur2");
    let topic = fixture.create_topic("orders", 6, &[]);
    let mut keys: Vec<String> = (0..60).map(|number| format!("key-{number}")).collect();
    keys.extend(["", "a", "ab", "abc", "größer", "鍵", "\u{1f511}"].map(str::to_owned));
    let insert = "insert into outbox (topic, ordering_key, payload) \
                  select $1, key, '{}' from unnest($2::text[]) key";
    fixture.client().execute(insert, &[&topic, &keys]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(keys.len(), SOON);
    for record in records {
        let key = record.key.as_deref().unwrap();
        let expected = partition_of(key, 6);
        assert_eq!(record.partition, expected, "{:?}", record.key_text());
    }
}

#[test]
fn a_row_can_choose_its_partition() {
    let mut fixture = Fixture::new(BINARY, "partition");
    let topic = fixture.create_topic("orders", 6, &[]);
    let insert = "insert into outbox (topic, ordering_key, partition, payload) \
                  select $1, 'one key', g, '{}' from generate_series(0, 5) g";
    fixture.client().execute(insert, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(6, SOON);
    let mut partitions: Vec<i32> = records.iter().map(|it| it.partition).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn headers_are_the_columns_and_then_the_rows_own_in_order() {
    let records = publish(
        "headers",
        r#"insert into outbox (topic, idempotency_key, type, content_type, tenant, traceparent,
                               headers, payload)
           values ('{topic}', 'all', 'order.created', 'application/json', 'acme',
                   '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
                   '{"z": "text", "a": 1.50, "yes": true, "none": null, "empty": "",
                     "deep": {"x": [1, "2"]}, "id": "mine", "idempotency-key": "mine",
                     "z": "again", "größe": "ü\n\u00e9"}', '{}'),
                  ('{topic}', 'none', null, null, null, null, null, '{}'),
                  ('{topic}', 'empty', '', '', '', '', '{}', '{}')"#,
    );
    let record = find(&records, "all");
    let id = record.id();
    assert_eq!(
        headers(record),
        [
            ("id", Some(id)),
            ("idempotency-key", Some("all")),
            ("type", Some("order.created")),
            ("content-type", Some("application/json")),
            ("tenant", Some("acme")),
            ("traceparent", Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
            ("z", Some("text")),
            ("a", Some("1.50")),
            ("yes", Some("true")),
            ("none", None),
            ("empty", Some("")),
            ("deep", Some(r#"{"x": [1, "2"]}"#)),
            ("z", Some("again")),
            ("größe", Some("ü\né")),
        ]
    );
    let record = find(&records, "none");
    let id = record.id();
    let ours = [("id", Some(id)), ("idempotency-key", Some("none"))];
    assert_eq!(headers(record), ours);
    let record = find(&records, "empty");
    let set = ["type", "content-type", "tenant", "traceparent"];
    assert_eq!(headers(record)[2..], set.map(|name| (name, Some(""))));
}

#[test]
fn the_header_id_is_the_rows_id() {
    let mut fixture = Fixture::new(BINARY, "id");
    let topic = fixture.create_topic("orders", 1, &[]);
    let insert = "insert into outbox (topic, payload) values ($1, '{}') returning id";
    let row = fixture.client().query_one(insert, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), row.get::<_, i64>(0).to_string());
}

#[test]
fn a_null_payload_is_a_tombstone() {
    let records = publish(
        "tombstone",
        "insert into outbox (topic, idempotency_key, payload) values
           ('{topic}', 'gone', null), ('{topic}', 'json null', 'null')",
    );
    assert_eq!(find(&records, "gone").value, None);
    assert_eq!(find(&records, "json null").value_text(), Some("null"));
}

#[test]
fn the_timestamp_is_the_time_of_the_commit() {
    let mut fixture = Fixture::new(BINARY, "stamp");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let clock = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
    let mut transaction = client.transaction().unwrap();
    let insert = "insert into outbox (topic, payload) values ($1, '{}')";
    transaction.execute(insert, &[&topic]).unwrap();
    // This separates the time of the insert from that of the commit.
    transaction.batch_execute("select pg_sleep(0.02)").unwrap();
    let before: i64 = transaction.query_one(clock, &[]).unwrap().get(0);
    transaction.commit().unwrap();
    let after: i64 = client.query_one(clock, &[]).unwrap().get(0);
    // And from the time of publishing: the relay does not even run yet.
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(1, SOON);
    let stamp = records[0].timestamp_ms.unwrap();
    assert!((before..=after).contains(&stamp), "{stamp} is not between {before} and {after}");
}

/// Publishes what one statement inserts; `{topic}` in it is a topic with three partitions.
#[track_caller]
fn publish(name: &str, insert: &str) -> Vec<Received> {
    let mut fixture = Fixture::new(BINARY, name);
    let topic = fixture.create_topic("orders", 3, &[]);
    let sql = insert.replace("{topic}", &topic);
    let rows = fixture.client().execute(&sql, &[]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let count = usize::try_from(rows).unwrap();
    fixture.consumer().read_n(count, SOON)
}

#[track_caller]
fn find<'a>(records: &'a [Received], idempotency_key: &str) -> &'a Received {
    let found =
        records.iter().find(|record| record.header("idempotency-key") == Some(idempotency_key));
    found.unwrap_or_else(|| panic!("no record with idempotency key {idempotency_key}"))
}

fn headers(record: &Received) -> Vec<(&str, Option<&str>)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let headers = record.headers.iter();
    headers.map(|(name, value)| (name.as_str(), value.as_deref().map(text))).collect()
}
