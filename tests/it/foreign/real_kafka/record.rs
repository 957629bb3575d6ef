//! Records made by hand.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use testkit::broker::Broker;
use testkit::name::unique;
use testkit::shared;

const WITHIN: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Record<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: &'a [(&'a str, &'a [u8])],
    pub(super) value: Option<&'a [u8]>,
}

/// A topic that has nothing but these.
pub(super) fn publish(records: &[Record<'_>]) -> (Broker, String) {
    let (broker, topic) = (shared::broker(), unique("foreign"));
    broker.create_topic(&topic, 1, &[]);
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", broker.brokers()).create().unwrap();
    for record in records {
        let mut headers = OwnedHeaders::new();
        for &(key, value) in record.headers {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let mut sent = BaseRecord::<[u8], [u8]>::to(&topic).headers(headers);
        sent.key = record.key;
        sent.payload = record.value;
        producer.send(sent).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WITHIN).unwrap();
    (broker, topic)
}
