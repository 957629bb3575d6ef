//! Whether the side table is there and may be used.

use std::cmp::Ordering;

use tokio_postgres::{Client, Error};

use crate::config::quote_identifier;
use crate::setup::migrate::known_version;

/// Why the side table can't be used, and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoAccess {
    /// What is missing.
    pub text: String,
    /// What to do.
    pub fix: String,
}

/// See [`lock`](crate::parking::store::lock).
const SLOT_LOCK: (&str, &[&str]) = ("slot_lock", &["SELECT", "INSERT", "UPDATE"]);

/// What tells whether this program can work with the schema at all.
const SCHEMA_VERSION: (&str, &[&str]) = ("schema_version", &["SELECT"]);

/// Tables, with what a role must be allowed to do to each.
type Rights = &'static [(&'static str, &'static [&'static str])];

/// What somebody is about to do to the side table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Park events, try them again, and delete those that are done.
    Keep,
    /// Look at events.
    Look,
    /// Give events up.
    Discard,
    /// Publish dead events, and count them.
    Replay,
    /// See which slots are gone.
    FindOrphans,
    /// Take events over from a slot that is gone.
    TakeOver,
    /// Keep the relay's progress.
    Progress,
}

impl Access {
    fn rights(self) -> Rights {
        match self {
            Access::Keep => &[
                ("undelivered", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("replayed", &["SELECT"]),
                SLOT_LOCK,
            ],
            Access::Look => &[("undelivered", &["SELECT"])],
            Access::Discard => &[("undelivered", &["SELECT", "UPDATE"]), SLOT_LOCK],
            Access::Replay => &[
                ("undelivered", &["SELECT", "UPDATE"]),
                ("replayed", &["SELECT", "INSERT", "UPDATE"]),
                ("progress", &["SELECT"]),
                SLOT_LOCK,
            ],
            Access::FindOrphans => &[("undelivered", &["SELECT"]), ("backfill", &["SELECT"])],
            Access::TakeOver => &[
                ("undelivered", &["SELECT", "UPDATE", "DELETE"]),
                ("progress", &["SELECT", "UPDATE"]),
                ("backfill", &["SELECT"]),
                SLOT_LOCK,
            ],
            Access::Progress => &[
                ("progress", &["SELECT", "INSERT", "UPDATE"]),
                ("coverage", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("backfill", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("backfill_table", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("message_slot", &["SELECT", "INSERT"]),
            ],
        }
    }
}

/// Whether the relay may use the side table. None: everything is there.
pub async fn check_access(client: &Client) -> Result<Option<NoAccess>, Error> {
    check_access_to(client, Access::Keep).await
}

/// The same for somebody who wants less, or something else.
pub async fn check_access_to(client: &Client, access: Access) -> Result<Option<NoAccess>, Error> {
    // By the catalogs: to_regclass fails without the right to look into the schema.
    const TABLE: &str = "SELECT coalesce(bool_and(has_table_privilege(c.oid, r.name)), true) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, \
                unnest($2::text[]) AS r(name) \
          WHERE n.nspname = 'postrider' AND c.relname = $1 \
          GROUP BY c.oid";
    const SCHEMA: &str = "SELECT current_user::text, has_schema_privilege(oid, 'USAGE') \
           FROM pg_namespace WHERE nspname = 'postrider'";
    let Some(row) = client.query_opt(SCHEMA, &[]).await? else {
        return Ok(access.rights().first().map(|(table, _)| missing(table)));
    };
    let role = quote_identifier(row.try_get(0)?);
    let mut lacking = Vec::new();
    let mut grants = Vec::new();
    if !row.try_get::<_, bool>(1)? {
        lacking.push("USAGE on schema postrider".to_owned());
        grants.push(format!("GRANT USAGE ON SCHEMA postrider TO {role}"));
    }
    for &(table, rights) in access.rights().iter().chain(&[SCHEMA_VERSION]) {
        let Some(row) = client.query_opt(TABLE, &[&table, &rights]).await? else {
            return Ok(Some(missing(table)));
        };
        if !row.try_get::<_, bool>(0)? {
            let rights = rights.join(", ");
            lacking.push(format!("{rights} on postrider.{table}"));
            grants.push(format!("GRANT {rights} ON postrider.{table} TO {role}"));
        }
    }
    if lacking.is_empty() {
        return wrong_version(client).await;
    }
    Ok((!lacking.is_empty()).then(|| NoAccess {
        text: format!("role {role} lacks {}", lacking.join("; ")),
        fix: format!("run as the owner of schema postrider: {}", grants.join("; ")),
    }))
}

/// A schema of another version than this program's, unless it says that it is compatible. It must be
/// there, and readable.
pub(crate) async fn wrong_version(client: &Client) -> Result<Option<NoAccess>, Error> {
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
    Ok(Some(NoAccess {
        text: format!("schema postrider has version {found}, and this postrider needs {known}"),
        fix: fix.to_owned(),
    }))
}

fn missing(table: &str) -> NoAccess {
    NoAccess {
        text: format!("the table postrider.{table} is missing"),
        fix: "run `postrider migrate`".to_owned(),
    }
}
