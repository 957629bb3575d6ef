//! What was typed: file < environment < flags, each value with its origin.

use std::collections::BTreeMap;

use super::Inputs;
use super::environment;
use super::file;
use super::keys::{self, Key, ValueKind};
use super::problem::{Origin, Problem};

/// A value as it was typed. Lists are joined by commas. No `Debug`: it may be a password.
#[derive(Clone)]
pub(super) struct Typed {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// The values of one layer, or of all layers merged.
#[derive(Default)]
pub(super) struct Layer {
    values: BTreeMap<&'static str, Typed>,
    /// librdkafka's properties by librdkafka's names.
    pub(super) properties: BTreeMap<String, Typed>,
    /// The tables' names for our columns, by our names.
    pub(super) columns: BTreeMap<String, Typed>,
    /// `[tables.…]`, which only the file can contain.
    pub(super) tables: Vec<TableSection>,
}

/// The settings of one table.
pub(super) struct TableSection {
    /// As it was typed.
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) columns: Option<BTreeMap<String, Typed>>,
    pub(super) preset: Option<Typed>,
    /// The format of the value.
    pub(super) format: Option<Typed>,
}

impl Layer {
    pub(super) fn set(&mut self, key: &'static Key, typed: Typed) {
        self.values.insert(key.path(), typed);
    }

    /// Later layers win value by value; properties and columns are merged one by one.
    fn overlay(&mut self, upper: Layer) {
        self.values.extend(upper.values);
        self.properties.extend(upper.properties);
        self.columns.extend(upper.columns);
        self.tables.extend(upper.tables);
    }

    /// What was typed for `key`, else its default.
    pub(super) fn get(&self, key: &Key) -> Option<Typed> {
        let default = || {
            let text = key.default_text()?.to_owned();
            Some(Typed { text, origin: Origin::Default })
        };
        self.values.get(key.path()).cloned().or_else(default)
    }
}

/// Reads all layers. `None` if the file can't be read at all: its values are unknown, so errors
/// about missing values would be misleading.
pub(super) fn read(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Option<Layer> {
    let file = file::read(inputs, problems);
    let environment = environment::read(inputs, problems);
    let mut all = file?;
    all.overlay(environment);
    all.overlay(flags(inputs));
    Some(all)
}

fn flags(inputs: &Inputs<'_>) -> Layer {
    let mut layer = Layer::default();
    for key in keys::ALL {
        let values: Vec<&str> = inputs.flags.of(key).collect();
        let text = match values.as_slice() {
            [] => continue,
            // clap accepts a flag of one value only once
            [.., last] if !key.is(ValueKind::List) => (*last).to_owned(),
            all => all.join(","),
        };
        if let Some(flag) = key.flag() {
            layer.set(key, Typed { text, origin: Origin::Flag(flag) });
        }
    }
    layer
}
