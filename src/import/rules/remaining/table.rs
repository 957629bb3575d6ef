//! The table of options without a counterpart.

use crate::import::finding::Kind;

/// What it means that postrider does not have an option.
pub(super) struct Row {
    /// A name, or the beginning of names with `*` at its end.
    name: &'static str,
    /// With this value it changes nothing.
    pub(super) default: Option<&'static str>,
    /// Whom it concerns; nobody if there is nothing to report.
    pub(super) kind: Option<Kind>,
    pub(super) meaning: &'static str,
}

impl Row {
    pub(super) fn matches(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.name,
        }
    }

    /// With this value it changes nothing.
    const fn unless(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
}

const fn nobody(name: &'static str) -> Row {
    Row { name, default: None, kind: None, meaning: "" }
}

const fn operators(name: &'static str, meaning: &'static str) -> Row {
    Row { name, default: None, kind: Some(Kind::Operators), meaning }
}

const fn consumers(name: &'static str, meaning: &'static str) -> Row {
    Row { name, default: None, kind: Some(Kind::Consumers), meaning }
}

const HEARTBEAT: &str = "not needed: an idle outbox retains no WAL here. The topic of heartbeats gets \
    no more records, and nothing is written to the database";
const RETRIES: &str = "postrider retries what may work later for as long as it takes, with pauses that \
    grow";
const POSITION: &str = "postrider stores its position in postrider.progress, and confirms it to the \
    slot after the brokers' acknowledgements";
const SNAPSHOT: &str = "the slot's position is taken over, so there is no snapshot; `postrider recover` \
    publishes rows that may be missing";
const SIGNALS: &str = "postrider has no signals and no notifications; `postrider recover` publishes \
    rows that may be missing";
const METRICS: &str = "postrider has metrics of its own: http.listen";
const BATCHES: &str = "[limits] bounds what is in flight here";
const DRIVER: &str =
    "it is for the Java driver; options of the connection can be added to postgres.url";
const PARKED: &str = "events that can't be published are parked, and later ones of the same key wait \
    for them; with undelivered.order = \"continue\" they do not wait";
const TYPES: &str = "columns of that type look as with Debezium's default, or can't be placed";
const SCHEMAS: &str = "schemas have the names and parameters of Debezium's default";
const ROUTED: &str = "it has no effect on events of the Event Router";
const MESSAGES: &str = "messages written without a table are not published; postrider.emit writes such \
    events";

/// The first row that matches counts.
pub(super) const OPTIONS: &[Row] = &[
    nobody("name"),
    nobody("connector.class"),
    nobody("tasks.max"),
    nobody("config.action.reload"),
    nobody("internal.*"),
    // What records are made of.
    consumers("column.include.list", "all columns that [debezium] names are read"),
    consumers("column.exclude.list", "columns that [debezium] names are read although it is set"),
    consumers("column.mask.*", "values are not masked"),
    consumers("column.truncate.*", "values are not truncated"),
    consumers("column.propagate.source.type", SCHEMAS),
    consumers("datatype.propagate.source.type", SCHEMAS),
    consumers("schema.name.adjustment.mode", SCHEMAS).unless("none"),
    consumers("topic.naming.strategy", SCHEMAS)
        .unless("io.debezium.schema.SchemaTopicNamingStrategy"),
    consumers("topic.delimiter", SCHEMAS).unless("."),
    consumers("field.name.adjustment.mode", "names in an expanded payload are not changed")
        .unless("none"),
    consumers("sanitize.field.names", "names in an expanded payload are not changed")
        .unless("false"),
    consumers("hstore.handling.mode", TYPES).unless("json"),
    consumers("interval.handling.mode", TYPES).unless("numeric"),
    consumers("money.fraction.digits", TYPES).unless("2"),
    consumers("include.unknown.datatypes", TYPES).unless("false"),
    consumers("unavailable.value.placeholder", "an insert has all its values, so none is replaced")
        .unless("__debezium_unavailable_value"),
    consumers("message.prefix.*", MESSAGES),
    consumers("provide.transaction.metadata", "the topic of transactions gets no more records")
        .unless("false"),
    consumers("notification.sink.topic.name", "this topic gets no more records"),
    consumers(
        "exactly.once.support",
        "delivery is at least once: after a crash some events are published again",
    )
    .unless("requested"),
    consumers("errors.tolerance", PARKED).unless("none"),
    consumers("event.processing.failure.handling.mode", PARKED).unless("fail"),
    consumers("event.converting.failure.handling.mode", PARKED).unless("warn"),
    // What has no effect on an outbox.
    operators("tombstones.on.delete", "it has no effect on an outbox: deletes are not events"),
    operators("skip.messages.without.change", ROUTED),
    operators("message.key.columns", ROUTED),
    operators("include.schema.*", ROUTED),
    operators("sourceinfo.struct.maker", ROUTED),
    operators("transaction.*", ROUTED),
    operators("topic.transaction", ROUTED),
    operators("topic.cache.size", ROUTED),
    operators("schema.history.*", "connectors for Postgres do not use it"),
    operators("schema.refresh.mode", "the stream itself has the columns of each table"),
    operators("errors.deadletterqueue.*", "it is for sink connectors only"),
    // What operators have in another form, or do not need.
    operators("heartbeat.*", HEARTBEAT),
    operators("topic.heartbeat.*", HEARTBEAT),
    operators(
        "slot.drop.on.stop",
        "the slot stays when postrider stops; `postrider teardown` drops it",
    )
    .unless("false"),
    operators(
        "slot.failover",
        "`postrider migrate` makes failover slots where the server has them",
    )
    .unless("false"),
    operators("slot.max.retries", RETRIES),
    operators("slot.retry.delay.ms", RETRIES),
    operators("slot.stream.params", "postrider starts the stream with its own parameters"),
    operators("slot.seek.*", POSITION),
    operators("offset.*", POSITION),
    operators("flush.lsn.source", POSITION),
    operators("lsn.flush.*", POSITION),
    operators("status.update.interval.ms", POSITION),
    operators("xmin.fetch.interval.ms", POSITION),
    operators("log.position.check.enable", POSITION),
    operators(
        "publication.autocreate.mode",
        "`postrider migrate` creates the publication if it is missing, and adds the outbox tables",
    ),
    operators("replica.identity.autoset.values", "not needed: only inserts are read"),
    operators(
        "publish.via.partition.root",
        "it is a property of the publication, which stays as it is",
    )
    .unless("false"),
    operators("snapshot.*", SNAPSHOT),
    operators("legacy.snapshot.*", SNAPSHOT),
    operators("incremental.snapshot.*", SNAPSHOT),
    operators("signal.*", SIGNALS),
    operators("notification.*", SIGNALS),
    operators("read.only", SIGNALS),
    operators("errors.max.retries", RETRIES),
    operators("errors.retry.*", RETRIES),
    operators("retriable.restart.connector.wait.ms", RETRIES),
    operators("custom.retriable.exception", RETRIES),
    operators("errors.log.*", "postrider logs each event that it parks, without its payload"),
    operators("max.batch.size", BATCHES),
    operators("max.queue.*", BATCHES),
    operators("queue.provider.type", BATCHES),
    operators("poll.interval.ms", BATCHES),
    operators("query.fetch.size", BATCHES),
    operators("streaming.delay.ms", "postrider does not wait before it reads"),
    operators("statistics.*", METRICS),
    operators("advanced.metrics.enable", METRICS),
    operators("custom.metric.tags", METRICS),
    operators("custom.sanitize.pattern", METRICS),
    operators("guardrail.*", "postgres.tables names the tables"),
    operators("table.ignore.builtin", "postgres.tables names the tables"),
    operators("openlineage.*", "postrider does not report to OpenLineage"),
    operators("executor.shutdown.timeout.ms", "relay.shutdown_timeout is how long a stop waits"),
    operators("database.initial.statements", "each session of postrider has its own settings"),
    operators("database.*", DRIVER),
    operators("driver.*", DRIVER),
    operators("connection.validation.timeout.ms", DRIVER),
    operators(
        "topic.creation.*",
        "postrider does not configure topics: create them before, or let the brokers create them",
    ),
    operators("consumer.override.*", "postrider has a producer only"),
    operators("admin.override.*", "postrider has a producer only"),
];

/// Settings of Debezium Server that are not the connector's.
pub(super) const PROCESS: &[Row] = &[
    operators(
        "debezium.sink.kafka.wait.message.delivery.timeout.ms",
        "an event waits for as long as its broker is not there",
    ),
    operators("debezium.sink.*", "it is for another sink than Kafka"),
    operators("debezium.*", "it is for the process of Debezium Server"),
    operators(
        "quarkus.*",
        "it is for the process of Debezium Server; see http.listen, log and log_format",
    ),
    operators("%*", "it is for a profile of Quarkus"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_hides_a_later_one() {
        for rows in [OPTIONS, PROCESS] {
            for (at, row) in rows.iter().enumerate() {
                let name = row.name.trim_end_matches('*');
                let hidden = rows[..at].iter().find(|earlier| earlier.matches(name));
                assert!(hidden.is_none(), "{} never counts", row.name);
            }
        }
    }
}
