//! Writing events: the functions in the database, and the library that calls them.

mod batch;
mod concurrent;
mod docs;
mod end_to_end;
mod generated;
mod impostors;
mod library;
mod mapped;
mod observed;
mod sql;
mod tables;
mod tenants;

use std::time::Duration;

use postgres::Client;
use tokio::runtime::Runtime;

use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
pub const SOON: Duration = Duration::from_secs(60);

#[track_caller]
pub fn text(client: &mut Client, sql: &str) -> String {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
}

#[track_caller]
pub fn number(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
}

/// Runs SQL that must fail with this code, and returns message and hint.
#[track_caller]
fn refused(client: &mut Client, sql: &str, code: &str) -> String {
    let error = client.batch_execute(sql).expect_err(sql);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
    assert_eq!(error.code().code(), code, "{sql}: {error}");
    format!("{}; {}", error.message(), error.hint().unwrap_or("no hint"))
}

/// Waits until this many sessions of the database wait for a lock in a statement with this text.
#[track_caller]
pub fn wait_for_waiting(fixture: &Fixture, count: i64, statement: &str) {
    let mut client = fixture.client();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    wait_until(&format!("{count} to wait with {statement}"), SOON, || {
        client.query_one(sql, &[&statement]).unwrap().get::<_, i64>(0) == count
    });
}

/// A runtime for asynchronous code.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A session of tokio-postgres; its connection task runs on the runtime.
pub async fn tokio_postgres(fixture: &Fixture) -> tokio_postgres::Client {
    let url = fixture.postgres().url(fixture.database());
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("cannot connect");
    tokio::spawn(connection);
    client
}

pub async fn sqlx(fixture: &Fixture) -> sqlx::PgPool {
    let url = fixture.postgres().url(fixture.database());
    let options = sqlx::postgres::PgPoolOptions::new().max_connections(4);
    options.connect(&url).await.expect("cannot connect")
}
