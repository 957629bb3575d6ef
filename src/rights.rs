//! What the role is allowed to do in the database: on postrider's own tables, and on the outbox
//! tables.
//!
//! A missing right is always a [`Lacking`]: what is missing, and the statement that grants it. All
//! of them are found at once, so that an administrator is asked only once.
//!
//! Receiving rows through the log needs no right on their table; reading or deleting them does, and
//! no policy may hide any: a hidden row would count as published, or as not there.

use tokio_postgres::{Client, Error, GenericClient, Row};

use crate::config::quote_identifier;
use crate::schema::wrong_version;

/// A right that the role does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// For people, with what it is needed for.
    pub(crate) right: String,
    /// What grants it.
    pub(crate) statement: String,
}

/// The rights, for a sentence.
pub(crate) fn rights(lacking: &[Lacking]) -> String {
    lacking.iter().map(|lacking| lacking.right.as_str()).collect::<Vec<_>>().join("; ")
}

/// The statements, ready to be run.
pub(crate) fn remedy(lacking: &[Lacking]) -> String {
    lacking.iter().map(|lacking| format!("{};", lacking.statement)).collect::<Vec<_>>().join(" ")
}

/// Why postrider's own tables can't be used, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoAccess {
    /// What is missing.
    pub text: String,
    /// What to do.
    pub fix: String,
}

/// A table, with what a role must be allowed to do to it.
type Right = (&'static str, &'static [&'static str]);

/// See [`lock`](crate::parking::store::lock).
const SLOT_LOCK: Right = ("slot_lock", &["SELECT", "INSERT", "UPDATE"]);

/// Shows whether this program can work with the schema at all.
const SCHEMA_VERSION: Right = ("schema_version", &["SELECT"]);

/// What a command or task is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Park events, retry them, and delete finished ones.
    Keep,
    /// Look at parked events.
    Look,
    /// Discard parked events.
    Discard,
    /// Publish dead events, and count them.
    Replay,
    /// Find slots that no longer exist but have parked events.
    FindOrphans,
    /// Take over the events of a slot that no longer exists.
    TakeOver,
    /// Store the relay's progress.
    Progress,
    /// Delete old rows of the outbox tables.
    Clean,
}

impl Access {
    fn rights(self) -> &'static [Right] {
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
            Access::Clean => &[
                ("undelivered", &["SELECT"]),
                ("progress", &["SELECT"]),
                ("coverage", &["SELECT"]),
                ("cleaner_floor", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("cleaner_mark", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
                ("detached", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
            ],
        }
    }
}

/// Whether the relay may park events. None: nothing is missing.
pub async fn check_access(client: &Client) -> Result<Option<NoAccess>, Error> {
    check_access_to(client, Access::Keep).await
}

/// Whether the role may do this, on a schema that this program can work with. None: it is allowed
/// to.
pub(crate) async fn check_access_to(
    client: &Client,
    access: Access,
) -> Result<Option<NoAccess>, Error> {
    match missing_rights(client, access).await? {
        Missing::Table(table) => Ok(Some(NoAccess {
            text: format!("the table postrider.{table} is missing"),
            fix: "run `postrider migrate`".to_owned(),
        })),
        Missing::Rights { lacking, .. } if lacking.is_empty() => {
            let wrong = wrong_version(client).await?;
            Ok(wrong.map(|wrong| NoAccess { text: wrong.text, fix: wrong.fix }))
        }
        Missing::Rights { role, lacking } => {
            let grants: Vec<&str> = lacking.iter().map(|it| it.statement.as_str()).collect();
            Ok(Some(NoAccess {
                text: format!("role {role} lacks {}", rights(&lacking)),
                fix: format!("run as the owner of schema postrider: {}", grants.join("; ")),
            }))
        }
    }
}

/// Whether the role has these rights on a table of schema `postrider`, and can look into the schema. None: there is no
/// such table. By the catalogs: to_regclass fails without the right to use the schema.
pub(crate) async fn has_rights(
    client: &impl GenericClient,
    table: &str,
    rights: &[&str],
) -> Result<Option<bool>, Error> {
    const SQL: &str = "SELECT has_schema_privilege(n.oid, 'USAGE') \
               AND (SELECT bool_and(has_table_privilege(c.oid, r.name)) FROM unnest($2::text[]) AS r(name)) \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'postrider' AND c.relname = $1";
    client.query_opt(SQL, &[&table, &rights]).await?.map(|row| row.try_get(0)).transpose()
}

/// What is missing for something to be done.
pub(crate) enum Missing {
    /// A table of schema `postrider`.
    Table(&'static str),
    /// Rights of the role, perhaps none.
    Rights { role: String, lacking: Vec<Lacking> },
}

/// The rights that are missing for this. By the catalogs: to_regclass fails without the right to
/// use the schema.
pub(crate) async fn missing_rights(client: &Client, access: Access) -> Result<Missing, Error> {
    const TABLE: &str = "SELECT coalesce(bool_and(has_table_privilege(c.oid, r.name)), true) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, \
                unnest($2::text[]) AS r(name) \
          WHERE n.nspname = 'postrider' AND c.relname = $1 \
          GROUP BY c.oid";
    const SCHEMA: &str = "SELECT current_user::text, has_schema_privilege(oid, 'USAGE') \
           FROM pg_namespace WHERE nspname = 'postrider'";
    let Some(row) = client.query_opt(SCHEMA, &[]).await? else {
        let (table, _) = access.rights().first().unwrap_or(&SCHEMA_VERSION);
        return Ok(Missing::Table(table));
    };
    let role = quote_identifier(row.try_get(0)?);
    let mut lacking = Vec::new();
    if !row.try_get::<_, bool>(1)? {
        lacking.push(Lacking {
            right: "USAGE on schema postrider".to_owned(),
            statement: format!("GRANT USAGE ON SCHEMA postrider TO {role}"),
        });
    }
    for &(table, rights) in access.rights().iter().chain(&[SCHEMA_VERSION]) {
        let Some(row) = client.query_opt(TABLE, &[&table, &rights]).await? else {
            return Ok(Missing::Table(table));
        };
        if !row.try_get::<_, bool>(0)? {
            let rights = rights.join(", ");
            lacking.push(Lacking {
                right: format!("{rights} on postrider.{table}"),
                statement: format!("GRANT {rights} ON postrider.{table} TO {role}"),
            });
        }
    }
    Ok(Missing::Rights { role, lacking })
}

/// The rights on these tables that the role lacks, and on their schemas.
pub(crate) async fn lacking_on_tables(
    client: &Client,
    tables: &[u32],
    rights: &[&str],
) -> Result<Vec<Lacking>, Error> {
    const SQL: &str = "SELECT format('USAGE on schema %I', nspname), \
               format('GRANT USAGE ON SCHEMA %I TO %I', nspname, current_user) \
          FROM pg_namespace WHERE NOT has_schema_privilege(oid, 'USAGE') \
           AND oid IN (SELECT relnamespace FROM pg_class WHERE oid = ANY($1)) \
        UNION ALL \
        SELECT format('%s on %I.%I', $3::text, n.nspname, c.relname), \
               format('GRANT %s ON %I.%I TO %I', $3::text, n.nspname, c.relname, current_user) \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = ANY($1) \
           AND NOT (SELECT bool_and(has_table_privilege(c.oid, r.name)) FROM unnest($2::text[]) AS r(name))";
    let rows = client.query(SQL, &[&tables, &rights, &rights.join(", ")]).await?;
    let read = |row: &Row| Ok(Lacking { right: row.try_get(0)?, statement: row.try_get(1)? });
    rows.iter().map(read).collect()
}

/// Tables whose rows a policy may hide from the role.
pub(crate) struct HiddenRows {
    /// For people, with commas between them.
    pub(crate) tables: String,
    /// The first of them.
    pub(crate) first: String,
    pub(crate) role: String,
    /// The role owns the first of them.
    pub(crate) owns: bool,
}

/// Whether row-level security may hide rows of these tables. Policies of a parent do not matter
/// where its partitions are read one by one.
pub(crate) async fn hidden_rows(
    client: &Client,
    tables: &[u32],
) -> Result<Option<HiddenRows>, Error> {
    const SQL: &str = "SELECT format('%I.%I', n.nspname, c.relname), format('%I', current_user), \
               pg_has_role(c.relowner, 'USAGE') \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = ANY($1) AND row_security_active(c.oid) ORDER BY n.nspname, c.relname";
    let rows = client.query(SQL, &[&tables]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let names: Result<Vec<String>, Error> = rows.iter().map(|row| row.try_get(0)).collect();
    Ok(Some(HiddenRows {
        tables: names?.join(", "),
        first: first.try_get(0)?,
        role: first.try_get(1)?,
        owns: first.try_get(2)?,
    }))
}
