//! Trust, md5 and SCRAM-SHA-256.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;

use super::error::{ReplicationError, ServerError};
use super::wire::Wire;

/// Answers the server until it is ready for a query.
pub(super) async fn authenticate(
    wire: &mut Wire,
    user: &str,
    password: Option<&[u8]>,
) -> Result<(), ReplicationError> {
    let password = || password.ok_or(ReplicationError::PasswordMissing);
    loop {
        match next(wire).await? {
            Message::AuthenticationOk
            | Message::BackendKeyData(_)
            | Message::ParameterStatus(_)
            | Message::NoticeResponse(_) => {}
            Message::ReadyForQuery(_) => return Ok(()),
            Message::AuthenticationCleartextPassword => send_password(wire, password()?).await?,
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(user.as_bytes(), password()?, body.salt());
                send_password(wire, hash.as_bytes()).await?;
            }
            Message::AuthenticationSasl(body) => scram(wire, &body, password()?).await?,
            Message::AuthenticationGss | Message::AuthenticationSspi => {
                return Err(ReplicationError::AuthenticationUnsupported("GSSAPI or SSPI"));
            }
            _ => {
                return Err(ReplicationError::Protocol("unexpected message at start-up".into()));
            }
        }
    }
}

async fn send_password(wire: &mut Wire, password: &[u8]) -> Result<(), ReplicationError> {
    let mut message = BytesMut::new();
    frontend::password_message(password, &mut message)?;
    wire.send(&message).await
}

async fn scram(
    wire: &mut Wire,
    body: &AuthenticationSaslBody,
    password: &[u8],
) -> Result<(), ReplicationError> {
    if !body.mechanisms().any(|mechanism| Ok(mechanism == SCRAM_SHA_256))? {
        return Err(ReplicationError::AuthenticationUnsupported("a SASL mechanism we don't know"));
    }
    let mut scram = ScramSha256::new(password, ChannelBinding::unsupported());
    let mut message = BytesMut::new();
    frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut message)?;
    wire.send(&message).await?;
    let Message::AuthenticationSaslContinue(body) = next(wire).await? else {
        return Err(ReplicationError::Protocol("SCRAM was not continued".into()));
    };
    scram.update(body.data())?;
    message.clear();
    frontend::sasl_response(scram.message(), &mut message)?;
    wire.send(&message).await?;
    let Message::AuthenticationSaslFinal(body) = next(wire).await? else {
        return Err(ReplicationError::Protocol("SCRAM was not finished".into()));
    };
    Ok(scram.finish(body.data())?)
}

/// The next message, or the server's error.
async fn next(wire: &mut Wire) -> Result<Message, ReplicationError> {
    let frame = wire.next().await?;
    match parse(frame.tag, &frame.body)? {
        Message::ErrorResponse(body) => Err(ServerError::from_fields(body.fields()).into()),
        message => Ok(message),
    }
}

/// postgres-protocol parses whole messages, so the header that [`Wire`] took off goes back on.
pub(super) fn parse(tag: u8, body: &[u8]) -> Result<Message, ReplicationError> {
    let mut bytes = BytesMut::with_capacity(5 + body.len());
    bytes.extend_from_slice(&[tag]);
    let length = u32::try_from(body.len() + 4)
        .map_err(|_| ReplicationError::Protocol("a message too long".into()))?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    Message::parse(&mut bytes)?
        .ok_or_else(|| ReplicationError::Protocol("a message without its end".into()))
}
