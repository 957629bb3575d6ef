//! Rows of a table as messages of the log, decoded from COPY's binary format
//! (<https://www.postgresql.org/docs/current/sql-copy.html>): values have the same binary form in
//! both.

use crate::session_end::SessionEnd;
use std::pin::Pin;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use tokio_postgres::{Client, CopyOutStream, Error};

use super::table::{Reading, Table};
use postrider_core::pgoutput::PgTime;

const SIGNATURE: &[u8] = b"PGCOPY\n\xFF\r\n\0";
/// The signature, flags, and the length of what may follow them.
const HEADER_BYTES: usize = 11 + 4 + 4;
const TRAILER: &[u8] = &[0xFF, 0xFF];
/// How many bytes are read at a time, if that many have arrived.
const READ_BYTES: usize = 256 * 1024;
/// Columns after those of the log.
const EXTRA: usize = 2;

/// COPY sent something that it should not send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("COPY sent {0}")]
pub(crate) struct CopyFault(&'static str);

/// Reading again would bring the same.
impl From<CopyFault> for SessionEnd {
    fn from(fault: CopyFault) -> Self {
        SessionEnd::violation(fault)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRow {
    /// An insert, as the log has it.
    pub message: Bytes,
    /// When it was created, if the table has that.
    pub created_at: Option<PgTime>,
    /// The leading value of the order.
    pub leading: Option<i64>,
}

/// The rows of a table, as they arrive.
pub(crate) struct Rows {
    stream: Pin<Box<CopyOutStream>>,
    parser: Parser,
    is_over: bool,
}

impl Rows {
    /// Requests the rows. The client must not be used for anything else until they are read.
    pub(crate) async fn ask(
        client: &Client,
        table: &Table,
        reading: &Reading<'_>,
    ) -> Result<Self, Error> {
        let stream = client.copy_out(&table.copy(reading)).await?;
        let as_text = table.columns.iter().map(|(_, as_text)| *as_text).collect();
        let parser = Parser { relation: table.id, as_text, buffer: BytesMut::new(), begun: false };
        Ok(Rows { stream: Box::pin(stream), parser, is_over: false })
    }

    /// Whether the server has sent the last row; it may still wait here.
    pub(crate) fn is_received(&self) -> bool {
        self.is_over
    }

    /// Whether the last row was returned. Only then is a table done: the end usually arrives
    /// together with the last rows.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_over && self.parser.begun && self.parser.buffer == TRAILER
    }

    /// Waits for more rows. Cancel safe.
    pub(crate) async fn fill(&mut self) -> Result<(), Error> {
        let mut next = self.stream.next().await;
        loop {
            match next {
                None => self.is_over = true,
                Some(bytes) => self.parser.buffer.extend_from_slice(&bytes?),
            }
            if self.is_over || self.parser.buffer.len() >= READ_BYTES {
                return Ok(());
            }
            match self.stream.next().now_or_never() {
                Some(more) => next = more,
                None => return Ok(()),
            }
        }
    }

    /// The next row that has arrived completely.
    pub(crate) fn pop(&mut self) -> Result<Option<TableRow>, CopyFault> {
        let row = self.parser.pop()?;
        match row {
            None if self.is_over && self.parser.buffer != TRAILER => {
                Err(CopyFault("an end in the middle of a row"))
            }
            row => Ok(row),
        }
    }
}

struct Parser {
    relation: u32,
    as_text: Vec<bool>,
    buffer: BytesMut,
    begun: bool,
}

impl Parser {
    fn pop(&mut self) -> Result<Option<TableRow>, CopyFault> {
        if !self.begun && !self.skip_header()? {
            return Ok(None);
        }
        let Some(bytes) = self.row_bytes()? else { return Ok(None) };
        let mut row = self.buffer.split_to(bytes);
        row.advance(2);
        let mut message = BytesMut::with_capacity(8 + bytes + self.as_text.len());
        message.put_u8(b'I');
        message.put_u32(self.relation);
        message.put_u8(b'N');
        message.put_u16(u16::try_from(self.as_text.len()).unwrap_or(u16::MAX));
        for as_text in &self.as_text {
            match value(&mut row)? {
                None => message.put_u8(b'n'),
                Some(value) => {
                    message.put_u8(if *as_text { b't' } else { b'b' });
                    message.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
                    message.put_slice(&value);
                }
            }
        }
        let created_at = number(value(&mut row)?)?;
        // -infinity and infinity are not times.
        let created_at = created_at.filter(|at| *at != i64::MIN && *at != i64::MAX).map(PgTime);
        let leading = number(value(&mut row)?)?;
        Ok(Some(TableRow { message: message.freeze(), created_at, leading }))
    }

    fn skip_header(&mut self) -> Result<bool, CopyFault> {
        let Some(header) = self.buffer.get(..HEADER_BYTES) else { return Ok(false) };
        if !header.starts_with(SIGNATURE) || !header.ends_with(&[0; 4]) {
            return Err(CopyFault("an unknown header"));
        }
        self.buffer.advance(HEADER_BYTES);
        self.begun = true;
        Ok(true)
    }

    /// How many bytes the next row has, if it has arrived completely.
    fn row_bytes(&self) -> Result<Option<usize>, CopyFault> {
        let mut rest: &[u8] = &self.buffer;
        let Ok(count) = rest.try_get_i16() else { return Ok(None) };
        if count == -1 {
            return Ok(None);
        }
        if usize::try_from(count) != Ok(self.as_text.len() + EXTRA) {
            return Err(CopyFault("a row with an unexpected number of columns"));
        }
        for _ in 0..count {
            let Ok(length) = rest.try_get_i32() else { return Ok(None) };
            let length = usize::try_from(length).unwrap_or(0);
            if rest.len() < length {
                return Ok(None);
            }
            rest.advance(length);
        }
        Ok(Some(self.buffer.len() - rest.len()))
    }
}

fn value(row: &mut BytesMut) -> Result<Option<BytesMut>, CopyFault> {
    let length = row.try_get_i32().map_err(|_| CopyFault("a truncated row"))?;
    match usize::try_from(length) {
        Err(_) => Ok(None),
        Ok(length) if length <= row.len() => Ok(Some(row.split_to(length))),
        Ok(_) => Err(CopyFault("a truncated row")),
    }
}

fn number(value: Option<BytesMut>) -> Result<Option<i64>, CopyFault> {
    let read = |mut value: BytesMut| value.try_get_i64();
    value.map(read).transpose().map_err(|_| CopyFault("a number of fewer than 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::pgoutput::{Message, TupleValue, decode};

    fn parser() -> Parser {
        Parser { relation: 7, as_text: vec![false, true], buffer: BytesMut::new(), begun: false }
    }

    fn sent(rows: &[[Option<&[u8]>; 4]]) -> BytesMut {
        let mut bytes = BytesMut::from(SIGNATURE);
        bytes.put_slice(&[0; 8]);
        for row in rows {
            bytes.put_i16(4);
            for value in row {
                bytes.put_i32(value.map_or(-1, |value| value.len() as i32));
                bytes.put_slice(value.unwrap_or_default());
            }
        }
        bytes.put_i16(-1);
        bytes
    }

    #[test]
    fn rows_come_as_inserts_however_they_are_cut() {
        let time = 5_i64.to_be_bytes();
        let rows = [
            [Some(&b"a"[..]), Some(b"text"), Some(&time), Some(&time)],
            [None, Some(b""), None, None],
        ];
        let all = sent(&rows);
        for cut in 0..all.len() {
            let mut parser = parser();
            let mut popped = Vec::new();
            for part in [&all[..cut], &all[cut..]] {
                parser.buffer.extend_from_slice(part);
                while let Some(row) = parser.pop().unwrap() {
                    popped.push(row);
                }
            }
            assert_eq!(popped.len(), 2, "cut at {cut}");
            assert_eq!((popped[0].created_at, popped[0].leading), (Some(PgTime(5)), Some(5)));
            assert_eq!((popped[1].created_at, popped[1].leading), (None, None));
            let Message::Insert { relation: 7, row } = decode(&popped[0].message).unwrap() else {
                panic!("not an insert")
            };
            let values: Vec<_> = row.values().map(Result::unwrap).collect();
            assert_eq!(values, [TupleValue::Binary(b"a"), TupleValue::Text(b"text")]);
        }
    }

    #[test]
    fn what_is_no_row_is_an_error() {
        let check = |bytes: &[u8]| {
            let mut parser = parser();
            parser.buffer.extend_from_slice(bytes);
            assert!(parser.pop().is_err(), "{bytes:?}");
        };
        check(&[b'x'; HEADER_BYTES]);
        let mut other = sent(&[]);
        other.truncate(HEADER_BYTES);
        other.put_i16(3);
        check(&other);
    }
}
