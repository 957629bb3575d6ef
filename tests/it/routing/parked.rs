//! What is parked is the finished record: a replay sends what would have been sent.

use super::{SOON, headers};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = super::BINARY;

mod real_kafka {
    use super::*;

    const FORMATS: [&str; 5] =
        ["raw", "json", "protobuf", "cloudevents-binary", "cloudevents-structured"];

    /// One event goes directly, the other through the side table.
    #[test]
    fn a_parked_event_is_sent_as_it_would_have_been() {
        for format in FORMATS {
            let mut fixture = Fixture::new(BINARY, &format!("parked_{}", format.replace('-', "_")));
            fixture.set("POSTRIDER_FORMAT_VALUE", format);
            fixture.set("POSTRIDER_FORMAT_SOURCE", "/shop");
            fixture.set("POSTRIDER_FORMAT_SCHEMA_ID", "7");
            fixture.set("POSTRIDER_ROUTE_TOPIC", "{topic}.v1");
            fixture.set("POSTRIDER_ROUTE_HEADERS", "place={tenant}");
            fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
            fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
            let direct = fixture.create_topic("direct.v1", 1, &[]);
            fixture.start_relay().wait_ready(SOON);
            let late = fixture.topic("late.v1");
            // In one transaction, so that time and position are the same but for the ordinal.
            let sql = "insert into public.outbox (topic, payload, idempotency_key, ordering_key,
                    type, tenant, headers)
                select t, '{\"a\": \"ö\"}', 'i', 'k', 'paid', 'acme', '{\"x\": \"1\"}'
                  from unnest($1::text[]) t";
            let topics = [&direct, &late].map(|it| it.trim_end_matches(".v1"));
            fixture.client().execute(sql, &[&topics.as_slice()]).unwrap();
            let mut client = fixture.client();
            let parked = "select count(*) from postrider.undelivered where status = 'pending'";
            wait_until("the event is parked", SOON, || {
                client.query_one(parked, &[]).unwrap().get::<_, i64>(0) == 1
            });
            fixture.create_topic("late.v1", 1, &[]);
            let mut records = fixture.consumer().read_n(2, SOON);
            records.sort_by_key(|record| record.topic != direct);
            let [one, other] = records.as_slice() else { panic!("{format}: {records:?}") };
            assert_eq!((one.key_text(), other.key_text()), (Some("k"), Some("k")), "{format}");
            let differs = |name: &str| name == "id";
            let same = |record| {
                let mut headers: Vec<(&str, &str)> = headers(record);
                headers.retain(|(name, _)| !differs(name));
                headers
            };
            assert_eq!(same(one), same(other), "{format}");
            assert_eq!(one.header("place"), Some("acme"), "{format}");
            let value = |record: &testkit::consumer::Received| {
                let bytes = record.value.clone().unwrap();
                assert_eq!(bytes[..5], [0, 0, 0, 0, 7], "{format}");
                bytes
            };
            // The envelopes have the row's id and its place in the transaction.
            let has_row = ["json", "protobuf"].contains(&format);
            let (one, other) = (value(one), value(other));
            assert!(has_row || one == other, "{format}");
            assert!(!has_row || one.len().abs_diff(other.len()) < 10, "{format}");
        }
    }

    /// The payload alone would fit.
    #[test]
    fn sizes_are_those_of_the_finished_record() {
        let mut fixture = Fixture::new(BINARY, "format_size");
        fixture.set("POSTRIDER_FORMAT_VALUE", "json");
        let topic = fixture.create_topic("small", 1, &[("max.message.bytes", "1000")]);
        let sql = "insert into public.outbox (topic, payload) values
            ($1, to_json(repeat('x', 700))), ($1, '1')";
        fixture.client().execute(sql, &[&topic]).unwrap();
        fixture.start_relay().wait_ready(SOON);
        let record = &fixture.consumer().read_n(1, SOON)[0];
        assert!(record.value_text().unwrap().ends_with("\"payload\":1}"));
        let mut client = fixture.client();
        let sql = "select last_error from postrider.undelivered where reason = 'too-large'";
        let mut error = String::new();
        wait_until("the other is parked", SOON, || {
            let row = client.query_opt(sql, &[]).unwrap();
            error = row.map(|row| row.get(0)).unwrap_or_default();
            !error.is_empty()
        });
        assert!(error.contains("the topic accepts 1000"), "{error}");
    }
}

/// A value that can't be encoded parks that event alone.
#[test]
fn what_cannot_be_encoded_is_parked_with_the_column() {
    let mut fixture = super::prepared(
        "not_encodable",
        "create table events (id int primary key, topic text, type text, content_type text, payload text)",
    );
    fixture.set("POSTRIDER_TABLES", "events");
    fixture.set("POSTRIDER_FORMAT_VALUE", "cloudevents-structured");
    fixture.set("POSTRIDER_FORMAT_SOURCE", "/shop");
    fixture.migrate();
    let topic = fixture.create_topic("t", 1, &[]);
    let sql = "insert into events values
        (1, $1, null, null, 'x'), (2, $1, '', null, 'x'),
        (3, $1, 'paid', 'application/json', 'no json'), (4, $1, 'paid', null, 'x')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let value: serde_json::Value =
        serde_json::from_slice(fixture.consumer().read_n(1, SOON)[0].value.as_deref().unwrap())
            .unwrap();
    assert_eq!((value["id"].as_str(), value["data"].as_str()), (Some("4"), Some("x")));
    let sql = "select row_id || ' ' || reason || ' ' || last_error from postrider.undelivered
        where status = 'dead' order by 1";
    let mut client = fixture.client();
    let mut found: Vec<String> = Vec::new();
    wait_until("three events are parked", SOON, || {
        found = client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        found.len() == 3
    });
    for (found, expect) in found.iter().zip([
        "1 column-null column \"type\" is NULL",
        "2 not-encodable the CloudEvents attribute type is empty",
        "3 not-encodable column \"payload\" can't be encoded",
    ]) {
        assert!(found.starts_with(expect), "{found}");
        assert!(!found.contains("no json"), "{found}");
    }
}
