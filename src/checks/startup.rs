//! Everything that must be true before the stream starts.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::tables::look_at_tables;
use super::{Finding, Findings, check_server, check_slot};
use crate::config::PostgresConfig;
use crate::postgres::log_end;
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;
use postrider_core::row::{PresentTable, has_binary_form};

/// What a session needs to know about the server.
pub(crate) struct Facts {
    pub(crate) wal_sender_timeout: Duration,
    /// All columns the relay reads have a binary form it knows.
    pub(crate) binary: bool,
    /// Where the log ended when the tables were examined.
    pub(crate) wal_end: Lsn,
    /// The configured tables as they were then.
    pub(crate) tables: Vec<PresentTable>,
    /// The encoding in which text is to be sent.
    pub(crate) client_encoding: &'static str,
}

/// Checks server, slot, publication, tables and messages.
pub(crate) async fn check_startup(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Facts, SessionEnd> {
    // A server that can't be used can't be asked for the rest.
    let server = check_server(client).await?;
    let mut findings = Findings::default();
    let client_encoding = client_encoding(client).await?;
    let wal_end = log_end(client).await?;
    let looked = look_at_objects(client, config, &mut findings).await;
    // A query that failed after something was found matters less than what was found.
    if let Some(finding) = findings.first() {
        return Err(finding.into());
    }
    let tables = looked?;
    let binary = config.tables.iter().zip(&tables).all(|(table, present)| {
        let read = |name: &str| table.columns.reads(name);
        present
            .columns
            .iter()
            .all(|column| !read(&column.name) || has_binary_form(column.column_type.type_oid))
    });
    let wal_sender_timeout = server.wal_sender_timeout;
    Ok(Facts { wal_sender_timeout, binary, wal_end, tables, client_encoding })
}

/// Checks slot, publication, tables and messages. Returns the tables, complete only if nothing is
/// wrong.
async fn look_at_objects(
    client: &Client,
    config: &PostgresConfig,
    findings: &mut Findings,
) -> Result<Vec<PresentTable>, Error> {
    findings.note(check_slot(client, config).await?);
    let tables = look_at_tables(client, config, findings).await?;
    if config.messages.is_some() {
        findings.note(check_messages(client).await?);
    }
    Ok(tables)
}

/// The server converts text to UTF-8, whatever the database's encoding. SQL_ASCII is not an
/// encoding: there the server can only reject text that is not UTF-8, and then nobody knows which
/// row it was in. So it sends bytes as they are, and the relay reports which row has which of them
/// in a column that must be text.
pub(crate) async fn client_encoding(client: &Client) -> Result<&'static str, Error> {
    let sql = "select current_setting('server_encoding')";
    let encoding: String = client.query_one(sql, &[]).await?.try_get(0)?;
    Ok(if encoding == "SQL_ASCII" { "SQL_ASCII" } else { "UTF8" })
}

/// By the catalogs: the relay itself needs no right on these functions, nor on their schema.
async fn check_messages(client: &Client) -> Result<Result<(), Finding>, Error> {
    let sql = "select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
                               where n.nspname = 'postrider' and p.proname = 'emit')";
    Ok(if client.query_one(sql, &[]).await?.try_get(0)? {
        Ok(())
    } else {
        Err(Finding::new(
            "postgres.messages is true, but there is no function postrider.emit",
            "applications need it to write events without a table",
            "run `postrider migrate`, which creates it, or set postgres.messages to false",
        ))
    })
}
