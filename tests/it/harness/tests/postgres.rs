//! Servers start with each kind of password check, stop, crash and come back with their data.

use std::time::Duration;

use testkit::postgres::{PostgresOptions, PostgresServer, StopMode, TcpAuth};

fn row_count(server: &PostgresServer) -> i64 {
    server.client("postgres").query_one("SELECT count(*) FROM t", &[]).unwrap().get(0)
}

#[test]
fn passwords_are_checked_as_configured() {
    let cases =
        [(TcpAuth::Md5, "md5"), (TcpAuth::ScramSha256, "SCRAM-SHA-256"), (TcpAuth::Trust, "")];
    for (auth, prefix) in cases {
        let server = PostgresServer::start(PostgresOptions { auth, ..PostgresOptions::default() });
        let stored: String = server
            .client("postgres")
            .query_one("SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'", &[])
            .unwrap()
            .get(0);
        assert!(stored.starts_with(prefix), "{auth:?} stores {stored}");

        let url = server.url("postgres").replace(":postgres@", ":wrong@");
        let refused = postgres::Client::connect(&url, postgres::NoTls).is_err();
        assert_eq!(refused, auth != TcpAuth::Trust, "{auth:?} and a wrong password");

        let socket = server.address().socket_url("postgres");
        postgres::Client::connect(&socket, postgres::NoTls).expect("the socket trusts everybody");
    }
}

#[test]
fn data_survives_every_kind_of_stop() {
    let options = PostgresOptions::default().setting("wal_sender_timeout", "5s");
    let mut server = PostgresServer::start(options);
    let mut client = server.client("postgres");
    let timeout: String = client.query_one("SHOW wal_sender_timeout", &[]).unwrap().get(0);
    assert_eq!(timeout, "5s");
    client.batch_execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").unwrap();

    server.stop(StopMode::Fast, Duration::from_secs(20));
    assert!(client.simple_query("SELECT 1").is_err(), "the session must have ended");
    server.start_again();
    assert_eq!(row_count(&server), 1);

    server.client("postgres").batch_execute("INSERT INTO t VALUES (2)").unwrap();
    server.stop(StopMode::Immediate, Duration::from_secs(20));
    server.start_again();
    assert_eq!(row_count(&server), 2);

    // With sessions that are executing a statement.
    let mut sleeper = server.client("postgres");
    let asleep = std::thread::spawn(move || sleeper.simple_query("SELECT pg_sleep(60)").is_err());
    server.client("postgres").batch_execute("INSERT INTO t VALUES (3)").unwrap();
    server.kill9();
    assert!(asleep.join().unwrap(), "the backend must have died with its server");
    server.start_again();
    assert_eq!(row_count(&server), 3);
}

#[test]
fn tools_reach_the_server() {
    let options = PostgresOptions { auth: TcpAuth::ScramSha256, ..PostgresOptions::default() };
    let server = PostgresServer::start(options);
    let database = server.create_database();
    let output = server
        .tool("pg_recvlogical")
        .args(["--dbname", &database, "--slot=s", "--create-slot", "--plugin=pgoutput"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wal_level: String =
        server.client(&database).query_one("SHOW wal_level", &[]).unwrap().get(0);
    assert_eq!(wal_level, "logical");
}
