//! Whether a server really has no TLS.
//!
//! tokio-postgres takes any answer but "yes" for "no". A server that can't fork answers the request
//! for TLS with an error, and an operator must not be called for one that is only overloaded. So
//! the question is asked once more, and the answer is checked.

use std::io;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::host_limit;

/// True if the server answers that it has none; false for any other answer, or none.
pub(super) async fn is_certain(config: &Config) -> bool {
    let answer = tokio::time::timeout(host_limit(config), ask(config)).await;
    matches!(answer, Ok(Ok(b'N')))
}

async fn ask(config: &Config) -> io::Result<u8> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let mut socket = match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(ip), _) => TcpStream::connect((*ip, port)).await?,
        (None, Some(Host::Tcp(name))) => TcpStream::connect((name.as_str(), port)).await?,
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).await?;
    socket.read_u8().await
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::postgres::{ConnectError, Roots, Tls, TlsMode, connect_to};

    /// What becomes of a server that answers each request for TLS with this.
    async fn answered(answer: &'static [u8]) -> ConnectError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 8];
                socket.read_exact(&mut request).await.unwrap();
                socket.write_all(answer).await.unwrap();
            }
        });
        let mut config = Config::new();
        config.host("127.0.0.1").hostaddr("127.0.0.1".parse().unwrap()).port(port).user("me");
        config.ssl_mode(tokio_postgres::config::SslMode::Require);
        let tls = Tls { mode: TlsMode::Require, roots: Roots::System, identity: None };
        let error = connect_to(&mut config, &tls.connector().unwrap()).await.err().unwrap();
        server.abort();
        error
    }

    #[tokio::test]
    async fn only_a_no_is_a_no() {
        let refused = answered(b"N").await;
        assert!(refused.fix().is_some_and(|fix| fix.contains("ssl = on")), "{refused}");
        let passing = answered(b"Ecould not fork new process for connection\n\0").await;
        assert_eq!(passing.fix(), None, "{passing}");
    }
}
