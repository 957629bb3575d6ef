//! The configuration: what was typed ([`keys`], file, environment, flags), then what it means
//! ([`Config`]). Loading is a function of its [`Inputs`]; all errors are reported together.

mod checked;
mod cleaner;
mod connection;
mod debezium;
mod embedded;
mod environment;
mod file;
mod in_flight;
mod inbox;
pub mod keys;
mod parse;
mod presets;
mod problem;
mod properties;
mod raw;
mod registry;
mod routes;
mod secrets;
mod table_name;
mod tables;
#[cfg(test)]
mod tests;
mod undelivered;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use checked::Config;
pub(crate) use checked::{
    KafkaConfig, LimitsConfig, LogConfig, LogFormat, PostgresConfig, Snapshot,
};
pub use cleaner::CleanerConfig;
#[cfg(test)]
pub(crate) use in_flight::InFlightEvents;
#[cfg(test)]
pub(crate) use inbox::InboxConfig;
pub use problem::ConfigError;
pub(crate) use problem::Problem;
pub(crate) use properties::{Verdict, holds_secret, verdict};
pub(crate) use registry::RegistryConfig;
pub(crate) use secrets::looks_secret;
pub use table_name::TableName;
pub(crate) use table_name::TableNameError;
pub(crate) use table_name::quote_identifier;
pub use tables::OutboxTable;
pub use undelivered::Order;
pub(crate) use undelivered::UndeliveredConfig;

use keys::Key;

/// The variables of libpq, Postgres' own client.
const LIBPQ_PREFIX: &str = "PG";

/// What was given on the command line. No `Debug`: a URL may contain a password.
#[derive(Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    values: Vec<(&'static Key, String)>,
}

impl Flags {
    /// Adds a flag's values, none if it was not given.
    pub fn set(&mut self, key: &'static Key, values: impl IntoIterator<Item = String>) {
        self.values.extend(values.into_iter().map(|value| (key, value)));
    }

    fn of(&self, key: &Key) -> impl Iterator<Item = &str> {
        let same = move |(other, _): &&(&'static Key, String)| other.path() == key.path();
        self.values.iter().filter(same).map(|(_, value)| value.as_str())
    }
}

/// Everything that a configuration is loaded from.
pub struct Inputs<'a> {
    /// The command line.
    pub flags: Flags,
    /// The environment; only `POSTRIDER_…` and `PG…` are read.
    pub variables: BTreeMap<String, String>,
    /// Reads the configuration file and the files that `…_FILE` variables name.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The operating system's user, libpq's default for the role.
    pub os_user: Option<String>,
    /// The directory where that user's password file and certificates may be.
    pub home: Option<PathBuf>,
}

impl Inputs<'static> {
    /// The flags, and everything else from this process.
    pub fn of_process(flags: Flags) -> Result<Self, ConfigError> {
        let prefixes = [keys::VARIABLE_PREFIX, LIBPQ_PREFIX];
        Self::with_variables(flags, &prefixes, &|path| std::fs::read_to_string(path))
    }
}

impl<'a> Inputs<'a> {
    /// The variables that begin with one of the prefixes, and the user, from this process.
    fn with_variables(
        flags: Flags,
        prefixes: &[&str],
        read: &'a dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, ConfigError> {
        let mut variables = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else {
                continue;
            };
            if !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            match value.into_string() {
                Ok(value) => drop(variables.insert(name, value)),
                Err(_) => problems.push(Problem::in_variable(&name, "not UTF-8; set it as UTF-8")),
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let os_user = whoami::username().ok();
        Ok(Inputs { flags, variables, read, os_user, home: std::env::home_dir() })
    }
}

impl Inputs<'_> {
    /// A variable's value, if it is not empty: compose files and unit files often pass on unset
    /// variables as empty ones.
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The servers that a command connects to, and so what must be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// None: the command only uses the configuration.
    Nothing,
    /// Only the database.
    Postgres,
    /// The database and the brokers.
    PostgresAndKafka,
}

impl Config {
    /// Reads and checks everything.
    pub fn load(inputs: &Inputs<'_>, needs: Needs) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let config = raw::read(inputs, &mut problems)
            .and_then(|typed| checked::check(&typed, inputs, needs, &mut problems));
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError { problems }),
        }
    }
}
