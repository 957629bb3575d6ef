//! What is known of topics: the brokers are asked, their answers are kept, and asked for again now
//! and then.
//!
//! Knowing a topic's limits beforehand prevents refusals, and knowing its retention keeps records
//! from being deleted the moment they are acknowledged. Where the brokers don't report them (that
//! needs its own permission, or they are unreachable), the relay continues without them, carefully.

mod questions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, ConfigResource};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

pub(super) use self::questions::Admin;
use self::questions::{Answer, Questions};
use super::careful::TopicFacts;
use super::log::ClientLog;
use super::settings::{BATCH_BYTES, Settings};
use super::stamps::Stamps;
use postrider_core::delivery::{Broken, ReadyTopics};
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::envelope::Destination;

/// How often known topics are asked about again.
const REFRESH: Duration = Duration::from_secs(60);
/// Topics asked about again at the same time.
const REFRESHED_MAX: usize = 8;
/// How long a topic may take to appear after it was first asked about, or to come back.
const CREATION_TAKES: Duration = Duration::from_secs(3);
/// How often missing topics are asked about again while there are events for them.
const ASK_ABOUT_MISSING: Duration = Duration::from_secs(1);
/// How long the records of a topic that refused a timestamp get the current time.
const STAMPS_REFUSED_FOR: Duration = Duration::from_secs(60 * 60);
/// Topics kept, at least; if there are more, those used longest ago are forgotten. It must exceed
/// what can be in flight, because the topics of records in flight must be known.
const TOPICS_MAX: usize = 10_000;

/// The span of records in which the partitions in use are counted.
const SPAN: u64 = 4096;

/// Whether a topic exists for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It has this many partitions.
    There(usize),
    Missing,
    /// We are not allowed to know.
    Denied,
}

struct Known {
    presence: Presence,
    destination: Destination,
    told_at: Instant,
    /// The number of the last record that used it.
    used: u64,
    /// How many records of the same span have used it.
    uses_in_span: usize,
}

impl Known {
    /// Notes a record for the topic. Returns whether it may go to a partition that no other record
    /// of its span goes to.
    fn is_used_at(&mut self, use_number: u64) -> bool {
        if self.used / SPAN != use_number / SPAN {
            self.uses_in_span = 0;
        }
        self.used = use_number;
        self.uses_in_span += 1;
        matches!(self.presence, Presence::There(partitions) if self.uses_in_span <= partitions)
    }
}

pub(super) struct Topics {
    compresses: bool,
    questions: Questions,
    known: HashMap<String, Known>,
    known_max: usize,
    /// Topics whose limit is below the fast lane's batch size.
    no_batches: HashSet<String>,
    changed: Option<String>,
    /// Topics that have refused a timestamp for a reason that their settings don't show, and when.
    stamps_refused: HashMap<String, Instant>,
    /// Known topics that wait to be asked about again.
    refreshing: Vec<String>,
    refresh: Option<Interval>,
    answered_at: Option<std::time::Instant>,
    /// Records that looked up their topic so far.
    uses: u64,
    /// Partitions that the records of this span, and of the one before, can have gone to.
    in_use: usize,
    in_use_before: usize,
    warned: bool,
}

impl Topics {
    pub(super) fn open(settings: &Settings, log: &ClientLog) -> Result<Self, Broken> {
        let admin = AdminClient::from_config_and_context(&settings.admin(), log.clone()).map_err(
            |error| Broken::new(log.scrub(&format!("can't create a Kafka client: {error}"))),
        )?;
        Ok(Topics {
            compresses: settings.compresses(),
            questions: Questions::new(admin),
            known: HashMap::new(),
            known_max: TOPICS_MAX.max(2 * settings.options.in_flight_events_max),
            no_batches: HashSet::new(),
            changed: None,
            stamps_refused: HashMap::new(),
            refreshing: Vec::new(),
            refresh: None,
            answered_at: None,
            uses: 0,
            in_use: 0,
            in_use_before: 0,
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
        self.questions.admin()
    }

    /// When a broker last answered.
    pub(super) fn answered_at(&self) -> Option<std::time::Instant> {
        self.answered_at
    }

    /// Whether brokers have answered since then, but without a cluster id.
    pub(super) fn are_unnamed(&self, since: std::time::Instant) -> bool {
        self.answered_at.is_some_and(|at| at > since) && self.questions.is_cluster_unnamed()
    }

    /// What is known, or None while the brokers are being asked. A missing topic is asked about
    /// repeatedly, but nobody has to wait for that.
    pub(super) fn destination(&mut self, topic: &str) -> Option<&Destination> {
        self.uses += 1;
        if self.uses.is_multiple_of(SPAN) {
            self.in_use_before = std::mem::take(&mut self.in_use);
        }
        match self.known.get_mut(topic) {
            None => self.questions.ask(topic, CREATION_TAKES, true),
            Some(known) => {
                self.in_use += usize::from(known.is_used_at(self.uses));
                let is_there = matches!(known.presence, Presence::There(_));
                if !is_there && known.told_at.elapsed() > ASK_ABOUT_MISSING {
                    self.questions.ask(topic, Duration::ZERO, false);
                }
            }
        }
        self.known.get(topic).map(|known| &known.destination)
    }

    /// How many partitions the last records went to, at the most.
    pub(super) fn partitions_in_use(&self) -> usize {
        self.in_use.max(self.in_use_before)
    }

    /// Events wait for new topics: those that were not found get no more time to appear.
    pub(super) fn hurry(&mut self) {
        self.questions.hurry();
    }

    /// Asks about a topic once more; what is known holds until there is an answer.
    pub(super) fn ask_again(&mut self, topic: &str) {
        self.ask(topic);
    }

    /// What was known of a topic may be wrong: ask before anything is sent to it again.
    pub(super) fn doubt(&mut self, topic: &str) {
        self.known.remove(topic);
    }

    /// A timestamp was refused: for a while the topic's records get the current time.
    pub(super) fn refused_a_stamp(&mut self, topic: &str) {
        self.stamps_refused.retain(|_, at| at.elapsed() < STAMPS_REFUSED_FOR);
        self.stamps_refused.insert(topic.to_owned(), Instant::now());
        if let Some(known) = self.known.get_mut(topic) {
            known.destination.stamp_age_max = Duration::ZERO;
        }
    }

    /// Why nothing can be sent to a topic, or to a partition of it, if so.
    pub(super) fn refusal(&self, topic: &str, partition: Option<i32>) -> Option<Refusal> {
        let refusal = |reason, detail: &str| Some(Refusal { reason, detail: detail.to_owned() });
        match (self.known.get(topic)?.presence, partition) {
            (Presence::Missing, _) => refusal(Reason::TOPIC_MISSING, "the topic does not exist"),
            (Presence::Denied, _) => refusal(
                Reason::TOPIC_DENIED,
                "postrider is not allowed to write to the topic (TopicAuthorizationFailed)",
            ),
            (Presence::There(count), Some(partition))
                if usize::try_from(partition).is_ok_and(|partition| partition >= count) =>
            {
                let detail = format!(
                    "partition {partition} does not exist; the topic's partition count is {count}"
                );
                refusal(Reason::PARTITION_MISSING, &detail)
            }
            (Presence::There(_), _) => None,
        }
    }

    /// What the careful lane has to know about a topic.
    pub(super) fn facts(&self, topic: &str) -> TopicFacts {
        let known = self.known.get(topic);
        let partitions = match known.map(|known| known.presence) {
            Some(Presence::There(count)) => count,
            _ => 1,
        };
        let batch_bytes_max = known.and_then(|known| known.destination.batch_bytes_max);
        TopicFacts { partitions, batch_bytes_max }
    }

    /// A topic that may have been sent batches and accepts none any more; returned once.
    pub(super) fn take_changed(&mut self) -> Option<String> {
        self.changed.take()
    }

    pub(super) fn takes_no_batches(&self, topic: &str) -> bool {
        self.no_batches.contains(topic)
    }

    fn ask(&mut self, topic: &str) {
        let was_there = |known: &Known| matches!(known.presence, Presence::There(_));
        // A broker that has just started does not know all topics: one negative answer is not
        // enough.
        let patience = match self.known.get(topic).is_some_and(was_there) {
            true => CREATION_TAKES,
            false => Duration::ZERO,
        };
        self.questions.ask(topic, patience, false);
    }

    /// Waits for answers, and names the topics they are about. Cancel safe: pending questions are
    /// kept.
    pub(super) async fn answer(&mut self, news: &mut ReadyTopics) {
        let refresh = self.refresh.get_or_insert_with(|| {
            let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
            refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
            refresh
        });
        tokio::select! {
            answers = self.questions.answers() => {
                for (topic, answer) in answers {
                    news.push(&topic);
                    self.learn(topic, answer);
                }
            }
            _ = refresh.tick() => self.refreshing = self.known.keys().cloned().collect(),
        }
        // A few at a time, so that a topic that events wait for is asked about soon.
        while self.questions.len() < REFRESHED_MAX
            && let Some(topic) = self.refreshing.pop()
        {
            self.ask(&topic);
        }
    }

    fn learn(&mut self, topic: String, answer: Answer) {
        let (presence, limits) = match answer {
            // Without a broker nothing can be published either: the topic is asked about again when
            // needed.
            Answer::Nobody => return,
            Answer::There(partitions, settings) => {
                let limits = settings.map(|resource| limits(&resource, self.compresses));
                (Presence::There(partitions), Some(limits))
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
                destination(None, Stamps::UNKNOWN)
            }
            // A missing topic has no limits.
            (None, None) => destination(None, Stamps::UNKNOWN),
        };
        if self.stamps_refused.get(&topic).is_some_and(|at| at.elapsed() < STAMPS_REFUSED_FOR) {
            destination.stamp_age_max = Duration::ZERO;
        }
        if destination.batch_bytes_max.is_some_and(|limit| limit < BATCH_BYTES) {
            if self.no_batches.insert(topic.clone()) && self.known.contains_key(&topic) {
                self.changed = Some(topic.clone());
            }
        } else {
            self.no_batches.remove(&topic);
        }
        let before = self.known.get(&topic);
        let (used, uses_in_span) =
            before.map_or((self.uses, 0), |known| (known.used, known.uses_in_span));
        let told_at = Instant::now();
        self.known.insert(topic, Known { presence, destination, told_at, used, uses_in_span });
        self.forget_unused();
    }

    /// If there are too many topics, forgets the half that was used longest ago.
    fn forget_unused(&mut self) {
        if self.known.len() <= self.known_max {
            return;
        }
        let mut uses: Vec<u64> = self.known.values().map(|known| known.used).collect();
        let middle = uses.len() / 2;
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        self.known.retain(|_, known| known.used > median);
        self.no_batches.retain(|topic| self.known.contains_key(topic));
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
    destination(limit.filter(|_| !compresses), Stamps::of(resource))
}

fn destination(batch_bytes_max: Option<usize>, stamps: Stamps) -> Destination {
    let Stamps { age_max: stamp_age_max, unacknowledged_max } = stamps;
    Destination { batch_bytes_max, stamp_age_max, unacknowledged_max }
}

#[cfg(test)]
mod tests;
