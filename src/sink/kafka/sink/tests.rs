//! The sink on a broker inside this process.

use std::collections::BTreeMap;

use rdkafka::mocking::MockCluster;

use super::*;
use crate::sink::SinkOptions;
use postrider_core::order::OrderedBy;

fn sink(brokers: String) -> KafkaSink {
    let options = KafkaOptions {
        brokers,
        properties: BTreeMap::new(),
        sink: SinkOptions {
            in_flight_events_max: 100,
            in_flight_bytes_max: 1_000_000,
            give_up_after: None,
            approval: None,
        },
    };
    KafkaSink::open(options).unwrap()
}

fn record<'a>(topic: &'a str) -> Record<'a> {
    Record {
        topic,
        partition: None,
        key: Some(b"k"),
        partition_by: None,
        schema: None,
        adds_committed_at: true,
        value: None,
        headers: Vec::new(),
        timestamp_ms: 0,
        ordered_by: OrderedBy::Key,
        fallback_timestamp_ms: 0,
    }
}

/// Waits for this many acknowledgements.
async fn settle(sink: &mut KafkaSink, mut count: usize) {
    while count > 0 {
        let mut reports = Vec::new();
        sink.receive(&mut reports).await;
        for report in reports {
            assert!(matches!(report, Report::Settled(_, Outcome::Ok)), "{report:?}");
            count -= 1;
        }
    }
}

#[tokio::test]
async fn a_topic_leaves_the_careful_lane_also_while_records_keep_coming() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let mut sink = sink(cluster.bootstrap_servers());
    sink.restart().await.unwrap();
    while sink.destination("t").is_none() {
        sink.receive(&mut Vec::new()).await;
    }
    let enqueue =
        |sink: &mut KafkaSink, number| sink.enqueue(&record("t"), Ticket::from_number(number));
    sink.refusals.add("t", "for the test");
    // Of one key, so that they are sent one after the other.
    for number in 0..3 {
        enqueue(&mut sink, number).unwrap();
    }
    // The careful period ends before the records are acknowledged.
    sink.refusals = Refusals::default();
    assert!(matches!(enqueue(&mut sink, 3), Err(NotTaken::TopicBusy)));
    settle(&mut sink, 3).await;
    enqueue(&mut sink, 3).unwrap();
    settle(&mut sink, 1).await;
    assert!(!sink.lanes.as_ref().is_some_and(|lanes| lanes.careful_queues.has("t")));
}

#[tokio::test]
async fn of_too_many_topics_those_used_longest_ago_are_asked_for_again() {
    let cluster = MockCluster::new(1).unwrap();
    let mut sink = sink(cluster.bootstrap_servers());
    sink.restart().await.unwrap();
    sink.topics.keep_at_most(10);
    let names: Vec<String> = (0..30).map(|number| format!("t{number}")).collect();
    for name in &names {
        cluster.create_topic(name, 1, 1).unwrap();
        while sink.destination(name).is_none() {
            let mut reports = Vec::new();
            sink.receive(&mut reports).await;
            assert!(reports.is_empty(), "{reports:?}");
        }
    }
    assert!(sink.destination("t29").is_some() && sink.destination("t0").is_none());
}
