//! The only table of settings: the name of each in the file, in the environment and on the command
//! line. Reading, "did you mean" and `--help` all use it, so a setting can't exist in only one of
//! them.

/// All of postrider's variables begin with this.
pub(crate) const VARIABLE_PREFIX: &str = "POSTRIDER_";

/// The variable that names the configuration file. Not a setting: it can't be set in the file.
pub(crate) const CONFIG_VARIABLE: &str = "POSTRIDER_CONFIG";

mod key;

pub use key::Key;
pub(crate) use key::ValueKind;

/// Where the database is.
pub static POSTGRES_URL: Key =
    Key::new("postgres.url", "Database, as postgres://user@host/db or host=… dbname=…")
        .short("POSTRIDER_DATABASE_URL", "--database-url");
/// The replication slot.
pub static POSTGRES_SLOT: Key = Key::new("postgres.slot", "Replication slot to read")
    .short("POSTRIDER_SLOT", "--slot")
    .default("postrider");
/// The publication.
pub static POSTGRES_PUBLICATION: Key =
    Key::new("postgres.publication", "Publication that holds the outbox tables")
        .short("POSTRIDER_PUBLICATION", "--publication")
        .default("postrider");
/// The outbox tables.
pub static POSTGRES_TABLES: Key =
    Key::new("postgres.tables", "Outbox table; several by repeating the flag or with commas")
        .short("POSTRIDER_TABLES", "--table")
        .default("public.outbox")
        .kind(ValueKind::List);
/// Whether rows from before the slot are published.
pub static POSTGRES_SNAPSHOT: Key = Key::new(
    "postgres.snapshot",
    "Publish rows from before the slot was created: never or initial",
)
.default("never");
/// Whether events without a table are published.
pub static POSTGRES_MESSAGES: Key = Key::new(
    "postgres.messages",
    "true also publishes events without a table, which postrider.emit writes",
)
.default("false");
/// The tables' names for the outbox columns.
pub static POSTGRES_COLUMNS: Key = Key::new(
    "postgres.columns",
    "The tables' names for the outbox columns, as in topic=destination",
)
.per_table("columns")
.kind(ValueKind::Pairs);
/// Another tool's table and records.
pub static POSTGRES_PRESET: Key = Key::new(
    "postgres.preset",
    "Read another tool's table, and publish as that tool does: debezium, quarkus or open-outbox",
)
.per_table("preset")
.default("none");
/// Settings of single tables.
pub static TABLES: Key =
    Key::new("tables", "Settings of one table: columns, preset, route, format")
        .kind(ValueKind::Sections);
/// The Kafka brokers to ask first.
pub static KAFKA_BROKERS: Key =
    Key::new("kafka.brokers", "Kafka brokers, host:port, separated by commas")
        .short("POSTRIDER_BROKERS", "--brokers")
        .kind(ValueKind::List);
/// Properties that are passed on to librdkafka.
pub static KAFKA_PROPERTIES: Key =
    Key::new("kafka.properties", "librdkafka properties, by librdkafka's names")
        .kind(ValueKind::Map);
/// The options of Debezium's Outbox Event Router.
pub static DEBEZIUM: Key = Key::new(
    "debezium",
    "With preset debezium or quarkus: profile, converters, and options of Debezium's Event Router",
)
.kind(ValueKind::Map);
/// The topic of an event.
pub static ROUTE_TOPIC: Key =
    Key::new("route.topic", "Topic of an event, a template over the row's columns")
        .per_table("route.topic")
        .default("{topic}");
/// The record's key.
pub static ROUTE_KEY: Key =
    Key::new("route.key", "Columns; the first that is not NULL is the record's key")
        .per_table("route.key")
        .kind(ValueKind::List)
        .default("ordering_key,idempotency_key");
/// What decides the partition.
pub static ROUTE_PARTITION_BY: Key = Key::new(
    "route.partition_by",
    "Columns; the first that is not NULL decides the partition and the order, in place of the key",
)
.per_table("route.partition_by")
.kind(ValueKind::List);
/// More headers.
pub static ROUTE_HEADERS: Key = Key::new(
    "route.headers",
    "Headers by name, templates over the row's columns; an empty one omits a default header",
)
.per_table("route.headers")
.kind(ValueKind::Pairs);
/// Whether there are default headers.
pub static ROUTE_DEFAULT_HEADERS: Key =
    Key::new("route.default_headers", "false leaves out the default headers")
        .per_table("route.default_headers")
        .default("true");
/// The format of a record's value.
pub static FORMAT_VALUE: Key = Key::new(
    "format.value",
    "Format of a record's value: raw, json, protobuf, cloudevents-binary or cloudevents-structured",
)
.per_table("format.value")
.default("raw");
/// The CloudEvents attribute `source`.
pub static FORMAT_SOURCE: Key = Key::new(
    "format.source",
    "CloudEvents: the attribute source, a template over the row's columns",
)
.per_table("format.source");
/// The CloudEvents attribute `type`.
pub static FORMAT_TYPE: Key =
    Key::new("format.type", "CloudEvents: the attribute type, a template over the row's columns")
        .per_table("format.type")
        .default("{type}");
/// The schema's id.
pub static FORMAT_SCHEMA_ID: Key = Key::new(
    "format.schema_id",
    "Schema id to put before the value: a number, or a template such as {schema_id}",
)
.per_table("format.schema_id");
/// The same by topic.
pub static FORMAT_SCHEMA_IDS: Key =
    Key::new("format.schema_ids", "Schema ids by topic, as in orders=7")
        .per_table("format.schema_ids")
        .kind(ValueKind::Pairs);
/// The schema registry.
pub static FORMAT_REGISTRY: Key = Key::new(
    "format.registry",
    "Schema registry to look schema ids up in, as https://user:password@host:8081",
);
/// The certificate authorities of the registry.
pub static FORMAT_REGISTRY_CA: Key = Key::new(
    "format.registry_ca",
    "File with the certificate authorities of the registry, if they are not the system's",
);
/// The subject that is looked up.
pub static FORMAT_SUBJECT: Key = Key::new(
    "format.subject",
    "Subject to look up, a template over the row's columns, or off; else the topic and -value",
)
.per_table("format.subject");
/// The protobuf message.
pub static FORMAT_MESSAGE_INDEX: Key = Key::new(
    "format.message_index",
    "Which message of a protobuf schema the values are: 0 for the first, 1.0 for one inside it",
)
.per_table("format.message_index");
/// Where the schema's id is.
pub static FORMAT_SCHEMA_IN: Key = Key::new(
    "format.schema_in",
    "Where a record has its schema's id: before the value (value), or as a GUID in a header (header)",
)
.per_table("format.schema_in")
.default("value");
/// What later events of a parked event's key do.
pub static UNDELIVERED_ORDER: Key = Key::new(
    "undelivered.order",
    "What later events of a parked event's key do: park-key, park-topic, continue or halt",
)
.default("park-key");
/// When a parked event becomes dead.
pub static UNDELIVERED_MAX_ATTEMPTS: Key =
    Key::new("undelivered.max_attempts", "Attempts before a parked event becomes dead")
        .default("25");
/// The first pause between attempts.
pub static UNDELIVERED_BACKOFF_BASE: Key =
    Key::new("undelivered.backoff_base", "Pause after the first attempt; it doubles with each one")
        .default("1s");
/// The longest pause.
pub static UNDELIVERED_BACKOFF_MAX: Key =
    Key::new("undelivered.backoff_max", "Longest pause between two attempts").default("5m");
/// How long a claim lasts.
pub static UNDELIVERED_LEASE: Key =
    Key::new("undelivered.lease", "How long a claim on a parked event lasts").default("60s");
/// How often parked events are searched for.
pub static UNDELIVERED_POLL_INTERVAL: Key =
    Key::new("undelivered.poll_interval", "How often to search for parked events that are due")
        .default("1s");
/// How many are claimed at a time.
pub static UNDELIVERED_BATCH: Key =
    Key::new("undelivered.batch", "Parked events to claim at a time").default("100");
/// How many parked events open the breaker.
pub static UNDELIVERED_BREAKER_EVENTS: Key = Key::new(
    "undelivered.breaker_events",
    "Events parked within the window that open the breaker, if breaker_share is exceeded too",
)
.default("1000");
/// The time over which they are counted.
pub static UNDELIVERED_BREAKER_WINDOW: Key =
    Key::new("undelivered.breaker_window", "Time over which parked events are counted")
        .default("1m");
/// The fraction of all events that opens it.
pub static UNDELIVERED_BREAKER_SHARE: Key = Key::new(
    "undelivered.breaker_share",
    "Fraction of events that must be parked to open the breaker",
)
.default("0.5");
/// How many parked bytes open it.
pub static UNDELIVERED_BREAKER_BYTES: Key =
    Key::new("undelivered.breaker_bytes", "Bytes of parked events that open the breaker")
        .default("1GiB");
/// How long finished rows stay.
pub static UNDELIVERED_RETENTION: Key =
    Key::new("undelivered.retention", "How long delivered and discarded events are kept")
        .default("7d");
/// Whether old rows are deleted.
pub static CLEANER_ENABLED: Key =
    Key::new("cleaner.enabled", "false keeps all rows in the outbox tables").default("true");
/// How old they must be.
pub static CLEANER_RETENTION: Key = Key::new(
    "cleaner.retention",
    "How long rows stay in the outbox tables at least; only published rows are deleted",
)
.default("7d");
/// How often they are searched for.
pub static CLEANER_INTERVAL: Key =
    Key::new("cleaner.interval", "How often to search for rows to delete").default("1m");
/// How many one statement examines.
pub static CLEANER_BATCH: Key =
    Key::new("cleaner.batch", "Rows to examine together; at most 200 are deleted per transaction")
        .default("1000");
/// When claims are deleted.
pub static INBOX_RETENTION: Key = Key::new(
    "inbox.retention",
    "How long claims stay in postrider.inbox before the relay deletes them, or off",
)
.default("off");
/// Whether the relay reads and publishes.
pub static RELAY_ENABLED: Key =
    Key::new("relay.enabled", "false keeps the relay paused: it only watches the slot")
        .default("true");
/// How long a stop may take.
pub static RELAY_SHUTDOWN_TIMEOUT: Key =
    Key::new("relay.shutdown_timeout", "How long a stop waits for events in flight").default("30s");
/// Which environment the database belongs to.
pub static RELAY_ENVIRONMENT: Key = Key::new(
    "relay.environment",
    "Name of this environment; a database with another stored name is refused",
)
.default("none");
/// The limit in events.
pub static LIMITS_IN_FLIGHT_EVENTS: Key =
    Key::new("limits.in_flight_events", "Events that may wait for the broker at a time")
        .default("auto");
/// The limit in bytes.
pub static LIMITS_IN_FLIGHT_BYTES: Key =
    Key::new("limits.in_flight_bytes", "Memory for events that wait for the broker")
        .default("16MiB");
/// Where HTTP is served.
pub static HTTP_LISTEN: Key =
    Key::new("http.listen", "Address of /livez, /readyz, /status and /metrics, or off")
        .short("POSTRIDER_HTTP_LISTEN", "--http-listen")
        .default("127.0.0.1:7678");
/// What is logged.
pub static LOG: Key = Key::new(
    "log",
    "What to log: error, warn, info, debug, trace, off, or directives like postrider=debug,warn",
)
.short("POSTRIDER_LOG", "--log")
.default("info");
/// How it is logged.
pub static LOG_FORMAT: Key = Key::new("log_format", "How to log: text or json")
    .short("POSTRIDER_LOG_FORMAT", "--log-format")
    .default("text");

/// All settings, in the order of the documentation.
pub static ALL: &[&Key] = &[
    &POSTGRES_URL,
    &POSTGRES_SLOT,
    &POSTGRES_PUBLICATION,
    &POSTGRES_TABLES,
    &POSTGRES_SNAPSHOT,
    &POSTGRES_MESSAGES,
    &POSTGRES_COLUMNS,
    &POSTGRES_PRESET,
    &TABLES,
    &KAFKA_BROKERS,
    &KAFKA_PROPERTIES,
    &DEBEZIUM,
    &ROUTE_TOPIC,
    &ROUTE_KEY,
    &ROUTE_PARTITION_BY,
    &ROUTE_HEADERS,
    &ROUTE_DEFAULT_HEADERS,
    &FORMAT_VALUE,
    &FORMAT_SOURCE,
    &FORMAT_TYPE,
    &FORMAT_SCHEMA_ID,
    &FORMAT_SCHEMA_IDS,
    &FORMAT_REGISTRY,
    &FORMAT_REGISTRY_CA,
    &FORMAT_SUBJECT,
    &FORMAT_MESSAGE_INDEX,
    &FORMAT_SCHEMA_IN,
    &UNDELIVERED_ORDER,
    &UNDELIVERED_MAX_ATTEMPTS,
    &UNDELIVERED_BACKOFF_BASE,
    &UNDELIVERED_BACKOFF_MAX,
    &UNDELIVERED_LEASE,
    &UNDELIVERED_POLL_INTERVAL,
    &UNDELIVERED_BATCH,
    &UNDELIVERED_BREAKER_EVENTS,
    &UNDELIVERED_BREAKER_WINDOW,
    &UNDELIVERED_BREAKER_SHARE,
    &UNDELIVERED_BREAKER_BYTES,
    &UNDELIVERED_RETENTION,
    &CLEANER_ENABLED,
    &CLEANER_RETENTION,
    &CLEANER_INTERVAL,
    &CLEANER_BATCH,
    &INBOX_RETENTION,
    &RELAY_ENABLED,
    &RELAY_SHUTDOWN_TIMEOUT,
    &RELAY_ENVIRONMENT,
    &LIMITS_IN_FLIGHT_EVENTS,
    &LIMITS_IN_FLIGHT_BYTES,
    &HTTP_LISTEN,
    &LOG,
    &LOG_FORMAT,
];

/// The candidate whose spelling is nearest to `typed`, if it is near enough to be suggested.
pub(crate) fn nearest(typed: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    const NEAR: f64 = 0.7;
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(typed, &candidate), candidate))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_setting() {
        let page = include_str!("../../docs/configuration.md");
        // The table before the first section.
        let page = page.split("\n## ").next().unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), ALL.len());
        for (key, row) in ALL.iter().zip(rows) {
            let short = key.short_variable();
            let names = [key.path()].into_iter().chain(short).chain(key.flag());
            for name in names.chain(key.default_text()) {
                assert!(row.contains(&format!("`{name}`")), "{name} is missing in: {row}");
            }
        }
    }

    #[test]
    fn a_setting_is_spelled_one_way_everywhere() {
        let mut paths: Vec<_> = ALL.iter().map(|key| key.path()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), ALL.len());

        #[track_caller]
        fn check(key: &Key, variables: &[&str]) {
            assert_eq!(key.variables(), variables);
        }
        check(&POSTGRES_URL, &["POSTRIDER_DATABASE_URL", "POSTRIDER_POSTGRES_URL"]);
        check(&POSTGRES_TABLES, &["POSTRIDER_TABLES", "POSTRIDER_POSTGRES_TABLES"]);
        check(&KAFKA_BROKERS, &["POSTRIDER_BROKERS", "POSTRIDER_KAFKA_BROKERS"]);
        check(&HTTP_LISTEN, &["POSTRIDER_HTTP_LISTEN"]);
        check(&LOG, &["POSTRIDER_LOG"]);
        check(&LOG_FORMAT, &["POSTRIDER_LOG_FORMAT"]);
        check(&RELAY_SHUTDOWN_TIMEOUT, &["POSTRIDER_RELAY_SHUTDOWN_TIMEOUT"]);
    }
}
