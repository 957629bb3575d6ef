//! Rights on the tables of schema `postrider`.

use tokio_postgres::{Client, Error};

use super::{Lacking, rights};
use crate::config::quote_identifier;
use crate::schema::wrong_version;

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
