//! Where a table's columns are: mapped by name, again with every Relation message.

use std::sync::Arc;

use super::{Column, ColumnNames, Source};
use crate::connect::TypedColumns;
use crate::pgoutput::Relation;

/// How a column's bytes are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Json,
    Jsonb,
    Bytea,
    Integer,
    Bool,
    Uuid,
    /// A user-defined type (enum, citext …), read in its text form. A domain counts as its base
    /// type.
    Other,
}

/// OIDs of built-in types never change (pg_type.dat).
fn kind(type_oid: u32) -> Kind {
    match type_oid {
        25 | 1043 | 1042 | 19 => Kind::Text, // text, varchar, char(n), name
        114 => Kind::Json,
        3802 => Kind::Jsonb,
        17 => Kind::Bytea,
        20 | 21 | 23 => Kind::Integer, // int8, int2, int4
        16 => Kind::Bool,
        2950 => Kind::Uuid,
        _ => Kind::Other,
    }
}

/// The OID of a built-in type that the relay knows. The stream has the name of a domain's base
/// type, but not its OID.
pub fn built_in_type(schema: &str, name: &str) -> Option<u32> {
    // The stream writes pg_catalog as an empty name.
    if !matches!(schema, "" | "pg_catalog") {
        return None;
    }
    Some(match name {
        "text" => 25,
        "varchar" => 1043,
        "bpchar" => 1042,
        "name" => 19,
        "json" => 114,
        "jsonb" => 3802,
        "bytea" => 17,
        "bool" => 16,
        "int8" => 20,
        "int2" => 21,
        "int4" => 23,
        "uuid" => 2950,
        _ => return None,
    })
}

/// Whether the relay can read a type's binary form. If it can't, the session asks for text.
pub fn has_binary_form(type_oid: u32) -> bool {
    kind(type_oid) != Kind::Other
}

/// A table that can't be an outbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A required or configured column does not exist, or is not published.
    #[error("outbox table {table} has no published column {column}")]
    Missing {
        /// The table.
        table: String,
        /// The column, as [`ColumnNames::describe`] has it.
        column: String,
    },
    /// Rows lack a column that the table has now, and have others that it no longer has. If one of
    /// these was renamed, it is the missing one; if it was dropped, the missing one is newer.
    #[error(
        "rows of outbox table {table} were written when it had no published column {column}; it \
         has lost {gone} since, and it is unknown whether that was dropped or renamed"
    )]
    Younger {
        /// The table.
        table: String,
        /// The column, as [`ColumnNames::describe`] has it.
        column: String,
        /// Columns that the rows have and the table no longer has.
        gone: String,
    },
    /// A column whose type does not fit its meaning.
    #[error("column {column} of outbox table {table} has type {type_oid}, but must be {wanted}")]
    WrongType {
        /// The table.
        table: String,
        /// The column, as [`ColumnNames::describe`] has it.
        column: String,
        /// The type's OID.
        type_oid: u32,
        /// Types that fit.
        wanted: &'static str,
    },
    /// A column that can't be written as Debezium writes it.
    #[error(
        "column \"{column}\" of outbox table {table} has type {type_name}, which can't be published \
         as Debezium does{why}"
    )]
    NotLikeDebezium {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
        /// What would fit, after a semicolon.
        why: String,
    },
}

/// Where the columns of one outbox table are.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The table's index in the configuration.
    pub table: usize,
    /// One entry for each published column, in the order of a row's values.
    pub(super) roles: Vec<Option<(Source, Kind)>>,
    /// Our columns that read what another one (the first) reads.
    pub(super) shared: Vec<(Column, Column)>,
    /// How many of the table's other columns are read.
    pub(super) others: usize,
    /// The types of columns that are published as Debezium does.
    pub(super) typed: Option<Arc<TypedColumns>>,
}

impl Layout {
    /// The layout of configured table number `table` as the relation describes it.
    pub fn new(
        table: usize,
        relation: &Relation<'_>,
        names: &ColumnNames,
    ) -> Result<Self, LayoutError> {
        let layout = Layout::of_what_is_there(table, relation, names)?;
        let has = |name: &str| relation.columns.iter().any(|column| column.name == name);
        match names.wanted().find(|(name, _)| !has(name)) {
            Some((_, column)) => Err(LayoutError::Missing { table: relation.to_string(), column }),
            None => Ok(layout),
        }
    }

    /// The same, even if columns are missing.
    pub(super) fn of_what_is_there(
        table: usize,
        relation: &Relation<'_>,
        names: &ColumnNames,
    ) -> Result<Self, LayoutError> {
        let others = names.others().len();
        let (roles, shared) = (Vec::new(), Vec::new());
        let mut layout = Layout { table, roles, shared, others, typed: None };
        for column in &relation.columns {
            let kind = kind(column.type_oid);
            let mut readers = names.readers(column.name);
            let first = readers.next();
            for role in first.into_iter().chain(readers) {
                if let Some(wanted) = misfit(role, kind).filter(|_| !names.takes_any_type(role)) {
                    return Err(LayoutError::WrongType {
                        table: relation.to_string(),
                        column: names.describe(role),
                        type_oid: column.type_oid,
                        wanted,
                    });
                }
                if let Some(first) = first.filter(|first| *first != role) {
                    layout.shared.push((first, role));
                }
            }
            let other = || names.others().iter().position(|other| other == column.name);
            let source = first.map(Source::Ours).or_else(|| other().map(Source::Other));
            layout.roles.push(source.map(|source| (source, kind)));
        }
        Ok(layout)
    }

    /// The layout with the types of columns that are published as Debezium does.
    pub fn with_types(self, typed: Arc<TypedColumns>) -> Self {
        Layout { typed: Some(typed), ..self }
    }

    /// Whether a column the relay reads has a type whose binary form it does not know.
    pub fn needs_text(&self) -> bool {
        self.roles.iter().flatten().any(|(_, kind)| *kind == Kind::Other)
    }
}

/// The types that would fit, if a column's type does not.
fn misfit(column: Column, kind: Kind) -> Option<&'static str> {
    let (fits, wanted) = match column {
        Column::Payload => {
            (!matches!(kind, Kind::Integer | Kind::Uuid | Kind::Bool), "json, jsonb, text or bytea")
        }
        Column::Headers => {
            (matches!(kind, Kind::Json | Kind::Jsonb | Kind::Text | Kind::Other), "json or jsonb")
        }
        Column::Partition => (matches!(kind, Kind::Integer | Kind::Other), "int"),
        _ => (
            !matches!(kind, Kind::Json | Kind::Jsonb | Kind::Bytea | Kind::Bool),
            "text, a number or uuid",
        ),
    };
    (!fits).then_some(wanted)
}
