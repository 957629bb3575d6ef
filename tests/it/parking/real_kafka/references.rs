//! Values that are too large to be copied into the side table.

use super::super::{BINARY, SOON, wait_statuses, with_fast_poller};
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;

const VALUE_BYTES: i32 = 17 * 1024 * 1024;
const LIMIT: (&str, &str) = ("max.message.bytes", "33554432");

#[test]
fn a_value_above_the_bound_stays_in_the_outbox_and_is_delivered_from_there() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "reference"));
    let mut client = fixture.client();
    let drop_check = "ALTER TABLE public.outbox DROP CONSTRAINT outbox_payload_check";
    client.batch_execute(drop_check).unwrap();
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        VALUES ($1, 'k', to_json(left(repeat(md5('x'), $2 / 32 + 1), $2))) RETURNING id::text";
    let id: String = client.query_one(sql, &[&missing, &VALUE_BYTES]).unwrap().get(0);
    let small = super::super::write(&fixture, &missing, Some("k"), "{}");
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 2)]);
    let sql = "SELECT value IS NULL, form, value_bytes FROM postrider.undelivered
        WHERE row_id = $1";
    let row = client.query_one(sql, &[&id]).unwrap();
    let found: (bool, &str, i64) = (row.get(0), row.get(1), row.get(2));
    // Two quotation marks make it JSON.
    assert_eq!(found, (true, "reference", i64::from(VALUE_BYTES) + 2));

    fixture.create_topic("missing", 1, &[LIMIT]);
    let records = fixture.consumer().read_n(2, SOON);
    wait_statuses(&fixture, &[("delivered", 2)]);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, [id.as_str(), small.as_str()]);
    let sql = "SELECT payload::text FROM public.outbox WHERE id = $1::text::bigint";
    let payload: String = client.query_one(sql, &[&id]).unwrap().get(0);
    assert!(records[0].value_text() == Some(payload.as_str()), "not what was written");
}
