//! Reads the TOML file without serde, so that each value keeps its line, and one wrong key does not
//! hide the next.

mod sections;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::Inputs;
use super::keys::{self, CONFIG_VARIABLE, Key, ValueKind};
use super::problem::{Origin, Problem};
use super::raw::{Layer, Typed};
use super::secrets;

const DEFAULT_FILE: &str = "postrider.toml";

/// The file's values; an empty layer if no file exists; `None` if the file can't be read.
pub(super) fn read(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Option<Layer> {
    let (path, named_by) = locate(inputs);
    let text = match (inputs.read)(&path) {
        Ok(text) => text,
        Err(error) if named_by.is_none() && error.kind() == ErrorKind::NotFound => {
            return Some(Layer::default());
        }
        Err(error) => {
            let origin = named_by.unwrap_or(Origin::File { path: path.clone(), line: 1 });
            problems.push(Problem::at(&origin, unreadable(&path, &error)));
            return None;
        }
    };
    parse(&path, &text, problems)
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let path = path.to_string_lossy();
    format!(
        "can't read the configuration file {}: {error}; name a readable file",
        secrets::path(&path)
    )
}

fn locate(inputs: &Inputs<'_>) -> (PathBuf, Option<Origin>) {
    if let Some(path) = &inputs.flags.config {
        return (path.clone(), Some(Origin::Flag("--config")));
    }
    match inputs.variable(CONFIG_VARIABLE) {
        Some(path) => (path.into(), Some(Origin::Variable(CONFIG_VARIABLE.to_owned()))),
        None => (DEFAULT_FILE.into(), None),
    }
}

fn parse(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Option<Layer> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // Only the message: the error's own rendering quotes the line, which may contain a
        // password. One per line: the others follow from it.
        let at = |error: &toml::de::Error| error.span().map_or(1, |span| line_at(text, span.start));
        let lines: BTreeMap<usize, &str> =
            errors.iter().rev().map(|error| (at(error), error.message())).collect();
        let problem =
            |(line, message)| Problem::in_file(path, line, format!("not TOML: {message}"));
        problems.extend(lines.into_iter().map(problem));
        return None;
    }
    let mut reader = FileReader { path, text, problems, layer: Layer::default() };
    reader.section("", document.get_ref());
    Some(reader.layer)
}

/// Reads the values of a parsed file.
struct FileReader<'a> {
    path: &'a Path,
    text: &'a str,
    problems: &'a mut Vec<Problem>,
    layer: Layer,
}

impl FileReader<'_> {
    fn section(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = join(prefix, name.get_ref());
            let line = line_at(self.text, name.span().start);
            match keys::ALL.iter().copied().find(|key| key.path() == path) {
                Some(key) if key.is(ValueKind::Map) => self.map(key, value, line),
                Some(key) if key.is(ValueKind::Pairs) => {
                    let pairs = self.pairs(key, &path, value, line);
                    self.layer.pairs.entry(key.path()).or_default().extend(pairs);
                }
                Some(key) if key.is(ValueKind::Sections) => self.tables(value, line),
                Some(key) => self.value(key, value, line),
                None if is_section(&path) => match value.get_ref() {
                    DeValue::Table(table) => self.section(&path, table),
                    _ => self.wrong(line, format!("{path} is a section: write it as [{path}]")),
                },
                None => self.wrong(line, unknown(&path)),
            }
        }
    }

    fn value(&mut self, key: &'static Key, value: &Spanned<DeValue<'_>>, line: usize) {
        if let Some(typed) = self.typed(key, key.path(), value.get_ref(), line) {
            self.layer.set(key, typed);
        }
    }

    /// One value, or a list where the key takes one.
    fn typed(&mut self, key: &Key, path: &str, value: &DeValue<'_>, line: usize) -> Option<Typed> {
        let text = match value {
            DeValue::Array(items) if key.is(ValueKind::List) => {
                let items: Option<Vec<String>> =
                    items.iter().map(|i| scalar(i.get_ref())).collect();
                items.map(|items| items.join(","))
            }
            value => scalar(value),
        };
        if text.is_none() {
            let expected = if key.is(ValueKind::List) { "a value or a list" } else { "one value" };
            self.wrong(line, format!("{path} takes {expected}, as in {}", example(key)));
        }
        Some(Typed { text: text?, origin: self.origin(line) })
    }

    fn map(&mut self, key: &'static Key, value: &Spanned<DeValue<'_>>, line: usize) {
        let path = key.path();
        let example = match path {
            "debezium" => "profile = \"server\"",
            _ => "\"linger.ms\" = 5",
        };
        match value.get_ref() {
            DeValue::Table(table) => self.map_table(key, "", table),
            _ => self.wrong(line, format!("{path} is a section: write [{path}], then {example}")),
        }
    }

    /// `linger.ms = 5` without quotes is a table in a table for TOML; it means the same.
    fn map_table(&mut self, key: &'static Key, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let name_path = join(prefix, name.get_ref());
            let line = line_at(self.text, name.span().start);
            if let DeValue::Table(table) = value.get_ref() {
                self.map_table(key, &name_path, table);
            } else if let Some(text) = scalar(value.get_ref()) {
                let origin = self.origin(line);
                self.layer.set_in_map(key, name_path, Typed { text, origin });
            } else {
                let path = key.path();
                self.wrong(line, format!("{path}.{name_path} takes one value, not a list"));
            }
        }
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line }
    }

    fn wrong(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Problem::in_file(self.path, line, message));
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn is_section(path: &str) -> bool {
    keys::ALL.iter().any(|key| key.path().split_once('.').is_some_and(|(head, _)| head == path))
}

/// A key in the wrong section is as likely as a misspelled one.
fn unknown(path: &str) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let moved = keys::ALL.iter().copied().find(|key| last(key.path()) == last(path));
    let sections = keys::ALL.iter().filter_map(|key| key.path().split_once('.'));
    let names = keys::ALL
        .iter()
        .map(|key| key.path().to_owned())
        .chain(sections.map(|(section, _)| section.to_owned()));
    match keys::nearest(path, names).or_else(|| moved.map(|key| key.path().to_owned())) {
        Some(near) => format!("unknown key {path}; did you mean {near}?"),
        None => format!("unknown key {path}; remove it"),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) => Some(decimal(integer)),
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(value) => Some(value.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn decimal(integer: &DeInteger<'_>) -> String {
    match i128::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(value) => value.to_string(),
        Err(_) => integer.to_string(),
    }
}

fn example(key: &Key) -> String {
    let name = key.path().rsplit('.').next().unwrap_or_default();
    format!("{name} = \"{}\"", key.default_text().unwrap_or("…"))
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
