//! From the library to Kafka.

use postrider::{Event, Outbox, emit, emit_batch, enqueue, enqueue_batch};
use serde_json::json;

use super::mapped::debezium;
use super::{BINARY, SOON, runtime, text, tokio_postgres};
use testkit::fixture::Fixture;

#[test]
fn what_the_library_writes_is_published_once_and_in_order() {
    let mut fixture = Fixture::new(BINARY, "end_to_end");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let event = |number: usize| {
        let event = Event::json(&topic, &json!({ "n": number })).unwrap();
        event.idempotency_key(format!("k-{number}")).ordering_key("o").header("n", number)
    };
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        for first in (0..100).step_by(10) {
            let mut transaction = client.transaction().await.unwrap();
            enqueue(&mut transaction, &event(first)).await.unwrap();
            // Half of each batch was already written, in this transaction or in the previous one.
            let events: Vec<Event> = (first.saturating_sub(10)..first + 10).map(&event).collect();
            enqueue_batch(&mut transaction, &events).await.unwrap();
            transaction.commit().await.unwrap();
        }
        let mut transaction = client.transaction().await.unwrap();
        enqueue(&mut transaction, &event(1000)).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut transaction = client.transaction().await.unwrap();
        let last = Event::tombstone(&topic).ordering_key("o").event_type("Gone").tenant("shop");
        enqueue(&mut transaction, &last).await.unwrap();
        transaction.commit().await.unwrap();
    });
    let records = fixture.consumer().read_n(101, SOON);
    for (number, record) in records.iter().take(100).enumerate() {
        assert_eq!(record.value_text(), Some(format!("{{\"n\":{number}}}").as_str()));
        assert_eq!(record.header("idempotency-key"), Some(format!("k-{number}").as_str()));
        assert_eq!(record.header("n"), Some(number.to_string().as_str()));
    }
    let last = &records[100];
    assert_eq!(last.value, None);
    assert_eq!((last.header("type"), last.header("tenant")), (Some("Gone"), Some("shop")));
}

#[test]
fn what_the_library_emits_is_published_among_rows_in_order() {
    let mut fixture = Fixture::new(BINARY, "emitted");
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let event = |number: usize| {
        let event = match number % 2 {
            0 => Event::json(&topic, &json!(number)).unwrap(),
            _ => Event::bytes(&topic, number.to_string().into_bytes()),
        };
        event.ordering_key("o").event_type("Counted").partition(0).header("n", number)
    };
    let ids = runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut ids = Vec::new();
        for first in [0, 20, 40] {
            let mut transaction = client.transaction().await.unwrap();
            for number in first..first + 10 {
                ids.push(match number % 3 {
                    0 => enqueue(&mut transaction, &event(number)).await.unwrap().unwrap(),
                    _ => emit(&mut transaction, &event(number)).await.unwrap(),
                });
            }
            let batch: Vec<Event> = (first + 10..first + 20).map(&event).collect();
            ids.extend(emit_batch(&mut transaction, &batch).await.unwrap());
            transaction.commit().await.unwrap();
            let mut transaction = client.transaction().await.unwrap();
            emit(&mut transaction, &event(1000)).await.unwrap();
            emit_batch(&mut transaction, &[event(1001)]).await.unwrap();
            transaction.rollback().await.unwrap();
        }
        ids
    });
    let records = fixture.consumer().read_n(60, SOON);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.value_text(), Some(number.to_string().as_str()));
        assert_eq!(record.id(), ids[number]);
        assert_eq!(record.header("type"), Some("Counted"));
        assert_eq!(record.header("n"), Some(number.to_string().as_str()));
    }
}

/// Written by the functions and by the library, into a table as Debezium's users have it.
#[test]
fn what_is_written_to_a_mapped_table_is_published() {
    let (mut fixture, mut client) = debezium("end_to_end_mapped");
    let topic = fixture.create_topic("orders", 1, &[]);
    // The topic that this test creates, and headers that show the columns.
    fixture.set("POSTRIDER_ROUTE_TOPIC", "{topic}").set("POSTRIDER_ROUTE_DEFAULT_HEADERS", "true");
    fixture.start_relay().wait_ready(SOON);
    let id = "6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f";
    let sql = format!(
        "SELECT postrider.enqueue('{topic}', '{{\"n\": 0}}', ordering_key => 'o', type => 'Placed',
            outbox => 'outboxevent')"
    );
    let first = text(&mut client, &sql);
    let written = runtime().block_on(async {
        let outbox = Outbox::table("outboxevent");
        let event = |number: usize| {
            let event = Event::json(&topic, &json!({ "n": number })).unwrap();
            event.ordering_key("o").event_type("Placed")
        };
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        let keyed = event(1).idempotency_key(id);
        let one = outbox.enqueue_new(&mut transaction, &keyed).await.unwrap();
        assert!(one.is_new && one.id.as_deref() == Some(id), "{one:?}");
        let ids =
            outbox.enqueue_batch(&mut transaction, &[event(2), keyed, event(3)]).await.unwrap();
        transaction.commit().await.unwrap();
        ids
    });
    assert_eq!(written[1].as_deref(), Some(id));
    let ids = [Some(first), Some(id.to_owned()), written[0].clone(), written[2].clone()];
    let records = fixture.consumer().read_n(4, SOON);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.value_text(), Some(format!("{{\"n\": {number}}}").as_str()));
        assert_eq!(record.key_text(), Some("o"));
        assert_eq!(record.header("type"), Some("Placed"));
        assert_eq!(record.header("id"), ids[number].as_deref());
        assert_eq!(record.header("idempotency-key"), ids[number].as_deref());
    }
}
