//! A cursor over bytes that can't be trusted.

use crate::lsn::Lsn;

/// Why bytes are not a pgoutput message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message is empty.
    #[error("the message is empty")]
    Empty,
    /// The message ends before the field does.
    #[error("the message ends inside {field}: {wanted} bytes wanted, {left} left")]
    Truncated {
        /// What was being read.
        field: &'static str,
        /// Bytes the field needs.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A string without its terminating zero.
    #[error("{field} has no terminating zero")]
    Unterminated {
        /// What was being read.
        field: &'static str,
    },
    /// A string that is not UTF-8, which the connection asked for.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// What was being read.
        field: &'static str,
    },
    /// Bytes that were kept of a row, and are not one.
    #[error("the bytes of a row are not an Insert message")]
    NotAnInsert,
    /// A message type that protocol version 1 does not have.
    #[error("unknown message type {0:#04x}")]
    UnknownMessage(u8),
    /// A tag inside a message that the format does not have there.
    #[error("unknown tag {tag:#04x} for {field}")]
    UnknownTag {
        /// What was being read.
        field: &'static str,
        /// The byte found.
        tag: u8,
    },
    /// A count or length below zero.
    #[error("{field} is negative: {value}")]
    Negative {
        /// What was being read.
        field: &'static str,
        /// The number found.
        value: i64,
    },
    /// A row of a table that was never announced.
    #[error("a row of relation {0} arrived, but that relation was not announced")]
    UnknownRelation(u32),
    /// A row that does not have the columns its relation announced.
    #[error("a row has {found} columns, but its table was announced with {announced}")]
    ColumnCount {
        /// Columns in the relation.
        announced: usize,
        /// Values in the row.
        found: usize,
    },
    /// Bytes after the end of the message.
    #[error("the message has bytes after its end: {0}")]
    TrailingBytes(usize),
}

/// Reads big-endian fields from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(
        &mut self,
        field: &'static str,
        len: usize,
    ) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated {
            field,
            wanted: len,
            left: self.rest.len(),
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated {
            field,
            wanted: N,
            left: self.rest.len(),
        })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(super) fn lsn(&mut self, field: &'static str) -> Result<Lsn, DecodeError> {
        self.array(field).map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    /// A 16-bit count, which the format declares signed.
    pub(super) fn count16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        let value = self.array(field).map(i16::from_be_bytes)?;
        u16::try_from(value).map_err(|_| DecodeError::Negative { field, value: value.into() })
    }

    /// A 32-bit length, which the format declares signed.
    pub(super) fn length32(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let value = self.i32(field)?;
        usize::try_from(value).map_err(|_| DecodeError::Negative { field, value: value.into() })
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.c_string(field)?).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Bytes up to a zero.
    pub(super) fn c_string(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let bytes = self.bytes(field, end.ok_or(DecodeError::Unterminated { field })?)?;
        self.u8(field)?;
        Ok(bytes)
    }

    /// Nothing may be left after the last field.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingBytes(left)),
        }
    }
}
