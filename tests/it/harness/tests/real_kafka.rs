//! Apache Kafka starts, keeps records over a clean stop and a kill, and can be cut off.

use std::ops::ControlFlow;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use testkit::broker::Broker;
use testkit::consumer::Consumer;
use testkit::kafka::{KafkaOptions, KafkaServer};

const WITHIN: Duration = Duration::from_secs(60);

pub(super) fn produce(brokers: &str, topic: &str, ids: std::ops::Range<u32>) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("acks", "all")
        .set("reconnect.backoff.max.ms", "500")
        .create()
        .unwrap();
    for id in ids {
        let (id, key) = (id.to_string(), format!("key-{}", id % 5));
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(&id) });
        let record = BaseRecord::to(topic).key(&key).payload(&id).headers(headers);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WITHIN).unwrap();
}

fn count(broker: &Broker, topic: &str) -> i64 {
    Consumer::new(broker, &[topic]).end_offsets(topic).iter().sum()
}

#[test]
fn records_survive_stop_and_kill() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    kafka.create_topic("t", 3, &[("max.message.bytes", "2000")]);
    produce(&kafka.brokers(), "t", 0..100);

    let consumer = Consumer::new(&kafka.broker(), &["t"]);
    let records = consumer.read_n(100, WITHIN);
    let record = records.iter().find(|record| record.id() == "42").unwrap();
    assert_eq!(record.key_text(), Some("key-2"));
    assert_eq!(record.value_text(), Some("42"));
    assert!(record.timestamp_ms.is_some_and(|ms| ms > 0));

    kafka.stop();
    assert!(!kafka.broker().answers());
    kafka.start_again();
    assert_eq!(count(&kafka.broker(), "t"), 100);

    produce(&kafka.brokers(), "t", 100..150);
    kafka.kill9();
    kafka.start_again();
    assert_eq!(count(&kafka.broker(), "t"), 150);
    // An earlier consumer continues where it was.
    assert_eq!(consumer.read_n(50, WITHIN).len(), 50);
    assert!(consumer.drain_quiet(Duration::from_millis(300)).is_empty());
}

#[test]
fn a_frozen_broker_answers_again_later() {
    let kafka = KafkaServer::start(KafkaOptions::default());
    kafka.create_topic("t", 1, &[]);
    kafka.pause();
    assert!(!kafka.broker().answers());
    kafka.resume();
    produce(&kafka.brokers(), "t", 0..10);
    let mut seen = 0;
    let consumer = Consumer::new(&kafka.broker(), &["t"]);
    let all_seen = consumer.for_each(WITHIN, |_| {
        seen += 1;
        if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(all_seen);
}

#[test]
fn a_proxy_stands_between_clients_and_broker() {
    let (kafka, proxy) = KafkaServer::start_behind_proxy(KafkaOptions::default());
    kafka.create_topic("t", 1, &[]);
    let through_proxy = Broker::at(&kafka.brokers_via_proxy());
    produce(through_proxy.brokers(), "t", 0..10);
    let forwarded = proxy.bytes_to_clients();
    assert!(forwarded > 0, "the clients bypassed the proxy");

    proxy.refuse();
    proxy.cut();
    assert!(!through_proxy.answers(), "the link is down");
    assert_eq!(count(&kafka.broker(), "t"), 10, "the test's own connection stays open");
    proxy.pass();
    produce(through_proxy.brokers(), "t", 10..20);
    let consumer = Consumer::new(&kafka.broker(), &["t"]);
    assert_eq!(consumer.read_until(WITHIN, |so_far| so_far.len() == 20).len(), 20);
}

#[test]
fn a_missing_topic_is_not_created_by_asking_for_it() {
    let kafka = KafkaServer::start(KafkaOptions::default());
    assert_eq!(kafka.broker().partition_count("nowhere"), None);
    let auto = KafkaOptions { auto_create_topics: true, ..KafkaOptions::default() };
    let auto = KafkaServer::start(auto);
    assert_eq!(auto.broker().partition_count("nowhere"), None);
    produce(&auto.brokers(), "made-by-writing", 0..1);
    assert_eq!(count(&auto.broker(), "made-by-writing"), 1);
}
