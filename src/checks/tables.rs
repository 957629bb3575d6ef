//! The configured tables and their publication, together.

use tokio_postgres::{Client, Error};

use super::table::{self, TableProblem};
use super::{Finding, Findings, Publication, promised, publication};
use crate::config::{OutboxTable, PostgresConfig};
use crate::session_end::SessionEnd;
use postrider_core::row::PresentTable;

/// The configured tables as they are now; an error if one of them can't be read through the
/// publication.
pub(crate) async fn check_tables(
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
    let Some(publication) = findings.note(publication.ok_or_else(|| publication::missing(name)))
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
