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
    /// The server has no TLS, and the configuration wants it.
    #[error("the server does not support TLS")]
    NoTls,
    /// TLS could not be agreed on.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[from] HandshakeError),
    /// The configuration wants channel binding, and the server has none.
    #[error("the server offers no channel binding, and channel_binding=require asks for it")]
    NoChannelBinding,
    /// The server wants a password and none is configured.
    #[error("the server asks for a password and none is configured")]
    PasswordMissing,
    /// An authentication method this client does not speak.
    #[error("the server asks for {0}, which is not supported")]
    AuthenticationUnsupported(&'static str),
    /// The server sent something that does not belong here.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// The server sent something unexpected before it streamed: a server in trouble does (it can't
    /// fork, for instance), and so does whoever sits in front of one that is away.
    #[error("the server did not start a replication session: {0}")]
    NotStarted(String),
    /// The server ended the stream.
    #[error("the server ended the replication stream")]
    Ended,
    /// Nothing was heard for too long, though an answer was asked for.
    #[error("the server has not answered for {0:?}")]
    Silent(std::time::Duration),
}

impl From<FrameError> for ReplicationError {
    fn from(error: FrameError) -> Self {
        ReplicationError::Protocol(error.to_string())
    }
}

impl ReplicationError {
    /// The same error, of a session that has not come to stream: nothing was read wrongly yet.
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
        // A field that can't be read ends the list; what was read so far still says something.
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
