//! Rows that may be deleted. A row's version is identified by its place, and the transaction that
//! wrote it.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// The walsender decodes a deletion as a whole, and sends no events meanwhile.
const ROWS_PER_TRANSACTION: usize = 200;

/// Rows that may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub(super) ctids: Vec<Ctid>,
    pub(super) xmins: Vec<Xmin>,
}

/// Rows of a batch that are deleted in one transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) ctids: &'a [Ctid],
    pub(super) xmins: &'a [Xmin],
}

impl Batch {
    pub(super) fn rows(&self) -> usize {
        self.ctids.len()
    }

    /// In the order in which they were found.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let ctids = self.ctids.chunks(ROWS_PER_TRANSACTION);
        let xmins = self.xmins.chunks(ROWS_PER_TRANSACTION);
        ctids.zip(xmins).map(|(ctids, xmins)| Part { ctids, xmins })
    }
}

/// A place in a table, as the server sends it: block and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ctid([u8; 6]);

/// The transaction that wrote a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Xmin([u8; 4]);

macro_rules! as_sent {
    ($name:ident, $type:ident) => {
        impl<'a> FromSql<'a> for $name {
            fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                Ok($name(raw.try_into()?))
            }

            accepts!($type);
        }

        impl ToSql for $name {
            fn to_sql(
                &self,
                _: &Type,
                out: &mut BytesMut,
            ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
                out.put_slice(&self.0);
                Ok(IsNull::No)
            }

            accepts!($type);
            to_sql_checked!();
        }
    };
}

as_sent!(Ctid, TID);
as_sent!(Xmin, XID);
