//! Schema `postrider` in the database: the migrations that create it, its version, and what all
//! modules that read it have to agree on.

use postrider_core::parking::Status;
use std::cmp::Ordering;
use tokio_postgres::types::{FromSql, Type};

use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Error};

/// A numbered file of `migrations/`, applied once per database.
pub(crate) struct Migration {
    pub(crate) version: i32,
    /// A program that knows the schema up to this version can work with it as this migration leaves
    /// it.
    pub(crate) compatible_since: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// Shows whether the database has applied the same migration.
    pub(crate) fn checksum(&self) -> String {
        let digest = Sha256::digest(self.sql.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The first migration whose compatibility is recorded.
pub(crate) const COMPATIBILITY: i32 = 23;

/// One of them, by its number and name.
macro_rules! migration {
    ($version:literal, $number:literal, $name:literal) => {
        migration!($version, $number, $name, compatible_since: $version)
    };
    ($version:literal, $number:literal, $name:literal, compatible_since: $since:literal) => {
        Migration {
            version: $version,
            compatible_since: $since,
            name: $name,
            sql: include_str!(concat!("../migrations/", $number, "_", $name, ".sql")),
        }
    };
}

/// In order. A migration that has been released is never edited: a later one changes what it
/// created.
pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001", "schema"),
    migration!(2, "0002", "undelivered"),
    migration!(3, "0003", "progress"),
    migration!(4, "0004", "enqueue"),
    migration!(5, "0005", "messages"),
    migration!(6, "0006", "inbox"),
    migration!(7, "0007", "cleaner"),
    migration!(8, "0008", "emit_batch"),
    migration!(9, "0009", "recovery"),
    migration!(10, "0010", "coverage"),
    migration!(11, "0011", "backfill_order"),
    migration!(12, "0012", "parked_slots"),
    migration!(13, "0013", "retention"),
    migration!(14, "0014", "inside_transaction"),
    migration!(15, "0015", "destination"),
    migration!(16, "0016", "messages_promised"),
    migration!(17, "0017", "enqueue_new"),
    migration!(18, "0018", "parked_identity"),
    migration!(19, "0019", "messages_while_recovering"),
    migration!(20, "0020", "coverage_of_partitions"),
    migration!(21, "0021", "side_table"),
    migration!(22, "0022", "backfill_lease"),
    migration!(23, "0023", "compatible"),
    migration!(24, "0024", "qualified_names"),
    migration!(25, "0025", "bound_checks"),
    migration!(26, "0026", "emit_needs_slot", compatible_since: 25),
    migration!(27, "0027", "command_lock", compatible_since: 25),
    migration!(28, "0028", "plain_comments", compatible_since: 25),
    migration!(29, "0029", "mapped_columns", compatible_since: 25),
    migration!(30, "0030", "enqueue_mapped", compatible_since: 25),
    migration!(31, "0031", "routes"),
];

/// The version of the schema that this program creates and needs.
pub(crate) fn known_version() -> i32 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

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

/// Whether rows of the tables are to be published for the slot, before anything is read from it.
pub(crate) async fn has_backfill(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM postrider.backfill WHERE slot = $1)";
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// The statuses in `postrider.undelivered` of events that are not finished: such an event holds its
/// key.
macro_rules! live_statuses {
    () => {
        "'pending', 'processing', 'dead'"
    };
}
pub(crate) use live_statuses;

/// The same, as the right side of IN.
macro_rules! live {
    () => {
        concat!("(", $crate::schema::live_statuses!(), ")")
    };
}
pub(crate) use live;

/// A status, read from a column of type text.
pub(crate) struct StatusColumn(pub(crate) Status);

impl<'a> FromSql<'a> for StatusColumn {
    fn from_sql(
        ty: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let label = <&str>::from_sql(ty, raw)?;
        let status = Status::parse(label).ok_or_else(|| format!("unknown status {label:?}"))?;
        Ok(StatusColumn(status))
    }

    fn accepts(ty: &Type) -> bool {
        <&str>::accepts(ty)
    }
}
