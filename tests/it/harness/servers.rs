//! Servers of other kinds than the shared ones, each started when a test first needs it.
//!
//! Statics are never dropped: the servers' guardians stop them when this process ends.

use std::sync::OnceLock;

use testkit::kafka::secured::SecuredKafka;
use testkit::postgres::{PostgresOptions, PostgresServer, TcpAuth};
use testkit::registry::Registry;
use testkit::registry::apicurio::Apicurio;

/// Asks for passwords by SCRAM-SHA-256.
pub fn scram() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| asking(TcpAuth::ScramSha256))
}

/// Asks for passwords by md5.
pub fn md5() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| asking(TcpAuth::Md5))
}

/// Has no logical decoding.
pub fn without_logical_decoding() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        PostgresServer::start(PostgresOptions::default().setting("wal_level", "replica"))
    })
}

/// A Kafka with TLS, users and an authorizer.
pub fn secured_kafka() -> &'static SecuredKafka {
    static SERVER: OnceLock<SecuredKafka> = OnceLock::new();
    SERVER.get_or_init(SecuredKafka::start)
}

/// A schema registry that others have written. It has no GUIDs.
pub fn apicurio() -> &'static Registry {
    static SERVER: OnceLock<Apicurio> = OnceLock::new();
    SERVER.get_or_init(Apicurio::start).registry()
}

fn asking(auth: TcpAuth) -> PostgresServer {
    let mut options = PostgresOptions { auth, ..PostgresOptions::default() };
    if auth == TcpAuth::Md5 {
        // pg_hba's md5 accepts SCRAM secrets too, so the secrets must be md5.
        options = options.setting("password_encryption", "md5");
    }
    let server = PostgresServer::start(options);
    if auth == TcpAuth::Md5 {
        // initdb stored the superuser's secret before the setting was in effect.
        let mut client = server.client("postgres");
        client.batch_execute("ALTER ROLE postgres PASSWORD 'postgres'").unwrap();
    }
    server
}
