//! Frames of the replication stream: bytes of a CopyData message → what the server sent.
//! <https://www.postgresql.org/docs/current/protocol-replication.html>

use bytes::Bytes;

use crate::lsn::Lsn;

/// A frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A pgoutput message.
    Data {
        /// The position that the server gives the message. For comparisons only: never confirm it.
        position: Lsn,
        /// The message.
        message: Bytes,
    },
    /// The server has sent everything up to `wal_end`.
    Keepalive {
        /// The end of what it has read.
        wal_end: Lsn,
        /// Whether it wants a status update.
        reply_requested: bool,
    },
}

/// A frame that is not one of the protocol's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct FrameError(String);

/// Reads the content of a CopyData message.
pub fn copy_data(body: Bytes) -> Result<Frame, FrameError> {
    let malformed = |what: &str| FrameError(what.to_owned());
    match body.first() {
        // start, end and clock: 8 bytes each
        Some(b'w') => match body.split_first_chunk::<25>() {
            Some((&[_, a, b, c, d, e, f, g, h, ..], _)) => Ok(Frame::Data {
                position: Lsn::new(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
                message: body.slice(25..),
            }),
            None => Err(malformed("XLogData")),
        },
        Some(b'k') => {
            let Some((&[_, a, b, c, d, e, f, g, h, _, _, _, _, _, _, _, _, reply], [])) =
                body.split_first_chunk::<18>()
            else {
                return Err(malformed("keepalive"));
            };
            let wal_end = [a, b, c, d, e, f, g, h];
            Ok(Frame::Keepalive {
                wal_end: Lsn::new(u64::from_be_bytes(wal_end)),
                reply_requested: reply == 1,
            })
        }
        Some(tag) => Err(malformed(&format!("CopyData of kind {tag:#04x}"))),
        None => Err(malformed("CopyData without content")),
    }
}
