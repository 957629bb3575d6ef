//! Where a table's columns are: mapped by name, anew with every Relation message.

use super::Column;
use crate::pgoutput::Relation;

/// How a column's bytes are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Json,
    Jsonb,
    Bytea,
    Integer,
    Uuid,
    /// A type of the user's (enum, domain, citext …): its text form is what it says.
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
        2950 => Kind::Uuid,
        _ => Kind::Other,
    }
}

/// Whether the relay can read a type's binary form. Where it can't, the session asks for text.
pub fn has_binary_form(type_oid: u32) -> bool {
    kind(type_oid) != Kind::Other
}

/// A table that can't be an outbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A required column is not there, or not published.
    #[error("outbox table {table} has no published column \"{column}\"")]
    Missing {
        /// The table.
        table: String,
        /// The column.
        column: &'static str,
    },
    /// A column whose type does not fit its meaning.
    #[error("column \"{column}\" of outbox table {table} has type {type_oid}, wanted {wanted}")]
    WrongType {
        /// The table.
        table: String,
        /// The column.
        column: &'static str,
        /// The type's OID.
        type_oid: u32,
        /// Types that fit.
        wanted: &'static str,
    },
}

/// Where the columns of one outbox table are.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The table's place in the configuration.
    pub table: usize,
    /// One entry for each published column, in the order of a row's values.
    pub(super) roles: Vec<Option<(Column, Kind)>>,
}

impl Layout {
    /// The layout of configured table number `table` as the relation describes it.
    pub fn new(table: usize, relation: &Relation<'_>) -> Result<Self, LayoutError> {
        let table_name = || format!("{}.{}", relation.schema, relation.name);
        let mut roles = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            let Some(role) = Column::named(column.name) else {
                roles.push(None);
                continue;
            };
            let kind = kind(column.type_oid);
            if let Some(wanted) = misfit(role, kind) {
                return Err(LayoutError::WrongType {
                    table: table_name(),
                    column: role.name(),
                    type_oid: column.type_oid,
                    wanted,
                });
            }
            roles.push(Some((role, kind)));
        }
        for required in Column::ALL.into_iter().filter(|column| column.is_required()) {
            if !roles.iter().flatten().any(|(column, _)| *column == required) {
                return Err(LayoutError::Missing { table: table_name(), column: required.name() });
            }
        }
        Ok(Layout { table, roles })
    }

    /// Whether a column the relay reads has a type whose binary form it does not know.
    pub fn needs_text(&self) -> bool {
        self.roles.iter().flatten().any(|(_, kind)| *kind == Kind::Other)
    }
}

/// What a column should have been instead, if its type does not fit.
fn misfit(column: Column, kind: Kind) -> Option<&'static str> {
    let (fits, wanted) = match column {
        Column::Payload => {
            (!matches!(kind, Kind::Integer | Kind::Uuid), "json, jsonb, text or bytea")
        }
        Column::Headers => {
            (matches!(kind, Kind::Json | Kind::Jsonb | Kind::Text | Kind::Other), "json or jsonb")
        }
        Column::Partition => (matches!(kind, Kind::Integer | Kind::Other), "int"),
        _ => (!matches!(kind, Kind::Json | Kind::Jsonb | Kind::Bytea), "text, a number or uuid"),
    };
    (!fits).then_some(wanted)
}
