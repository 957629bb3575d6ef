//! An option with its value, and where it was written.

/// What an option was set to.
#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    /// The file only refers to it, as in `${env:DB_HOST}`. Without a default that may be in there.
    Elsewhere(String),
}

/// An option. No `Debug`: it may be a password.
#[derive(Clone)]
pub(super) struct Setting {
    /// Its name in the file.
    pub(super) written: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

impl Setting {
    /// The value, unless it is elsewhere.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Elsewhere(_) => None,
        }
    }

    /// Whether its value is this one; upper case does not matter.
    pub(super) fn is(&self, value: &str) -> bool {
        self.text().is_some_and(|text| text.trim().eq_ignore_ascii_case(value))
    }

    /// Whether its value has a user and a password in a URL.
    pub(super) fn has_credentials(&self) -> bool {
        self.text().is_some_and(|text| text.contains("://") && text.contains('@'))
    }

    /// Where people find it.
    pub(super) fn place(&self) -> String {
        // The name of this option has a secret in it.
        let name = match self.written.split_once(".with.salt.") {
            Some((name, _)) => format!("{name}.with.salt.…"),
            None => self.written.clone(),
        };
        format!("{}, line {}", one_line(&name), self.line)
    }
}

/// Names in JSON may contain anything, and a comment ends with its line.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The parts of a comma list.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}
