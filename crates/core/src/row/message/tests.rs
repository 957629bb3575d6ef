//! Messages as they come, whole and damaged.

use proptest::prelude::*;

use super::*;
use crate::event::Event;
use crate::pgoutput::tests::Bytes;
use crate::row::RowFault;
use crate::row::tests::position;
use crate::row::tests::rules;

fn event<T>(content: &[u8], look: impl FnOnce(Result<Event<'_>, RowFault>) -> T) -> T {
    let row = Row::of_message(&Layout::of_messages(3), content, position(0), PgTime(0));
    assert_eq!(row.table, 3);
    look(Event::from_row(&row, &rules()))
}

fn content(values: &[Option<&str>]) -> Vec<u8> {
    let mut bytes = Bytes::of(VERSION).i16(values.len() as i16);
    for value in values {
        bytes = match value {
            None => bytes.u8(b'n'),
            Some(text) => bytes.value(b't', text.as_bytes()),
        };
    }
    bytes.0
}

fn full() -> Vec<u8> {
    let values = ["id", "topic", "payload", "i", "o", "type", "c", "tenant", "7", "{}", "trace"];
    content(&values.map(Some))
}

#[test]
fn every_value_has_its_place() {
    event(&full(), |event| {
        let event = event.unwrap();
        assert_eq!((event.topic.as_ref(), event.partition), ("topic", Some(7)));
        assert_eq!(event.payload.as_deref(), Some(&b"payload"[..]));
        assert_eq!(event.headers.as_deref(), Some(&b"{}"[..]));
        let texts = [
            (&event.id, "id"),
            (&event.idempotency_key, "i"),
            (&event.event_type, "type"),
            (&event.content_type, "c"),
            (&event.tenant, "tenant"),
            (&event.traceparent, "trace"),
        ];
        for (value, expect) in texts {
            assert_eq!(value.as_deref(), Some(expect));
        }
        assert_eq!(event.ordering_key(), Some("o"));
    });
    let mut values = [None; 11];
    values[1] = Some("topic");
    event(&content(&values), |event| assert_eq!(event.unwrap().payload, None));
}

#[test]
fn what_is_no_event_says_why() {
    let check = |content: &[u8], expect: MessageFault| {
        event(content, |event| {
            assert_eq!(event.unwrap_err(), RowFault::Malformed(expect));
        });
    };
    check(b"", MessageFault::Empty);
    check(b"hello", MessageFault::Version(b'h'));
    let count = |found| MessageFault::Content(DecodeError::ColumnCount { announced: 11, found });
    check(&content(&[Some("id")]), count(1));
    check(&[VERSION, 0x7F, 0xFF], count(0x7FFF));
    let (field, value) = ("column count", -1);
    let negative = DecodeError::Negative { field, value };
    check(&[VERSION, 0xFF, 0xFF], MessageFault::Content(negative));
    let longer = [full().as_slice(), b"x"].concat();
    check(&longer, MessageFault::Content(DecodeError::TrailingBytes(1)));
    let huge = vec![VERSION; MESSAGE_BYTES_MAX + 1];
    check(&huge, MessageFault::TooLarge(huge.len()));
    // Well formed, but nothing to publish: a fault like any row's.
    event(&content(&[None; 11]), |event| {
        assert_eq!(event.unwrap_err(), RowFault::Null(Column::Topic));
    });
}

/// What the events of a pack are: topics, or what is wrong with the bytes that are one event.
fn unpack(content: &[u8]) -> Vec<Result<String, (MessageFault, Vec<u8>)>> {
    let layout = Layout::of_messages(3);
    let mut rest = pack(content).expect("a pack");
    let mut found = Vec::new();
    while !rest.is_empty() {
        let position = position(found.len() as u64);
        let (row, bytes) = Row::of_pack(&layout, rest, position, PgTime(0));
        assert_eq!(row.position, position);
        // What is kept of an event is read again as the same.
        let again = Row::of_pack(&layout, &rest[..bytes], position, PgTime(0));
        assert_eq!(again, (row.clone(), bytes));
        found.push(match Event::from_row(&row, &rules()) {
            Err(RowFault::Malformed(fault)) => {
                Err((fault, row.bytes(Column::Payload).unwrap().unwrap().into_owned()))
            }
            event => Ok(event.map_or_else(|fault| fault.to_string(), |it| it.topic.into_owned())),
        });
        rest = &rest[bytes..];
    }
    found
}

fn topics(topics: &[&str]) -> Vec<u8> {
    let mut pack = vec![PACK_VERSION];
    for topic in topics {
        let mut values = [None; 11];
        values[1] = Some(*topic);
        pack.extend_from_slice(&content(&values)[1..]);
    }
    pack
}

#[test]
fn a_pack_holds_any_number_of_events() {
    let ok = |topic: &str| Ok(topic.to_owned());
    assert_eq!(unpack(&topics(&["a"])), [ok("a")]);
    assert_eq!(unpack(&topics(&["a", "b", "c"])), [ok("a"), ok("b"), ok("c")]);
    // Values that can't be are the fault of one event.
    let nothing = &content(&[None; 11])[1..];
    let found = unpack(&[&topics(&["a"]), nothing, &topics(&["b"])[1..]].concat());
    assert_eq!((&found[0], &found[2], found.len()), (&ok("a"), &ok("b"), 3));
    assert_eq!(pack(&full()), None);
    // A pack without events is not a pack, but must not be skipped either.
    assert_eq!(pack(&[PACK_VERSION]), None);
    event(&[PACK_VERSION], |event| {
        assert_eq!(event.unwrap_err(), RowFault::Malformed(MessageFault::Empty));
    });
}

#[test]
fn from_the_damage_on_a_pack_is_one_event() {
    let check = |damaged: &[u8], expect: MessageFault| {
        let found = unpack(&[&topics(&["a", "b"]), damaged].concat());
        let ok = |topic: &str| Ok(topic.to_owned());
        assert_eq!(found, [ok("a"), ok("b"), Err((expect, damaged.to_vec()))]);
    };
    let good = &topics(&["c"])[1..];
    let truncated =
        |field, wanted, left| MessageFault::Content(DecodeError::Truncated { field, wanted, left });
    check(&[0], truncated("column count", 2, 1));
    check(&good[..good.len() - 1], truncated("value kind", 1, 0));
    let (field, tag) = ("value kind", 0);
    let unknown = MessageFault::Content(DecodeError::UnknownTag { field, tag });
    check(&[&[0, 11, 0], good].concat(), unknown);
    let count = DecodeError::ColumnCount { announced: 11, found: 0 };
    check(&[&[0, 0], good].concat(), MessageFault::Content(count));
    let huge = "x".repeat(MESSAGE_BYTES_MAX);
    let huge =
        &content(&[Some(&huge), None, None, None, None, None, None, None, None, None, None])[1..];
    check(&[huge, good].concat(), MessageFault::TooLarge(huge.len() + 1));
}

#[test]
fn every_cut_is_a_fault() {
    let full = full();
    for end in 0..full.len() {
        event(&full[..end], |event| {
            assert!(matches!(event, Err(RowFault::Malformed(_))), "cut at {end}: {event:?}");
        });
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
        let start: &[u8] = if ours { &[VERSION, 0, 11] } else { &[] };
        event(&[start, &bytes].concat(), |event| drop(event));
    }

    #[test]
    fn no_damaged_message_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = full();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        event(&bytes, |event| drop(event));
    }

    #[test]
    fn no_pack_panics_or_loses_bytes(
        bytes in prop::collection::vec(any::<u8>(), 1..300),
        good in 0..4usize,
    ) {
        let start = topics(&vec!["t"; good]);
        let found = unpack(&[start.as_slice(), &bytes].concat());
        prop_assert!(found.len() > good);
        // Only the last can be something else than an event.
        prop_assert!(found.iter().rev().skip(1).all(Result::is_ok));
    }

    #[test]
    fn no_damaged_pack_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = topics(&["one", "two", "three"]);
        let events = bytes.len() - 1;
        for (place, byte) in damage {
            bytes[1 + place.index(events)] = byte;
        }
        unpack(&bytes);
    }
}
