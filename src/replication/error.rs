//! What can go wrong on the replication connection.

use std::io;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use postrider_core::framing::FrameError;

use crate::postgres::HandshakeError;

/// Why the replication connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplicationError {
    /// No host could be reached.
    #[error("can't connect to Postgres at {address}")]
    Connect {
        /// Host and port, or socket.
        address: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The link broke.
    #[error("the replication connection broke")]
    Io(#[from] io::Error),
    /// The server refused or ended something.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server has no TLS, but the configuration requires it.
    #[error("the server does not support TLS")]
    NoTls,
    /// TLS could not be agreed on.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[from] HandshakeError),
    /// The configuration requires channel binding, but the server has none.
    #[error("the server offers no channel binding, but channel_binding=require is set")]
    NoChannelBinding,
    /// The server wants a password, but none is configured.
    #[error("the server asks for a password, but none is configured")]
    PasswordMissing,
    /// An authentication method that this client does not support.
    #[error("the server asks for {0}, which is not supported")]
    AuthenticationUnsupported(&'static str),
    /// The server sent something unexpected.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// The server sent something unexpected before it streamed: a server in trouble does that (for
    /// example if it can't fork), and so does a proxy in front of a server that is unreachable.
    #[error("the server did not start a replication session: {0}")]
    NotStarted(String),
    /// The server ended the stream.
    #[error("the server ended the replication stream")]
    Ended,
    /// Nothing was received for too long, although an answer was requested.
    #[error("the server has not answered for {0:?}")]
    Silent(std::time::Duration),
}

impl From<FrameError> for ReplicationError {
    fn from(error: FrameError) -> Self {
        ReplicationError::Protocol(error.to_string())
    }
}

impl ReplicationError {
    /// The same error, of a session that has not started to stream: nothing can have been misread.
    pub(super) fn before_stream(self) -> Self {
        match self {
            Self::Protocol(what) => Self::NotStarted(what),
            other => other,
        }
    }
}

/// An ErrorResponse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (SQLSTATE {code})")]
pub(crate) struct ServerError {
    /// SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// The hint, if any.
    pub hint: Option<String>,
}

impl ServerError {
    pub(super) fn from_fields(mut fields: ErrorFields<'_>) -> Self {
        let mut error = ServerError { code: String::new(), message: String::new(), hint: None };
        // A field that can't be read ends the list; those that were read are still useful.
        while let Ok(Some(field)) = fields.next() {
            let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => error.code = value(),
                b'M' => error.message = value(),
                b'H' => error.hint = Some(value()),
                _ => {}
            }
        }
        error
    }
}
