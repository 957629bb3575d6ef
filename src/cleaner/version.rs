//! What identifies a row's version: its place, and the transaction that wrote it.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// A place in a table, as the server sends it: block and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place([u8; 6]);

/// The transaction that wrote a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer([u8; 4]);

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

as_sent!(Place, TID);
as_sent!(Writer, XID);
