//! Which server this is, by the replication protocol: SQL has functions for it that a role might
//! not be allowed to call.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;

use super::auth::parse;
use super::connect::connect;
use super::error::ReplicationError;
use super::stream::refuse_errors;
use super::wire::Wire;
use crate::postgres::Server;
use crate::progress::Identity;
use postrider_core::lsn::Lsn;

/// Which server it is.
pub(crate) async fn identity(server: &Server) -> Result<Identity, ReplicationError> {
    let mut wire = connect(server, "UTF8", "postrider").await?;
    Ok(identify(&mut wire).await?.0)
}

/// The server, and the end of its log.
pub(super) async fn identify(wire: &mut Wire) -> Result<(Identity, Lsn), ReplicationError> {
    let mut message = BytesMut::new();
    frontend::query("IDENTIFY_SYSTEM", &mut message)?;
    wire.send(&message).await?;
    let texts = one_row(wire).await?;
    // systemid, timeline, xlogpos, dbname
    let [system_identifier, timeline, wal_end, ..] = texts.as_slice() else {
        return Err(unreadable());
    };
    let timeline = timeline.parse().map_err(|_| unreadable())?;
    let wal_end = wal_end.parse().map_err(|_| unreadable())?;
    Ok((Identity { system_identifier: system_identifier.clone(), timeline }, wal_end))
}

/// The row that a command returns; NULL as an empty text.
pub(super) async fn one_row(wire: &mut Wire) -> Result<Vec<String>, ReplicationError> {
    let mut found = Vec::new();
    loop {
        let frame = wire.next().await?;
        match frame.tag {
            b'D' => match parse(frame.tag, &frame.body)? {
                Message::DataRow(row) => found = texts(&row)?,
                _ => return Err(unreadable()),
            },
            // The row's description, and the end of the command.
            b'T' | b'C' => {}
            b'Z' => return Ok(found),
            _ => refuse_errors(&frame)?,
        }
    }
}

fn texts(row: &DataRowBody) -> Result<Vec<String>, ReplicationError> {
    let bytes = row.buffer();
    let mut texts = Vec::with_capacity(4);
    let mut ranges = row.ranges();
    while let Some(range) = ranges.next()? {
        let text = range.and_then(|range| bytes.get(range));
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        texts.push(text.unwrap_or_default().to_owned());
    }
    Ok(texts)
}

fn unreadable() -> ReplicationError {
    ReplicationError::Protocol("the answer to IDENTIFY_SYSTEM can't be read".into())
}
