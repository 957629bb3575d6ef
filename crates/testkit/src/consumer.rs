//! An independent consumer: reads whole topics from the beginning and commits nothing.

use std::ops::ControlFlow;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::broker::Broker;
use super::wait::{Deadline, wait_for};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A record, copied out of the client's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub timestamp_ms: Option<i64>,
}

impl Received {
    fn copy_of(message: &BorrowedMessage<'_>) -> Received {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Received {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers
                .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
            timestamp_ms: message.timestamp().to_millis(),
        }
    }

    pub fn key_text(&self) -> Option<&str> {
        self.key.as_deref().map(text)
    }

    pub fn value_text(&self) -> Option<&str> {
        self.value.as_deref().map(text)
    }

    /// The first header with this name, if it exists and is not null.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name)?.1.as_deref().map(text)
    }

    /// The outbox row's id.
    #[track_caller]
    pub fn id(&self) -> &str {
        self.header("id").expect("a record without the header `id`")
    }
}

#[track_caller]
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("not UTF-8")
}

pub struct Consumer {
    client: BaseConsumer,
}

impl Consumer {
    /// Reads all partitions of the topics, which must exist.
    #[track_caller]
    pub fn new(broker: &Broker, topics: &[&str]) -> Consumer {
        Consumer::with_properties(broker, topics, &[])
    }

    /// The same, with librdkafka properties (`isolation.level`, credentials) that take precedence.
    #[track_caller]
    pub fn with_properties(
        broker: &Broker,
        topics: &[&str],
        properties: &[(&str, &str)],
    ) -> Consumer {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", broker.brokers())
            // Required by the library; no group is joined and nothing is committed.
            .set("group.id", "harness")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .set("check.crcs", "true")
            .set("fetch.wait.max.ms", "20")
            // A broker that has just started might not know the topic yet; this is the interval
            // until it is asked again.
            .set("topic.metadata.refresh.interval.ms", "1000")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "500")
            // A limit for memory when millions of records wait.
            .set("queued.max.messages.kbytes", "16384");
        for &(name, value) in properties {
            config.set(name, value);
        }
        let client: BaseConsumer = config.create().expect("cannot create a consumer");
        let mut assignment = TopicPartitionList::new();
        for topic in topics {
            let what = format!("topic {topic} to read");
            let partitions = wait_for(&what, ANSWER_WITHIN, || broker.partition_count(topic));
            for partition in 0..partitions {
                assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
            }
        }
        client.assign(&assignment).expect("cannot assign partitions");
        Consumer { client }
    }

    /// Passes every record to `visit` until it breaks, without keeping any. Returns whether it
    /// broke; `false` means that `within` has passed.
    #[track_caller]
    pub fn for_each(
        &self,
        within: Duration,
        mut visit: impl FnMut(&BorrowedMessage<'_>) -> ControlFlow<()>,
    ) -> bool {
        let mut deadline = Deadline::after(within);
        loop {
            let left = deadline.left();
            match self.poll(left.min(Duration::from_millis(100))) {
                Some(message) if visit(&message).is_break() => return true,
                None if left.is_zero() => return false,
                _ => {}
            }
        }
    }

    /// The next record, if one comes in time.
    #[track_caller]
    pub fn next(&self, within: Duration) -> Option<Received> {
        let mut next = None;
        self.for_each(within, |message| {
            next = Some(Received::copy_of(message));
            ControlFlow::Break(())
        });
        next
    }

    /// Reads until `enough` returns true; it is called after each run of available records.
    #[track_caller]
    pub fn read_until(
        &self,
        within: Duration,
        mut enough: impl FnMut(&[Received]) -> bool,
    ) -> Vec<Received> {
        let mut deadline = Deadline::after(within);
        let mut so_far = Vec::new();
        loop {
            let run_end = so_far.len() + 1_000;
            while so_far.len() < run_end
                && let Some(message) = self.poll(Duration::ZERO)
            {
                so_far.push(Received::copy_of(&message));
            }
            if enough(&so_far) {
                return so_far;
            }
            let read = so_far.len();
            assert!(
                !deadline.left().is_zero(),
                "not enough within {within:?}: {read} records read"
            );
            if let Some(message) = self.poll(Duration::from_millis(20)) {
                so_far.push(Received::copy_of(&message));
            }
        }
    }

    /// Reads exactly `count` records; the next call continues after them.
    #[track_caller]
    pub fn read_n(&self, count: usize, within: Duration) -> Vec<Received> {
        let mut so_far = Vec::with_capacity(count);
        self.for_each(within, |message| {
            so_far.push(Received::copy_of(message));
            if so_far.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let read = so_far.len();
        assert_eq!(read, count, "read {read} of {count} records within {within:?}");
        so_far
    }

    /// Reads until nothing has arrived for `quiet`, to prove that nothing more arrives.
    #[track_caller]
    pub fn drain_quiet(&self, quiet: Duration) -> Vec<Received> {
        std::iter::from_fn(|| self.next(quiet)).collect()
    }

    /// The offset after the last record of each partition.
    #[track_caller]
    pub fn end_offsets(&self, topic: &str) -> Vec<i64> {
        let assignment = self.client.assignment().expect("no assignment");
        let partitions = assignment.elements_for_topic(topic);
        // A broker that has just started answers before each partition has a leader again.
        let end_of = |partition| {
            let marks = self.client.fetch_watermarks(topic, partition, Duration::from_secs(5));
            marks.map(|(_, end)| end).ok()
        };
        let what = format!("the end offsets of {topic}");
        let wait = |partition| wait_for(&what, ANSWER_WITHIN, || end_of(partition));
        partitions.iter().map(|element| wait(element.partition())).collect()
    }

    #[track_caller]
    fn poll(&self, timeout: Duration) -> Option<BorrowedMessage<'_>> {
        match self.client.poll(timeout) {
            Some(Ok(message)) => Some(message),
            // A broker that is down comes back, and the client then continues.
            Some(Err(error)) if is_passing(&error) => None,
            Some(Err(error)) => panic!("the consumer failed: {error}"),
            None => None,
        }
    }
}

fn is_passing(error: &rdkafka::error::KafkaError) -> bool {
    use rdkafka::types::RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, LeaderNotAvailable, NotLeaderForPartition,
        OperationTimedOut, Resolve,
    };
    let passing = [
        AllBrokersDown,
        BrokerTransportFailure,
        LeaderNotAvailable,
        NotLeaderForPartition,
        OperationTimedOut,
        Resolve,
    ];
    error.rdkafka_error_code().is_some_and(|code| passing.contains(&code))
}
