//! Every message by its bytes, every way a message can be cut, and any bytes at all.

use proptest::prelude::*;

use super::*;
use crate::lsn::Lsn;

/// Writes messages as a server would.
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn of(tag: u8) -> Self {
        Bytes(vec![tag])
    }
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    pub fn u8(self, n: u8) -> Self {
        self.raw(&[n])
    }
    pub fn i16(self, n: i16) -> Self {
        self.raw(&n.to_be_bytes())
    }
    pub fn i32(self, n: i32) -> Self {
        self.raw(&n.to_be_bytes())
    }
    pub fn i64(self, n: i64) -> Self {
        self.raw(&n.to_be_bytes())
    }
    pub fn text(self, text: &str) -> Self {
        self.raw(text.as_bytes()).u8(0)
    }
    pub fn value(self, kind: u8, bytes: &[u8]) -> Self {
        self.u8(kind).i32(bytes.len() as i32).raw(bytes)
    }
}

fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("begin", Bytes::of(b'B').i64(0x10).i64(77).i32(9).0),
        ("commit", Bytes::of(b'C').u8(0).i64(0x10).i64(0x20).i64(77).0),
        ("origin", Bytes::of(b'O').i64(3).text("other").0),
        (
            "relation",
            Bytes::of(b'R')
                .i32(42)
                .text("public")
                .text("outbox")
                .u8(b'd')
                .i16(2)
                .u8(1)
                .text("id")
                .i32(20)
                .i32(-1)
                .u8(0)
                .text("topic")
                .i32(25)
                .i32(-1)
                .0,
        ),
        ("type", Bytes::of(b'Y').i32(7).text("public").text("mood").0),
        (
            "insert",
            Bytes::of(b'I')
                .i32(42)
                .u8(b'N')
                .i16(4)
                .u8(b'n')
                .u8(b'u')
                .value(b't', b"x")
                .value(b'b', &[1, 2])
                .0,
        ),
        ("update", Bytes::of(b'U').i32(42).u8(b'N').i16(1).value(b't', b"x").0),
        (
            "update with key",
            Bytes::of(b'U')
                .i32(42)
                .u8(b'K')
                .i16(1)
                .value(b't', b"k")
                .u8(b'N')
                .i16(1)
                .value(b't', b"x")
                .0,
        ),
        ("delete", Bytes::of(b'D').i32(42).u8(b'O').i16(1).value(b't', b"x").0),
        ("truncate", Bytes::of(b'T').i32(2).u8(3).i32(42).i32(43).0),
        ("message", Bytes::of(b'M').u8(1).i64(0x30).text("postrider").i32(3).raw(b"abc").0),
    ]
}

fn sample(name: &str) -> Vec<u8> {
    samples().into_iter().find(|(n, _)| *n == name).unwrap().1
}

/// Reads a message wholly, its rows too.
fn read(bytes: &[u8]) -> Result<String, DecodeError> {
    let message = decode(bytes)?;
    let rows = match &message {
        Message::Insert { row, .. } | Message::Update { row, old: None, .. } => vec![*row],
        Message::Update { old: Some(old), row, .. } => vec![*old, *row],
        Message::Delete { old, .. } => vec![*old],
        _ => vec![],
    };
    for row in rows {
        row.values().collect::<Result<Vec<_>, _>>()?;
    }
    Ok(format!("{message:?}"))
}

#[test]
fn messages_mean_what_the_manual_says() {
    let check = |name, expect| assert_eq!(decode(&sample(name)), Ok(expect), "{name}");
    let lsn = Lsn::new;
    let time = PgTime(77);
    check("begin", Message::Begin { commit_lsn: lsn(0x10), commit_time: time, xid: 9 });
    check(
        "commit",
        Message::Commit { commit_lsn: lsn(0x10), end_lsn: lsn(0x20), commit_time: time },
    );
    check("origin", Message::Origin { commit_lsn: lsn(3), name: "other" });
    let column =
        |flags, name, type_oid| RelationColumn { flags, name, type_oid, type_modifier: -1 };
    check(
        "relation",
        Message::Relation(Relation {
            id: 42,
            schema: "public",
            name: "outbox",
            replica_identity: b'd',
            columns: vec![column(1, "id", 20), column(0, "topic", 25)],
        }),
    );
    check("type", Message::Type { oid: 7, schema: "public", name: "mood" });
    check("truncate", Message::Truncate { tables: 2, options: 3 });
    check(
        "message",
        Message::Logical {
            transactional: true,
            lsn: lsn(0x30),
            prefix: b"postrider",
            content: b"abc",
        },
    );
}

#[test]
fn a_prefix_need_not_be_text() {
    let bytes = Bytes::of(b'M').u8(1).i64(0x30).raw(&[0xFF, 0]).i32(0).0;
    let Ok(Message::Logical { prefix, content: [], .. }) = decode(&bytes) else { panic!() };
    assert_eq!(prefix, [0xFF]);
}

#[test]
fn rows_give_their_values() {
    let values = |tuple: Tuple<'_>| format!("{:?}", tuple.values().collect::<Vec<_>>());
    let bytes = sample("insert");
    let Ok(Message::Insert { relation: 42, row }) = decode(&bytes) else { panic!() };
    assert_eq!(values(row), "[Ok(Null), Ok(UnchangedToast), Ok(Text([120])), Ok(Binary([1, 2]))]");
    let bytes = sample("update with key");
    let Ok(Message::Update { old: Some(old), row, .. }) = decode(&bytes) else { panic!() };
    assert_eq!(values(old), "[Ok(Text([107]))]");
    assert_eq!(values(row), "[Ok(Text([120]))]");
}

#[test]
fn every_cut_is_an_error() {
    for (name, bytes) in samples() {
        assert!(read(&bytes).is_ok(), "{name}");
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{name} cut at {end} was accepted");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(read(&longer).is_err(), "{name} with a byte too many was accepted");
    }
}

#[test]
fn breaches_have_names() {
    let check = |bytes: Vec<u8>, error| assert_eq!(read(&bytes), Err(error));
    check(vec![], DecodeError::Empty);
    check(vec![b'S', 0], DecodeError::UnknownMessage(b'S'));
    check(
        Bytes::of(b'I').i32(42).u8(b'K').i16(0).0,
        DecodeError::UnknownTag { field: "row kind", tag: b'K' },
    );
    check(
        Bytes::of(b'I').i32(42).u8(b'N').i16(-1).0,
        DecodeError::Negative { field: "column count", value: -1 },
    );
    check(
        Bytes::of(b'I').i32(42).u8(b'N').i16(1).u8(b't').i32(-5).0,
        DecodeError::Negative { field: "value length", value: -5 },
    );
    check(
        Bytes::of(b'I').i32(42).u8(b'N').i16(1).u8(b'x').0,
        DecodeError::UnknownTag { field: "value kind", tag: b'x' },
    );
    check(
        Bytes::of(b'O').i64(1).raw(b"no end").0,
        DecodeError::Unterminated { field: "origin name" },
    );
    check(Bytes::of(b'O').i64(1).raw(&[0xFF, 0]).0, DecodeError::NotUtf8 { field: "origin name" });
    check(
        Bytes::of(b'T').i32(i32::MAX).u8(0).0,
        DecodeError::Truncated { field: "relation id", wanted: 4, left: 0 },
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_damaged_message_panics(
        which in 0..11usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = samples()[which].1.clone();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn rows_survive_the_round_trip(
        values in prop::collection::vec(prop::option::of((any::<bool>(), prop::collection::vec(any::<u8>(), 0..50))), 0..20)
    ) {
        let mut bytes = Bytes::of(b'I').i32(1).u8(b'N').i16(values.len() as i16);
        for value in &values {
            bytes = match value {
                None => bytes.u8(b'n'),
                Some((binary, content)) => bytes.value(if *binary { b'b' } else { b't' }, content),
            };
        }
        let Ok(Message::Insert { row, .. }) = decode(&bytes.0) else { panic!() };
        let expect: Vec<_> = values
            .iter()
            .map(|value| match value {
                None => TupleValue::Null,
                Some((true, content)) => TupleValue::Binary(content),
                Some((false, content)) => TupleValue::Text(content),
            })
            .collect();
        prop_assert_eq!(row.values().collect::<Result<Vec<_>, _>>(), Ok(expect));
    }
}
