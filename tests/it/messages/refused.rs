//! What postrider.emit refuses, before anything is written.

use super::fixture;

#[test]
fn arguments_that_can_not_be_published_are_refused_by_name() {
    let fixture = fixture("message_refused");
    let mut client = fixture.client();
    let mut check = |call: &str, what: &str| {
        let sql = format!("SELECT postrider.{call}");
        let error = client.execute(&sql, &[]).expect_err(call);
        let error = error.as_db_error().expect("an error of the database");
        assert_eq!(error.code().code(), "22023", "{call}: {error}");
        assert!(error.message().contains(what), "{what:?} is not in {:?}", error.message());
        assert!(error.hint().is_some(), "{call}: no hint");
        let said = format!("{error:?}");
        assert!(!said.contains("s3cret"), "the payload is in {said}");
    };
    check("emit(NULL, '\"s3cret\"')", "topic is missing");
    for topic in ["''", "'.'", "'..'", "'a b'", "'ü'", "repeat('t', 250)", "E't\\n'"] {
        check(&format!("emit({topic}, '\"s3cret\"')"), "is not a name that Kafka takes");
    }
    check("emit('t', '\"s3cret\"', '')", "idempotency_key is empty");
    check("emit('t', '{}', repeat('ü', 257))", "idempotency_key has 514 bytes");
    check("emit('t', '{}', tenant => repeat('x', 256))", "tenant has 256 bytes");
    check("emit('t', '\"s3cret\"', headers => '[1]')", "headers are not a JSON object");
    check("emit('t', '{}', headers => 'null')", "headers are not a JSON object");
    for traceparent in [
        "''",
        "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'",
        "'00-00000000000000000000000000000000-b7ad6b7169203331-01'",
        "'00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'",
        "'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'",
        "'00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'",
    ] {
        check(&format!("emit('t', '{{}}', traceparent => {traceparent})"), "traceparent is not");
    }
    check("emit('t', '{}', \"partition\" => -1)", "partition is -1");
    let bytes = "convert_to(repeat('s3cret  ', 2097152), 'UTF8')";
    check(&format!("emit_bytes('t', {bytes})"), "the event has 16777");
    check(&format!("emit_bytes('t', {bytes} || {bytes})"), "payload has 33554432 bytes");
    check("emit('t', '{}', ordering_key => repeat('x', 16777216))", "the event has 16777");
}

#[test]
fn a_refused_event_is_like_any_error() {
    let mut fixture = fixture("message_savepoint");
    let topic = fixture.create_topic("orders", 1, &[]);
    let sql = format!(
        "BEGIN;
         SELECT postrider.emit('{topic}', '1');
         DO $$ BEGIN PERFORM postrider.emit('no topic', '2'); EXCEPTION WHEN others THEN END $$;
         SELECT postrider.emit('{topic}', '3');
         COMMIT"
    );
    fixture.client().batch_execute(&sql).unwrap();
    fixture.start_relay().wait_ready(super::SOON);
    let records = fixture.consumer().read_n(2, super::SOON);
    let values: Vec<_> = records.iter().filter_map(|record| record.value_text()).collect();
    assert_eq!(values, ["1", "3"]);
}
