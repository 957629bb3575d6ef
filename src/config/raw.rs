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
    /// The sections whose names are another program's, by their paths.
    maps: BTreeMap<&'static str, Pairs>,
    /// The keys whose values are names and values, by their paths.
    pub(super) pairs: BTreeMap<&'static str, Pairs>,
    /// `[tables.…]`, which only the file can contain.
    pub(super) tables: Vec<TableSection>,
}

/// Values by name.
pub(super) type Pairs = BTreeMap<String, Typed>;

/// The settings of one table.
pub(super) struct TableSection {
    /// As it was typed.
    pub(super) name: String,
    pub(super) origin: Origin,
    /// By the paths of the same settings for all tables.
    pub(super) values: BTreeMap<&'static str, Typed>,
    pub(super) pairs: BTreeMap<&'static str, Pairs>,
}

impl Layer {
    pub(super) fn set(&mut self, key: &'static Key, typed: Typed) {
        self.values.insert(key.path(), typed);
    }

    /// Later layers win value by value; properties, columns and other pairs are merged one by one.
    fn overlay(&mut self, upper: Layer) {
        self.values.extend(upper.values);
        for (path, map) in upper.maps {
            self.maps.entry(path).or_default().extend(map);
        }
        for (path, pairs) in upper.pairs {
            self.pairs.entry(path).or_default().extend(pairs);
        }
        self.tables.extend(upper.tables);
    }

    /// What was typed in the section of a [`ValueKind::Map`].
    pub(super) fn map(&self, key: &Key) -> &Pairs {
        static NONE: Pairs = Pairs::new();
        self.maps.get(key.path()).unwrap_or(&NONE)
    }

    pub(super) fn set_in_map(&mut self, key: &'static Key, name: String, typed: Typed) {
        self.maps.entry(key.path()).or_default().insert(name, typed);
    }

    /// What was typed for `key`.
    pub(super) fn typed(&self, key: &Key) -> Option<&Typed> {
        self.values.get(key.path())
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
