//! Answers of a broker inside this process.

use std::collections::BTreeMap;

use rdkafka::mocking::MockCluster;
use rdkafka::types::RDKafkaRespErr;
use tokio::time::timeout;

use super::*;
use crate::sink::SinkOptions;

fn topics(brokers: String) -> Topics {
    let options = KafkaOptions {
        brokers,
        properties: BTreeMap::new(),
        sink: SinkOptions {
            in_flight_events_max: 1,
            in_flight_bytes_max: 1,
            give_up_after: None,
            approval: None,
        },
    };
    Topics::open(&options, &ClientLog::new(Vec::new())).unwrap()
}

#[tokio::test]
async fn one_answer_does_not_end_a_topic() {
    const UNKNOWN: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    const FINE: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 3, 1).unwrap();
    let mut topics = topics(cluster.bootstrap_servers());
    while topics.destination("t").is_none() {
        topics.next_answers(&mut ReadyTopics::default()).await;
    }
    assert_eq!(topics.facts("t").partitions, 3);
    // A broker that has just started does not know it yet.
    cluster.topic_error("t", UNKNOWN).unwrap();
    topics.ask("t");
    let early =
        timeout(CREATION_TIMEOUT / 3, topics.next_answers(&mut ReadyTopics::default())).await;
    assert!(early.is_err() && topics.refusal("t", None).is_none());
    cluster.topic_error("t", FINE).unwrap();
    topics.next_answers(&mut ReadyTopics::default()).await;
    assert!(topics.refusal("t", None).is_none());
}
