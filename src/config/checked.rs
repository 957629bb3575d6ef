//! What the configuration means. Values here are ready to use and are not checked again.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::cleaner::{self, CleanerConfig};
use super::in_flight::InFlightEvents;
use super::inbox::{self, InboxConfig};
use super::keys::{self, Key};
use super::problem::{Origin, Problem};
use super::raw::{Layer, Typed};
use super::registry::{self, RegistryConfig};
use super::table_name::TableName;
use super::tables::{self, Common, OutboxTable};
use super::undelivered::{self, Order, UndeliveredConfig};
use super::{Inputs, Needs, connection, parse, properties, secrets};
use crate::postgres::Connection;
use postrider_core::format::Format;
use postrider_core::route::Route;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[postgres]`.
    pub postgres: PostgresConfig,
    /// `[kafka]`.
    pub kafka: KafkaConfig,
    /// The schema registry, if there is one.
    pub registry: Option<RegistryConfig>,
    /// `[undelivered]`.
    pub undelivered: UndeliveredConfig,
    /// `[cleaner]`.
    pub cleaner: CleanerConfig,
    /// `[inbox]`.
    pub inbox: InboxConfig,
    /// `[relay]`.
    pub relay: RelayConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[http]`.
    pub http: HttpConfig,
    /// `log` and `log_format`.
    pub log: LogConfig,
}

/// The database, and what is read from it.
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// How to connect to it.
    pub connection: Connection,
    /// A valid slot name.
    pub slot: String,
    /// Any identifier; quote it in SQL.
    pub publication: String,
    /// At least one, each once.
    pub tables: Vec<OutboxTable>,
    /// What happens to rows from before the slot.
    pub snapshot: Snapshot,
    /// Where events without a table go and what their records are, if they are published.
    pub messages: Option<(Route, Format)>,
}

impl PostgresConfig {
    /// The names of the outbox tables.
    pub fn table_names(&self) -> Vec<TableName> {
        self.tables.iter().map(|table| table.name.clone()).collect()
    }
}

/// What happens to rows from before the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// They are not published.
    Never,
    /// `run` creates the slot, and publishes them first.
    Initial,
}

/// The broker.
#[derive(Clone)]
pub struct KafkaConfig {
    /// `host:port`, separated by commas; empty if the command does not need Kafka and none was set.
    pub brokers: String,
    /// For librdkafka, in addition to those that postrider sets.
    pub properties: BTreeMap<String, String>,
}

impl KafkaConfig {
    /// Warnings about settings that are allowed but reduce security.
    pub fn cautions(&self) -> Vec<&'static str> {
        properties::cautions(&self.properties)
    }
}

/// Any property may contain a secret, so only their names are shown.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

/// The relay itself.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// False: it reads and publishes nothing, and only watches the slot.
    pub enabled: bool,
    /// How long a stop waits for events in flight.
    pub shutdown_timeout: Duration,
    /// The name of this environment, if it is set.
    pub environment: Option<String>,
    /// Another Kafka cluster or environment than the stored one is accepted, once. Set only by a
    /// flag of the command line, because it must not stay set.
    pub accept_destination: bool,
}

/// The limits of memory.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// Events that may wait for the broker at a time.
    pub in_flight_events: InFlightEvents,
    /// Memory for events that wait for the broker.
    pub in_flight_bytes: usize,
}

/// The HTTP server.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// `None`: no HTTP server.
    pub listen: Option<SocketAddr>,
}

/// The log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Directives for `tracing_subscriber::EnvFilter`, complete and valid.
    pub filter: String,
    /// The format of lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Checks everything, so that all errors are reported together.
pub(super) fn check(
    typed: &Layer,
    inputs: &Inputs<'_>,
    needs: Needs,
    problems: &mut Vec<Problem>,
) -> Option<Config> {
    let connection = match needs {
        Needs::Nothing => Some(Connection::nowhere()),
        Needs::Postgres | Needs::PostgresAndKafka => {
            let url = typed.get(&keys::POSTGRES_URL);
            connection::check(url.as_ref(), inputs, problems)
        }
    };
    let mut values = Values { typed, problems };
    let slot = values.read(&keys::POSTGRES_SLOT, parse::slot);
    let publication = values.read(&keys::POSTGRES_PUBLICATION, parse::publication);
    let names = values.read(&keys::POSTGRES_TABLES, parse::tables);
    let snapshot = values.read(&keys::POSTGRES_SNAPSHOT, parse::snapshot);
    let messages = values.read(&keys::POSTGRES_MESSAGES, parse::yes_or_no);
    let brokers = match typed.get(&keys::KAFKA_BROKERS) {
        None if needs != Needs::PostgresAndKafka => Some(String::new()),
        _ => values.read(&keys::KAFKA_BROKERS, parse::brokers),
    };
    let registry = registry::check(&mut values);
    let undelivered = undelivered::check(&mut values);
    let cleaner = cleaner::check(&mut values);
    let inbox = inbox::check(&mut values);
    let relay = relay(&mut values);
    let in_flight_events = values.read(&keys::LIMITS_IN_FLIGHT_EVENTS, parse::in_flight_events);
    let in_flight_bytes = values.read(&keys::LIMITS_IN_FLIGHT_BYTES, parse::in_flight_bytes);
    let listen = values.read(&keys::HTTP_LISTEN, parse::listen);
    let filter = values.read(&keys::LOG, parse::log_filter);
    let format = values.read(&keys::LOG_FORMAT, parse::log_format);
    let common =
        undelivered.as_ref().zip(registry.as_ref()).map(|(undelivered, registry)| Common {
            whole_topic: undelivered.order == Order::ParkTopic,
            has_registry: registry.is_some(),
        });
    let tables = tables::check(typed, names, common, messages == Some(true), problems);
    let properties = properties::check(typed.map(&keys::KAFKA_PROPERTIES), problems);
    if needs == Needs::PostgresAndKafka {
        properties::check_files(typed.map(&keys::KAFKA_PROPERTIES), problems);
    }
    let (tables, messages) = tables?;
    Some(Config {
        postgres: PostgresConfig {
            connection: connection?,
            slot: slot?,
            publication: publication?,
            tables,
            snapshot: snapshot?,
            messages,
        },
        kafka: KafkaConfig { brokers: brokers?, properties },
        registry: registry?,
        undelivered: undelivered?,
        cleaner: cleaner?,
        inbox: inbox?,
        relay: relay?,
        limits: LimitsConfig {
            in_flight_events: in_flight_events?,
            in_flight_bytes: in_flight_bytes?,
        },
        http: HttpConfig { listen: listen? },
        log: LogConfig { filter: filter?, format: format? },
    })
}

fn relay(values: &mut Values<'_>) -> Option<RelayConfig> {
    let enabled = values.read(&keys::RELAY_ENABLED, parse::yes_or_no);
    let shutdown_timeout = values.read(&keys::RELAY_SHUTDOWN_TIMEOUT, parse::shutdown_timeout);
    let environment = values.read(&keys::RELAY_ENVIRONMENT, parse::environment);
    Some(RelayConfig {
        enabled: enabled?,
        shutdown_timeout: shutdown_timeout?,
        environment: environment?,
        accept_destination: false,
    })
}

/// What was typed, and what is wrong with it.
pub(super) struct Values<'a> {
    typed: &'a Layer,
    problems: &'a mut Vec<Problem>,
}

impl Values<'_> {
    /// The same for a setting that may be left out.
    pub(super) fn read_if_set<T>(
        &mut self,
        key: &Key,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        match self.typed.get(key) {
            None => Some(None),
            Some(_) => self.read(key, parse).map(Some),
        }
    }

    /// The parsed value; or `None`, and a problem with what was typed, where, and the fix.
    pub(super) fn read<T>(&mut self, key: &Key, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        let Some(Typed { text, origin }) = self.typed.get(key) else {
            let variable = key.variables().into_iter().next().unwrap_or_default();
            let flag = key.flag().map(|flag| format!(" or with {flag}")).unwrap_or_default();
            let message =
                format!("{}: not set; set it in the file, in {variable}{flag}", key.path());
            self.problems.push(Problem::missing(message));
            return None;
        };
        match parse(text.trim()) {
            Ok(value) => Some(value),
            Err(reason) => {
                let message = format!("{}: {reason}", secrets::setting(key.path(), &text));
                self.problems.push(Problem::at(&origin, message));
                None
            }
        }
    }

    /// Two values that contradict each other. The origin is that of the first one that was typed.
    pub(super) fn contradict(&mut self, keys: [&Key; 2], message: String) {
        let origins = keys.map(|key| self.typed.get(key).map(|typed| typed.origin));
        let typed = origins.into_iter().flatten().find(|origin| *origin != Origin::Default);
        self.problems.push(Problem { origin: typed, message });
    }
}
