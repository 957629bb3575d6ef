//! Keys whose values are names and values, and the sections `[tables.…]` of single tables.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{FileReader, join, line_at, scalar};
use crate::config::keys::{self, Key, POSTGRES_COLUMNS, ValueKind};
use crate::config::raw::{Pairs, TableSection, Typed};

impl FileReader<'_> {
    /// Names and values, each with its line.
    pub(super) fn pairs(
        &mut self,
        key: &Key,
        path: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Pairs {
        let is_columns = key.path() == POSTGRES_COLUMNS.path();
        let mut pairs = BTreeMap::new();
        let DeValue::Table(table) = value.get_ref() else {
            let name = path.rsplit('.').next().unwrap_or_default();
            let example = match name {
                "headers" => "{ eventType = \"{type}\" }",
                "schema_ids" => "{ orders = 7 }",
                _ => "{ topic = \"destination\" }",
            };
            self.wrong(line, format!("{path} takes names and values, as in {name} = {example}"));
            return pairs;
        };
        for (name, value) in table {
            let line = line_at(self.text, name.span().start);
            let text = match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                value => scalar(value).filter(|_| !is_columns),
            };
            let name = name.get_ref();
            match text {
                Some(text) => {
                    pairs.insert(name.to_string(), Typed { text, origin: self.origin(line) });
                }
                None if is_columns => {
                    self.wrong(line, format!("{path}.{name} takes a column's name in quotes"));
                }
                None => self.wrong(line, format!("{path}.{name} takes one value")),
            }
        }
        pairs
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
            values: BTreeMap::new(),
            pairs: BTreeMap::new(),
        };
        for (key, value) in table {
            // TOML reads the dot of [tables.orders.outbox] as a nested table.
            if let DeValue::Table(inner) = value.get_ref()
                && !is_group(key.get_ref())
                && find(key.get_ref()).is_none()
                && is_table_section(inner)
            {
                let line = line_at(self.text, key.span().start);
                let (path, meant) =
                    (key.get_ref(), format!("[tables.\"{name}.{}\"]", key.get_ref()));
                let message = format!("unknown key tables.{name:?}.{path}; did you mean {meant}?");
                return self.wrong(line, message);
            }
        }
        self.settings(&mut section, "", table);
        self.layer.tables.push(section);
    }

    /// The settings of a table below a path in its section.
    fn settings(&mut self, section: &mut TableSection, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let within = join(prefix, name.get_ref());
            let path = format!("tables.{:?}.{within}", section.name);
            let line = line_at(self.text, name.span().start);
            match (find(&within), value.get_ref()) {
                (Some(key), _) if key.is(ValueKind::Pairs) => {
                    let pairs = self.pairs(key, &path, value, line);
                    section.pairs.insert(key.path(), pairs);
                }
                (Some(key), value) => {
                    if let Some(typed) = self.typed(key, &path, value, line) {
                        section.values.insert(key.path(), typed);
                    }
                }
                (None, DeValue::Table(inner)) if is_group(&within) => {
                    self.settings(section, &within, inner);
                }
                (None, _) if is_group(&within) => {
                    self.wrong(
                        line,
                        format!("{path} is a section that contains {}", group(&within)),
                    );
                }
                (None, _) => self.wrong(line, unknown(&path, &within)),
            }
        }
    }
}

/// The key with this path in a table's section.
fn find(within: &str) -> Option<&'static Key> {
    keys::ALL.iter().copied().find(|key| key.path_per_table() == Some(within))
}

fn paths() -> impl Iterator<Item = &'static str> {
    keys::ALL.iter().filter_map(|key| key.path_per_table())
}

/// Whether it is the part of paths before a dot.
fn is_group(within: &str) -> bool {
    paths().any(|path| path.split_once('.').is_some_and(|(group, _)| group == within))
}

/// The keys of a group.
fn group(within: &str) -> String {
    let names = paths().filter_map(|path| path.split_once('.').filter(|(it, _)| *it == within));
    names.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

fn is_table_section(table: &DeTable<'_>) -> bool {
    table.keys().any(|key| is_group(key.get_ref()) || find(key.get_ref()).is_some())
}

fn unknown(path: &str, within: &str) -> String {
    match keys::nearest(within, paths().map(ToOwned::to_owned)) {
        Some(near) => format!("unknown key {path}; did you mean {near}?"),
        None => {
            let known: Vec<&str> = paths().collect();
            format!("unknown key {path}; a table's keys are {}", known.join(", "))
        }
    }
}
