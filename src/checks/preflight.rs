//! What must be true before the stream starts; each finding says how to mend it.

use std::time::Duration;

use tokio_postgres::Client;

pub(crate) use super::slot::{Found, check_slot, confirmed_position, find_slot};
use super::table::{self, TableProblem};
use crate::config::{OutboxTable, PostgresConfig, quote_identifier};
use crate::parking::store::{self, Access};
use crate::progress::store::has_promised_messages;
use crate::progress::{self, Gap, Promise, Unsent, coverage};
use crate::session_end::{RestartReason, SessionEnd};
use postrider_core::lsn::Lsn;
use postrider_core::row::{PresentTable, has_binary_form};

/// Binary values and logical messages need it.
const SERVER_VERSION_MIN: i32 = 140_000;

/// What a session needs to know about the server.
pub(crate) struct Facts {
    pub(crate) wal_sender_timeout: Duration,
    /// All columns the relay reads have a binary form it knows.
    pub(crate) binary: bool,
    /// Where the log ended when the tables were looked at.
    pub(crate) wal_end: Lsn,
    /// The configured tables as they were then.
    pub(crate) tables: Vec<PresentTable>,
    /// What text is to be sent as.
    pub(crate) client_encoding: &'static str,
}

/// Checks server, slot, publication and tables.
pub(crate) async fn check(client: &Client, config: &PostgresConfig) -> Result<Facts, SessionEnd> {
    let wal_sender_timeout = check_server(client).await?;
    let client_encoding = client_encoding(client).await?;
    let wal_end = wal_end(client).await?;
    check_slot(client, config).await?;
    let tables = check_tables(client, config).await?;
    let binary = config.tables.iter().zip(&tables).all(|(table, present)| {
        let read = |name: &str| table.columns.readers(name).next().is_some();
        present.columns.iter().all(|(name, type_oid)| !read(name) || has_binary_form(*type_oid))
    });
    if config.messages.is_some() {
        check_messages(client).await?;
    }
    Ok(Facts { wal_sender_timeout, binary, wal_end, tables, client_encoding })
}

/// Checks the publication and the tables, without the slot.
pub(crate) async fn check_tables(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Vec<PresentTable>, SessionEnd> {
    let via_root = check_publication(client, config).await?;
    let mut tables = Vec::with_capacity(config.tables.len());
    for table in &config.tables {
        tables.push(check_table(client, config, table, via_root).await?);
    }
    Ok(tables)
}

/// The server turns text into UTF-8, whatever the database's encoding. SQL_ASCII is none: there it
/// can only refuse what is no UTF-8, and then nobody knows which row it was. So it sends bytes as
/// they are, and the relay says which row has what in a column that must be text.
pub(crate) async fn client_encoding(client: &Client) -> Result<&'static str, SessionEnd> {
    let sql = "select current_setting('server_encoding')";
    let encoding: String = client.query_one(sql, &[]).await?.try_get(0)?;
    Ok(if encoding == "SQL_ASCII" { "SQL_ASCII" } else { "UTF8" })
}

pub(crate) async fn check_server(client: &Client) -> Result<Duration, SessionEnd> {
    let row = client
        .query_one(
            "select current_setting('server_version_num')::int, current_setting('wal_level'), \
                    setting::bigint \
               from pg_settings where name = 'wal_sender_timeout'",
            &[],
        )
        .await?;
    let version: i32 = row.try_get(0)?;
    if version < SERVER_VERSION_MIN {
        return Err(SessionEnd::fatal(
            format!("the server is Postgres {}, too old", version / 10_000),
            "use Postgres 14 or newer",
        ));
    }
    check_primary(client).await?;
    let wal_level: String = row.try_get(1)?;
    if wal_level != "logical" {
        return Err(SessionEnd::fatal(
            format!("the server's wal_level is {wal_level}, and logical decoding needs logical"),
            crate::postgres::SET_WAL_LEVEL,
        ));
    }
    let timeout_ms: i64 = row.try_get(2)?;
    Ok(Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)))
}

/// A standby may be promoted, or the name be moved to the primary, so it is waited for.
pub(crate) async fn check_primary(client: &Client) -> Result<(), SessionEnd> {
    if client.query_one("select pg_is_in_recovery()", &[]).await?.try_get(0)? {
        let text = "the server is a standby, and the slot is on the primary: name the primary in \
                    postgres.url, or all hosts with target_session_attrs=read-write, which finds it";
        return Err(SessionEnd::restart(RestartReason::Postgres, text));
    }
    Ok(())
}

/// Says whether partitions come under the name of their table.
async fn check_publication(client: &Client, config: &PostgresConfig) -> Result<bool, SessionEnd> {
    let name = &config.publication;
    let sql = "select pubinsert, pubviaroot from pg_publication where pubname = $1";
    let Some(row) = client.query_opt(sql, &[name]).await? else {
        return Err(SessionEnd::fatal(
            format!("there is no publication \"{name}\""),
            "run `postrider migrate`, which creates it; if it existed before, run `postrider \
             recover`: WAL from before a publication can't be read through it",
        ));
    };
    if !row.try_get::<_, bool>(0)? {
        return Err(SessionEnd::fatal(
            format!("publication \"{name}\" does not publish inserts"),
            format!("ALTER PUBLICATION {} SET (publish = 'insert')", quote_identifier(name)),
        ));
    }
    Ok(row.try_get(1)?)
}

/// By the catalogs: the relay itself needs no right on these functions, nor on their schema.
async fn check_messages(client: &Client) -> Result<(), SessionEnd> {
    let sql = "select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
                               where n.nspname = 'postrider' and p.proname = 'emit')";
    match client.query_one(sql, &[]).await?.try_get(0)? {
        true => Ok(()),
        false => Err(SessionEnd::fatal(
            "postgres.messages is true, and there is no function postrider.emit to write messages",
            "run `postrider migrate`, which creates it, or set postgres.messages to false",
        )),
    }
}

/// Applications were told that what they emit is published: a relay that does not read it would pass
/// it by.
pub(crate) async fn check_promised(
    client: &Client,
    config: &PostgresConfig,
) -> Result<(), SessionEnd> {
    let slot = &config.slot;
    if config.messages.is_some() || !has_promised_messages(client, slot).await? {
        return Ok(());
    }
    Err(SessionEnd::fatal(
        format!(
            "slot \"{slot}\" has promised to publish events without a table (postrider.emit), and \
             postgres.messages is not true: they would be lost"
        ),
        "set postgres.messages = true; to stop publishing such events, let a relay with that setting read \
         what was written, then run `postrider migrate --withdraw messages`, from which on postrider.emit \
         fails",
    ))
}

/// Events that can't be published need a place to go.
pub(crate) async fn check_side_table(client: &Client) -> Result<(), SessionEnd> {
    match store::check_access(client).await? {
        None => Ok(()),
        Some(lacking) => Err(SessionEnd::fatal(
            lacking.text,
            format!(
                "{}; or set undelivered.order to halt: then an event that can't be published stops \
                 the relay",
                lacking.fix
            ),
        )),
    }
}

/// Where events that can't be published halt the relay, nobody works on those parked before: they
/// would stay, and later ones of their keys overtake them.
pub(crate) async fn check_nothing_parked(client: &Client, slot: &str) -> Result<(), SessionEnd> {
    match store::has_live(client, slot).await? {
        false => Ok(()),
        true => Err(SessionEnd::fatal(
            "undelivered.order is halt, and events of this slot wait in postrider.undelivered",
            "set undelivered.order back until they are published, or finish them by `postrider \
             replay` and `postrider dead discard`; `postrider dead list --status pending,dead` shows \
             them",
        )),
    }
}

/// The table as it is now.
async fn check_table(
    client: &Client,
    config: &PostgresConfig,
    table: &OutboxTable,
    via_root: bool,
) -> Result<PresentTable, SessionEnd> {
    let (name, publication) = (&table.name, &config.publication);
    let Some(found) = table::look_up(client, publication, name).await? else {
        let missing = SessionEnd::fatal(
            format!("there is no table {name}"),
            "run `postrider migrate` to create it, or correct postgres.tables",
        );
        return Err(or_lapse(client, config, missing).await);
    };
    let present = found.judge(config, table, Some(via_root))?;
    if found.is_published() {
        return Ok(present);
    }
    match table::published_ancestor(client, publication, &found).await? {
        Some(ancestor) => {
            let (publication, table) = (publication.clone(), name.clone());
            Err(TableProblem::AncestorName { publication, table, ancestor }.into())
        }
        None => {
            let missing = SessionEnd::fatal(
                format!("publication \"{publication}\" does not publish table {name}"),
                "run `postrider migrate`, which adds it",
            );
            Err(or_lapse(client, config, missing).await)
        }
    }
}

/// A new slot begins after what was promised, and the rows of tables that are not read now would be
/// left out for good.
pub(crate) async fn refuse_unread(
    client: &Client,
    config: &PostgresConfig,
) -> Result<(), SessionEnd> {
    let promises = promises(client, config).await?;
    if let Some(unsent) = Unsent::find(&config.slot, &config.publication, &promises) {
        return Err(unsent.into());
    }
    let unread = progress::unread(&promises);
    match unread.is_empty() {
        true => Ok(()),
        false => Err(SessionEnd::fatal(
            format!(
                "{} promised for slot \"{}\" and not in postgres.tables: a new slot would leave out \
                 rows of theirs",
                match unread.as_slice() {
                    [table] => format!("table {table} is"),
                    tables => format!("tables {} are", tables.join(", ")),
                },
                config.slot
            ),
            progress::fix_unread(&unread),
        )),
    }
}

/// What is promised for the slot, and not read with this configuration. Who may not look does not know.
pub(crate) async fn unread_by(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Vec<String>, SessionEnd> {
    if store::check_access_to(client, Access::Progress).await?.is_some() {
        return Ok(Vec::new());
    }
    let mut unread = progress::unread(&promises(client, config).await?);
    if config.messages.is_none() && has_promised_messages(client, &config.slot).await? {
        unread.push("events without a table".to_owned());
    }
    Ok(unread)
}

/// What is promised for the slot. Who may not look does not know.
async fn promises(client: &Client, config: &PostgresConfig) -> Result<Vec<Promise>, SessionEnd> {
    match store::check_access_to(client, Access::Progress).await? {
        Some(_) => Ok(Vec::new()),
        None => {
            let (slot, names) = (&config.slot, config.table_names());
            Ok(coverage::look(client, slot, &config.publication, &names).await?)
        }
    }
}

/// What is wrong with a table, unless it was promised: then rows may be missing, which says more.
async fn or_lapse(client: &Client, config: &PostgresConfig, otherwise: SessionEnd) -> SessionEnd {
    match promises(client, config).await {
        Err(stop) => stop,
        Ok(promises) => match progress::lapses(&promises, false) {
            lapses if lapses.is_empty() => otherwise,
            lapses => Gap::Lapse { slot: config.slot.clone(), lapses }.into(),
        },
    }
}

/// Rows come out of the log without a right on their table; to read the table takes one, and policies
/// must not hide rows: what is not seen would count as published.
pub(crate) async fn check_readable(
    client: &Client,
    tables: &[PresentTable],
) -> Result<(), SessionEnd> {
    let sql = "select format('%I.%I', n.nspname, c.relname), format('%I', current_user), \
                      has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'USAGE') \
                 from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                where c.oid = any($1) \
                  and (not has_table_privilege(c.oid, 'SELECT') or row_security_active(c.oid)) \
                order by 3, 1";
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    let rows = client.query(sql, &[&ids]).await?;
    let Some(first) = rows.first() else { return Ok(()) };
    let role: String = first.try_get(1)?;
    let may_read: bool = first.try_get(2)?;
    let mut names = Vec::new();
    for row in &rows {
        if row.try_get::<_, bool>(2)? == may_read {
            names.push(row.try_get::<_, String>(0)?);
        }
    }
    if !may_read {
        let names = names.join(", ");
        return Err(SessionEnd::fatal(
            format!("role {role} may not read {names}, whose rows are to be published"),
            format!("run as the owner of the table: GRANT SELECT ON {names} TO {role}"),
        ));
    }
    let owns = first.try_get(3)?;
    Err(hidden_rows(&names, &role, owns))
}

/// Rows that a policy hides would be left out without a word.
fn hidden_rows(names: &[String], role: &str, owns: bool) -> SessionEnd {
    let tables = names.join(", ");
    let bypass = format!("ALTER ROLE {role} BYPASSRLS (as a superuser)");
    let fix = match (owns, names.first()) {
        (true, Some(name)) => {
            format!("run ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY as its owner, or {bypass}")
        }
        _ => format!("run {bypass}, or run this command as the owner of the table"),
    };
    SessionEnd::fatal(
        format!(
            "row-level security hides rows of {tables} from role {role}, and all rows must be read \
             to be published"
        ),
        fix,
    )
}

async fn wal_end(client: &Client) -> Result<Lsn, SessionEnd> {
    let sql = "select pg_current_wal_insert_lsn()::text";
    let text = client.query_one(sql, &[]).await?.try_get(0)?;
    parse_lsn(text)
}

pub(super) fn parse_lsn(text: Option<String>) -> Result<Lsn, SessionEnd> {
    text.unwrap_or_default().parse().map_err(|error: postrider_core::lsn::ParseLsnError| {
        SessionEnd::restart(RestartReason::Postgres, error.to_string())
    })
}
