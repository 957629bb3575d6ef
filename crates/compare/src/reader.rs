//! Reads the topics of a case, which appear as records are published.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::broker::Broker;
use testkit::consumer::{Consumer, Received};

pub(crate) struct Reader {
    broker: Broker,
    /// What is in the name of each topic of the case, and of no other.
    token: String,
    consumers: BTreeMap<String, Consumer>,
}

impl Reader {
    pub(crate) fn new(broker: Broker, token: String) -> Reader {
        Reader { broker, token, consumers: BTreeMap::new() }
    }

    /// What has arrived since the last call.
    pub(crate) fn read(&mut self) -> Vec<Received> {
        for topic in self.broker.topics() {
            if !self.consumers.contains_key(&topic) && self.is_ours(&topic) {
                let consumer = Consumer::new(&self.broker, &[&topic]);
                self.consumers.insert(topic, consumer);
            }
        }
        let consumers = self.consumers.values();
        consumers.flat_map(|it| it.drain_quiet(Duration::from_millis(10))).collect()
    }

    /// `a-b` is not in `a-bc` nor in `a-b-c`.
    fn is_ours(&self, topic: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        topic.match_indices(&self.token).any(|(at, token)| {
            let (before, rest) = topic.split_at(at);
            let after = rest.strip_prefix(token).unwrap_or_default();
            !before.ends_with(is_part) && !after.starts_with(is_part)
        })
    }
}
