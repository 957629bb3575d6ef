//! One message from its bytes.

use super::message::{Message, PgTime, Relation, RelationColumn};
use super::reader::{DecodeError, Reader};
use super::tuple::Tuple;

/// Decodes one message of protocol version 1, or a logical message.
pub fn decode(bytes: &[u8]) -> Result<Message<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let tag = reader.u8("message type").map_err(|_| DecodeError::Empty)?;
    let message = match tag {
        b'I' => insert(&mut reader)?,
        b'B' => begin(&mut reader)?,
        b'C' => commit(&mut reader)?,
        b'O' => origin(&mut reader)?,
        b'R' => relation(&mut reader)?,
        b'Y' => type_(&mut reader)?,
        b'U' => update(&mut reader)?,
        b'D' => delete(&mut reader)?,
        b'T' => truncate(&mut reader)?,
        b'M' => logical(&mut reader)?,
        other => return Err(DecodeError::UnknownMessage(other)),
    };
    reader.end()?;
    Ok(message)
}

fn begin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Begin {
        commit_lsn: reader.lsn("commit LSN")?,
        commit_time: PgTime(reader.i64("commit time")?),
        xid: reader.u32("transaction id")?,
    })
}

fn commit<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    match reader.u8("commit flags")? {
        0 => {}
        tag => {
            return Err(DecodeError::UnknownTag { field: "commit flags", tag });
        }
    }
    Ok(Message::Commit {
        commit_lsn: reader.lsn("commit LSN")?,
        end_lsn: reader.lsn("commit end LSN")?,
        commit_time: PgTime(reader.i64("commit time")?),
    })
}

fn origin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Origin {
        commit_lsn: reader.lsn("origin commit LSN")?,
        name: reader.string("origin name")?,
    })
}

fn relation<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let id = reader.u32("relation id")?;
    let schema = reader.string("schema name")?;
    let name = reader.string("table name")?;
    let replica_identity = reader.u8("replica identity")?;
    let columns = (0..reader.count16("column count")?)
        .map(|_| {
            Ok(RelationColumn {
                flags: reader.u8("column flags")?,
                name: reader.string("column name")?,
                type_oid: reader.u32("column type")?,
                type_modifier: reader.i32("type modifier")?,
            })
        })
        .collect::<Result<Vec<_>, DecodeError>>()?;
    Ok(Message::Relation(Relation { id, schema, name, replica_identity, columns }))
}

fn type_<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Type {
        oid: reader.u32("type OID")?,
        schema: reader.string("type schema")?,
        name: reader.string("type name")?,
    })
}

fn insert<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation id")?;
    new_row_follows(reader.u8("row kind")?)?;
    Ok(Message::Insert { relation, row: Tuple::last(reader)? })
}

fn update<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation id")?;
    let old = match reader.u8("row kind")? {
        b'K' | b'O' => {
            let old = Tuple::inner(reader)?;
            new_row_follows(reader.u8("row kind")?)?;
            Some(old)
        }
        tag => {
            new_row_follows(tag)?;
            None
        }
    };
    Ok(Message::Update { relation, old, row: Tuple::last(reader)? })
}

fn new_row_follows(tag: u8) -> Result<(), DecodeError> {
    match tag {
        b'N' => Ok(()),
        tag => Err(DecodeError::UnknownTag { field: "row kind", tag }),
    }
}

fn delete<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = reader.u32("relation id")?;
    match reader.u8("row kind")? {
        b'K' | b'O' => Ok(Message::Delete { relation, old: Tuple::last(reader)? }),
        tag => Err(DecodeError::UnknownTag { field: "row kind", tag }),
    }
}

fn truncate<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let tables = reader.length32("table count")?;
    let options = reader.u8("truncate options")?;
    for _ in 0..tables {
        reader.u32("relation id")?;
    }
    Ok(Message::Truncate { tables, options })
}

fn logical<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let transactional = match reader.u8("message flags")? {
        0 => false,
        1 => true,
        tag => {
            return Err(DecodeError::UnknownTag { field: "message flags", tag });
        }
    };
    let lsn = reader.lsn("message LSN")?;
    let prefix = reader.c_string("message prefix")?;
    let len = reader.length32("message length")?;
    let content = reader.bytes("message content", len)?;
    Ok(Message::Logical { transactional, lsn, prefix, content })
}
