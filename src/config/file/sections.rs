//! `postgres.columns`, and the sections `[tables.…]` of single tables.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{FileReader, line_at, scalar};
use crate::config::keys;
use crate::config::raw::{TableSection, Typed};

/// The keys of a table's section.
const TABLE_KEYS: [&str; 3] = ["columns", "preset", "format"];

impl FileReader<'_> {
    /// Our column → the table's, each with its line.
    pub(super) fn columns(
        &mut self,
        path: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> BTreeMap<String, Typed> {
        let mut columns = BTreeMap::new();
        let DeValue::Table(table) = value.get_ref() else {
            let example = "columns = { topic = \"destination\" }";
            self.wrong(line, format!("{path} takes names and values, as in {example}"));
            return columns;
        };
        for (name, value) in table {
            let line = line_at(self.text, name.span().start);
            match value.get_ref() {
                DeValue::String(text) => {
                    let typed = Typed { text: text.to_string(), origin: self.origin(line) };
                    columns.insert(name.get_ref().to_string(), typed);
                }
                _ => {
                    let name = name.get_ref();
                    self.wrong(line, format!("{path}.{name} takes a column's name in quotes"));
                }
            }
        }
        columns
    }

    pub(super) fn tables(&mut self, value: &Spanned<DeValue<'_>>, line: usize) {
        let DeValue::Table(tables) = value.get_ref() else {
            return self.wrong(line, "tables contains sections: write [tables.\"orders.outbox\"]");
        };
        for (name, value) in tables {
            let line = line_at(self.text, name.span().start);
            match value.get_ref() {
                DeValue::Table(table) => self.table(name.get_ref(), table, line),
                _ => {
                    let name = name.get_ref();
                    self.wrong(
                        line,
                        format!("tables.{name} is a section: write [tables.{name:?}]"),
                    );
                }
            }
        }
    }

    fn table(&mut self, name: &str, table: &DeTable<'_>, line: usize) {
        let mut section = TableSection {
            name: name.to_owned(),
            origin: self.origin(line),
            columns: None,
            preset: None,
            format: None,
        };
        for (key, value) in table {
            let path = format!("tables.{name:?}.{}", key.get_ref());
            let line = line_at(self.text, key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("columns", _) => section.columns = Some(self.columns(&path, value, line)),
                ("preset", value) => section.preset = self.single_value(&path, value, line),
                ("format", DeValue::Table(format)) => section.format = self.format(&path, format),
                ("format", _) => {
                    self.wrong(line, format!("{path} is a section that contains value"))
                }
                // TOML reads the dot of [tables.orders.outbox] as a nested table.
                (key, DeValue::Table(inner)) if is_table_section(inner) => {
                    let meant = format!("[tables.\"{name}.{key}\"]");
                    return self.wrong(line, format!("unknown key {path}; did you mean {meant}?"));
                }
                (key, _) => self.wrong(line, unknown(&path, key)),
            }
        }
        self.layer.tables.push(section);
    }

    fn format(&mut self, path: &str, table: &DeTable<'_>) -> Option<Typed> {
        let mut format = None;
        for (key, value) in table {
            let path = format!("{path}.{}", key.get_ref());
            let line = line_at(self.text, key.span().start);
            match key.get_ref().as_ref() {
                "value" => format = self.single_value(&path, value.get_ref(), line),
                _ => self.wrong(line, format!("unknown key {path}; the only key here is value")),
            }
        }
        format
    }

    fn single_value(&mut self, path: &str, value: &DeValue<'_>, line: usize) -> Option<Typed> {
        let text = scalar(value);
        if text.is_none() {
            self.wrong(line, format!("{path} takes one value"));
        }
        Some(Typed { text: text?, origin: self.origin(line) })
    }
}

fn is_table_section(table: &DeTable<'_>) -> bool {
    table.keys().any(|key| TABLE_KEYS.contains(&key.get_ref().as_ref()))
}

fn unknown(path: &str, key: &str) -> String {
    match keys::nearest(key, TABLE_KEYS.iter().map(ToString::to_string)) {
        Some(near) => format!("unknown key {path}; did you mean {near}?"),
        None => format!("unknown key {path}; a table's keys are {}", TABLE_KEYS.join(", ")),
    }
}
