//! Columns that are larger than any event should need.

use super::{BINARY, SOON, wait_statuses, with_fast_poller, write};
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;

/// The row itself arrives in one piece; none of it may be copied.
const BLOB: i64 = 200_000_000;
const MEMORY_MAX: u64 = 256 << 20;

#[test]
fn headers_that_fill_the_memory_are_parked_without_being_copied() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "oversized"));
    let topic = fixture.create_topic("events", 1, &[]);
    let mut client = fixture.client();
    // A table of another owner, without our limits.
    let sql = "DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT conname FROM pg_constraint
            WHERE conrelid = 'public.outbox'::regclass AND contype = 'c' LOOP
          EXECUTE format('ALTER TABLE public.outbox DROP CONSTRAINT %I', name);
        END LOOP; END $$";
    client.batch_execute(sql).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, payload, headers)
        VALUES ($1, '{}', json_build_object('blob', repeat('x', $2::bigint::int)))";
    client.execute(sql, &[&topic, &BLOB]).unwrap();
    let good = write(&fixture, &topic, None, "{}");
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), good);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 1)]);
    let sql = "SELECT reason, form, row_id, octet_length(headers::text) FROM postrider.undelivered";
    let row = client.query_one(sql, &[]).unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), ("too-large", "fragment", "1"));
    assert_eq!(row.get::<_, i32>(3), 2);
    let peak = fixture.relay().peak_rss_bytes();
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
}

#[test]
fn a_table_made_by_migrate_refuses_oversized_columns() {
    let fixture = Fixture::new(BINARY, "oversized_refused");
    for column in ["ordering_key", "type", "content_type", "tenant", "traceparent"] {
        let sql =
            format!("INSERT INTO public.outbox (topic, {column}) SELECT 't', repeat('x', 65537)");
        let error = fixture.client().batch_execute(&sql).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{column}: {error}");
    }
    let sql = "INSERT INTO public.outbox (topic, headers)
        SELECT 't', json_build_object('a', repeat('x', 1048576))";
    let error = fixture.client().batch_execute(sql).unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{error}");
}
