//! Bytes in, frames out.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::ReplicationError;

/// Buffer space reserved before each read. Large reads mean few wake-ups while a backlog drains.
const READ_BYTES: usize = 256 * 1024;
/// The largest frame Postgres can build (its allocation limit is 1 GiB).
const FRAME_BYTES_MAX: usize = 1 << 30;
/// A receive buffer that one huge row has grown beyond this is released.
const BUFFER_KEPT_BYTES: usize = 1024 * 1024;
/// A peer that does not accept a few bytes for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A frame larger than this has bytes of its own, not a part of the receive buffer.
pub(crate) const DETACHED_ABOVE_BYTES: usize = READ_BYTES / 8;

/// A socket, and the bytes that were read from it and are not yet used.
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    incoming: BytesMut,
    encrypted: bool,
}

/// A message of the frontend/backend protocol: its type and its body.
pub(super) struct RawFrame {
    pub(super) tag: u8,
    pub(super) body: Bytes,
}

impl Wire {
    pub(super) fn new(socket: Box<dyn Socket>, encrypted: bool) -> Self {
        Wire { socket, incoming: BytesMut::with_capacity(READ_BYTES), encrypted }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Waits for more bytes; returns whether it read as many as it reads at once, so that more are
    /// likely to be there. Cancel safe: bytes are either in the buffer or still in the socket.
    pub(super) async fn fill(&mut self) -> Result<bool, ReplicationError> {
        if self.incoming.is_empty() && self.incoming.capacity() > BUFFER_KEPT_BYTES {
            self.incoming = BytesMut::with_capacity(READ_BYTES);
        }
        self.incoming.reserve(READ_BYTES);
        let mut read = self.socket.read_buf(&mut self.incoming).await?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        // TLS returns one record of at most 16 KiB at a time. Everything that has arrived is read.
        while read < READ_BYTES {
            match self.socket.read_buf(&mut self.incoming).now_or_never() {
                // The next call finds the end again.
                None | Some(Ok(0)) => break,
                Some(more) => read += more?,
            }
        }
        Ok(read >= READ_BYTES)
    }

    /// The next whole frame, if its bytes are here.
    pub(super) fn pop(&mut self) -> Result<Option<RawFrame>, ReplicationError> {
        let Some((&[tag, a, b, c, d], rest)) = self.incoming.split_first_chunk::<5>() else {
            return Ok(None);
        };
        // The length counts itself.
        let length = i32::from_be_bytes([a, b, c, d]);
        let body = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(4))
            .filter(|body| *body <= FRAME_BYTES_MAX)
            .ok_or_else(|| {
                ReplicationError::Protocol(format!("a frame has the length {length}"))
            })?;
        if rest.len() < body {
            // With space for the last read, which would otherwise double the buffer.
            self.incoming.reserve(body - rest.len() + READ_BYTES);
            return Ok(None);
        }
        self.incoming.advance(5);
        let body = self.incoming.split_to(body);
        let body = match body.len() {
            // It fills the buffer almost alone, and there might not be memory for a copy.
            large if large > BUFFER_KEPT_BYTES => {
                let rest =
                    std::mem::replace(&mut self.incoming, BytesMut::with_capacity(READ_BYTES));
                self.incoming.extend_from_slice(&rest);
                body.freeze()
            }
            large if large > DETACHED_ABOVE_BYTES => Bytes::copy_from_slice(&body),
            _ => body.freeze(),
        };
        Ok(Some(RawFrame { tag, body }))
    }

    /// The next whole frame.
    pub(super) async fn next(&mut self) -> Result<RawFrame, ReplicationError> {
        loop {
            if let Some(frame) = self.pop()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ReplicationError> {
        let write = async {
            self.socket.write_all(bytes).await?;
            self.socket.flush().await
        };
        match timeout(WRITE_TIMEOUT, write).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(ReplicationError::Silent(WRITE_TIMEOUT)),
        }
    }
}
