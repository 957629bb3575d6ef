//! The stream: frames in, status updates out.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;
use postrider_core::framing::{Frame, copy_data};

use super::auth::parse;
use super::connect::{connect, walsender_name};
use super::error::{ReplicationError, ServerError};
use super::identify::identify;
use super::wire::{RawFrame, Wire};
use crate::postgres::Server;
use crate::progress::{Identity, StoredLsn};
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;

/// How long it may take to close the stream. The server finishes the transaction it is sending.
const FAREWELL: Duration = Duration::from_secs(2);

/// What to read.
#[derive(Debug, Clone)]
pub(crate) struct StreamOptions {
    pub slot: String,
    pub publication: String,
    /// Ask for binary values (ADR 0002).
    pub binary: bool,
    /// Ask for logical messages.
    pub messages: bool,
    /// The encoding in which text is to be sent.
    pub client_encoding: &'static str,
}

/// An open replication stream.
pub(crate) struct ReplicationStream {
    wire: Wire,
}

impl ReplicationStream {
    /// Connects and starts to stream at the slot's position, or at the given one if that is later,
    /// belongs to this server, and is not beyond the end of its log. A position beyond the end
    /// would silently leave out everything that is written until then.
    pub(crate) async fn start(
        server: &Server,
        options: &StreamOptions,
        at: Option<(&str, Lsn)>,
    ) -> Result<(Self, Identity), ReplicationError> {
        let name = walsender_name(&server.config, &options.slot);
        let mut wire = connect(server, options.client_encoding, &name).await?;
        let identified = identify(&mut wire).await;
        let (here, wal_end) = identified.map_err(ReplicationError::before_stream)?;
        let at = match at {
            Some((system, at)) if system == here.system_identifier && at <= wal_end => at,
            // The server moves a start that is before the confirmed position forward to it.
            _ => Lsn::ZERO,
        };
        let mut command = format!(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {}",
            quote('"', &options.slot),
            at,
            quote('\'', &quote('"', &options.publication)),
        );
        if options.binary {
            command.push_str(", binary 'true'");
        }
        if options.messages {
            command.push_str(", messages 'true'");
        }
        command.push(')');
        let mut message = BytesMut::new();
        frontend::query(&command, &mut message)?;
        wire.send(&message).await?;
        loop {
            let frame = wire.next().await.map_err(ReplicationError::before_stream)?;
            match frame.tag {
                b'W' => return Ok((ReplicationStream { wire }, here)),
                _ => refuse_errors(&frame).map_err(ReplicationError::before_stream)?,
            }
        }
    }

    /// Whether it runs over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.wire.is_encrypted()
    }

    /// Waits for more bytes from the server; returns whether still more are likely to be there.
    /// Cancel safe.
    pub(crate) async fn fill(&mut self) -> Result<bool, ReplicationError> {
        self.wire.fill().await
    }

    /// The next frame that has arrived completely.
    pub(crate) fn pop(&mut self) -> Result<Option<Frame>, ReplicationError> {
        while let Some(frame) = self.wire.pop()? {
            match frame.tag {
                b'd' => return Ok(Some(copy_data(frame.body)?)),
                b'c' | b'C' | b'Z' => return Err(ReplicationError::Ended),
                _ => refuse_errors(&frame)?,
            }
        }
        Ok(None)
    }

    /// Reports to the server what is stored, and requests an answer if `reply` is set.
    pub(crate) async fn send_status(
        &mut self,
        stored: StoredLsn,
        now: PgTime,
        reply: bool,
    ) -> Result<(), ReplicationError> {
        let lsn = stored.lsn().bytes();
        let mut message = BytesMut::with_capacity(39);
        message.put_u8(b'd');
        message.put_u32(4 + 34);
        message.put_u8(b'r');
        // written, flushed, applied: the slot's confirmed position is the second
        message.put_u64(lsn);
        message.put_u64(lsn);
        message.put_u64(lsn);
        message.put_i64(now.0);
        message.put_u8(reply.into());
        self.wire.send(&message).await
    }

    /// Ends the stream properly, so that the slot is free at once.
    ///
    /// Whatever the server still sends is read first. A socket closed with unread bytes is reset,
    /// and a server that gets the reset while it sends ends without reading our last status update.
    pub(crate) async fn close(mut self) -> Result<(), ReplicationError> {
        let mut message = BytesMut::new();
        frontend::copy_done(&mut message);
        self.wire.send(&message).await?;
        let answered = async {
            while self.wire.next().await?.tag != b'Z' {}
            Ok::<(), ReplicationError>(())
        };
        match tokio::time::timeout(FAREWELL, answered).await {
            Ok(result) => result?,
            Err(_) => return Err(ReplicationError::Silent(FAREWELL)),
        }
        message.clear();
        frontend::terminate(&mut message);
        self.wire.send(&message).await
    }
}

/// Errors end the stream; notices and parameter changes are ignored.
pub(super) fn refuse_errors(frame: &RawFrame) -> Result<(), ReplicationError> {
    use postgres_protocol::message::backend::Message;
    match frame.tag {
        b'E' => match parse(frame.tag, &frame.body)? {
            Message::ErrorResponse(body) => Err(ServerError::from_fields(body.fields()).into()),
            _ => Err(ReplicationError::Protocol("an error response can't be read".into())),
        },
        b'N' | b'S' => Ok(()),
        tag => Err(ReplicationError::Protocol(format!("unexpected message {tag:#04x}"))),
    }
}

/// Quotes an identifier (`"`) or a literal (`'`).
pub(super) fn quote(mark: char, text: &str) -> String {
    let doubled: String = [mark, mark].iter().collect();
    format!("{mark}{}{mark}", text.replace(mark, &doubled))
}
