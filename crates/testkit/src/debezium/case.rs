//! A table, its rows, and the configurations under which they are published.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::configuration::Configuration;
use super::unstable;

/// What is written in a file of `tests/debezium/cases`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The file's name without its ending.
    #[serde(skip)]
    name: String,
    /// For readers.
    #[allow(dead_code, reason = "a comment: JSON has none")]
    about: String,
    /// SQL that creates the tables.
    setup: Vec<String>,
    #[serde(default = "default_tables")]
    tables: Vec<String>,
    #[serde(default)]
    id: IdColumn,
    /// Values of columns that rows leave out.
    #[serde(default)]
    defaults: Map<String, Value>,
    rows: Vec<Row>,
    /// What all configurations have in common.
    #[serde(default)]
    common: Map<String, Value>,
    configurations: BTreeMap<String, Map<String, Value>>,
    /// The preset that postrider has, if it is not `debezium`.
    preset: Option<String>,
    /// The fields of JSON in values are put into the order of their names before they are compared.
    #[serde(default)]
    any_field_order: bool,
    /// More options of the connector.
    #[serde(default)]
    connector: BTreeMap<String, String>,
    /// More lines of postrider.toml.
    #[serde(default)]
    postrider: Vec<String>,
}

/// The column whose value becomes the header `id`. Ids are numbered in the order of the rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdColumn {
    column: String,
    kind: IdKind,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IdKind {
    Uuid,
    Number,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Row {
    /// Something that publishes nothing, such as an UPDATE.
    Statement(String),
    Written(WrittenRow),
    /// Columns and their values.
    Columns(Map<String, Value>),
}

/// A row that more than one statement writes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    sql: String,
}

/// One configuration with the rows.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: String,
    pub name: String,
    pub setup: Vec<String>,
    pub tables: Vec<String>,
    pub steps: Vec<Step>,
    pub configuration: Configuration,
    pub any_field_order: bool,
}

/// In the order in which they are executed, each as a transaction of its own.
#[derive(Clone, Debug)]
pub struct Step {
    pub sql: String,
    /// The event's id; none if no event is written.
    pub id: Option<String>,
}

impl Default for IdColumn {
    fn default() -> Self {
        IdColumn { column: "id".to_owned(), kind: IdKind::Uuid }
    }
}

fn default_tables() -> Vec<String> {
    vec!["public.outbox".to_owned()]
}

impl CaseFile {
    #[track_caller]
    pub fn read(path: &Path) -> CaseFile {
        let read = || -> Result<CaseFile, Box<dyn std::error::Error>> {
            Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
        };
        let mut file = read().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        file
    }

    /// All files of a folder, by name.
    #[track_caller]
    pub fn read_all(folder: &Path) -> Vec<CaseFile> {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|error| {
            panic!("no cases in {}: {error}", folder.display());
        });
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| CaseFile::read(path)).collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cases(&self) -> Vec<Case> {
        self.configurations.iter().map(|(name, own)| self.case(name, own)).collect()
    }

    fn case(&self, name: &str, own: &Map<String, Value>) -> Case {
        let mut options = self.common.clone();
        options.extend(own.clone());
        let mut number = 0;
        let token = format!("{}-{name}", self.name);
        let steps = self.rows.iter().map(|row| self.step(row, &mut number, &token)).collect();
        Case {
            file: self.name.clone(),
            name: name.to_owned(),
            setup: self.setup.clone(),
            tables: self.tables.clone(),
            steps,
            any_field_order: self.any_field_order,
            configuration: Configuration {
                options,
                preset: self.preset.clone().unwrap_or_else(|| "debezium".to_owned()),
                connector: self.connector.clone(),
                postrider: self.postrider.clone(),
            },
        }
    }

    /// `{case}` in a value is a text that no other case has, so that none shares its topics;
    /// `{hour_ago}` is the time an hour ago.
    fn step(&self, row: &Row, number: &mut usize, token: &str) -> Step {
        let hour_ago = unstable::hour_ago();
        let fill = |text: &str| text.replace("{case}", token).replace("{hour_ago}", &hour_ago);
        if let Row::Statement(sql) = row {
            return Step { sql: fill(sql), id: None };
        }
        *number += 1;
        let id = match self.id.kind {
            IdKind::Uuid => format!("00000000-0000-4000-8000-{number:012}"),
            IdKind::Number => number.to_string(),
        };
        let sql = match row {
            Row::Statement(_) => unreachable!("has returned"),
            Row::Written(row) => fill(&row.sql).replace("{id}", &id),
            Row::Columns(own) => self.insert(own, &id, fill),
        };
        Step { sql, id: Some(id) }
    }

    fn insert(&self, own: &Map<String, Value>, id: &str, fill: impl Fn(&str) -> String) -> String {
        let mut columns = self.defaults.clone();
        columns.insert(self.id.column.clone(), id.into());
        columns.extend(own.clone());
        // The table of a row, where there are several.
        let into = columns.remove("into");
        let table = into.as_ref().and_then(Value::as_str).unwrap_or(&self.tables[0]);
        let names: Vec<_> = columns.keys().map(|name| quoted(name, '"')).collect();
        let values: Vec<_> = columns.values().map(|value| literal(value, &fill)).collect();
        format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", "))
    }
}

/// Untyped, so that the column's type reads it. Objects and arrays are compact JSON.
fn literal(value: &Value, fill: impl Fn(&str) -> String) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => quoted(&fill(text), '\''),
        other => quoted(&other.to_string(), '\''),
    }
}

fn quoted(text: &str, quote: char) -> String {
    let doubled = text.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

impl Case {
    /// `payloads/string`
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.file, self.name)
    }

    /// What is in the names of the case's topics: `payloads-string`.
    pub fn token(&self) -> String {
        format!("{}-{}", self.file, self.name)
    }

    pub fn ids(&self) -> Vec<&str> {
        self.steps.iter().filter_map(|step| step.id.as_deref()).collect()
    }
}
