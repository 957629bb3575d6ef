//! What postrider.emit refuses before anything is written.

use super::fixture;

#[test]
fn unpublishable_arguments_are_refused_by_name() {
    let fixture = fixture("message_refused");
    let mut client = fixture.client();
    let mut check = |call: &str, what: &str| {
        let sql = format!("SELECT postrider.{call}");
        let error = client.execute(&sql, &[]).expect_err(call);
        let error = error.as_db_error().expect("an error of the database");
        assert_eq!(error.code().code(), "22023", "{call}: {error}");
        assert!(error.message().contains(what), "{what:?} is not in {:?}", error.message());
        assert!(error.hint().is_some(), "{call}: no hint");
        let text = format!("{error:?}");
        assert!(!text.contains("s3cret"), "the payload is in {text}");
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
    for name in ["ordering_key", "type", "content_type"] {
        let call = format!("emit('t', '{{}}', {name} => repeat('x', 65537))");
        check(&call, &format!("{name} has 65537 bytes"));
    }
}

#[test]
fn a_refused_event_is_an_error_like_any_other() {
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

#[test]
fn one_bad_event_refuses_the_batch_and_is_named() {
    let mut fixture = fixture("batch_refused");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let mut check = |call: &str, what: &str, hint: &str| {
        let error = client.execute(&format!("SELECT postrider.{call}"), &[]).expect_err(call);
        let error = error.as_db_error().expect("an error of the database");
        assert_eq!(error.code().code(), "22023", "{call}: {error}");
        assert!(error.message().starts_with(what), "{what:?} is not {:?}", error.message());
        assert!(error.hint().is_some_and(|it| it.contains(hint)), "{call}: {:?}", error.hint());
        assert!(!format!("{error:?}").contains("s3cret"), "the payload is in {error:?}");
    };
    let secret = "{\"\\\"s3cret\\\"\",2,3}";
    let names = "use 1 to 249";
    check(
        &format!("emit_batch('{{a,b c,d e}}', '{secret}')"),
        "event 2 of 3: topic \"b c\"",
        names,
    );
    check("emit_batch('{a,NULL}', '{1,2}')", "event 2 of 2: topic is missing", "name the Kafka");
    check("emit_batch('{a,b}', '{1,2}', '{x,\"\"}')", "event 2 of 2: idempotency_key is empty", "");
    check("emit_batch('{a}', '{1}', tenants => '{\"\"}')", "event 1 of 1: tenant is empty", "");
    check("emit_batch('{a}', '{1}', headers => '{[1]}')", "event 1 of 1: headers are not", "");
    check("emit_batch('{a}', '{1}', traceparents => '{x}')", "event 1 of 1: traceparent is", "00-");
    for name in ["ordering_key", "type", "content_type"] {
        let long = "ARRAY['x', repeat('x', 65537)]";
        let call = format!("emit_batch('{{a,b}}', '{{1,2}}', {name}s => {long})");
        check(&call, &format!("event 2 of 2: {name} has 65537 bytes"), "at most 64 KiB");
    }
    check(
        "emit_batch('{a,b}', '{1,2}', partitions => '{0,-1}')",
        "event 2 of 2: partition is -1",
        "",
    );
    let lengths = "the arrays differ in length";
    check("emit_batch('{a,b}', '{1}')", lengths, "one element per event");
    check("emit_batch('{a,b}', '{1,2}', tenants => '{x}')", lengths, "one element per event");
    check("emit_batch_bytes('{a,b}', NULL)", lengths, "one element per event");
    let bytes = "convert_to(repeat('s3cret  ', 2097152), 'UTF8')";
    let large = "put large things elsewhere";
    check(
        &format!("emit_batch_bytes('{{a,b}}', ARRAY['1', {bytes}])"),
        "event 2 of 2: the event has 16777",
        large,
    );
    check(
        &format!("emit_batch_bytes('{{a,b}}', ARRAY[{bytes} || {bytes}, '1'])"),
        "event 1 of 2: payload has 33554432 bytes",
        large,
    );
    let none = "SELECT postrider.emit_batch('{}', '{}'), postrider.emit_batch_bytes(NULL, NULL)";
    let row = client.query_one(none, &[]).unwrap();
    assert_eq!((row.get::<_, Vec<String>>(0).len(), row.get::<_, Vec<String>>(1).len()), (0, 0));
    // None of it is in the WAL.
    let last = super::emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(super::SOON);
    assert_eq!(fixture.consumer().read_n(1, super::SOON)[0].id(), last);
    assert_eq!(fixture.consumer().end_offsets(&topic), [1]);
    let sql = "SELECT count(*) FROM postrider.undelivered";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 0);
}
