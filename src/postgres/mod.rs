//! The ordinary connection: catalogs, settings, SQL. Not the replication stream.

mod addresses;
mod failure;
mod fix;
pub(crate) mod locks;
mod no_tls;
pub(crate) mod session_settings;
mod sql;
mod start_up;
mod tls;
mod waiting;

use std::error::Error;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config};
use tracing::Instrument;

pub(crate) use self::failure::StatementError;
pub(crate) use self::fix::{CHANNEL_BINDING, tls_fix};
pub(crate) use self::session_settings::Purpose;
pub(crate) use self::sql::{
    CAN_FAIL_OVER, can_fail_over, log_end, publication_mark_query, quote_literal,
};
pub(crate) use self::start_up::options as session_options;
pub(crate) use self::tls::{HandshakeError, Identity, Roots, Tls, TlsMode};
pub(crate) use self::tls::{TlsConnector, server_end_point};
pub(crate) use self::waiting::log_while_waiting;

/// The fix for a server without logical decoding.
pub(crate) const SET_WAL_LEVEL: &str = "run ALTER SYSTEM SET wal_level = logical, and restart the \
    server (on Amazon RDS: set rds.logical_replication = 1 in its parameter group, and reboot)";

/// Where the database is, and how to connect to it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// One for each host, in the order they are tried. Complete; `Debug` leaves passwords out.
    pub(crate) hosts: Vec<Config>,
    /// The same for all.
    pub(crate) tls: Tls,
    /// Warnings about it, for the operator.
    pub(crate) cautions: Vec<String>,
}

impl Connection {
    /// Warnings about it, for the operator.
    pub fn cautions(&self) -> &[String] {
        &self.cautions
    }

    /// For commands that connect to no server.
    pub(crate) fn nowhere() -> Self {
        let tls = Tls { mode: TlsMode::Disable, roots: Roots::System, identity: None };
        Connection { hosts: Vec::new(), tls, cautions: Vec::new() }
    }

    /// Hosts, ports and database, for people.
    pub(crate) fn name(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(address).collect();
        let database = self.hosts.first().and_then(Config::get_dbname).unwrap_or_default();
        format!("{}/{database}", hosts.join(","))
    }

    /// tokio-postgres limits only the time to open each socket, not the time that a server then
    /// takes to answer. Twice the time is for both.
    pub(crate) fn connect_limit(&self) -> Duration {
        self.hosts.iter().map(host_limit).sum()
    }
}

fn host_limit(config: &Config) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(10);
    config.get_connect_timeout().copied().unwrap_or(DEFAULT).saturating_mul(2)
}

/// The one host that accepted us: further connections must go there.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) tls: TlsConnector,
}

impl Server {
    /// Host, port and database, for people.
    pub(crate) fn name(&self) -> String {
        name(&self.config)
    }
}

/// Why connecting failed, and who has to act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// Retrying can't help: the server answered, and refused.
    #[error("can't connect to Postgres at {server} as {role}: {reason}")]
    Refused {
        /// Host, port and database.
        server: String,
        /// The role that we connect as.
        role: String,
        /// The error's text.
        reason: String,
        /// What an operator has to do.
        fix: &'static str,
    },
    /// It may work later: unreachable, starting, stopping, full.
    #[error("can't connect to Postgres at {server}: {reason}")]
    Unavailable {
        /// Host, port and database.
        server: String,
        /// The last error.
        reason: String,
    },
}

impl ConnectError {
    /// What an operator has to do, if waiting can't help.
    pub(crate) fn fix(&self) -> Option<&str> {
        match self {
            Self::Refused { fix, .. } => Some(fix),
            Self::Unavailable { .. } => None,
        }
    }
}

/// An open connection.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) guard: ConnectionGuard,
    pub(crate) server: Server,
}

/// Connects to the first host that accepts us, within a limited time. One that refuses us ends the
/// search, as in libpq: another host would hide the mistake.
pub(crate) async fn connect(connection: &Connection) -> Result<Connected, ConnectError> {
    let tls = connection.tls.connector().map_err(|error| {
        // It was valid when the configuration was read; it may be in the middle of a renewal.
        let reason = format!("{} {error}", error.option);
        ConnectError::Unavailable { server: connection.name(), reason }
    })?;
    let mut failures = Vec::new();
    for host in &connection.hosts {
        let places = match addresses::of(host).await {
            Ok(places) => places,
            Err(error) => {
                failures.push((name(host), format!("error connecting to server: {error}")));
                continue;
            }
        };
        if let Some(connected) = connect_to_first(places, &tls, &mut failures).await? {
            return Ok(connected);
        }
    }
    let reason = match failures.as_slice() {
        [(_, reason)] => reason.clone(),
        many => {
            let told = many.iter().map(|(server, reason)| format!("{server}: {reason}"));
            told.collect::<Vec<_>>().join("; ")
        }
    };
    Err(ConnectError::Unavailable { server: connection.name(), reason })
}

/// Why a task with a connection of its own can't begin.
#[derive(Debug)]
pub(crate) enum OpenError {
    Connect(ConnectError),
    Query(tokio_postgres::Error),
    Ended(String),
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        OpenError::Query(error)
    }
}

/// Another connection to the server that accepted us.
pub(crate) async fn connect_server(
    server: &Server,
) -> Result<(Client, ConnectionGuard), ConnectError> {
    connect_to(&mut server.config.clone(), &server.tls).await
}

/// Tries the addresses in turn; `None` if all failed, with the reasons among the failures.
async fn connect_to_first(
    places: Vec<Config>,
    tls: &TlsConnector,
    failures: &mut Vec<(String, String)>,
) -> Result<Option<Connected>, ConnectError> {
    for mut config in places {
        match connect_to(&mut config, tls).await {
            Ok((client, guard)) => {
                let server = Server { config, tls: tls.clone() };
                return Ok(Some(Connected { client, guard, server }));
            }
            Err(refused @ ConnectError::Refused { .. }) => return Err(refused),
            Err(ConnectError::Unavailable { server, reason }) => {
                let ip = config.get_hostaddrs().first();
                let at = ip.map(|ip| format!(" ({ip})")).unwrap_or_default();
                failures.push((format!("{server}{at}"), reason));
            }
        }
    }
    Ok(None)
}

/// Opens a session with our settings; those that only this server has are added to `config`.
async fn connect_to(
    config: &mut Config,
    tls: &TlsConnector,
) -> Result<(Client, ConnectionGuard), ConnectError> {
    let limit = host_limit(config);
    match tokio::time::timeout(limit, open(config, tls)).await {
        Ok(Ok(open)) => Ok(open),
        Ok(Err(error)) => {
            let no_tls = describe(&error).contains(fix::NO_TLS);
            if no_tls && !no_tls::is_certain(config).await {
                let reason = "it did not answer the request for TLS".to_owned();
                return Err(ConnectError::Unavailable { server: name(config), reason });
            }
            Err(classify(config, &error))
        }
        Err(_) => {
            let reason = format!("no answer within {}", humantime::format_duration(limit));
            Err(ConnectError::Unavailable { server: name(config), reason })
        }
    }
}

async fn open(
    config: &mut Config,
    tls: &TlsConnector,
) -> Result<(Client, ConnectionGuard), tokio_postgres::Error> {
    let (client, connection) = config.connect(tls.for_tokio_postgres()).await?;
    let version = connection.parameter("server_version").map(str::to_owned);
    let task = tokio::spawn(async move { connection.await.err() }.in_current_span());
    let guard = ConnectionGuard { task: Some(task) };
    start_up::complete(&client, version.as_deref(), config).await?;
    Ok((client, guard))
}

fn classify(config: &Config, error: &tokio_postgres::Error) -> ConnectError {
    let reason = describe(error);
    match fix::connect_fix(error, &reason) {
        Some(fix) => ConnectError::Refused {
            server: name(config),
            role: config.get_user().unwrap_or_default().to_owned(),
            reason,
            fix,
        },
        None => ConnectError::Unavailable { server: name(config), reason },
    }
}

/// An error as text. Not the server's DETAIL: it quotes rows.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        let hint = db.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        return format!("{}{hint}, SQLSTATE {}", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Host, port and database, for people.
fn name(config: &Config) -> String {
    format!("{}/{}", address(config), config.get_dbname().unwrap_or_default())
}

fn address(config: &Config) -> String {
    let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, ip) => ip.map(ToString::to_string).unwrap_or_default(),
    };
    format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432))
}

/// Owns the task that moves a connection's bytes; dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    task: Option<JoinHandle<Option<tokio_postgres::Error>>>,
}

impl ConnectionGuard {
    /// Returns once the connection has ended, with the reason if there is one (the first time).
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<tokio_postgres::Error> {
        let task = self.task.as_mut()?;
        let reason = task.await.ok().flatten();
        self.task = None;
        reason
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
