//! One `[debezium]` section, as Debezium and as postrider want it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Options in a `[debezium]` section that belong to the connector, not to the Event Router.
const CONNECTOR_OPTIONS: [&str; 4] =
    ["topic.prefix", "decimal.handling.mode", "time.precision.mode", "binary.handling.mode"];
/// Those that have no counterpart of the same name.
const OWN_OPTIONS: [&str; 4] = ["profile", "key", "value", "header"];

/// Of connectors that have no other: it is in the names of schemas.
const TOPIC_PREFIX: &str = "debezium";

const EVENT_ROUTER: &str = "io.debezium.transforms.outbox.EventRouter";
const STRING_CONVERTER: &str = "org.apache.kafka.connect.storage.StringConverter";
const JSON_CONVERTER: &str = "org.apache.kafka.connect.json.JsonConverter";
const BYTES_CONVERTER: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";
const SIMPLE_CONVERTER: &str = "org.apache.kafka.connect.storage.SimpleHeaderConverter";

const STRING_SERIALIZER: &str = "org.apache.kafka.common.serialization.StringSerializer";
const BYTES_SERIALIZER: &str = "org.apache.kafka.common.serialization.ByteArraySerializer";

/// Which of Debezium's two forms is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Connect,
    Server,
}

#[derive(Clone, Debug)]
pub struct Configuration {
    pub(super) options: Map<String, Value>,
    pub(super) preset: String,
    pub(super) connector: BTreeMap<String, String>,
    pub(super) postrider: Vec<String>,
}

/// Where a connector reads.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    pub port: u16,
    pub user: &'a str,
    pub password: &'a str,
    pub database: &'a str,
    pub slot: &'a str,
    pub publication: &'a str,
    pub tables: &'a [String],
}

impl Configuration {
    /// With the preset `debezium` and nothing that is not in the section.
    pub fn of(section: &[(&str, &str)]) -> Configuration {
        let options = section.iter().map(|&(name, value)| (name.to_owned(), value.into()));
        Configuration {
            options: options.collect(),
            preset: "debezium".to_owned(),
            connector: BTreeMap::new(),
            postrider: Vec::new(),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.options.get(name).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// The value of one of our own options.
    fn own(&self, name: &str, default: &str) -> String {
        self.text(name).unwrap_or_else(|| default.to_owned())
    }

    pub fn profile(&self) -> Profile {
        match self.own("profile", "connect").as_str() {
            "connect" => Profile::Connect,
            "server" => Profile::Server,
            other => panic!("unknown profile {other}"),
        }
    }

    /// Whether a column decides the partition, so that it is always the same one.
    pub fn places_partitions(&self) -> bool {
        let placement = self.text("table.fields.additional.placement").unwrap_or_default();
        self.profile() == Profile::Connect && placement.contains(":partition")
    }

    /// Whether a column decides the time of a record.
    pub fn places_timestamps(&self) -> bool {
        let field = self.text("table.field.event.timestamp");
        self.profile() == Profile::Connect && field.is_some()
    }

    /// Whether a column with a trace's context is named, for a Debezium that has OpenTelemetry.
    pub fn traces(&self) -> bool {
        self.options.contains_key("tracing.span.context.field")
    }

    /// What the connector and the Event Router are configured with, in Connect as in Server.
    fn connector_properties(&self, source: &Source<'_>) -> BTreeMap<String, String> {
        let fixed = [
            ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
            ("tasks.max", "1"),
            ("database.hostname", "127.0.0.1"),
            ("database.port", &source.port.to_string()),
            ("database.user", source.user),
            ("database.password", source.password),
            ("database.dbname", source.database),
            ("plugin.name", "pgoutput"),
            ("slot.name", source.slot),
            ("publication.name", source.publication),
            ("publication.autocreate.mode", "disabled"),
            ("table.include.list", &source.tables.join(",")),
            ("snapshot.mode", "no_data"),
            ("topic.prefix", TOPIC_PREFIX),
            // New in 3.x, and on unless it is switched off: four headers more.
            ("extended.headers.enabled", "false"),
            // Only how soon it reads, and how soon it confirms.
            ("poll.interval.ms", "20"),
            // Metrics are registered by names that several connectors of a worker would share.
            ("custom.metric.tags", &format!("slot={}", source.slot)),
            ("transforms", "outbox"),
            ("transforms.outbox.type", EVENT_ROUTER),
        ];
        let mut properties: BTreeMap<String, String> =
            fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for name in self.options.keys() {
            let value = self.text(name).unwrap_or_default();
            if CONNECTOR_OPTIONS.contains(&name.as_str()) {
                properties.insert(name.clone(), value);
            } else if !OWN_OPTIONS.contains(&name.as_str()) {
                properties.insert(format!("transforms.outbox.{name}"), value);
            }
        }
        properties.extend(self.connector.clone());
        properties
    }

    /// The configuration of a connector in Kafka Connect.
    pub fn for_connect(&self, source: &Source<'_>) -> BTreeMap<String, String> {
        let mut properties = self.connector_properties(source);
        let converters = [("key", "string"), ("value", "string"), ("header", "simple")];
        for (name, default) in converters {
            let (class, schemas) = match self.own(name, default).as_str() {
                "string" => (STRING_CONVERTER, None),
                "json" => (JSON_CONVERTER, Some("false")),
                "json-with-schemas" => (JSON_CONVERTER, Some("true")),
                "bytes" => (BYTES_CONVERTER, None),
                "simple" => (SIMPLE_CONVERTER, None),
                other => panic!("unknown {name} {other}"),
            };
            properties.insert(format!("{name}.converter"), class.to_owned());
            if let Some(enabled) = schemas {
                properties.insert(format!("{name}.converter.schemas.enable"), enabled.to_owned());
            }
        }
        properties
    }

    /// The lines of Debezium Server's application.properties that concern source, format and sink.
    pub fn for_server(&self, source: &Source<'_>, brokers: &str) -> BTreeMap<String, String> {
        let mut properties = BTreeMap::new();
        for (name, value) in self.connector_properties(source) {
            let part = if name.starts_with("transforms") { "" } else { "source." };
            properties.insert(format!("debezium.{part}{name}"), value);
        }
        let formats = [("key", "string"), ("value", "string"), ("header", "simple")];
        for (part, default) in formats {
            let (format, schemas) = match self.own(part, default).as_str() {
                "string" => ("simplestring", None),
                "json" => ("json", Some("false")),
                "json-with-schemas" => ("json", None),
                "bytes" => ("binary", None),
                other => panic!("Debezium Server has no {part} {other}"),
            };
            properties.insert(format!("debezium.format.{part}"), format.to_owned());
            if let Some(enabled) = schemas {
                let name = format!("debezium.format.{part}.schemas.enable");
                properties.insert(name, enabled.to_owned());
            }
            if part != "header" {
                let binary = format == "binary";
                let serializer = if binary { BYTES_SERIALIZER } else { STRING_SERIALIZER };
                let name = format!("debezium.sink.kafka.producer.{part}.serializer");
                properties.insert(name, serializer.to_owned());
            }
        }
        let sink = [("type", "kafka"), ("kafka.producer.bootstrap.servers", brokers)];
        let sink = sink.map(|(name, value)| (format!("debezium.sink.{name}"), value.to_owned()));
        properties.extend(sink);
        properties
    }

    /// postrider.toml, connection and slot aside.
    pub fn for_postrider(&self, tables: &[String]) -> String {
        let mut lines = vec![
            "[postgres]".to_owned(),
            format!("preset = {}", Value::from(self.preset.as_str())),
            format!("tables = {}", Value::from(tables)),
            "[debezium]".to_owned(),
        ];
        // Strings, numbers and booleans are the same in TOML and in JSON.
        let mut options = self.options.clone();
        options.entry("topic.prefix").or_insert_with(|| TOPIC_PREFIX.into());
        let options = options.iter();
        lines.extend(options.map(|(name, value)| format!("{} = {value}", Value::from(&**name))));
        lines.extend(self.postrider.iter().cloned());
        lines.join("\n") + "\n"
    }
}
