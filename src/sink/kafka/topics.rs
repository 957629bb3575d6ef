//! What is known of topics: asked by DescribeConfigs, kept, asked again now and then.
//!
//! Knowing a topic's limits beforehand prevents refusals, and knowing its retention keeps records
//! from being deleted the moment they are acknowledged. Where the brokers don't tell (it needs its
//! own permission, or they are away) the relay goes on without, carefully.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use super::careful::TopicFacts;
use super::log::ClientLog;
use super::settings::{BATCH_BYTES, Settings};
use super::stamps::Stamps;
use crate::envelope::Destination;
use crate::sink::Broken;
use crate::undelivered::{Reason, Refusal};

/// How often known topics are asked for again.
const REFRESH: Duration = Duration::from_secs(60);
/// How long an answer may take, and how long to wait before asking again.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long a topic may take to appear once it was asked for the first time, or to come back.
const CREATION_TAKES: Duration = Duration::from_secs(3);
const CREATION_POLL: Duration = Duration::from_millis(200);
/// How often topics that are not there are asked for again, while events come for them.
const ASK_ABOUT_MISSING: Duration = Duration::from_secs(1);
/// Known topics asked for at the same time; each question holds a thread.
const QUESTIONS_MAX: usize = 8;
/// How long a topic that has refused a timestamp is sent none but the present time.
const STAMPS_REFUSED_FOR: Duration = Duration::from_secs(60 * 60);
/// Topics kept; beyond it all are forgotten and asked for again.
const TOPICS_MAX: usize = 10_000;

type Admin = AdminClient<ClientLog>;
/// None: no broker is there to be asked.
type Answer = (String, Option<Told>);

/// What the brokers tell of a topic.
struct Told {
    presence: Presence,
    limits: Result<Destination, KafkaError>,
}

/// Whether a topic is there for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It has so many partitions.
    There(usize),
    Missing,
    /// We may not know.
    Denied,
}

struct Known {
    presence: Presence,
    destination: Destination,
    told_at: Instant,
}

pub(super) struct Topics {
    settings: Settings,
    admin: Arc<Admin>,
    known: HashMap<String, Known>,
    /// Topics whose limit is below the fast lane's batch size.
    no_batches: HashSet<String>,
    changed: Option<String>,
    /// Topics that have refused a timestamp for a reason that their settings don't tell, and when.
    stamps_refused: HashMap<String, Instant>,
    asked: HashSet<String>,
    asking: FuturesUnordered<Pin<Box<dyn Future<Output = Answer>>>>,
    /// Known topics that wait to be asked for again.
    refreshing: VecDeque<String>,
    refresh: Option<Interval>,
    answered_at: Option<std::time::Instant>,
    warned: bool,
}

impl Topics {
    pub(super) fn open(settings: &Settings, log: &ClientLog) -> Result<Self, Broken> {
        let admin = AdminClient::from_config_and_context(&settings.admin(), log.clone()).map_err(
            |error| Broken::new(log.scrub(&format!("can't make a Kafka client: {error}"))),
        )?;
        Ok(Topics {
            settings: settings.clone(),
            admin: Arc::new(admin),
            known: HashMap::new(),
            no_batches: HashSet::new(),
            changed: None,
            stamps_refused: HashMap::new(),
            asked: HashSet::new(),
            refreshing: VecDeque::new(),
            asking: FuturesUnordered::new(),
            refresh: None,
            answered_at: None,
            warned: false,
        })
    }

    /// When a broker last answered.
    pub(super) fn answered_at(&self) -> Option<std::time::Instant> {
        self.answered_at
    }

    /// Whether brokers have answered since then, and did not say which cluster they are.
    pub(super) fn are_unnamed(&self, since: std::time::Instant) -> bool {
        self.answered_at.is_some_and(|at| at > since)
            && self.admin.inner().fetch_cluster_id(Duration::ZERO).is_none()
    }

    /// What is known, or None while it is being asked for. A topic that is not there is asked for
    /// again and again, but nobody has to wait for that.
    pub(super) fn destination(&mut self, topic: &str) -> Option<&Destination> {
        match self.known.get(topic) {
            None => self.ask(topic, CREATION_TAKES),
            Some(known) => {
                let is_there = matches!(known.presence, Presence::There(_));
                if !is_there && known.told_at.elapsed() > ASK_ABOUT_MISSING {
                    self.ask(topic, Duration::ZERO);
                }
            }
        }
        self.known.get(topic).map(|known| &known.destination)
    }

    /// Asks for a topic once more; what is known holds until there is an answer.
    pub(super) fn ask_again(&mut self, topic: &str) {
        self.ask(topic, Duration::ZERO);
    }

    /// What was known of a topic may be wrong: ask before anything is sent to it again.
    pub(super) fn doubt(&mut self, topic: &str) {
        self.known.remove(topic);
    }

    /// A timestamp was refused: for a while its records get the present time.
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
            (Presence::Missing, _) => refusal(Reason::TOPIC_MISSING, "there is no such topic"),
            (Presence::Denied, _) => refusal(
                Reason::TOPIC_DENIED,
                "the topic may not be written to (TopicAuthorizationFailed)",
            ),
            (Presence::There(count), Some(partition))
                if usize::try_from(partition).is_ok_and(|partition| partition >= count) =>
            {
                let detail = format!("there is no partition {partition}, only {count} of them");
                refusal(Reason::PARTITION_MISSING, &detail)
            }
            (Presence::There(_), _) => None,
        }
    }

    /// What sending to a topic takes.
    pub(super) fn facts(&self, topic: &str) -> TopicFacts {
        let known = self.known.get(topic);
        let partitions = match known.map(|known| known.presence) {
            Some(Presence::There(count)) => count,
            _ => 1,
        };
        let batch_bytes_max = known.and_then(|known| known.destination.batch_bytes_max);
        TopicFacts { partitions, batch_bytes_max }
    }

    /// A topic that may have been sent batches and takes none any more, told once.
    pub(super) fn take_changed(&mut self) -> Option<String> {
        self.changed.take()
    }

    pub(super) fn takes_no_batches(&self, topic: &str) -> bool {
        self.no_batches.contains(topic)
    }

    fn ask(&mut self, topic: &str, patience: Duration) {
        if !self.asked.insert(topic.to_owned()) {
            return;
        }
        let was_there = |known: &Known| matches!(known.presence, Presence::There(_));
        // A broker that has just started does not know all topics: one answer does not end one.
        let patience = match self.known.get(topic).is_some_and(was_there) {
            true => CREATION_TAKES,
            false => patience,
        };
        let admin = Arc::clone(&self.admin);
        let topic = topic.to_owned();
        let compresses = self.settings.compresses();
        self.asking.push(Box::pin(async move {
            let told = describe(admin, &topic, compresses, patience).await;
            if told.is_none() {
                sleep(ASK_AGAIN).await;
            }
            (topic, told)
        }));
    }

    /// Waits for an answer. Cancel safe: questions stay asked.
    pub(super) async fn answer(&mut self) {
        let refresh = self.refresh.get_or_insert_with(|| {
            let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
            refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
            refresh
        });
        tokio::select! {
            Some((topic, answer)) = self.asking.next() => self.learn(topic, answer),
            _ = refresh.tick() => self.refreshing = self.known.keys().cloned().collect(),
        }
        while self.asking.len() < QUESTIONS_MAX
            && let Some(topic) = self.refreshing.pop_front()
        {
            self.ask(&topic, Duration::ZERO);
        }
    }

    fn learn(&mut self, topic: String, told: Option<Told>) {
        self.asked.remove(&topic);
        // Without a broker nothing can be published either: the topic is asked for again when needed.
        let Some(Told { presence, limits }) = told else {
            return;
        };
        self.answered_at = Some(std::time::Instant::now());
        let mut destination = match (limits, self.known.get(&topic)) {
            (Ok(destination), _) => destination,
            // What was known is better than nothing.
            (Err(_), Some(known)) => known.destination.clone(),
            (Err(error), None) => {
                // A topic that is not there yet has no limits to tell.
                if matches!(presence, Presence::There(_)) {
                    self.warn(&topic, &error);
                }
                destination(None, Stamps::UNKNOWN)
            }
        };
        if self.stamps_refused.get(&topic).is_some_and(|at| at.elapsed() < STAMPS_REFUSED_FOR) {
            destination.stamp_age_max = Duration::ZERO;
        }
        if self.known.len() >= TOPICS_MAX && !self.known.contains_key(&topic) {
            self.known.clear();
            self.no_batches.clear();
            self.changed = Some(topic.clone());
        }
        if destination.batch_bytes_max.is_some_and(|limit| limit < BATCH_BYTES) {
            if self.no_batches.insert(topic.clone()) && self.known.contains_key(&topic) {
                self.changed = Some(topic.clone());
            }
        } else {
            self.no_batches.remove(&topic);
        }
        self.known.insert(topic, Known { presence, destination, told_at: Instant::now() });
    }

    fn warn(&mut self, topic: &str, error: &KafkaError) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                topic, reason = %error,
                "the brokers don't tell this topic's limits; going on without knowing them (allow \
                 DescribeConfigs on topics to let oversized events be found early)"
            );
        }
    }
}

/// Asks the brokers for one topic; None if none is there. Where brokers make topics when they are
/// asked for, it takes them a moment; and so does it until who may do nothing at all is told so.
async fn describe(
    admin: Arc<Admin>,
    topic: &str,
    compresses: bool,
    patience: Duration,
) -> Option<Told> {
    let until = Instant::now() + patience;
    let (metadata, presence) = loop {
        let (client, name) = (Arc::clone(&admin), topic.to_owned());
        let metadata = tokio::task::spawn_blocking(move || {
            client.inner().fetch_metadata(Some(&name), ASK_TIMEOUT)
        });
        let metadata = metadata.await.ok()?.ok()?;
        let presence = presence(&metadata, topic);
        if matches!(presence, Presence::There(_)) || Instant::now() >= until {
            break (metadata, presence);
        }
        sleep(CREATION_POLL).await;
    };
    // Any broker knows; the one that has just answered is there. Left to itself, librdkafka waits
    // for the controller, for ever where the metadata names one that is not in the cluster.
    let answering = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
    let first = || metadata.brokers().first().map(|broker| broker.id());
    let options =
        AdminOptions::new().request_timeout(Some(ASK_TIMEOUT)).broker_id(answering.or_else(first));
    let answer = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await;
    let limits = answer.and_then(|mut answers| match answers.pop() {
        // rdkafka does not hand on the error of a single resource; one without settings had one.
        Some(Ok(resource)) if !resource.entries.is_empty() => Ok(limits(&resource, compresses)),
        Some(Err(code)) => Err(KafkaError::AdminOp(code)),
        _ => Err(KafkaError::AdminOp(Code::TopicAuthorizationFailed)),
    });
    Some(Told { presence, limits })
}

fn presence(metadata: &Metadata, topic: &str) -> Presence {
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Presence::Missing;
    };
    let error = found.error().map(Code::from);
    match (error, found.partitions().len()) {
        (Some(Code::TopicAuthorizationFailed), _) => Presence::Denied,
        (_, 0) => Presence::Missing,
        (_, count) => Presence::There(count),
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
