//! Kafka, by librdkafka.
//!
//! Two lanes keep the order of a key when the broker refuses a record (ADR 0005). The fast lane
//! batches and pipelines; librdkafka's gapless mode turns a refusal there into a fatal error that
//! purges everything behind it, so nothing is written past the refused batch. A refused batch says
//! nothing about its members, so the stream begins anew with that topic in the careful lane: a
//! second producer with one record in flight per topic, where a refusal speaks about one record.

mod classify;
mod lane;
mod log;
mod settings;
mod topics;
mod trouble;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::lane::{Delivery, Lane, LaneKind};
use self::log::ClientLog;
pub use self::settings::Settings;
use self::topics::Topics;
use super::{Broken, NotTaken, Obstacle, Refusal, Report, Sink, Verdict};
use crate::ack::Ticket;
use crate::envelope::{Destination, Record};

/// How long a topic stays in the careful lane after its first refusal. Each further one doubles it:
/// the careful lane is slow, and must get past the refused record before the topic is trusted again.
const CAREFUL_FOR: Duration = Duration::from_secs(60);
const CAREFUL_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Reports taken at once.
const REPORTS_MAX: usize = 4096;
/// Reports that belong to no record: a producer has at most one fatal error.
const ERRORS_MAX: usize = 8;

/// The Kafka sink. Lives as long as the relay; its producers live for a session.
pub struct KafkaSink {
    settings: Settings,
    log: ClientLog,
    topics: Topics,
    lanes: Option<Lanes>,
    /// Topics with a refusal.
    careful: HashMap<String, Care>,
    received: Vec<Delivery>,
}

/// Until when a topic is treated with care.
struct Care {
    until: Instant,
    period: Duration,
}

/// The producers of one session.
struct Lanes {
    fast: Lane,
    /// Made when first needed.
    careful: Option<Lane>,
    /// The topic of each record in the careful lane: one record per topic.
    careful_in_flight: HashMap<Ticket, String>,
    sender: mpsc::Sender<Delivery>,
    deliveries: mpsc::Receiver<Delivery>,
}

impl KafkaSink {
    /// A sink that publishes when the first session begins. Fails if librdkafka does not take the
    /// settings together: a file that can't be read, say.
    pub fn new(settings: Settings) -> Result<Self, Broken> {
        let log = ClientLog::new(settings.secrets());
        Ok(KafkaSink {
            topics: Topics::open(&settings, &log)?,
            settings,
            log,
            lanes: None,
            careful: HashMap::new(),
            received: Vec::new(),
        })
    }

    fn needs_care(&self, topic: &str) -> bool {
        self.topics.takes_no_batches(topic)
            || self.careful.get(topic).is_some_and(|care| care.until > Instant::now())
    }

    fn refused(&mut self, refusal: &Refusal) {
        let now = Instant::now();
        let period = match self.careful.get(&refusal.topic) {
            // A refused batch refuses many records.
            Some(care) if care.until > now => care.period,
            Some(care) => care.period.saturating_mul(2).min(CAREFUL_FOR_MAX),
            None => CAREFUL_FOR,
        };
        let care = Care { until: now + period, period };
        let before = self.careful.insert(refusal.topic.clone(), care);
        if before.is_none_or(|care| care.until <= now) {
            tracing::warn!(
                topic = refusal.topic,
                reason = refusal.reason,
                "the broker refused a record; sending this topic's records one at a time for {} s",
                period.as_secs()
            );
        }
    }

    /// Takes note of what the old producers still had to say.
    fn last_words(&mut self, mut deliveries: mpsc::Receiver<Delivery>) {
        while let Ok(delivery) = deliveries.try_recv() {
            if let Report::Refused(_, refusal) = delivery.into_report() {
                self.refused(&refusal);
            }
        }
    }
}

impl Sink for KafkaSink {
    async fn restart(&mut self) -> Result<(), Broken> {
        if let Some(Lanes { fast, careful, deliveries, .. }) = self.lanes.take() {
            // Purging and joining librdkafka's threads blocks for up to a second.
            let dropped = tokio::task::spawn_blocking(move || drop((fast, careful))).await;
            dropped.map_err(|error| Broken(format!("can't close the old producer: {error}")))?;
            self.last_words(deliveries);
        }
        let now = Instant::now();
        self.careful.retain(|_, care| care.until + care.period > now);
        let (sender, deliveries) = mpsc::channel(self.settings.in_flight_events_max + ERRORS_MAX);
        let fast = Lane::open(LaneKind::Fast, &self.settings, &self.log, sender.clone())?;
        self.lanes = Some(Lanes {
            fast,
            careful: None,
            careful_in_flight: HashMap::new(),
            sender,
            deliveries,
        });
        Ok(())
    }

    fn destination(&mut self, topic: &str) -> Option<&Destination> {
        self.topics.destination(topic)
    }

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        // One record of a topic in the careful lane; it leaves that lane with nothing in flight.
        if self.lanes.as_ref().is_some_and(|lanes| lanes.is_careful_in_flight(record.topic)) {
            return Err(NotTaken::Busy);
        }
        let careful = self.needs_care(record.topic);
        // In the fast lane librdkafka would find out only when it has the topic's metadata, and then
        // send what waits behind the record.
        if let Some(partition) = record.partition
            && !careful
            && self.topics.lacks(record.topic, partition)
        {
            let refusal = Refusal {
                topic: record.topic.to_owned(),
                id: None,
                reason: format!("there is no partition {partition}"),
                verdict: Verdict::Suspect,
            };
            self.refused(&refusal);
            return Err(NotTaken::Refused(Box::new(refusal)));
        }
        let Some(lanes) = &mut self.lanes else {
            return Err(NotTaken::Broken(Broken("the producer is not open".to_owned())));
        };
        let result = if careful {
            lanes.enqueue_careful(&self.settings, &self.log, record, ticket)
        } else {
            lanes.fast.enqueue(record, ticket)
        };
        if let Err(NotTaken::Refused(refusal)) = &result {
            self.refused(refusal);
        }
        result
    }

    async fn news(&mut self, reports: &mut Vec<Report>) {
        let Some(lanes) = &mut self.lanes else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            _ = lanes.deliveries.recv_many(&mut self.received, REPORTS_MAX) => {}
            () = self.topics.answer() => {}
        }
        for delivery in std::mem::take(&mut self.received) {
            if let LaneKind::Careful = delivery.lane
                && let Some(ticket) = delivery.ticket
                && let Some(lanes) = &mut self.lanes
            {
                lanes.careful_in_flight.remove(&ticket);
            }
            let mut report = delivery.into_report();
            match &report {
                Report::Done(_) => self.log.all_is_well(),
                // Who may write nowhere is no producer at all: that says nothing about the topic.
                Report::Refused(_, refusal)
                    if refusal.verdict == Verdict::Retryable && self.log.is_cluster_denied() =>
                {
                    let text = self.log.obstacle().map(|obstacle| obstacle.text);
                    let reason = text.unwrap_or_else(|| refusal.reason.clone());
                    report = Report::Broken(Broken(reason));
                }
                Report::Refused(_, refusal) => self.refused(refusal),
                Report::Broken(_) => {}
            }
            reports.push(report);
        }
        // A topic must not change to the careful lane with records in the fast one.
        if let Some(topic) = self.topics.take_changed() {
            let broken = Broken(format!("topic {topic} takes smaller batches than before"));
            reports.push(Report::Broken(broken));
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.log.obstacle()
    }

    fn answered_at(&self) -> Option<Instant> {
        self.topics.answered_at()
    }
}

impl Lanes {
    fn is_careful_in_flight(&self, topic: &str) -> bool {
        self.careful_in_flight.values().any(|in_flight| in_flight == topic)
    }

    fn enqueue_careful(
        &mut self,
        settings: &Settings,
        log: &ClientLog,
        record: &Record<'_>,
        ticket: Ticket,
    ) -> Result<(), NotTaken> {
        let lane = match &mut self.careful {
            Some(lane) => lane,
            none => none.insert(
                Lane::open(LaneKind::Careful, settings, log, self.sender.clone())
                    .map_err(NotTaken::Broken)?,
            ),
        };
        lane.enqueue(record, ticket)?;
        self.careful_in_flight.insert(ticket, record.topic.to_owned());
        Ok(())
    }
}
