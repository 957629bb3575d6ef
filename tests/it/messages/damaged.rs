//! Damaged packs, not written by postrider.emit_batch.

use super::content::{Values, content, event, pack};
use super::malformed::{SECRET, forge, wait_parked};
use super::{SOON, emit, fixture};
use crate::harness::halt::wait_halt;
use crate::harness::metrics::metric_sum;
use testkit::consumer::Received;
use testkit::fixture::Fixture;

/// The parked rows: their positions in the transaction, reasons and bytes.
#[track_caller]
fn parked(fixture: &Fixture) -> Vec<(i64, String, Vec<u8>)> {
    let sql = "SELECT ordinal, reason, value FROM postrider.undelivered ORDER BY commit_lsn, change_lsn, ordinal";
    let rows = fixture.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[test]
fn events_before_the_damage_are_published() {
    let mut fixture = fixture("pack_damaged");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let good = |name: &str| event(name, &topic, b"{}");
    let bare = event("last", &topic, SECRET).split_off(1);
    let damages: Vec<Vec<u8>> = vec![
        vec![0],
        SECRET.to_vec(),
        vec![0x7F, 0xFF],
        vec![0xFF, 0xFF],
        vec![0, 0],
        // A pack in a pack.
        pack(&[good("inner")]),
        bare[..bare.len() - 1].to_vec(),
        [&[0, 10, b'n'], bare.as_slice()].concat(),
        [&bare[..3], &[0x7F, 0xFF, 0xFF, 0xFF], &bare[7..]].concat(),
        [&bare[..3], &[0xFF, 0xFF, 0xFF, 0xFF], &bare[7..]].concat(),
    ];
    let mut expected = Vec::new();
    for (number, damage) in damages.iter().enumerate() {
        let (one, two) = (format!("{number}-1"), format!("{number}-2"));
        forge(&fixture, &[pack(&[good(&one), good(&two)]), damage.clone()].concat());
        expected.extend([one, two, emit(&fixture, &topic, None)]);
    }
    // Damaged from the beginning, and empty.
    forge(&fixture, &[2, 0]);
    forge(&fixture, &[2]);
    expected.push(emit(&fixture, &topic, None));
    let records = fixture.consumer().read_n(expected.len(), SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, expected);
    wait_parked(&fixture, damages.len() + 2);
    let malformed = |ordinal, bytes: &[u8]| (ordinal, "malformed".to_owned(), bytes.to_vec());
    let mut expect: Vec<_> = damages.iter().map(|damage| malformed(2, damage)).collect();
    expect.extend([malformed(0, &[0]), malformed(0, &[2])]);
    assert_eq!(parked(&fixture), expect);
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), 0.0);
    let secret = std::str::from_utf8(SECRET).unwrap();
    assert!(!fixture.relay().log().contains(secret));
}

#[test]
fn a_bad_event_among_good_ones_is_parked_alone() {
    let mut fixture = fixture("pack_bad");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let good = |name: &str| event(name, &topic, b"{}");
    let bad = |place: usize, value: Option<&[u8]>| {
        let mut values: Values<'_> = [None; 11];
        values[1] = Some(topic.as_bytes());
        values[2] = Some(b"{}");
        values[place] = value;
        content(&values)
    };
    forge(
        &fixture,
        &pack(&[
            good("a"),
            bad(1, None),
            bad(1, Some(b"not a topic!")),
            good("b"),
            bad(8, Some(b"-1")),
            bad(9, Some(b"[1]")),
            good("c"),
            bad(4, Some(&[0xC0, 0x80])),
        ]),
    );
    let last = emit(&fixture, &topic, None);
    let records = fixture.consumer().read_n(4, SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, ["a", "b", "c", &last]);
    wait_parked(&fixture, 5);
    let expect = [
        (1, "column-null"),
        (2, "illegal-topic"),
        (4, "bad-partition"),
        (5, "bad-headers"),
        (7, "column-unreadable"),
    ];
    let expect = expect.map(|(ordinal, reason)| (ordinal, reason.to_owned(), b"{}".to_vec()));
    assert_eq!(parked(&fixture), expect);
}

#[test]
fn with_halt_the_relay_stops_at_the_event_and_nothing_is_confirmed() {
    let mut fixture = fixture("pack_halt").halting();
    let topic = fixture.create_topic("orders", 1, &[]);
    forge(&fixture, &[pack(&[event("a", &topic, b"{}")]), SECRET.to_vec()].concat());
    let last = emit(&fixture, &topic, None);
    let end = "SELECT pg_current_wal_insert_lsn()::text";
    let end: String = fixture.client().query_one(end, &[]).unwrap().get(0);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("without a table") && log.contains("event 1)"), "{log}");
    // Writes of others before the event may be confirmed.
    let sql = "SELECT confirmed_flush_lsn < $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    let row = fixture.client().query_one(sql, &[&fixture.slot(), &end]).unwrap();
    assert!(row.get::<_, bool>(0), "the position has passed the event");
    fixture.unset("POSTRIDER_UNDELIVERED_ORDER");
    fixture.start_relay().wait_ready(SOON);
    let all = |records: &[Received]| {
        ["a", last.as_str()].iter().all(|id| records.iter().any(|record| record.id() == *id))
    };
    fixture.consumer().read_until(SOON, all);
    wait_parked(&fixture, 1);
}

#[test]
fn an_oversized_event_in_a_pack_is_not_copied() {
    let mut fixture = fixture("pack_too_large");
    let topic = fixture.create_topic("orders", 1, &[("max.message.bytes", "40000000")]);
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES", "40000000");
    fixture.start_relay().wait_ready(SOON);
    let large = event("large", &topic, &vec![b'x'; 17 << 20]);
    forge(&fixture, &pack(&[event("a", &topic, b"{}"), large]));
    let last = emit(&fixture, &topic, None);
    let records = fixture.consumer().read_n(2, SOON);
    assert_eq!((records[0].id(), records[1].id()), ("a", last.as_str()));
    wait_parked(&fixture, 1);
    let sql = "SELECT value IS NULL AND value_bytes > 17 << 20 FROM postrider.undelivered";
    assert!(fixture.client().query_one(sql, &[]).unwrap().get::<_, bool>(0));
}
