//! The configured tables and their publication, together; and whether all rows of the tables can be
//! read, which only publishing from them needs.

use tokio_postgres::{Client, Error};

use super::table::{self, TableProblem};
use super::{Finding, Findings, promised};
use crate::config::{OutboxTable, PostgresConfig, quote_identifier};
use crate::rights::{HiddenRows, hidden_rows, lacking_on_tables, remedy, rights};
use crate::session_end::SessionEnd;
use postrider_core::row::PresentTable;

/// The configured tables as they are now; an error unless their rows can be published from them,
/// and no other table is promised for the slot.
pub(crate) async fn check_tables_to_read(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Vec<PresentTable>, SessionEnd> {
    let present = check_tables(client, config).await?;
    check_readable(client, &present).await??;
    promised::refuse_unread(client, config).await??;
    Ok(present)
}

/// The configured tables as they are now; an error if one of them can't be read through the
/// publication.
async fn check_tables(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Vec<PresentTable>, SessionEnd> {
    let mut findings = Findings::default();
    let tables = look_at_tables(client, config, &mut findings).await?;
    match findings.first() {
        None => Ok(tables),
        Some(finding) => Err(finding.into()),
    }
}

/// The same, with everything that is wrong. The tables are complete only if nothing is wrong.
pub(super) async fn look_at_tables(
    client: &Client,
    config: &PostgresConfig,
    findings: &mut Findings,
) -> Result<Vec<PresentTable>, Error> {
    let name = &config.publication;
    let publication = Publication::look_up(client, name).await?;
    let mut tables = Vec::with_capacity(config.tables.len());
    let Some(publication) = findings.note(publication.ok_or_else(|| missing_publication(name)))
    else {
        return Ok(tables);
    };
    findings.note(publication.check_inserts(name));
    for table in &config.tables {
        let checked = check_table(client, config, table, publication.via_root).await?;
        tables.extend(findings.note(checked));
    }
    Ok(tables)
}

/// The table as it is now.
async fn check_table(
    client: &Client,
    config: &PostgresConfig,
    table: &OutboxTable,
    via_root: bool,
) -> Result<Result<PresentTable, Finding>, Error> {
    let (name, publication) = (&table.name, &config.publication);
    let Some(found) = table::look_up(client, publication, name).await? else {
        let missing = Finding::new(
            format!("there is no table {name}"),
            "",
            "run `postrider migrate` to create it, or correct postgres.tables",
        );
        return Ok(Err(promised::or_lapse(client, config, missing).await?));
    };
    let present = match found.judge(config, table, Some(via_root)) {
        Ok(present) => present,
        Err(problem) => return Ok(Err(problem.into())),
    };
    if found.is_published() {
        return Ok(Ok(present));
    }
    match table::published_ancestor(client, publication, &found).await? {
        Some(ancestor) => {
            let (publication, table) = (publication.clone(), name.clone());
            Ok(Err(TableProblem::AncestorName { publication, table, ancestor }.into()))
        }
        None => {
            let missing = Finding::new(
                format!("publication \"{publication}\" does not publish table {name}"),
                "",
                "run `postrider migrate`, which adds it",
            );
            Ok(Err(promised::or_lapse(client, config, missing).await?))
        }
    }
}

/// A publication that exists.
pub(crate) struct Publication {
    inserts: bool,
    /// Rows of partitions arrive under the name of their table.
    pub(crate) via_root: bool,
}

impl Publication {
    pub(crate) async fn look_up(client: &Client, name: &str) -> Result<Option<Self>, Error> {
        let sql = "select pubinsert, pubviaroot from pg_publication where pubname = $1";
        let row = client.query_opt(sql, &[&name]).await?;
        row.map(|row| Ok(Publication { inserts: row.try_get(0)?, via_root: row.try_get(1)? }))
            .transpose()
    }

    pub(crate) fn check_inserts(&self, name: &str) -> Result<(), Finding> {
        if self.inserts {
            Ok(())
        } else {
            Err(Finding::new(
                format!("publication \"{name}\" does not publish inserts"),
                "events are inserted rows",
                format!(
                    "run ALTER PUBLICATION {} SET (publish = 'insert'), or choose another name for \
                 postgres.publication",
                    quote_identifier(name)
                ),
            ))
        }
    }
}

/// The finding if there is no publication.
fn missing_publication(name: &str) -> Finding {
    Finding::new(
        format!("there is no publication \"{name}\""),
        "Postgres sends rows only through a publication",
        "run `postrider migrate`, which creates it; if it existed before, run `postrider recover`: \
         WAL from before a publication can't be read through it",
    )
}

/// Receiving rows through the log needs no right on their table. Reading the table does, and
/// policies must not hide rows.
pub(crate) async fn check_readable(
    client: &Client,
    tables: &[PresentTable],
) -> Result<Result<(), Finding>, Error> {
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    let lacking = lacking_on_tables(client, &ids, &["SELECT"]).await?;
    if !lacking.is_empty() {
        let role: String =
            client.query_one("select format('%I', current_user)", &[]).await?.try_get(0)?;
        return Ok(Err(Finding::new(
            format!("role {role} lacks {}", rights(&lacking)),
            "the rows of the table are to be published",
            format!("run as the owner of the table: {}", remedy(&lacking)),
        )));
    }
    Ok(hidden_rows(client, &ids).await?.map_or(Ok(()), |hidden| Err(hidden_from(hidden))))
}

fn hidden_from(hidden: HiddenRows) -> Finding {
    let HiddenRows { tables, first, role, owns } = hidden;
    let bypass = format!("ALTER ROLE {role} BYPASSRLS (as a superuser)");
    let fix = if owns {
        format!("run ALTER TABLE {first} NO FORCE ROW LEVEL SECURITY as its owner, or {bypass}")
    } else {
        format!("run {bypass}, or run this command as the owner of the table")
    };
    Finding::new(
        format!("row-level security hides rows of {tables} from role {role}"),
        "all rows must be read to be published",
        fix,
    )
}
