//! Opens the socket and starts a replication session on it.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::ReplicationError;
use super::auth::authenticate;
use super::wire::{Socket, Wire};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PORT: u16 = 5432;

/// Connects to the first host that answers and authenticates there.
pub(super) async fn connect(config: &Config) -> Result<Wire, ReplicationError> {
    let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let mut last = None;
    for (index, host) in hosts(config).iter().enumerate() {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
        match timeout(limit, open(host, port)).await {
            Ok(Ok(socket)) => {
                return match timeout(limit, start_up(Wire::new(socket), config)).await {
                    Ok(result) => result,
                    Err(_) => Err(ReplicationError::Silent(limit)),
                };
            }
            Ok(Err(source)) => last = Some((address(host, port), source)),
            Err(_) => last = Some((address(host, port), io::ErrorKind::TimedOut.into())),
        }
    }
    let (address, source) =
        last.unwrap_or_else(|| ("(no host)".to_owned(), io::ErrorKind::NotFound.into()));
    Err(ReplicationError::Connect { address, source })
}

/// Addresses stand for the names they are given with, and need none.
fn hosts(config: &Config) -> Vec<Host> {
    match config.get_hostaddrs() {
        [] => config.get_hosts().to_vec(),
        addresses => addresses.iter().map(|address| Host::Tcp(address.to_string())).collect(),
    }
}

async fn open(host: &Host, port: u16) -> io::Result<Box<dyn Socket>> {
    match host {
        Host::Tcp(name) => {
            let socket = TcpStream::connect((name.as_str(), port)).await?;
            socket.set_nodelay(true)?;
            Ok(Box::new(socket))
        }
        Host::Unix(folder) => Ok(Box::new(UnixStream::connect(socket_path(folder, port)).await?)),
    }
}

fn socket_path(folder: &Path, port: u16) -> std::path::PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

fn address(host: &Host, port: u16) -> String {
    match host {
        Host::Tcp(name) => format!("{name}:{port}"),
        Host::Unix(folder) => socket_path(folder, port).display().to_string(),
    }
}

async fn start_up(mut wire: Wire, config: &Config) -> Result<Wire, ReplicationError> {
    let user = config.get_user().unwrap_or("postgres");
    let mut parameters = vec![
        ("user", user),
        ("database", config.get_dbname().unwrap_or(user)),
        ("replication", "database"),
        ("client_encoding", "UTF8"),
        // The text form of bytea and timestamps must not depend on the role's settings.
        ("bytea_output", "hex"),
        ("DateStyle", "ISO"),
        ("application_name", config.get_application_name().unwrap_or("postrider")),
    ];
    if let Some(options) = config.get_options() {
        parameters.push(("options", options));
    }
    let mut message = BytesMut::new();
    frontend::startup_message(parameters, &mut message)?;
    wire.send(&message).await?;
    authenticate(&mut wire, user, config.get_password()).await?;
    Ok(wire)
}
