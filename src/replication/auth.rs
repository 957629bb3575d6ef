//! Trust, clear-text passwords, md5, and SCRAM-SHA-256 with channel binding where TLS offers it.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use tokio_postgres::Config;
use tokio_postgres::config::ChannelBinding as Wanted;

use super::error::{ReplicationError, ServerError};
use super::wire::Wire;

/// What authentication can be bound to, so that a man in the middle can't forward it.
pub(super) enum ServerBinding {
    /// No TLS.
    Plain,
    /// The hash of the server's certificate; None if the standard defines none for it.
    Tls(Option<Vec<u8>>),
}

/// Answers the server until it is ready for a query.
pub(super) async fn authenticate(
    wire: &mut Wire,
    config: &Config,
    binding: ServerBinding,
) -> Result<(), ReplicationError> {
    let user = config.get_user().unwrap_or_default();
    let password = || config.get_password().ok_or(ReplicationError::PasswordMissing);
    let wanted = config.get_channel_binding();
    let mut bound = false;
    loop {
        match next(wire).await? {
            // If a binding is required, the server must not accept us, or ask for a password,
            // without.
            Message::AuthenticationOk
            | Message::AuthenticationCleartextPassword
            | Message::AuthenticationMd5Password(_)
                if wanted == Wanted::Require && !bound =>
            {
                return Err(ReplicationError::NoChannelBinding);
            }
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
            Message::AuthenticationSasl(body) => {
                let (mechanism, binding) = choose(&body, wanted, &binding)?;
                bound = mechanism == SCRAM_SHA_256_PLUS;
                scram(wire, mechanism, binding, password()?).await?;
            }
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

fn choose(
    body: &AuthenticationSaslBody,
    wanted: Wanted,
    binding: &ServerBinding,
) -> Result<(&'static str, ChannelBinding), ReplicationError> {
    let (mut plus, mut plain) = (false, false);
    let mut mechanisms = body.mechanisms();
    while let Some(mechanism) = mechanisms.next()? {
        plus |= mechanism == SCRAM_SHA_256_PLUS;
        plain |= mechanism == SCRAM_SHA_256;
    }
    let end_point = match binding {
        ServerBinding::Tls(Some(hash)) if wanted != Wanted::Disable => Some(hash.clone()),
        _ => None,
    };
    match end_point {
        Some(hash) if plus => Ok((SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash))),
        _ if wanted == Wanted::Require => Err(ReplicationError::NoChannelBinding),
        // Declares that we support a binding: a server that does too then knows that somebody
        // has removed its offer.
        Some(_) if plain => Ok((SCRAM_SHA_256, ChannelBinding::unrequested())),
        None if plain => Ok((SCRAM_SHA_256, ChannelBinding::unsupported())),
        _ => Err(ReplicationError::AuthenticationUnsupported(
            "a SASL mechanism that postrider does not know",
        )),
    }
}

async fn scram(
    wire: &mut Wire,
    mechanism: &str,
    binding: ChannelBinding,
    password: &[u8],
) -> Result<(), ReplicationError> {
    let mut scram = ScramSha256::new(password, binding);
    let mut message = BytesMut::new();
    frontend::sasl_initial_response(mechanism, scram.message(), &mut message)?;
    wire.send(&message).await?;
    let Message::AuthenticationSaslContinue(body) = next(wire).await? else {
        return Err(ReplicationError::Protocol("the server did not continue SCRAM".into()));
    };
    scram.update(body.data())?;
    message.clear();
    frontend::sasl_response(scram.message(), &mut message)?;
    wire.send(&message).await?;
    let Message::AuthenticationSaslFinal(body) = next(wire).await? else {
        return Err(ReplicationError::Protocol("the server did not finish SCRAM".into()));
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

/// postgres-protocol parses whole messages, so the header that [`Wire`] removed is added again.
pub(super) fn parse(tag: u8, body: &[u8]) -> Result<Message, ReplicationError> {
    let mut bytes = BytesMut::with_capacity(5 + body.len());
    bytes.extend_from_slice(&[tag]);
    let length = u32::try_from(body.len() + 4)
        .map_err(|_| ReplicationError::Protocol("a message is too long".into()))?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    Message::parse(&mut bytes)?
        .ok_or_else(|| ReplicationError::Protocol("a message is incomplete".into()))
}
