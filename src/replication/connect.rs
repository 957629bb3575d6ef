//! Opens the socket and starts a replication session on it.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::ReplicationError;
use super::auth::{ServerBinding, authenticate};
use super::wire::{Socket, Wire};
use crate::postgres::session_settings::TEXT_FORM;
use crate::postgres::{Server, server_end_point};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PORT: u16 = 5432;

/// The longest name that the server keeps.
const NAME_BYTES_MAX: usize = 63;

/// The name of a relay's walsender in `pg_stat_activity` and `pg_stat_replication`. By this name
/// and its role, another relay of the slot recognises it as one of ours.
pub(crate) fn walsender_name(config: &Config, slot: &str) -> String {
    let application = config.get_application_name().unwrap_or("postrider");
    // Cut as the server cuts it; slots have ASCII names.
    format!("{application} {slot}").chars().take(NAME_BYTES_MAX).collect()
}

/// Opens a replication session with the server.
pub(super) async fn connect(
    server: &Server,
    client_encoding: &str,
    application_name: &str,
) -> Result<Wire, ReplicationError> {
    let config = &server.config;
    let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let link = match timeout(limit, open(config)).await {
        Ok(Ok(link)) => link,
        Ok(Err(source)) => {
            return Err(ReplicationError::Connect { address: server.name(), source });
        }
        Err(_) => {
            let source = io::ErrorKind::TimedOut.into();
            return Err(ReplicationError::Connect { address: server.name(), source });
        }
    };
    let started = async {
        let (socket, binding) = match link {
            Link::Tcp(socket) => encrypt(socket, server).await?,
            Link::Unix(socket) => (Box::new(socket) as Box<dyn Socket>, ServerBinding::Plain),
        };
        let encrypted = matches!(binding, ServerBinding::Tls(_));
        let parameters =
            [("client_encoding", client_encoding), ("application_name", application_name)];
        start_up(Wire::new(socket, encrypted), config, parameters, binding).await
    };
    match timeout(limit, started).await {
        Ok(result) => result.map_err(ReplicationError::before_stream),
        Err(_) => Err(ReplicationError::Silent(limit)),
    }
}

enum Link {
    Tcp(TcpStream),
    Unix(UnixStream),
}

async fn open(config: &Config) -> io::Result<Link> {
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    // An address is used in place of the name it is given with.
    let socket = match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(ip), _) => TcpStream::connect((*ip, port)).await?,
        (None, Some(Host::Tcp(name))) => TcpStream::connect((name.as_str(), port)).await?,
        (None, Some(Host::Unix(folder))) => {
            return Ok(Link::Unix(UnixStream::connect(socket_path(folder, port)).await?));
        }
        (None, None) => return Err(io::ErrorKind::NotFound.into()),
    };
    socket.set_nodelay(true)?;
    let options = SockRef::from(&socket);
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        options.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    Ok(Link::Tcp(socket))
}

/// Asks for TLS as the mode requires
/// (<https://www.postgresql.org/docs/current/protocol-flow.html>).
async fn encrypt(
    mut socket: TcpStream,
    server: &Server,
) -> Result<(Box<dyn Socket>, ServerBinding), ReplicationError> {
    let config = &server.config;
    let mode = config.get_ssl_mode();
    if mode == SslMode::Disable {
        return Ok((Box::new(socket), ServerBinding::Plain));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).await?;
    match socket.read_u8().await? {
        b'S' => {}
        b'N' if mode == SslMode::Prefer => return Ok((Box::new(socket), ServerBinding::Plain)),
        b'N' => return Err(ReplicationError::NoTls),
        // Not read any further: it is not encrypted, and anybody could have written it.
        b'E' => {
            let message = "it answered the request for TLS with an error".to_owned();
            return Err(ReplicationError::NotStarted(message));
        }
        other => {
            let message = format!("the answer to the request for TLS was {other:#04x}");
            return Err(ReplicationError::Protocol(message));
        }
    }
    let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        (_, ip) => ip.map(ToString::to_string).unwrap_or_default(),
    };
    let stream = server.tls.handshake(socket, &host).await?;
    let binding = ServerBinding::Tls(server_end_point(stream.ssl()));
    Ok((Box::new(stream), binding))
}

fn socket_path(folder: &Path, port: u16) -> std::path::PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

async fn start_up(
    mut wire: Wire,
    config: &Config,
    named: [(&str, &str); 2],
    binding: ServerBinding,
) -> Result<Wire, ReplicationError> {
    let user = config.get_user().unwrap_or("postgres");
    let mut parameters = vec![
        ("user", user),
        ("database", config.get_dbname().unwrap_or(user)),
        ("replication", "database"),
    ];
    parameters.extend(TEXT_FORM);
    parameters.extend(named);
    if let Some(options) = config.get_options() {
        parameters.push(("options", options));
    }
    let mut message = BytesMut::new();
    frontend::startup_message(parameters, &mut message)?;
    wire.send(&message).await?;
    authenticate(&mut wire, config, binding).await?;
    Ok(wire)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::postgres::{Roots, Tls, TlsMode};
    use crate::replication::{ReplicationStream, StreamOptions};

    fn server(address: SocketAddr, mode: SslMode) -> Server {
        let mut config = Config::new();
        config.host("localhost").hostaddr(address.ip()).port(address.port()).user("me");
        config.ssl_mode(mode);
        let tls = Tls { mode: TlsMode::Require, roots: Roots::System, identity: None };
        Server { config, tls: tls.connector().unwrap() }
    }

    /// What becomes of a session whose server answers its first message, and then its second, with
    /// these bytes.
    async fn answered(mode: SslMode, answers: [&'static [u8]; 2]) -> ReplicationError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            for answer in answers {
                let mut question = vec![0; 1024];
                let _ = socket.read(&mut question).await;
                let _ = socket.write_all(answer).await;
            }
            // Until the other side has closed: a closed socket would be another kind of error.
            let _ = socket.read_u8().await;
        });
        let options = StreamOptions {
            slot: "s".to_owned(),
            publication: "p".to_owned(),
            messages: false,
            binary: false,
            client_encoding: "UTF8",
        };
        let result = ReplicationStream::start(&server(address, mode), &options, None).await;
        peer.abort();
        result.err().unwrap()
    }

    #[tokio::test]
    async fn the_socket_notices_a_link_that_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = server(listener.local_addr().unwrap(), SslMode::Disable).config;
        let seconds = Duration::from_secs;
        config.keepalives_idle(seconds(31)).keepalives_interval(seconds(11)).keepalives_retries(4);
        config.tcp_user_timeout(seconds(61));
        let Ok(Link::Tcp(socket)) = open(&config).await else { panic!("no TCP") };
        let options = SockRef::from(&socket);
        assert!(options.keepalive().unwrap() && socket.nodelay().unwrap());
        assert_eq!(options.tcp_keepalive_time().unwrap(), seconds(31));
        assert_eq!(options.tcp_keepalive_interval().unwrap(), seconds(11));
        assert_eq!(options.tcp_keepalive_retries().unwrap(), 4);
        #[cfg(target_os = "linux")]
        assert_eq!(options.tcp_user_timeout().unwrap(), Some(seconds(61)));
        config.keepalives(false);
        let Ok(Link::Tcp(socket)) = open(&config).await else { panic!("no TCP") };
        assert!(!SockRef::from(&socket).keepalive().unwrap());
    }

    #[tokio::test]
    async fn what_a_server_in_trouble_says_may_pass() {
        const CANNOT_FORK: &[u8] = b"Ecould not fork new process for connection\n\0";
        const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        let not_started = [
            (SslMode::Require, [CANNOT_FORK, b""]),
            (SslMode::Prefer, [CANNOT_FORK, b""]),
            (SslMode::Prefer, [b"H", b""]),
            (SslMode::Disable, [CANNOT_FORK, b""]),
            (SslMode::Disable, [b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b""]),
            (SslMode::Disable, [LET_IN, b"HTTP/1.1 503 Service Unavailable\r\n\r\n"]),
            (SslMode::Disable, [LET_IN, b"?\0\0\0\x04"]),
        ];
        for (mode, answers) in not_started {
            let error = answered(mode, answers).await;
            assert!(matches!(error, ReplicationError::NotStarted(_)), "{answers:?}: {error:?}");
        }
        let error = answered(SslMode::Require, [b"N", b""]).await;
        assert!(matches!(error, ReplicationError::NoTls), "{error:?}");
    }
}
