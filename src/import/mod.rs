//! `postrider import debezium`: from the configuration of a Debezium connector with the Outbox Event
//! Router to a complete `postrider.toml`, and a list of what is different.
//!
//! ```text
//!  file ──form──► Connector ──rules──► Draft: the TOML, and findings
//!        what was   options by    what postrider
//!        written    Debezium's    does in their place
//!                   names
//! ```
//!
//! A rule takes the options that it knows out of the connector. What is left at the end is looked up
//! in the table of options without a counterpart (`rules/remaining`), so that none is dropped
//! silently. No password is copied, and none is in a finding or an error.

mod connector;
mod draft;
mod finding;
mod form;
mod input;
mod rules;
mod setting;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use finding::{Finding, Kind};

use crate::config::{ConfigError, Problem};

/// What became of a configuration.
pub(crate) struct Import {
    /// A `postrider.toml` with comments.
    pub(crate) toml: String,
    /// What is different, the most important first.
    pub(crate) findings: Vec<Finding>,
}

impl Import {
    /// Whether consumers see something else than before.
    pub(crate) fn changes_records(&self) -> bool {
        self.findings.iter().any(|finding| finding.kind == Kind::Consumers)
    }
}

/// Why a configuration can't be imported.
struct Fault {
    /// Where, if it is about one line.
    line: Option<usize>,
    /// What is wrong, and the fix. Never a value that may be a secret.
    message: String,
}

impl Fault {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Fault { line: Some(line), message: message.into() }
    }

    fn of_file(message: impl Into<String>) -> Self {
        Fault { line: None, message: message.into() }
    }
}

/// Reads a file, or standard input if it is called `-`.
///
/// # Errors
/// Everything that is wrong with it, each with its line.
pub(crate) fn file(path: &Path) -> Result<Import, ConfigError> {
    let (name, text) = input::read(path)?;
    import(&text, &name)
}

/// `name`: what the text is called in errors; its ending is a hint at what it is.
fn import(text: &str, name: &Path) -> Result<Import, ConfigError> {
    let imported = form::read(text, name).and_then(rules::apply);
    imported.map_err(|faults| {
        let problem = |Fault { line, message }| match line {
            Some(line) => Problem::in_file(name, line, message),
            None => Problem::missing(format!("{}: {message}", name.display())),
        };
        ConfigError { problems: faults.into_iter().map(problem).collect() }
    })
}
