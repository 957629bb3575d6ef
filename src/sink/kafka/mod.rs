//! Kafka, by librdkafka.
//!
//! Two lanes keep the order of a key when the broker refuses a record (ADR 0005). The fast lane
//! batches and pipelines; librdkafka's gapless mode turns a refusal there into a fatal error that
//! purges everything after it, so nothing is written past the refused batch. A refused batch says
//! nothing about its single records, so the stream restarts with that topic in the [`careful`]
//! lane: a second producer, where a refusal is about one record.

mod care;
mod careful;
mod classify;
mod closed;
mod cluster;
mod lane;
mod log;
mod murmur2;
mod probation;
mod reach;
mod settings;
mod stamps;
mod topics;
mod trouble;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::care::CarefulTopics;
use self::careful::Careful;
use self::closed::Closed;
use self::cluster::Gate;
use self::lane::{Delivery, Lane, LaneKind};
use self::log::ClientLog;
pub use self::murmur2::partition_of;
use self::probation::Probation;
use self::reach::Reach;
use self::settings::Settings;
use self::topics::Topics;
use super::{Sink, SinkFactory, SinkOptions};
use crate::config::KafkaConfig;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Broken, NotTaken, Obstacle, ReadyTopics, Report};
use postrider_core::delivery::{Outcome, Reason, Refusal};
use postrider_core::envelope::{Destination, Record};

/// How long a new producer may take to learn whether it is allowed to produce at all.
const PRODUCER_ID_TAKES: Duration = Duration::from_secs(2);
/// How long closing a producer may take before the relay continues without waiting for it.
const CLOSING_TAKES: Duration = Duration::from_secs(5);
/// Producers that are being closed at the same time.
const CLOSING_MAX: usize = 4;
/// Reports received at once.
const REPORTS_MAX: usize = 4096;
/// What to do about properties that librdkafka does not accept.
const PROPERTIES_FIX: &str = "correct kafka.properties: the files that it names must exist, be \
    readable and be in PEM format, and the password of an encrypted key must be in \
    ssl.key.password";
/// Reports that belong to no record: a producer has at most one fatal error.
const ERRORS_MAX: usize = 8;

/// The brokers, and the properties to reach them with: what Kafka sinks are made of.
#[derive(Clone)]
pub struct Kafka {
    brokers: String,
    properties: BTreeMap<String, String>,
}

impl Kafka {
    /// As they are configured.
    pub fn new(config: &KafkaConfig) -> Self {
        Kafka { brokers: config.brokers.clone(), properties: config.properties.clone() }
    }
}

impl SinkFactory for Kafka {
    type Sink = KafkaSink;

    /// Fails if librdkafka rejects the properties together, for example an unreadable file.
    fn make(&self, options: SinkOptions) -> Result<KafkaSink, Broken> {
        let Kafka { brokers, properties } = self.clone();
        KafkaSink::open(Settings { brokers, properties, options })
            .map_err(|broken| Broken { fix: Some(PROPERTIES_FIX.to_owned()), ..broken })
    }
}

/// The Kafka sink. Lives as long as the relay; its producers live for a session.
pub struct KafkaSink {
    settings: Settings,
    log: ClientLog,
    topics: Topics,
    reach: Reach,
    lanes: Option<Lanes>,
    /// Closed until the cluster is approved.
    gate: Gate,
    careful: CarefulTopics,
    /// Topics that have not shown yet that they accept records.
    probation: Probation,
    closed: Closed,
    received: Vec<Delivery>,
    /// Topics that may have become ready.
    ready_topics: ReadyTopics,
    reported_at: Instant,
    /// Producers of earlier sessions that take long to end. They have nothing left to send.
    closing: Vec<JoinHandle<()>>,
}

/// The producers of one session.
struct Lanes {
    opened_at: Instant,
    fast: Lane,
    /// Made when first needed.
    careful: Option<Lane>,
    queue: Careful,
    sender: mpsc::Sender<Delivery>,
    deliveries: mpsc::Receiver<Delivery>,
}

impl KafkaSink {
    fn open(settings: Settings) -> Result<Self, Broken> {
        let log = ClientLog::new(settings.secrets());
        let topics = Topics::open(&settings, &log)?;
        Ok(KafkaSink {
            reach: Reach::new(topics.admin()),
            topics,
            gate: Gate::new(settings.options.approval.clone()),
            settings,
            log,
            lanes: None,
            careful: CarefulTopics::default(),
            probation: Probation::default(),
            closed: Closed::default(),
            received: Vec::new(),
            ready_topics: ReadyTopics::default(),
            reported_at: Instant::now(),
            closing: Vec::new(),
        })
    }

    fn needs_care(&self, topic: &str) -> bool {
        let now = Instant::now();
        self.topics.takes_no_batches(topic)
            || self.careful.has(topic, now)
            || self.probation.is_due(topic, now)
    }

    /// Why a topic accepts nothing, if that is known without trying.
    fn is_closed(&self, record: &Record<'_>) -> Option<Refusal> {
        let known = || self.topics.refusal(record.topic, record.partition);
        self.closed.refusal(record.topic, Instant::now()).or_else(known)
    }

    /// Without any write permission we are not a producer: this is not about the topic.
    fn no_producer(&self, detail: String) -> Broken {
        let obstacle = self.log.obstacle().map(|obstacle| obstacle.text);
        Broken::new(obstacle.unwrap_or(detail))
    }

    /// Each session asks again whether it is a producer.
    fn not_wanted(&self, refusal: Refusal) -> NotTaken {
        if refusal.reason != Reason::TOPIC_DENIED || !self.log.is_cluster_denied() {
            return NotTaken::Retry(refusal);
        }
        match &self.lanes {
            Some(lanes) if lanes.opened_at.elapsed() < PRODUCER_ID_TAKES => NotTaken::Busy,
            _ => NotTaken::Broken(self.no_producer(refusal.detail)),
        }
    }

    fn refused(&mut self, topic: &str, reason: &str) {
        let now = Instant::now();
        self.probation.refused(now);
        if let Some(care) = self.careful.refused(topic, now) {
            tracing::warn!(
                topic,
                reason,
                "the broker rejected a record; this topic's records go through the careful lane \
                 for {} s",
                care.seconds()
            );
        }
    }

    /// Handles the last reports of the old producers.
    fn last_words(&mut self, mut deliveries: mpsc::Receiver<Delivery>) {
        while let Ok(delivery) = deliveries.try_recv() {
            if let Some(failure) = delivery.failure.filter(|failure| failure.is_refusal()) {
                self.refused(&failure.topic, &failure.detail);
                if failure.is_about_a_stamp() {
                    self.topics.refused_a_stamp(&failure.topic);
                }
            }
        }
    }

    /// A record was refused alone.
    fn learn(&mut self, topic: &str, outcome: &Outcome) {
        let (Outcome::Retry(refusal) | Outcome::Reject(refusal)) = outcome else { return };
        self.refused(topic, &refusal.detail);
        if [Reason::TOPIC_MISSING, Reason::TOPIC_DENIED].contains(&refusal.reason) {
            self.closed.close(topic, refusal, Instant::now());
            self.topics.ask_again(topic);
        }
    }

    fn report(&mut self, delivery: Delivery, reports: &mut Vec<Report>) {
        let Delivery { lane, ticket, failure } = delivery;
        let report = match (ticket, failure) {
            (Some(ticket), None) => {
                self.log.all_is_well();
                self.reach.heard(self.reported_at);
                match lane {
                    LaneKind::Fast => Report::Settled(ticket, Outcome::Ok),
                    LaneKind::Careful => return self.settled(ticket, Outcome::Ok, reports),
                }
            }
            (Some(ticket), Some(failure)) if failure.is_refusal() => {
                let outcome = failure.outcome();
                if failure.is_about_a_stamp() {
                    self.topics.refused_a_stamp(&failure.topic);
                }
                if matches!(outcome, Outcome::Retry(_)) && self.log.is_cluster_denied() {
                    Report::Broken(self.no_producer(failure.detail))
                } else if lane == LaneKind::Careful {
                    self.learn(&failure.topic, &outcome);
                    return self.settled(ticket, outcome, reports);
                } else {
                    self.refused(&failure.topic, &failure.detail);
                    self.topics.doubt(&failure.topic);
                    let text =
                        format!("topic {} rejected records: {}", failure.topic, failure.detail);
                    Report::Broken(Broken { text, refused: true, fix: None })
                }
            }
            (_, Some(failure)) => Report::Broken(Broken::new(failure.detail)),
            (None, None) => Report::Broken(Broken::new("the Kafka client sent an empty report")),
        };
        reports.push(report);
    }

    /// The careful lane has an answer for a record.
    fn settled(&mut self, ticket: Ticket, outcome: Outcome, reports: &mut Vec<Report>) {
        let Some(Lanes { careful: Some(lane), queue, .. }) = &mut self.lanes else { return };
        if let (Outcome::Ok, Some(topic)) = (&outcome, queue.topic(ticket)) {
            self.probation.passed(topic);
        }
        let facts = |topic: &str| self.topics.facts(topic);
        match queue.settled(lane, ticket, outcome, facts, reports) {
            Ok(Some(topic)) => self.ready_topics.push(&topic),
            Ok(None) => {}
            Err(broken) => reports.push(Report::Broken(broken)),
        }
    }
}

impl Sink for KafkaSink {
    async fn stop(&mut self) {
        self.gate.close();
        self.closing.retain(|closing| !closing.is_finished());
        let Some(Lanes { fast, careful, deliveries, .. }) = self.lanes.take() else { return };
        fast.purge();
        if let Some(careful) = &careful {
            careful.purge();
        }
        // Joining librdkafka's threads can block for long, for example while a name is resolved.
        let mut closing = tokio::task::spawn_blocking(move || drop((fast, careful)));
        match tokio::time::timeout(CLOSING_TAKES, &mut closing).await {
            Ok(Ok(())) => {
                tracing::debug!("the Kafka producers are closed");
                self.last_words(deliveries);
            }
            Ok(Err(error)) => tracing::warn!(%error, "a Kafka producer was not closed cleanly"),
            Err(_) => {
                tracing::warn!(
                    "a Kafka producer is taking long to close; it has nothing left to send, so the \
                     relay continues"
                );
                self.closing.push(closing);
            }
        }
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.stop().await;
        if self.closing.len() >= CLOSING_MAX {
            let text = format!("{CLOSING_MAX} earlier Kafka producers are still being closed");
            return Err(Broken::new(text));
        }
        let now = Instant::now();
        self.careful.forget(now);
        self.probation.begin(now);
        self.closed.forget(now);
        let (sender, deliveries) =
            mpsc::channel(self.settings.options.in_flight_events_max + ERRORS_MAX);
        let fast = Lane::open(LaneKind::Fast, &self.settings, &self.log, sender.clone())?;
        let queue = Careful::default();
        self.lanes = Some(Lanes { opened_at: now, fast, careful: None, queue, sender, deliveries });
        Ok(())
    }

    async fn check_destination(&mut self, limit: Duration) -> Result<(), Broken> {
        self.restart().await?;
        let until = tokio::time::Instant::now() + limit;
        let mut reports = Vec::new();
        while !self.gate.is_open() {
            if tokio::time::timeout_at(until, self.receive(&mut reports)).await.is_err() {
                break;
            }
            for report in reports.drain(..) {
                if let Report::Broken(broken) = report {
                    return Err(broken);
                }
            }
        }
        Ok(())
    }

    fn destination(&mut self, topic: &str) -> Option<&Destination> {
        // The topic is looked up in any case, but returned only once records may go there.
        let is_open = self.gate.is_open();
        self.topics.destination(topic).filter(|_| is_open)
    }

    fn ready_topics(&mut self) -> ReadyTopics {
        std::mem::take(&mut self.ready_topics)
    }

    fn partitions_in_use(&self) -> usize {
        self.topics.partitions_in_use()
    }

    fn hurry(&mut self) {
        self.topics.hurry();
    }

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        if !self.gate.is_open() {
            return Err(NotTaken::Busy);
        }
        if let Some(refusal) = self.is_closed(record) {
            return Err(self.not_wanted(refusal));
        }
        let needs_care = self.needs_care(record.topic);
        let facts = self.topics.facts(record.topic);
        let Some(lanes) = &mut self.lanes else {
            return Err(NotTaken::Broken(Broken::new("the producer is not open")));
        };
        if !needs_care {
            // A topic leaves the careful lane once nothing of it is in flight there: it gets no
            // more records until then.
            return match lanes.queue.has(record.topic) {
                true => Err(NotTaken::TopicBusy),
                false => lanes.fast.enqueue(record, ticket),
            };
        }
        let lane = match &mut lanes.careful {
            Some(lane) => lane,
            none => none.insert(
                Lane::open(LaneKind::Careful, &self.settings, &self.log, lanes.sender.clone())
                    .map_err(NotTaken::Broken)?,
            ),
        };
        if !self.gate.admits(lane).map_err(NotTaken::Broken)? {
            return Err(NotTaken::Busy);
        }
        lanes.queue.enqueue(lane, record, ticket, facts)
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        let Some(lanes) = &mut self.lanes else {
            return self.reach.look().await;
        };
        let is_unnamed = !self.gate.is_open() && self.topics.are_unnamed(lanes.opened_at);
        tokio::select! {
            biased;
            _ = lanes.deliveries.recv_many(&mut self.received, REPORTS_MAX) => {}
            () = self.topics.answer(&mut self.ready_topics) => {
                if let Some(at) = self.topics.answered_at() {
                    self.reach.heard(at);
                }
            }
            () = self.reach.look() => {}
            refused = self.gate.news(&lanes.fast, is_unnamed) => {
                self.ready_topics = ReadyTopics::all();
                reports.extend(refused.map(Report::Broken));
            }
        }
        self.reported_at = Instant::now();
        for delivery in std::mem::take(&mut self.received) {
            self.report(delivery, reports);
        }
        // A topic must not change to the careful lane with records in the fast one.
        if let Some(topic) = self.topics.take_changed() {
            let broken = Broken::new(format!("topic {topic} now has a smaller batch limit"));
            reports.push(Report::Broken(broken));
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let heard = self.log.obstacle();
        let Some(silence) = self.reach.unreachable_for() else { return heard };
        if heard.as_ref().is_some_and(|obstacle| obstacle.certain) {
            return heard;
        }
        let reason = heard.map(|obstacle| format!(": {}", obstacle.text)).unwrap_or_default();
        let text = format!("no broker could be reached for {} s{reason}", silence.as_secs());
        Some(Obstacle { text, certain: true })
    }

    fn answered_at(&self) -> Option<Instant> {
        self.topics.answered_at()
    }
}

#[cfg(test)]
mod tests;
