//! The ordinary connection: catalogs, settings, SQL. Not the replication stream.

use std::error::Error;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// Why there is no connection, and whose turn it is.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Trying again can't help: the server answered, and said no.
    #[error("Postgres at {server} does not let {role} in: {reason}")]
    Refused {
        /// Host, port and database.
        server: String,
        /// The role that asked.
        role: String,
        /// The server's words.
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
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Refused { fix, .. } => Some(fix),
            Self::Unavailable { .. } => None,
        }
    }
}

/// Connects, within a bounded time.
pub(crate) async fn connect(config: &Config) -> Result<(Client, ConnectionGuard), ConnectError> {
    let limit = connect_limit(config);
    match tokio::time::timeout(limit, config.connect(NoTls)).await {
        Ok(Ok((client, connection))) => {
            let task = tokio::spawn(async move { connection.await.err() });
            Ok((client, ConnectionGuard { task: Some(task) }))
        }
        Ok(Err(error)) => Err(classify(config, &error)),
        Err(_) => {
            let reason = format!("no answer within {}", humantime::format_duration(limit));
            Err(ConnectError::Unavailable { server: server(config), reason })
        }
    }
}

/// tokio-postgres bounds only the opening of each socket, not what a server that has accepted it
/// takes to answer. One more share for that.
pub(crate) fn connect_limit(config: &Config) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(10);
    let each = config.get_connect_timeout().copied().unwrap_or(DEFAULT);
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    each.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX).saturating_add(1))
}

fn classify(config: &Config, error: &tokio_postgres::Error) -> ConnectError {
    let reason = describe(error);
    match fix(error, &reason) {
        Some(fix) => ConnectError::Refused {
            server: server(config),
            role: config.get_user().unwrap_or_default().to_owned(),
            reason,
            fix,
        },
        None => ConnectError::Unavailable { server: server(config), reason },
    }
}

/// What an operator has to do; `None` if the error may pass by itself. An unknown error is one that
/// may pass.
fn fix(error: &tokio_postgres::Error, reason: &str) -> Option<&'static str> {
    const PASSWORD: &str = "set the right user and password in postgres.url, PGUSER and PGPASSWORD";
    let code = error.code();
    if code == Some(&SqlState::INVALID_CATALOG_NAME) {
        return Some("create the database, or name an existing one in postgres.url");
    }
    if code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return Some("grant the role CONNECT on the database");
    }
    if reason.contains("pg_hba.conf") {
        // Also what a server says that wants TLS: "no encryption".
        return Some(
            "allow this host, role and database without TLS in the server's pg_hba.conf \
             (postrider has no TLS yet)",
        );
    }
    if code.is_some_and(|code| code.code().starts_with("28")) {
        return Some(PASSWORD);
    }
    // These two have no code, only words: see tokio_postgres::Error's Display.
    let local = reason.starts_with("invalid configuration");
    let authentication = reason.starts_with("authentication error");
    (code.is_none() && (local || authentication)).then_some(PASSWORD)
}

/// An error in words. Not the server's DETAIL: it quotes rows.
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
pub(crate) fn server(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let named = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = match config.get_hosts().is_empty() {
        false => named.collect(),
        true => config.get_hostaddrs().iter().map(ToString::to_string).collect(),
    };
    let hosts = hosts.iter().enumerate().map(|(index, host)| format!("{host}:{}", port(index)));
    let hosts: Vec<String> = hosts.collect();
    format!("{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_secrets() {
        #[track_caller]
        fn check(url: &str, expect: &str) {
            assert_eq!(server(&url.parse().unwrap()), expect);
        }
        check("postgres://u:pw@db:5433/shop", "db:5433/shop");
        check("host=a,b port=1,2 dbname=x password=pw", "a:1,b:2/x");
        check("host=/run/postgresql dbname=x", "/run/postgresql:5432/x");
        check("hostaddr=10.0.0.1 dbname=x", "10.0.0.1:5432/x");
    }

    #[tokio::test]
    async fn nobody_listening_may_pass() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let config = format!("postgres://u@127.0.0.1:{port}/x").parse().unwrap();
        let error = connect(&config).await.err().unwrap();
        assert_eq!(error.fix(), None, "{error}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
}
