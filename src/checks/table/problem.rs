//! Why a table can't be published as it is, and how to fix it.

use crate::checks::Finding;
use crate::config::{OutboxTable, TableName, quote_identifier};
use crate::session_end::SessionEnd;
use postrider_core::row::{Column, LayoutError};

/// Why a table can't be published as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableProblem {
    /// Something else has the table's name.
    #[error("{table} exists but can't be published: it is {found}")]
    NotATable {
        /// Its name.
        table: TableName,
        /// What it is.
        found: &'static str,
    },
    /// A column that is needed, or configured by name, is missing.
    #[error("table {table} has no column {missing}")]
    MissingColumns {
        /// Its name.
        table: TableName,
        /// Names with "and" between them.
        missing: String,
        /// A name that differs in case only.
        alike: Option<String>,
    },
    /// Columns that settings name.
    #[error("{named}, which table {table} does not have")]
    UnknownColumns {
        /// Its name.
        table: TableName,
        /// The settings and the columns.
        named: String,
    },
    /// A column whose type does not fit its use.
    #[error(transparent)]
    WrongType(LayoutError),
    /// Postgres sends the values of ordinary columns only.
    #[error("column {column} of table {table} is generated, and so not published")]
    Generated {
        /// Its name.
        table: TableName,
        /// The column.
        column: String,
    },
    /// The publication's column list.
    #[error("publication {publication} leaves out column {column} of table {table}")]
    Hidden {
        /// The publication's name.
        publication: String,
        /// The table's name.
        table: TableName,
        /// The columns that would be used.
        column: String,
    },
    /// The publication's WHERE.
    #[error(
        "publication {publication} has a row filter for table {table}: filtered rows would be lost \
         silently"
    )]
    RowFilter {
        /// The publication's name.
        publication: String,
        /// The table's name.
        table: TableName,
    },
    /// Rows would come under the names of partitions, and those of a dropped partition would belong
    /// to no table.
    #[error("publication {publication} publishes partitions of {table} under their own names")]
    PartitionNames {
        /// The publication's name.
        publication: String,
        /// The partitioned table.
        table: TableName,
    },
    /// A partition whose rows are sent under the name of another table.
    #[error("publication {publication} publishes rows of {table} under the name of {ancestor}")]
    AncestorName {
        /// The publication's name.
        publication: String,
        /// The partition.
        table: TableName,
        /// The table that it is a partition of.
        ancestor: TableName,
    },
    /// Plain inheritance: `SELECT` on the parent shows the children's rows, but the log has them
    /// under the children's names.
    #[error(
        "table {table} has children by inheritance whose rows are sent under their own names: \
         {children}"
    )]
    Children {
        /// The parent.
        table: TableName,
        /// Those that are not configured.
        children: String,
    },
}

impl TableProblem {
    /// An error if settings of the route or the format name columns that the table does not have.
    pub(crate) fn unknown_columns(
        table: &OutboxTable,
        has: impl Fn(&str) -> bool,
    ) -> Result<(), Self> {
        let unknown = table.columns.named().filter(|(name, _)| !has(name));
        let mut named: Vec<String> =
            unknown.map(|(name, by)| format!("{by} names column \"{name}\"")).collect();
        // Without either, no event would have an id.
        let format = table.format.value;
        let [key, id] = [Column::IdempotencyKey, Column::Id].map(|it| table.columns.of(it));
        if format.is_cloud_event() && !has(key) && !has(id) {
            let format = format.name();
            let [key, id] = [Column::IdempotencyKey, Column::Id].map(Column::name);
            named.push(format!("format.value = {format} needs column \"{key}\" or \"{id}\""));
        }
        if named.is_empty() {
            return Ok(());
        }
        let (table, named) = (table.name.clone(), named.join(" and "));
        Err(TableProblem::UnknownColumns { table, named })
    }

    /// How to fix it, in one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::NotATable { .. } => {
                "name an ordinary or partitioned table in postgres.tables".to_owned()
            }
            Self::MissingColumns { alike: Some(alike), .. } => format!(
                "there is a column {alike:?}: names are read as SQL reads them, so write it in \
                 quotes of its own, '{}', in postgres.columns",
                quote_identifier(alike)
            ),
            Self::MissingColumns { table, .. } => format!(
                "add the column to {}, map it in postgres.columns to the table's name for it, or \
                 name another table in postgres.tables: migrate creates one that does not exist",
                table.quoted()
            ),
            Self::UnknownColumns { .. } => {
                "correct the settings, set them only for the tables that have the columns (in \
                 sections [tables.\"schema.table\"]), or add the columns"
                    .to_owned()
            }
            Self::WrongType(_) => {
                "change the column's type, or name in postgres.columns the column \
                to read instead (\"\" for none)"
                    .to_owned()
            }
            Self::Generated { .. } => "make it an ordinary column, name another one (or \"\" for \
                none) in postgres.columns, or publish it (Postgres 18: SET \
                (publish_generated_columns = stored))"
                .to_owned(),
            Self::Hidden { publication, table, .. } => set_table(publication, table, "column list"),
            Self::RowFilter { publication, table } => {
                let set = set_table(publication, table, "WHERE");
                format!("{set}; rows left out so far stay unpublished")
            }
            Self::PartitionNames { publication, .. } => format!(
                "run ALTER PUBLICATION {} SET (publish_via_partition_root = true), or name every \
                 partition in postgres.tables in place of the table, and future ones before they \
                 have rows",
                quote_identifier(publication)
            ),
            Self::AncestorName { ancestor, .. } => {
                format!("name {ancestor} in postgres.tables instead")
            }
            Self::Children { .. } => {
                "name them in postgres.tables as well, or detach them from the \
                table with ALTER TABLE … NO INHERIT"
                    .to_owned()
            }
        }
    }
}

impl From<TableProblem> for Finding {
    fn from(problem: TableProblem) -> Self {
        let finding = Finding::new(problem.to_string(), "", problem.fix());
        let in_settings = matches!(problem, TableProblem::UnknownColumns { .. });
        Finding { in_settings, ..finding }
    }
}

impl From<TableProblem> for SessionEnd {
    fn from(problem: TableProblem) -> Self {
        Finding::from(problem).into()
    }
}

/// Not DROP and ADD: rows written in between would be lost.
fn set_table(publication: &str, table: &TableName, without: &str) -> String {
    format!(
        "run ALTER PUBLICATION {} SET TABLE {}, without {without}, and name all other tables of \
         the publication too, because it would drop them otherwise",
        quote_identifier(publication),
        table.quoted()
    )
}
