//! What is known of topics: the brokers are asked, their answers are kept, and asked for again now
//! and then.
//!
//! Knowing a topic's limits beforehand prevents refusals, and knowing its retention keeps records
//! from being deleted the moment they are acknowledged. Where the brokers don't report them (that
//! needs its own permission, or they are unreachable), the relay continues without them, carefully.

mod known;
mod lookup;
mod requests;
mod timestamp_limits;
mod usage;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, ConfigResource};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use self::known::{KnownTopic, Presence};
use self::lookup::TopicLookup;
pub(super) use self::requests::Admin;
use self::requests::Answer;
use self::timestamp_limits::TimestampLimits;
use self::usage::PartitionUsage;
use super::careful::TopicFacts;
use super::log::ClientLog;
use super::options::{BATCH_BYTES, KafkaOptions};
use postrider_core::delivery::{Broken, ReadyTopics, Refusal};
use postrider_core::envelope::Destination;

/// How often known topics are asked about again.
const REFRESH: Duration = Duration::from_secs(60);
/// Topics asked about again at the same time.
const REFRESHED_MAX: usize = 8;
/// How long a topic may take to appear after it was first asked about, or to come back.
const CREATION_TIMEOUT: Duration = Duration::from_secs(3);
/// How often missing topics are asked about again while there are events for them.
const ASK_ABOUT_MISSING: Duration = Duration::from_secs(1);
/// How long the records of a topic that refused a timestamp get the current time.
const TIMESTAMPS_REFUSED_FOR: Duration = Duration::from_secs(60 * 60);
/// How many topics are remembered, at least; beyond that, those used longest ago are forgotten. It
/// must exceed what can be in flight, because the topics of records in flight must be known.
const TOPICS_MAX: usize = 10_000;

pub(super) struct Topics {
    compresses: bool,
    lookup: TopicLookup,
    known: HashMap<String, KnownTopic>,
    known_max: usize,
    /// Topics whose limit is below the fast lane's batch size.
    unbatchable: HashSet<String>,
    newly_unbatchable: Option<String>,
    /// Topics that have refused a timestamp for a reason that their settings don't show, and when.
    timestamps_refused: HashMap<String, Instant>,
    /// Known topics that wait to be asked about again.
    refreshing: Vec<String>,
    refresh: Option<Interval>,
    answered_at: Option<std::time::Instant>,
    usage: PartitionUsage,
    warned: bool,
}

impl Topics {
    pub(super) fn open(options: &KafkaOptions, log: &ClientLog) -> Result<Self, Broken> {
        let admin = AdminClient::from_config_and_context(&options.admin(), log.clone()).map_err(
            |error| Broken::new(log.scrub(&format!("can't create a Kafka client: {error}"))),
        )?;
        Ok(Topics {
            compresses: options.compresses(),
            lookup: TopicLookup::new(admin),
            known: HashMap::new(),
            known_max: TOPICS_MAX.max(2 * options.sink.in_flight_events_max),
            unbatchable: HashSet::new(),
            newly_unbatchable: None,
            timestamps_refused: HashMap::new(),
            refreshing: Vec::new(),
            refresh: None,
            answered_at: None,
            usage: PartitionUsage::default(),
            warned: false,
        })
    }

    /// A limit that tests can reach.
    #[cfg(test)]
    pub(super) fn keep_at_most(&mut self, topics: usize) {
        self.known_max = topics;
    }

    /// The client that asks.
    pub(super) fn admin(&self) -> Arc<Admin> {
        self.lookup.admin()
    }

    /// When a broker last answered.
    pub(super) fn answered_at(&self) -> Option<std::time::Instant> {
        self.answered_at
    }

    /// Whether brokers have answered since then, but without a cluster id.
    pub(super) fn is_cluster_unnamed_since(&self, since: std::time::Instant) -> bool {
        self.answered_at.is_some_and(|at| at > since) && self.lookup.is_cluster_unnamed()
    }

    /// What is known, or None while the brokers are being asked. A missing topic is asked about
    /// repeatedly, but nobody has to wait for that.
    pub(super) fn destination(&mut self, topic: &str) -> Option<&Destination> {
        self.usage.begin_record();
        match self.known.get_mut(topic) {
            None => self.lookup.ask(topic, CREATION_TIMEOUT, true),
            Some(known) => {
                let partitions = known.partitions();
                self.usage.note(&mut known.usage, partitions);
                if partitions.is_none() && known.answered_at.elapsed() > ASK_ABOUT_MISSING {
                    self.lookup.ask(topic, Duration::ZERO, false);
                }
            }
        }
        self.known.get(topic).map(|known| &known.destination)
    }

    /// How many partitions the last records went to, at the most.
    pub(super) fn partitions_in_use(&self) -> usize {
        self.usage.partitions()
    }

    /// Events wait for new topics: those that were not found get no more time to appear.
    pub(super) fn hurry(&mut self) {
        self.lookup.hurry();
    }

    /// What was known of a topic may be wrong: ask before anything is sent to it again.
    pub(super) fn forget(&mut self, topic: &str) {
        self.known.remove(topic);
    }

    /// A timestamp was refused: for a while the topic's records get the current time.
    pub(super) fn note_refused_timestamp(&mut self, topic: &str) {
        self.timestamps_refused.retain(|_, at| at.elapsed() < TIMESTAMPS_REFUSED_FOR);
        self.timestamps_refused.insert(topic.to_owned(), Instant::now());
        if let Some(known) = self.known.get_mut(topic) {
            known.destination.stamp_age_max = Duration::ZERO;
        }
    }

    /// Why nothing can be sent to a topic, or to a partition of it, if so.
    pub(super) fn refusal(&self, topic: &str, partition: Option<i32>) -> Option<Refusal> {
        self.known.get(topic)?.refusal(partition)
    }

    /// What the careful lane has to know about a topic.
    pub(super) fn facts(&self, topic: &str) -> TopicFacts {
        self.known.get(topic).map_or(TopicFacts::UNKNOWN, KnownTopic::facts)
    }

    /// A topic that may have been sent batches and no longer accepts them; returned once.
    pub(super) fn take_newly_unbatchable(&mut self) -> Option<String> {
        self.newly_unbatchable.take()
    }

    pub(super) fn is_unbatchable(&self, topic: &str) -> bool {
        self.unbatchable.contains(topic)
    }

    /// Asks about a topic once more; what is known holds until there is an answer.
    pub(super) fn ask(&mut self, topic: &str) {
        // A broker that has just started does not know all topics: one negative answer is not
        // enough.
        let did_exist = self.known.get(topic).is_some_and(|known| known.partitions().is_some());
        let patience = if did_exist { CREATION_TIMEOUT } else { Duration::ZERO };
        self.lookup.ask(topic, patience, false);
    }

    /// Waits for answers, and names the topics they are about. Cancel safe: pending questions are
    /// kept.
    pub(super) async fn next_answers(&mut self, ready: &mut ReadyTopics) {
        let refresh = self.refresh.get_or_insert_with(|| {
            let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
            refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
            refresh
        });
        tokio::select! {
            answers = self.lookup.next_answers() => {
                for (topic, answer) in answers {
                    ready.push(&topic);
                    self.apply_answer(topic, answer);
                }
            }
            _ = refresh.tick() => self.refreshing = self.known.keys().cloned().collect(),
        }
        // A few at a time, so that a topic that events wait for is asked about soon.
        while self.lookup.len() < REFRESHED_MAX
            && let Some(topic) = self.refreshing.pop()
        {
            self.ask(&topic);
        }
    }

    fn apply_answer(&mut self, topic: String, answer: Answer) {
        let (presence, limits) = match answer {
            // Without a broker nothing can be published either: the topic is asked about again when
            // needed.
            Answer::NoBroker => return,
            Answer::Exists(partitions, settings) => {
                let limits = settings.map(|resource| limits(&resource, self.compresses));
                (Presence::Exists { partitions }, Some(limits))
            }
            Answer::Missing => (Presence::Missing, None),
            Answer::Denied => (Presence::Denied, None),
        };
        self.answered_at = Some(std::time::Instant::now());
        let mut destination = match (limits, self.known.get(&topic)) {
            (Some(Ok(destination)), _) => destination,
            // What was known is better than nothing.
            (_, Some(known)) => known.destination.clone(),
            (Some(Err(error)), None) => {
                self.warn(&topic, &error);
                destination(None, TimestampLimits::UNKNOWN)
            }
            // A missing topic has no limits.
            (None, None) => destination(None, TimestampLimits::UNKNOWN),
        };
        if self
            .timestamps_refused
            .get(&topic)
            .is_some_and(|at| at.elapsed() < TIMESTAMPS_REFUSED_FOR)
        {
            destination.stamp_age_max = Duration::ZERO;
        }
        if destination.batch_bytes_max.is_some_and(|limit| limit < BATCH_BYTES) {
            if self.unbatchable.insert(topic.clone()) && self.known.contains_key(&topic) {
                self.newly_unbatchable = Some(topic.clone());
            }
        } else {
            self.unbatchable.remove(&topic);
        }
        let before = self.known.get(&topic);
        let usage = before.map_or_else(|| self.usage.of_new_topic(), |known| known.usage);
        let answered_at = Instant::now();
        self.known.insert(topic, KnownTopic { presence, destination, answered_at, usage });
        self.forget_unused();
    }

    /// If there are too many topics, forgets the half that was used longest ago.
    fn forget_unused(&mut self) {
        if self.known.len() <= self.known_max {
            return;
        }
        let mut uses: Vec<u64> = self.known.values().map(|known| known.usage.last_use).collect();
        let middle = uses.len() / 2;
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        self.known.retain(|_, known| known.usage.last_use > median);
        self.unbatchable.retain(|topic| self.known.contains_key(topic));
    }

    fn warn(&mut self, topic: &str, error: &KafkaError) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                topic, reason = %error,
                "can't read this topic's limits; continuing without them (allow DescribeConfigs on \
                 topics so that oversized events are found before they are sent)"
            );
        }
    }
}

fn limits(resource: &ConfigResource, compresses: bool) -> Destination {
    let limit = resource.get("max.message.bytes").and_then(|entry| entry.value.as_deref());
    let limit = limit.and_then(|bytes| bytes.parse().ok());
    destination(limit.filter(|_| !compresses), TimestampLimits::from_settings(resource))
}

fn destination(batch_bytes_max: Option<usize>, limits: TimestampLimits) -> Destination {
    let TimestampLimits { age_max: stamp_age_max, unacknowledged_max } = limits;
    Destination { batch_bytes_max, stamp_age_max, unacknowledged_max }
}

#[cfg(test)]
mod tests;
