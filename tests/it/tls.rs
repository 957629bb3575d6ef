//! Encrypted connections to Postgres with real certificates: what the relay accepts, and what it
//! refuses.

mod client_certificate;
mod server_certificate;
mod several_hosts;

use std::path::PathBuf;
use std::sync::OnceLock;

use std::time::Duration;

use tempfile::TempDir;

use crate::startup::assert_publishes;
use testkit::certificates::{Authority, Issued, Wanted};
use testkit::fixture::Fixture;
use testkit::mode::set_mode;
use testkit::postgres::{PostgresOptions, PostgresServer, TcpAuth};
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A role that the server authenticates only by certificate.
const CERTIFIED: &str = "certified";
/// A role that the server accepts only over TLS.
const ENCRYPTED: &str = "encrypted";

/// A server with TLS, and what its clients need.
struct TlsServer {
    server: PostgresServer,
    /// Who has signed the server's certificate.
    authority: Authority,
    folder: TempDir,
}

/// Has a certificate for `localhost`.
fn good() -> &'static TlsServer {
    static SERVER: OnceLock<TlsServer> = OnceLock::new();
    SERVER.get_or_init(|| TlsServer::start(20))
}

/// The same, but it expired yesterday.
fn expired() -> &'static TlsServer {
    static SERVER: OnceLock<TlsServer> = OnceLock::new();
    SERVER.get_or_init(|| TlsServer::start(-1))
}

impl TlsServer {
    fn start(days_left: i64) -> TlsServer {
        let authority = Authority::new("the server's authority");
        let issued = authority.issue(Wanted { name: "postgres", hosts: &["localhost"], days_left });
        let options = PostgresOptions { auth: TcpAuth::ScramSha256, ..PostgresOptions::default() }
            .setting("ssl", "on")
            .setting("ssl_cert_file", "it.crt")
            .setting("ssl_key_file", "it.key")
            .setting("ssl_ca_file", "it-clients.crt")
            .file("it.crt", &issued.certificate)
            .file("it.key", &issued.key)
            .file("it-clients.crt", &authority.pem())
            .hba(&format!("hostssl all {CERTIFIED} 127.0.0.1/32 cert"))
            .hba(&format!("hostssl all {ENCRYPTED} 127.0.0.1/32 scram-sha-256"))
            .hba(&format!("host all {CERTIFIED},{ENCRYPTED} 127.0.0.1/32 reject"));
        let server = PostgresServer::start(options);
        let roles = format!(
            "CREATE ROLE {CERTIFIED} LOGIN SUPERUSER;
             CREATE ROLE {ENCRYPTED} LOGIN SUPERUSER PASSWORD 'postgres'"
        );
        server.client("postgres").batch_execute(&roles).unwrap();
        TlsServer { server, authority, folder: tempfile::tempdir().unwrap() }
    }

    /// A migrated database.
    fn fixture(&self, name: &str) -> Fixture {
        Fixture::on(BINARY, name, &self.server.address(), &shared::broker())
    }

    /// A connection string for `role`, with more options.
    fn options(&self, fixture: &Fixture, role: &str, more: &str) -> String {
        let (port, database) = (self.server.port(), fixture.database());
        format!(
            "host=localhost hostaddr=127.0.0.1 port={port} dbname={database} user={role} {more}"
        )
    }

    /// The authority's certificate as a file.
    fn root(&self) -> String {
        self.write("root.crt", &self.authority.pem())
    }

    fn write(&self, name: &str, contents: &[u8]) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, contents).unwrap();
        set_mode(&path, 0o600);
        path.display().to_string()
    }

    /// A client's certificate by the server's authority, as options.
    fn identity(&self, file: &str, issued: &Issued) -> String {
        let certificate = self.write(&format!("{file}.crt"), &issued.certificate);
        let key = self.write(&format!("{file}.key"), &issued.key);
        format!("sslcert={certificate} sslkey={key}")
    }
}

/// Publishes an event with these options, and returns how many of the relay's connections are with
/// TLS and without.
#[track_caller]
fn publish(fixture: &mut Fixture, options: &str) -> (i64, i64) {
    fixture.set("POSTRIDER_DATABASE_URL", options);
    assert_publishes(fixture);
    let sql = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE (application_name = 'postrider' OR backend_type = 'walsender') AND datname = $1";
    let row = fixture.client().query_one(sql, &[&fixture.database()]).unwrap();
    (row.get(0), row.get(1))
}
