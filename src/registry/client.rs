//! Asks a registry about one subject.
//!
//! Each question has a connection of its own: a subject is asked about once in minutes, and a
//! connection that is kept would have to be watched meanwhile.

use std::pin::Pin;
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_openssl::SslStream;

use super::answer::{self, Answer};
use super::error::LookupError;
use crate::config::RegistryConfig;
use crate::postgres::{Roots, Tls, TlsMode};

/// How long connecting may take, with TLS.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long the answer may take after that.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The largest answer. It has the schema's text, of which only the id is wanted; registries limit
/// schemas to about a megabyte.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The media type of the API, and what registries that don't have it understand.
const MEDIA_TYPES: &str = "application/vnd.schemaregistry.v1+json, application/json";
/// What a path segment has as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A registry, and how to reach it.
#[derive(Clone)]
pub(super) struct Client {
    host: String,
    port: u16,
    /// None: without encryption. Its files are read for each connection, so that renewed ones are
    /// used.
    tls: Option<Tls>,
    base_path: String,
    /// The header, if there are credentials.
    authorization: Option<String>,
}

impl Client {
    pub(super) fn new(config: &RegistryConfig) -> Self {
        let roots = config.ca.clone().map_or(Roots::System, Roots::File);
        let tls = Tls { mode: TlsMode::VerifyFull, roots, identity: None };
        let basic = |(user, password): &(String, String)| {
            format!(
                "Basic {}",
                openssl::base64::encode_block(format!("{user}:{password}").as_bytes())
            )
        };
        Client {
            host: config.host.clone(),
            port: config.port,
            tls: config.is_tls.then_some(tls),
            base_path: config.base_path.clone(),
            authorization: config.credentials.as_ref().map(basic),
        }
    }

    /// The newest schema of a subject.
    pub(super) async fn latest(&self, subject: &str) -> Result<Answer, LookupError> {
        let request = self.request(subject).map_err(LookupError::Request)?;
        let opening = async {
            let address = (self.host.as_str(), self.port);
            let socket = TcpStream::connect(address).await.map_err(LookupError::Connect)?;
            match &self.tls {
                None => Ok(Socket::Plain(socket)),
                Some(tls) => self.encrypt(socket, tls.clone()).await.map(Socket::Tls),
            }
        };
        let opened = timeout(CONNECT_WITHIN, opening).await;
        let socket = opened.map_err(|_| LookupError::ConnectTimeout(CONNECT_WITHIN))??;
        let answering = async {
            match socket {
                Socket::Plain(socket) => exchange(socket, request).await,
                Socket::Tls(socket) => exchange(socket, request).await,
            }
        };
        let answered = timeout(ANSWER_WITHIN, answering).await;
        let (status, body) = answered.map_err(|_| LookupError::AnswerTimeout(ANSWER_WITHIN))??;
        answer::read(status, &body)
    }

    fn request(&self, subject: &str) -> Result<Request<String>, hyper::http::Error> {
        let Client { host, port, base_path, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let subject = utf8_percent_encode(subject, SEGMENT);
        let mut request = Request::get(format!("{base_path}/subjects/{subject}/versions/latest"))
            .header(HOST, format!("{host}:{port}"))
            .header(ACCEPT, MEDIA_TYPES)
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("postrider/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(String::new())
    }

    async fn encrypt(
        &self,
        socket: TcpStream,
        tls: Tls,
    ) -> Result<SslStream<TcpStream>, LookupError> {
        // Reading the system's authorities takes milliseconds.
        let connector = tokio::task::spawn_blocking(move || tls.connector()).await;
        let connector = connector.map_err(|error| LookupError::Authorities(error.to_string()))?;
        let connector = connector.map_err(|error| LookupError::Authorities(error.to_string()))?;
        connector.handshake(socket, &self.host).await.map_err(LookupError::Tls)
    }
}

enum Socket {
    Plain(TcpStream),
    Tls(SslStream<TcpStream>),
}

/// Sends the request; returns status and body.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    request: Request<String>,
) -> Result<(u16, Vec<u8>), LookupError> {
    let handshake =
        http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(socket));
    let (mut sender, connection) = handshake.await.map_err(LookupError::Broken)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(LookupError::Broken)?;
        let status = response.status().as_u16();
        Ok((status, read_body(response.into_body()).await?))
    };
    // The connection moves the bytes. Its end is not the end: what it has read is still to be used,
    // and an error of it is an error of the exchange.
    let moving = async {
        if let Err(error) = connection.await {
            tracing::trace!(%error, "a connection to the schema registry ended");
        }
        std::future::pending().await
    };
    tokio::select! {
        result = exchange => result,
        never = moving => never,
    }
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>, LookupError> {
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        // Other frames are trailers.
        let Ok(data) = frame.map_err(LookupError::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(LookupError::TooLong(ANSWER_BYTES_MAX));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
