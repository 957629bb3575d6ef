//! The outbox tables: each one's names for our columns, and the format of its records.
//!
//! A setting in a `[tables.…]` section replaces the setting for all tables.

use std::collections::BTreeMap;

use super::keys::{self, POSTGRES_COLUMNS, TABLES};
use super::parse;
use super::problem::{Origin, Problem};
use super::raw::{Layer, TableSection, Typed};
use super::secrets::{self, looks_secret};
use super::table_name::{TableName, identifier};
use postrider_core::envelope::Format;
use postrider_core::row::{Column, ColumnNames};

/// An outbox table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTable {
    /// Its schema and name.
    pub name: TableName,
    /// Its names for our columns.
    pub columns: ColumnNames,
    /// The format of its records' values.
    pub format: Format,
}

/// The column names of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preset {
    None,
    Debezium,
}

/// The settings of a table.
#[derive(Clone)]
struct TableSettings {
    preset: Preset,
    columns: Vec<(Column, String)>,
    format: Format,
}

impl TableSettings {
    fn table(self, name: TableName) -> OutboxTable {
        let mut columns = match self.preset {
            Preset::None => ColumnNames::default(),
            Preset::Debezium => ColumnNames::debezium(),
        };
        for (column, theirs) in self.columns {
            columns.map(column, theirs);
        }
        OutboxTable { name, columns, format: self.format }
    }
}

/// The tables with their settings. `None` if something is wrong, which is then among the problems.
pub(super) fn check(
    typed: &Layer,
    tables: Option<Vec<TableName>>,
    preset: Option<Preset>,
    format: Option<Format>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<OutboxTable>> {
    let columns = columns(POSTGRES_COLUMNS.path(), &typed.columns, problems);
    let sections = sections(&typed.tables, tables.as_deref(), problems);
    let general = TableSettings { preset: preset?, columns, format: format? };
    let settings = |name: TableName| {
        let mut settings = general.clone();
        if let Some((_, overrides)) = sections.iter().find(|(table, _)| *table == name) {
            settings.preset = overrides.preset.unwrap_or(settings.preset);
            settings.format = overrides.format.unwrap_or(settings.format);
            settings.columns = overrides.columns.clone().unwrap_or(settings.columns);
        }
        settings.table(name)
    };
    Some(tables?.into_iter().map(settings).collect())
}

/// What the section of a table sets; the rest is as for all tables.
struct TableOverrides {
    preset: Option<Preset>,
    columns: Option<Vec<(Column, String)>>,
    format: Option<Format>,
}

fn sections(
    typed: &[TableSection],
    tables: Option<&[TableName]>,
    problems: &mut Vec<Problem>,
) -> Vec<(TableName, TableOverrides)> {
    let mut sections: Vec<(TableName, TableOverrides)> = Vec::new();
    for section in typed {
        let path = format!("{}.{:?}", TABLES.path(), section.name);
        let overrides = TableOverrides {
            preset: value(&format!("{path}.preset"), &section.preset, parse::preset, problems),
            columns: section
                .columns
                .as_ref()
                .map(|typed| columns(&format!("{path}.columns"), typed, problems)),
            format: value(
                &format!("{path}.format.value"),
                &section.format,
                parse::value_format,
                problems,
            ),
        };
        let message = match section.name.parse::<TableName>() {
            Err(error) => format!("{path}: {error}"),
            Ok(name) if sections.iter().any(|(known, _)| *known == name) => {
                format!("{path}: {name} has two sections; keep one")
            }
            // Not checked if the list of tables could not be read.
            Ok(name) if tables.is_some_and(|tables| !tables.contains(&name)) => {
                format!("{path}: {name} is not in postgres.tables; add it there")
            }
            Ok(name) => {
                sections.push((name, overrides));
                continue;
            }
        };
        problems.push(Problem::at(&section.origin, message));
    }
    sections
}

fn value<T>(
    path: &str,
    typed: &Option<Typed>,
    parse: fn(&str) -> Result<T, String>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let Typed { text, origin } = typed.as_ref()?;
    let report = |reason| {
        let message = format!("{}: {reason}", secrets::setting(path, text));
        problems.push(Problem::at(origin, message));
    };
    parse(text.trim()).map_err(report).ok()
}

/// Our column → the table's.
fn columns(
    path: &str,
    typed: &BTreeMap<String, Typed>,
    problems: &mut Vec<Problem>,
) -> Vec<(Column, String)> {
    let mut columns = Vec::new();
    // If a connection string was read as pairs, a password may be in any of them.
    let secret = typed.iter().any(|(ours, typed)| looks_secret(ours) || looks_secret(&typed.text));
    for (ours, Typed { text, origin }) in typed {
        match column(ours, text) {
            Ok(pair) => columns.push(pair),
            Err(_) if secret => {
                let reason = "has names that are not columns (withheld: they look like they \
                              contain a secret); write it as in topic=destination,payload=body";
                problems.push(Problem::at(origin, format!("{path} {reason}")));
            }
            Err(reason) => problems.push(column_problem(path, ours, origin, &reason)),
        }
    }
    columns
}

fn column_problem(path: &str, ours: &str, origin: &Origin, reason: &str) -> Problem {
    Problem::at(origin, format!("{path}.{ours}: {reason}"))
}

fn column(ours: &str, theirs: &str) -> Result<(Column, String), String> {
    let column = Column::named(ours).ok_or_else(|| unknown(ours))?;
    let name = match theirs.trim() {
        "" if column.is_required() => {
            return Err("every event needs it; name the table's column".to_owned());
        }
        "" => String::new(),
        text => identifier(text).map_err(|error| format!("{text:?}: {error}"))?,
    };
    Ok((column, name))
}

fn unknown(ours: &str) -> String {
    let names: Vec<&str> = Column::mappable().map(Column::name).collect();
    match keys::nearest(ours, names.iter().map(ToString::to_string)) {
        Some(near) => format!("unknown column; did you mean {near}?"),
        None => format!("unknown column; the outbox columns are {}", names.join(", ")),
    }
}
