//! Configurations for programs that embed relays.

use std::path::Path;

use super::problem::{ConfigError, Problem};
use super::{Config, Flags, Inputs, LIBPQ_PREFIX, Needs, file};

/// The file name that errors show for text from no file.
const TEXT: &str = "TOML";

impl Config {
    /// Reads a configuration file and checks it. `needs`: whether the relay publishes to Kafka, or
    /// to a sink of the program, which needs no brokers.
    ///
    /// No variable `POSTRIDER_…` counts, because it would hold for all relays of the process. What
    /// the URL leaves out comes from libpq's variables and password file, as for `postrider run`.
    /// `log` and `log_format` are for the program to apply; a relay does not configure the log.
    ///
    /// # Errors
    /// Everything that is wrong, each with the line of the file.
    pub fn from_file(path: impl AsRef<Path>, needs: Needs) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let unreadable = |error| {
            let problem = Problem::missing(file::unreadable(path, &error));
            ConfigError { problems: vec![problem] }
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        from_text(path, &text, needs)
    }

    /// The same from the text of a configuration file.
    ///
    /// ```
    /// use postrider::{Config, Needs};
    ///
    /// let text = "
    ///     [postgres]
    ///     url = 'postgres://postrider@db.example/shop'
    ///     slot = 'orders'
    ///     [kafka]
    ///     brokers = 'kafka-1:9092'";
    /// let config = Config::from_toml(text, Needs::PostgresAndKafka).unwrap();
    /// assert_eq!(config.postgres.slot, "orders");
    ///
    /// let error = Config::from_toml("[postgres]\nslott = 'a'", Needs::Postgres).unwrap_err();
    /// assert!(error.to_string().contains("TOML:2: unknown key postgres.slott"));
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong, each with the line of the text.
    pub fn from_toml(text: &str, needs: Needs) -> Result<Self, ConfigError> {
        from_text(Path::new(TEXT), text, needs)
    }
}

/// `path`: what the text is called in errors.
fn from_text(path: &Path, text: &str, needs: Needs) -> Result<Config, ConfigError> {
    let flags = Flags { config: Some(path.to_owned()), ..Flags::default() };
    let read = |asked: &Path| {
        if asked == path { Ok(text.to_owned()) } else { std::fs::read_to_string(asked) }
    };
    Config::load(&Inputs::with_variables(flags, &[LIBPQ_PREFIX], &read)?, needs)
}
