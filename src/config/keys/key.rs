//! What a setting is.

use super::VARIABLE_PREFIX;

/// The kind of value that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// One value.
    One,
    /// One value, a comma list, or an array.
    List,
    /// A table of names and values; each has a variable of its own.
    Map,
    /// A table of names and values; in a variable `name=value`, separated by commas.
    Pairs,
    /// Sections of the file, one for each table. They have no variable.
    Sections,
}

/// One setting.
#[derive(Debug)]
pub struct Key {
    path: &'static str,
    short: Option<Short>,
    default: Option<&'static str>,
    kind: ValueKind,
    /// Its path in the section of a table, if it can be set for one.
    per_table: Option<&'static str>,
    help: &'static str,
}

/// Frequently used settings have a short variable and a flag.
#[derive(Debug)]
struct Short {
    variable: &'static str,
    flag: &'static str,
}

impl Key {
    pub(super) const fn new(path: &'static str, help: &'static str) -> Self {
        Self { path, short: None, default: None, kind: ValueKind::One, per_table: None, help }
    }

    pub(super) const fn short(mut self, variable: &'static str, flag: &'static str) -> Self {
        self.short = Some(Short { variable, flag });
        self
    }

    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(super) const fn kind(mut self, kind: ValueKind) -> Self {
        self.kind = kind;
        self
    }

    pub(super) const fn per_table(mut self, path: &'static str) -> Self {
        self.per_table = Some(path);
        self
    }

    /// Its path in the section of a table, if it can be set for one: `columns`, `route.topic`.
    pub(crate) fn path_per_table(&self) -> Option<&'static str> {
        self.per_table
    }

    /// The key in the file, `postgres.url`.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The short variable, `POSTRIDER_DATABASE_URL`, if the setting has one.
    #[cfg(test)]
    pub(super) fn short_variable(&self) -> Option<&'static str> {
        self.short.as_ref().map(|short| short.variable)
    }

    /// The flag, `--database-url`, if the setting has one.
    pub fn flag(&self) -> Option<&'static str> {
        self.short.as_ref().map(|short| short.flag)
    }

    /// The default value, as it would be typed.
    pub fn default_text(&self) -> Option<&'static str> {
        self.default
    }

    /// One line that describes the setting.
    pub fn help(&self) -> &'static str {
        self.help
    }

    pub(crate) fn is(&self, kind: ValueKind) -> bool {
        self.kind == kind
    }

    /// The variables that set the key, the short one first.
    pub fn variables(&self) -> Vec<String> {
        let long =
            format!("{VARIABLE_PREFIX}{}", self.path.to_uppercase().replace(['.', '-'], "_"));
        let short = self.short.as_ref().map(|short| short.variable.to_owned());
        match short {
            Some(short) if short != long => vec![short, long],
            _ => vec![long],
        }
    }
}
