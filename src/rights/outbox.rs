//! Rights on the outbox tables. Receiving rows through the log needs no right on their table;
//! reading or deleting them does, and no policy may hide any: a hidden row would count as
//! published, or as not there.

use tokio_postgres::{Client, Error};

use super::Lacking;

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
    let read = |row: &tokio_postgres::Row| {
        Ok(Lacking { right: row.try_get(0)?, statement: row.try_get(1)? })
    };
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
