//! One event by function: what is written, what is refused.

use super::{BINARY, number, refused, text};
use testkit::fixture::Fixture;

#[test]
fn every_given_argument_is_written_and_the_rest_is_not() {
    let fixture = Fixture::new(BINARY, "columns");
    let mut client = fixture.client();
    let sql =
        "SELECT postrider.enqueue('orders', '{\"b\": 1,  \"a\": 2}', 'k', 'o', 't', '{\"h\": 1}',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'Placed',
        content_type => 'application/json', \"partition\" => 3)";
    let id = text(&mut client, sql);
    let row =
        "SELECT concat_ws('|', id, topic, payload, idempotency_key, ordering_key, tenant, headers,
        traceparent, type, content_type, \"partition\") FROM outbox WHERE id = ";
    let expect = format!(
        "{id}|orders|{{\"b\": 1,  \"a\": 2}}|k|o|t|{{\"h\": 1}}|\
         00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01|Placed|application/json|3"
    );
    assert_eq!(text(&mut client, &format!("{row}{id}")), expect);

    let id = text(&mut client, "SELECT postrider.enqueue('orders', NULL)");
    let key = format!("SELECT idempotency_key FROM outbox WHERE id = {id} AND payload IS NULL
        AND num_nulls(ordering_key, tenant, headers, traceparent, type, content_type, \"partition\") = 7");
    assert_eq!(text(&mut client, &key).len(), 36);
    let id = text(&mut client, "SELECT postrider.enqueue('orders', '1', tenant => 'shop')");
    let key = format!("SELECT idempotency_key FROM outbox WHERE id = {id}");
    let key = text(&mut client, &key);
    assert!(key.starts_with("shop/") && key.len() == 41, "{key}");
    // A column of JSON takes bytes that are JSON.
    let id = text(&mut client, "SELECT postrider.enqueue_bytes('orders', '\\x7b7d')");
    let payload = format!("SELECT payload::text FROM outbox WHERE id = {id}");
    assert_eq!(text(&mut client, &payload), "{}");
}

#[test]
fn a_repeated_event_returns_the_first_id_and_another_topic_is_a_new_event() {
    let fixture = Fixture::new(BINARY, "again");
    let mut client = fixture.client();
    let first = text(&mut client, "SELECT postrider.enqueue('orders', '1', 'k')");
    assert_eq!(text(&mut client, "SELECT postrider.enqueue('orders', '2', 'k')"), first);
    assert_eq!(text(&mut client, "SELECT postrider.enqueue_bytes('orders', '3', 'k')"), first);
    assert_ne!(text(&mut client, "SELECT postrider.enqueue('mails', '1', 'k')"), first);
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 2);
    assert_eq!(text(&mut client, "SELECT payload::text FROM outbox WHERE topic = 'orders'"), "1");

    // In one transaction, which continues.
    let mut transaction = client.transaction().unwrap();
    let sql = "SELECT postrider.enqueue('orders', '1', 'l')";
    let one: String = transaction.query_one(sql, &[]).unwrap().get(0);
    let two: String = transaction.query_one(sql, &[]).unwrap().get(0);
    assert_eq!(one, two);
    transaction.batch_execute("CREATE TABLE business (id int)").unwrap();
    transaction.commit().unwrap();
    // Once its row is deleted, the same key is a new event.
    client.batch_execute("DELETE FROM outbox").unwrap();
    assert_ne!(text(&mut client, "SELECT postrider.enqueue('orders', '1', 'k')"), first);
}

#[test]
fn a_rolled_back_event_was_never_written() {
    let fixture = Fixture::new(BINARY, "rollback");
    let mut client = fixture.client();
    let sql = "SELECT postrider.enqueue('orders', '1', 'k')";
    client.batch_execute(&format!("BEGIN; {sql}; ROLLBACK")).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 0);
    client
        .batch_execute(&format!("BEGIN; SAVEPOINT s; {sql}; ROLLBACK TO s; {sql}; COMMIT"))
        .unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 1);
}

#[test]
fn an_unpublishable_event_is_refused_with_a_hint() {
    let fixture = Fixture::new(BINARY, "refused");
    let mut client = fixture.client();
    let mut check = |arguments: &str, what: &str, hint: &str| {
        for function in ["enqueue", "enqueue_bytes"] {
            let sql = format!("SELECT postrider.{function}({arguments})");
            let message = refused(&mut client, &sql, "22023");
            assert!(message.starts_with(what), "{sql}: {message}");
            assert!(message.contains(hint), "{sql}: {message}");
        }
    };
    check("NULL, '1'", "topic is missing", "name the Kafka topic");
    for topic in ["", ".", "..", "a b", "ü", "a\n", &"x".repeat(250)] {
        check(&format!("'{topic}', '1'"), "topic \"", "use 1 to 249 of");
    }
    check("'t', '1', ''", "idempotency_key is empty", "one is generated");
    check("'t', '1', repeat('é', 257)", "idempotency_key has 514 bytes", "digest");
    check("'t', '1', tenant => ''", "tenant is empty", "leave it out");
    check("'t', '1', tenant => repeat('t', 256)", "tenant has 256 bytes", "255");
    for headers in ["[1]", "\"x\"", "7", "null"] {
        let arguments = format!("'t', '1', headers => '{headers}'");
        check(&arguments, "headers are not a JSON object", "for example");
    }
    for name in ["", "id", "idempotency-key"] {
        let arguments = format!("'t', '1', headers => '{{\"a\": 1, \"{name}\": 2}}'");
        check(&arguments, "headers can't have the name", "the event's own");
    }
    for traceparent in [
        "",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    ] {
        let arguments = format!("'t', '1', traceparent => '{traceparent}'");
        check(&arguments, "traceparent is not a W3C trace context", "for example 00-");
    }
    check("'t', '1', \"partition\" => -1", "partition is -1", "count from 0");
    for text in ["ordering_key", "type", "content_type"] {
        let arguments = format!("'t', '1', {text} => repeat('x', 65537)");
        check(&arguments, &format!("{text} has 65537 bytes"), "64 KiB");
    }
    let long = "'cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-' || repeat('x', 65536)";
    check(&format!("'t', '1', traceparent => {long}"), "traceparent has 65592 bytes", "64 KiB");
    let large = "json_build_object('a', repeat('x', 1048576))";
    check(&format!("'t', '1', headers => {large}"), "headers have 1048586 bytes", "1 MiB");
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 0);
}

#[test]
fn errors_do_not_show_payloads() {
    let fixture = Fixture::new(BINARY, "secrets");
    let mut client = fixture.client();
    let large = "SELECT postrider.enqueue('t', to_json(repeat('s', 16 * 1024 * 1024)))";
    assert!(refused(&mut client, large, "22023").starts_with("payload has 16777218 bytes"));
    for bytes in ["secret", "\\xff00"] {
        let sql = format!("SELECT postrider.enqueue_bytes('t', '{bytes}')");
        let error = client.batch_execute(&sql).unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "22023");
        let all = format!("{error:?}");
        assert!(!all.contains("secret") && !all.contains("0xff"), "{all}");
    }
}

#[test]
fn a_new_event_is_distinguished_from_an_existing_one() {
    let fixture = Fixture::new(BINARY, "is_new");
    let mut client = fixture.client();
    let mut ask = |sql: &str| -> (String, bool) {
        let row = client.query_one(sql, &[]).unwrap();
        (row.get("id"), row.get("is_new"))
    };
    let sql = "SELECT * FROM postrider.enqueue_new('orders', '1', 'k')";
    let (first, is_new) = ask(sql);
    assert!(is_new);
    assert_eq!(ask(sql), (first.clone(), false));
    let bytes = "SELECT * FROM postrider.enqueue_new_bytes('orders', '3', 'k')";
    assert_eq!(ask(bytes), (first.clone(), false));
    let other = "SELECT * FROM postrider.enqueue_new(topic => 'mails', payload => '1',
        idempotency_key => 'k', ordering_key => 'o', tenant => 't', headers => '{\"h\": 1}',
        traceparent => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', type => 'e',
        outbox => 'outbox', content_type => 'c', \"partition\" => 1)";
    let (second, is_new) = ask(other);
    assert!(is_new && second != first);
    // Without a key every event is new.
    let generated = "SELECT * FROM postrider.enqueue_new('orders', '1')";
    let (one, two) = (ask(generated), ask(generated));
    assert!(one.1 && two.1 && one.0 != two.0);
    // An event whose first writer rolled back is new for the second.
    let mut client = fixture.client();
    let sql = "SELECT is_new FROM postrider.enqueue_new('orders', '1', 'l')";
    client.batch_execute(&format!("BEGIN; {sql}; ROLLBACK")).unwrap();
    assert!(client.query_one(sql, &[]).unwrap().get::<_, bool>(0));
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 5);
}
