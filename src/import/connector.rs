//! A connector, however it was written.

use std::collections::BTreeMap;

use super::setting::Setting;

/// Settings by Debezium's or the client's names for them.
pub(super) type Settings = BTreeMap<String, Setting>;

/// What runs the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    Connect,
    Server,
}

impl Runtime {
    pub(super) fn name(self) -> &'static str {
        match self {
            Runtime::Connect => "Kafka Connect",
            Runtime::Server => "Debezium Server",
        }
    }
}

/// A connector's options. Rules take out those that they know.
pub(super) struct Connector {
    pub(super) runtime: Runtime,
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    /// Its options, and those of its transforms, predicates and converters.
    pub(super) options: Settings,
    /// `debezium.format.…`, without that prefix.
    pub(super) formats: Settings,
    /// Properties of the Java producer.
    pub(super) producer: Settings,
    /// What the worker says, if the file has it.
    pub(super) worker: Option<Settings>,
    /// Settings of the process around the connector.
    pub(super) process: Settings,
}

impl Connector {
    pub(super) fn new(runtime: Runtime, name: Option<String>) -> Self {
        Connector {
            runtime,
            name,
            options: Settings::new(),
            formats: Settings::new(),
            producer: Settings::new(),
            worker: None,
            process: Settings::new(),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Setting> {
        self.options.remove(name)
    }

    /// The options below a prefix, by the rest of their names.
    pub(super) fn take_below(&mut self, prefix: &str) -> Settings {
        take_below(&mut self.options, prefix)
    }
}

/// The settings below a prefix, by the rest of their names.
pub(super) fn take_below(settings: &mut Settings, prefix: &str) -> Settings {
    let names: Vec<String> =
        settings.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
    let mut below = Settings::new();
    for name in names {
        if let (Some(rest), Some(setting)) = (name.strip_prefix(prefix), settings.remove(&name)) {
            below.insert(rest.to_owned(), setting);
        }
    }
    below
}
