//! Loading as a whole: from files, variables and flags to the configuration or all errors.

mod cleaner;
mod connection;
mod debezium;
mod embedded;
mod inbox;
mod layers;
mod problems;
mod tables;
mod undelivered;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::keys::Key;
use super::*;

/// Files by name, variables, flags.
#[derive(Default)]
struct Given<'a> {
    files: &'a [(&'a str, &'a str)],
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [(&'static Key, &'a str)],
    config_flag: Option<&'a str>,
}

impl Given<'_> {
    fn load_for(&self, needs: Needs) -> Result<Config, ConfigError> {
        let read = |path: &Path| {
            let file = self.files.iter().find(|(name, _)| Path::new(name) == path);
            let not_found = || io::Error::from(io::ErrorKind::NotFound);
            file.map(|(_, text)| (*text).to_owned()).ok_or_else(not_found)
        };
        let mut flags = Flags { config: self.config_flag.map(Into::into), ..Flags::default() };
        for (key, value) in self.flags {
            flags.set(key, [(*value).to_owned()]);
        }
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: BTreeMap<_, _> = self.variables.iter().map(owned).collect();
        let os_user = Some("me".to_owned());
        Config::load(&Inputs { flags, variables, read: &read, os_user, home: None }, needs)
    }

    fn load(&self) -> Result<Config, ConfigError> {
        self.load_for(Needs::PostgresAndKafka)
    }

    #[track_caller]
    fn problems(&self) -> Vec<String> {
        let error = self.load().expect_err("a configuration with errors");
        error.problems.iter().map(ToString::to_string).collect()
    }
}

const URL: (&str, &str) = ("POSTRIDER_DATABASE_URL", "postgres://app:pw@db:5433/shop");
const BROKERS: (&str, &str) = ("POSTRIDER_BROKERS", "k1:9092, k2:9092");
