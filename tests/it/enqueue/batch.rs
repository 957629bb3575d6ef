//! Many events by one call.

use super::{BINARY, number, refused, text};
use testkit::fixture::Fixture;

#[test]
fn events_are_written_and_answered_in_order() {
    let fixture = Fixture::new(BINARY, "order");
    let mut client = fixture.client();
    for keys in ["NULL", "array_agg('k-' || n ORDER BY n)"] {
        client.batch_execute("TRUNCATE outbox").unwrap();
        let sql = format!(
            "SELECT array_to_string(postrider.enqueue_batch('outbox', array_agg('t' || n % 7 ORDER BY n),
                 array_agg(to_json(n) ORDER BY n), {keys}, array_agg('o-' || n % 3 ORDER BY n)), ',')
               FROM generate_series(1, 1000) AS n"
        );
        let ids = text(&mut client, &sql);
        let sql = "SELECT string_agg(id::text, ',' ORDER BY (payload::text)::int) FROM outbox";
        assert_eq!(text(&mut client, sql), ids);
        // Rows are in the table and in the log in the order of their numbers.
        let sql = "SELECT string_agg(payload::text, ',' ORDER BY ctid) = string_agg(payload::text, ',' ORDER BY id)
            AND string_agg(id::text, ',' ORDER BY ctid) = string_agg(id::text, ',' ORDER BY (payload::text)::int)
            FROM outbox";
        assert!(client.query_one(sql, &[]).unwrap().get::<_, bool>(0));
    }
}

#[test]
fn a_duplicate_gets_the_id_of_the_first() {
    let fixture = Fixture::new(BINARY, "twice");
    let mut client = fixture.client();
    let before = text(&mut client, "SELECT postrider.enqueue('t', '0', 'before')");
    let sql =
        "SELECT array_to_string(postrider.enqueue_batch('outbox', '{t,t,t,u,t,t}', '{1,2,3,4,5,6}',
        '{a,b,a,a,NULL,before}'), ',')";
    let ids = text(&mut client, sql);
    let ids: Vec<&str> = ids.split(',').collect();
    assert_eq!(ids.len(), 6);
    assert_eq!(ids[0], ids[2]);
    assert_eq!(ids[5], before);
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), 5);
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 5);
    let sql = "SELECT payload::text FROM outbox WHERE topic = 't' AND idempotency_key = 'a'";
    assert_eq!(text(&mut client, sql), "1");
    // The caller's transaction continues, and its earlier writes are kept.
    let mut transaction = client.transaction().unwrap();
    transaction.batch_execute("INSERT INTO outbox (topic) VALUES ('mine')").unwrap();
    transaction
        .query_one("SELECT postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{a,z}')", &[])
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 7);
}

#[test]
fn one_bad_event_refuses_the_batch_and_is_named() {
    let fixture = Fixture::new(BINARY, "bad");
    let mut client = fixture.client();
    let mut check = |arguments: &str, what: &str| {
        let sql = format!("SELECT postrider.enqueue_batch('outbox', {arguments})");
        let message = refused(&mut client, &sql, "22023");
        assert!(message.starts_with(what), "{sql}: {message}");
    };
    check("'{a,b c,d e}', '{1,2,3}'", "event 2 of 3: topic \"b c\"");
    check("'{a,b}', '{1,2}', '{x,\"\"}'", "event 2 of 2: idempotency_key is empty");
    check("'{a,NULL}', '{1,2}'", "event 2 of 2: topic is missing");
    check(
        "'{a}', ARRAY[to_json(repeat('x', 16777215))]",
        "event 1 of 1: payload has 16777217 bytes",
    );
    check("'{a,b}', '{1}'", "the arrays differ in length");
    check("'{a,b}', '{1,2}', tenants => '{x}'", "the arrays differ in length");
    check("'{a,b}', NULL", "the arrays differ in length");
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 0);
    let sql = "SELECT cardinality(postrider.enqueue_batch('outbox', '{}', '{}'))::bigint";
    assert_eq!(number(&mut client, sql), 0);
    let fits =
        "SELECT postrider.enqueue_batch('outbox', '{a}', ARRAY[to_json(repeat('x', 16777214))])";
    client.batch_execute(fits).unwrap();
}
