//! Whether all rows of the tables can be read.

use tokio_postgres::{Client, Error};

use super::Finding;
use crate::rights::{HiddenRows, hidden_rows, lacking_on_tables, remedy, rights};
use postrider_core::row::PresentTable;

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
