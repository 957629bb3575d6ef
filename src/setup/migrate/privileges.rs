//! The rights that the role needs. All of them are checked before anything is created, so that an
//! administrator is asked only once.

use tokio_postgres::Client;

use super::error::MigrateError;
use super::preflight::Found;
use super::{Scope, is_missing, outbox_columns, statements};
use crate::config::{OutboxTable, PostgresConfig, TableName, quote_identifier};
use crate::postgres::Server;
use crate::replication::{self, ReplicationError};
use crate::rights::{Lacking, has_rights};

/// An object that belongs to another role. Membership in that role would be enough too.
pub(crate) fn ownership(kind: &str, name: &str, owner: &str, role: &str, why: &str) -> Lacking {
    let (owner_quoted, role) = (quote_identifier(owner), quote_identifier(role));
    Lacking {
        right: format!(
            "ownership of {} {name}, which belongs to {owner} ({why})",
            kind.to_lowercase()
        ),
        statement: match kind {
            // To the relay, a new owner looks like changed options, and would require `postrider
            // recover`.
            "PUBLICATION" => format!("GRANT {owner_quoted} TO {role}"),
            _ => with_comment(
                format!("ALTER {kind} {name} OWNER TO {role}"),
                &format!("or: GRANT {owner_quoted} TO {role}"),
            ),
        },
    }
}

/// Adds the comment, unless a name in it could end it, since the rest would be run, or could begin
/// another one, since comments nest and the following statements would not be run.
fn with_comment(statement: String, comment: &str) -> String {
    if comment.contains("*/") || comment.contains("/*") {
        statement
    } else {
        format!("{statement} /* {comment} */")
    }
}

pub(super) async fn check(
    client: &Client,
    server: &Server,
    wanted: &PostgresConfig,
    scope: Scope,
    found: &Found,
) -> Result<(), MigrateError> {
    let mut checked = Checked::begin(client).await?;
    checked.own_schema().await?;
    for OutboxTable { name: table, .. } in &wanted.tables {
        if found.tables_missing.contains(table) {
            checked.new_table(table).await?
        } else {
            checked.existing_table(wanted, table).await?
        }
    }
    let publishes = checked.publication(wanted, found).await?;
    if publishes || !found.slot {
        checked.progress().await?;
    }
    if scope == Scope::All {
        checked.outbox_columns(wanted, publishes || !found.slot).await?;
    }
    let (role, mut lacking) = checked.finish();
    if !found.slot {
        match replication::probe(server).await {
            Ok(()) => {}
            Err(error) if code_of(&error) == Some("42501") => {
                lacking.push(replicating(&role, &wanted.slot));
            }
            // Rights that are known to be missing are reported first.
            Err(_) if !lacking.is_empty() => {}
            Err(error) => return Err(no_connection(error)),
        }
    }
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(MigrateError::Privileges { role: quote_identifier(&role), lacking })
    }
}

fn code_of(error: &ReplicationError) -> Option<&str> {
    match error {
        ReplicationError::Server(error) => Some(error.code.as_str()),
        _ => None,
    }
}

/// 53300 does not concern rights: all connections, or all replication connections, are in use.
fn no_connection(error: ReplicationError) -> MigrateError {
    match code_of(&error) {
        Some("53300") => MigrateError::WalSendersBusy { reason: error.to_string() },
        _ => MigrateError::Replication(error),
    }
}

fn replicating(role: &str, slot: &str) -> Lacking {
    let role = quote_identifier(role);
    Lacking {
        right: format!("REPLICATION (for slot {slot})"),
        statement: with_comment(
            format!("ALTER ROLE {role} REPLICATION"),
            &format!("on Amazon RDS: GRANT rds_replication TO {role}"),
        ),
    }
}

struct Checked<'a> {
    client: &'a Client,
    role: String,
    database: String,
    may_create: bool,
    /// What is to be created in the database itself.
    creations: Vec<String>,
    lacking: Vec<Lacking>,
}

impl<'a> Checked<'a> {
    async fn begin(client: &'a Client) -> Result<Self, MigrateError> {
        let sql = "SELECT current_user::text, current_database()::text,
                          has_database_privilege(current_database(), 'CREATE')";
        let row = client.query_one(sql, &[]).await.map_err(failed)?;
        let (role, database, may_create) = (row.get(0), row.get(1), row.get(2));
        let (creations, lacking) = (Vec::new(), Vec::new());
        Ok(Checked { client, role, database, may_create, creations, lacking })
    }

    /// If it was created before, by this role or another, it must be readable; otherwise it has to
    /// be created.
    async fn own_schema(&mut self) -> Result<(), MigrateError> {
        let sql = "SELECT coalesce(has_table_privilege(c.oid, 'SELECT'), false)
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname = 'postrider' AND c.relname = 'schema_version'";
        let Some(row) = self.client.query_opt(sql, &[]).await.map_err(failed)? else {
            return self.schema("postrider", true, "schema postrider").await;
        };
        self.schema("postrider", false, "schema postrider").await?;
        if !row.get::<_, bool>(0) {
            let role = quote_identifier(&self.role);
            self.lacking.push(Lacking {
                right: "SELECT on postrider.schema_version (for schema postrider)".to_owned(),
                statement: format!("GRANT SELECT ON postrider.schema_version TO {role}"),
            });
        }
        Ok(())
    }

    async fn new_table(&mut self, table: &TableName) -> Result<(), MigrateError> {
        self.schema(&table.schema, true, &format!("table {table}")).await
    }

    /// Only an owner can publish a table.
    async fn existing_table(
        &mut self,
        wanted: &PostgresConfig,
        table: &TableName,
    ) -> Result<(), MigrateError> {
        self.schema(&table.schema, false, &format!("table {table}")).await?;
        if !is_missing(self.client, &statements::publish(&wanted.publication, table)).await? {
            return Ok(());
        }
        let sql = "SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)::text
               FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
              WHERE nspname = $1 AND relname = $2";
        let row =
            self.client.query_opt(sql, &[&table.schema, &table.name]).await.map_err(failed)?;
        if let Some(row) = row.filter(|row| !row.get::<_, bool>(0)) {
            let why = format!("for publication {}", wanted.publication);
            self.lacking.push(ownership("TABLE", &table.quoted(), row.get(1), &self.role, &why));
        }
        Ok(())
    }

    /// The rights to store where a new slot begins, and what a slot covers.
    async fn progress(&mut self) -> Result<(), MigrateError> {
        let sql =
            "SELECT has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                      AND has_table_privilege(c.oid, 'UPDATE')
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname = 'postrider' AND c.relname = $1";
        for table in ["progress", "coverage"] {
            let row = self.client.query_opt(sql, &[&table]).await.map_err(failed)?;
            if row.is_some_and(|row| !row.get::<_, bool>(0)) {
                let role = quote_identifier(&self.role);
                let rights = format!("SELECT, INSERT, UPDATE ON postrider.{table}");
                self.lacking.push(Lacking {
                    right: rights.replace(" ON ", " on "),
                    statement: format!("GRANT {rights} TO {role}"),
                });
            }
        }
        Ok(())
    }

    /// The rights to store the column names of the tables, unless they are stored already. If the
    /// role can't look at them, they probably have to be stored if other things have to.
    async fn outbox_columns(
        &mut self,
        wanted: &PostgresConfig,
        is_new: bool,
    ) -> Result<(), MigrateError> {
        let allowed = |rights| has_rights(self.client, "outbox_columns", rights);
        if allowed(outbox_columns::RIGHTS).await.map_err(failed)? != Some(false) {
            return Ok(());
        }
        let is_due = match allowed(&["SELECT"]).await.map_err(failed)? {
            Some(true) => outbox_columns::is_due(self.client, wanted).await?,
            _ => is_new,
        };
        if !is_due {
            return Ok(());
        }
        let rights = format!("{} ON postrider.outbox_columns", outbox_columns::RIGHTS.join(", "));
        self.lacking.push(Lacking {
            right: rights.replace(" ON ", " on "),
            statement: format!("GRANT {rights} TO {}", quote_identifier(&self.role)),
        });
        Ok(())
    }

    /// Returns whether there is something to publish.
    async fn publication(
        &mut self,
        wanted: &PostgresConfig,
        found: &Found,
    ) -> Result<bool, MigrateError> {
        let name = &wanted.publication;
        if !found.publication {
            self.creations.push(format!("publication {name}"));
            return Ok(true);
        }
        let mut joining = Vec::new();
        for OutboxTable { name: table, .. } in &wanted.tables {
            let new = found.tables_missing.contains(table);
            if !(new && self.is_published_once_made(name, table).await?)
                && is_missing(self.client, &statements::publish(name, table)).await?
            {
                joining.push(table.to_string());
            }
        }
        let sql = "SELECT pg_has_role(pubowner, 'USAGE'), pg_get_userbyid(pubowner)::text
               FROM pg_publication WHERE pubname = $1";
        let row = self.client.query_opt(sql, &[name]).await.map_err(failed)?;
        if let Some(row) = row.filter(|row| !joining.is_empty() && !row.get::<_, bool>(0)) {
            let why = format!("to add {}", joining.join(", "));
            let quoted = quote_identifier(name);
            self.lacking.push(ownership("PUBLICATION", &quoted, row.get(1), &self.role, &why));
        }
        Ok(!joining.is_empty())
    }

    /// As one of all tables, or with its schema (possible since Postgres 15).
    async fn is_published_once_made(
        &self,
        publication: &str,
        table: &TableName,
    ) -> Result<bool, MigrateError> {
        let all = "SELECT puballtables, to_regclass('pg_publication_namespace') IS NOT NULL
               FROM pg_publication WHERE pubname = $1";
        let row = self.client.query_one(all, &[&publication]).await.map_err(failed)?;
        if row.get(0) || !row.get::<_, bool>(1) {
            return Ok(row.get(0));
        }
        let schema = "SELECT EXISTS (SELECT FROM pg_publication_namespace
               JOIN pg_publication p ON p.oid = pnpubid JOIN pg_namespace n ON n.oid = pnnspid
              WHERE pubname = $1 AND nspname = $2)";
        let row = self.client.query_one(schema, &[&publication, &table.schema]).await;
        Ok(row.map_err(failed)?.get(0))
    }

    /// A schema in which something is looked up, or created.
    async fn schema(&mut self, name: &str, creates: bool, why: &str) -> Result<(), MigrateError> {
        let sql = "SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE')
               FROM pg_namespace WHERE nspname = $1";
        let Some(row) = self.client.query_opt(sql, &[&name]).await.map_err(failed)? else {
            self.creations.push(why.to_owned());
            return Ok(());
        };
        if row.get::<_, bool>(0) && (!creates || row.get::<_, bool>(1)) {
            return Ok(());
        }
        let rights = if creates { "USAGE, CREATE" } else { "USAGE" };
        let (name, role) = (quote_identifier(name), quote_identifier(&self.role));
        self.lacking.push(Lacking {
            right: format!("{rights} on schema {name} (for {why})"),
            statement: format!("GRANT {rights} ON SCHEMA {name} TO {role}"),
        });
        Ok(())
    }

    fn finish(mut self) -> (String, Vec<Lacking>) {
        if !self.may_create && !self.creations.is_empty() {
            let (name, role) = (quote_identifier(&self.database), quote_identifier(&self.role));
            self.lacking.push(Lacking {
                right: format!("CREATE on database {name} (for {})", self.creations.join(", ")),
                statement: format!("GRANT CREATE ON DATABASE {name} TO {role}"),
            });
        }
        // Two tables of one schema need the same right.
        let mut known: Vec<Lacking> = Vec::new();
        for lacking in self.lacking {
            if !known.iter().any(|other| other.statement == lacking.statement) {
                known.push(lacking)
            }
        }
        (self.role, known)
    }
}

fn failed(error: tokio_postgres::Error) -> MigrateError {
    MigrateError::statement("show the rights of the role", &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_a_comment() {
        let statement = |owner| ownership("TABLE", "t", owner, "me", "why").statement;
        assert_eq!(
            statement("you"),
            "ALTER TABLE t OWNER TO \"me\" /* or: GRANT \"you\" TO \"me\" */"
        );
        assert_eq!(statement("x*/; DROP TABLE t"), "ALTER TABLE t OWNER TO \"me\"");
        assert_eq!(statement("x/*"), "ALTER TABLE t OWNER TO \"me\"");
        let statement = |role| replicating(role, "s").statement;
        let expect = "ALTER ROLE \"me\" REPLICATION \
                      /* on Amazon RDS: GRANT rds_replication TO \"me\" */";
        assert_eq!(statement("me"), expect);
        let name = "x*/; DROP TABLE t";
        assert_eq!(statement(name), format!("ALTER ROLE \"{name}\" REPLICATION"));
    }
}
