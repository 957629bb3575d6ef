//! Whether this program can work with the schema of the database.

use std::cmp::Ordering;

use tokio_postgres::{Client, Error};

use super::known_version;

/// The schema has a version that this program can't work with.
pub(crate) struct WrongVersion {
    pub(crate) text: String,
    pub(crate) fix: String,
}

/// A schema of another version than this program's, unless it is marked as compatible. It must
/// exist, and be readable.
pub(crate) async fn wrong_version(client: &Client) -> Result<Option<WrongVersion>, Error> {
    const SAYS_SO: &str = "SELECT EXISTS (SELECT FROM pg_attribute a \
           JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
          WHERE n.nspname = 'postrider' AND c.relname = 'schema_version' \
            AND a.attname = 'compatible_since')";
    let row = client.query_one(SAYS_SO, &[]).await?;
    let since = if row.try_get(0)? { "compatible_since" } else { "NULL::int" };
    let sql = format!(
        "SELECT version, {since} FROM postrider.schema_version ORDER BY version DESC LIMIT 1"
    );
    let Some(row) = client.query_opt(&sql, &[]).await? else { return Ok(None) };
    let (found, since): (i32, Option<i32>) = (row.try_get(0)?, row.try_get(1)?);
    let known = known_version();
    let fix = match (found.cmp(&known), since) {
        (Ordering::Equal, _) => return Ok(None),
        (Ordering::Greater, Some(since)) if since <= known => return Ok(None),
        (Ordering::Greater, _) => "run a newer postrider: this one can't work with that schema",
        (Ordering::Less, _) => "run `postrider migrate` of this version",
    };
    Ok(Some(WrongVersion {
        text: format!(
            "schema postrider has version {found}, but this version of postrider needs {known}"
        ),
        fix: fix.to_owned(),
    }))
}
