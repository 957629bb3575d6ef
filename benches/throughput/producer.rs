//! The other yardstick: librdkafka alone, with records of the same size.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use serde::Serialize;

use crate::servers::Servers;
use crate::{PARTITION_COUNT, tell};
use testkit::name::unique;

/// A broker that has just started compiles its hot code, for about as long as this takes.
const WARM_UP_ROWS: usize = 3_000_000;
const FLUSH_WITHIN: Duration = Duration::from_secs(120);

/// Those of the relay's own settings that affect speed.
const PROPERTIES: &[(&str, &str)] = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("linger.ms", "0"),
    ("batch.size", "262144"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.messages", "64000"),
];

#[derive(Serialize)]
pub(crate) struct Bare {
    pub(crate) rows: usize,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

impl Bare {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    pub(crate) fn cpu_micros_per_event(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.rows as f64
    }
}

/// The first contestant would wait for a cold broker, and share the cores with its compiler.
pub(crate) fn warm_up(servers: &Servers) {
    tell("warming up the broker");
    let topic = unique("bench_warm_up");
    servers.broker.create_topic(&topic, PARTITION_COUNT, &[]);
    produce(servers, std::slice::from_ref(&topic), WARM_UP_ROWS);
    servers.broker.delete_topics(&[&topic]);
}

pub(crate) fn measure(servers: &Servers, rows: usize) -> Bare {
    let topic = unique("bench_bare");
    servers.broker.create_topic(&topic, PARTITION_COUNT, &[]);
    tell("a bare librdkafka producer");
    let bare = measure_among(servers, std::slice::from_ref(&topic), rows);
    servers.broker.delete_topics(&[&topic]);
    bare
}

/// Produces to these topics in turn.
pub(crate) fn measure_among(servers: &Servers, topics: &[String], rows: usize) -> Bare {
    let (begun, cpu) = (Instant::now(), cpu_time());
    produce(servers, topics, rows);
    Bare {
        rows,
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: (cpu_time() - cpu).as_secs_f64(),
    }
}

fn produce(servers: &Servers, topics: &[String], rows: usize) {
    let acknowledged = Acknowledged::default();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers.broker.brokers());
    for (name, value) in PROPERTIES {
        config.set(*name, *value);
    }
    let producer: BaseProducer<Acknowledged> =
        config.create_with_context(acknowledged.clone()).expect("cannot create a producer");
    let value = [b'x'; 200];
    for (row, topic) in (0..rows).zip(topics.iter().cycle()) {
        let (key, id) = (format!("customer-{}", row % 10_000), row.to_string());
        let tenant = format!("tenant-{}", row % 100);
        let headers = OwnedHeaders::new_with_capacity(4)
            .insert(header("id", &id))
            .insert(header("idempotency-key", "8d8ac610-566d-4ef0-9c22-186b2a5ed793"))
            .insert(header("type", "order.placed"))
            .insert(header("tenant", &tenant));
        let mut record = BaseRecord::to(topic).key(&key).payload(&value[..]).headers(headers);
        while let Err((error, back)) = producer.send(record) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            assert_eq!(error, full, "the producer failed");
            record = back;
            producer.poll(Duration::from_millis(1));
        }
        if row % 1_000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(FLUSH_WITHIN).expect("cannot flush");
    assert_eq!(acknowledged.0.load(Relaxed), rows, "records that the broker acknowledged");
}

fn header<'a>(key: &'a str, value: &'a str) -> Header<'a, &'a str> {
    let value = Some(value);
    Header { key, value }
}

fn cpu_time() -> Duration {
    let stat = Process::myself().and_then(|me| me.stat()).expect("no /proc/self");
    Duration::from_millis((stat.utime + stat.stime) * 1_000 / procfs::ticks_per_second())
}

#[derive(Clone, Default)]
struct Acknowledged(Arc<AtomicUsize>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Relaxed);
        }
    }
}
