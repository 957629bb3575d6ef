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

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::lane::{Delivery, Lane, LaneKind};
pub use self::settings::Settings;
use self::topics::Topics;
use super::{Broken, NotTaken, Refusal, Report, Sink, Verdict};
use crate::ack::Ticket;
use crate::envelope::{Destination, Record};

/// How long a topic stays in the careful lane after its last refusal.
const CAREFUL_FOR: Duration = Duration::from_secs(60);
/// Reports taken at once.
const REPORTS_MAX: usize = 4096;
/// Reports of errors that belong to no record, which may wait beside one report per record.
const ERRORS_MAX: usize = 1024;

/// The Kafka sink. Lives as long as the relay; its producers live for a session.
pub struct KafkaSink {
    settings: Settings,
    topics: Topics,
    lanes: Option<Lanes>,
    /// Topics with a refusal, and until when they are treated with care.
    careful: HashMap<String, Instant>,
    received: Vec<Delivery>,
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
    /// A sink that connects when the first session begins.
    pub fn new(settings: Settings) -> Self {
        KafkaSink {
            topics: Topics::new(&settings),
            settings,
            lanes: None,
            careful: HashMap::new(),
            received: Vec::new(),
        }
    }

    fn needs_care(&mut self, topic: &str) -> bool {
        if self.topics.takes_no_batches(topic) {
            return true;
        }
        match self.careful.get(topic) {
            None => false,
            Some(until) if *until > Instant::now() => true,
            // Calm again. Nothing of the topic is in flight here, or `enqueue` would be busy.
            Some(_) => {
                self.careful.remove(topic);
                false
            }
        }
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.careful.insert(refusal.topic.clone(), Instant::now() + CAREFUL_FOR);
    }
}

impl Sink for KafkaSink {
    async fn restart(&mut self) -> Result<(), Broken> {
        if let Some(lanes) = self.lanes.take() {
            // Purging and joining librdkafka's threads blocks for up to a second.
            let dropped = tokio::task::spawn_blocking(move || drop(lanes)).await;
            dropped.map_err(|error| Broken(format!("can't close the old producer: {error}")))?;
        }
        let (sender, deliveries) = mpsc::channel(self.settings.in_flight_events_max + ERRORS_MAX);
        let fast = Lane::open(LaneKind::Fast, &self.settings, sender.clone())?;
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
        let careful = !self.careful.is_empty() || self.topics.some_take_no_batches();
        let careful = careful && {
            let lanes = self.lanes.as_ref();
            if lanes.is_some_and(|lanes| lanes.is_careful_in_flight(record.topic)) {
                return Err(NotTaken::Busy);
            }
            self.needs_care(record.topic)
        };
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
            lanes.enqueue_careful(&self.settings, record, ticket)
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
            let report = delivery.into_report();
            if let Report::Refused(_, refusal) = &report {
                self.refused(refusal);
                if refusal.verdict == Verdict::Suspect {
                    tracing::warn!(
                        topic = refusal.topic,
                        reason = refusal.reason,
                        "the broker refused a batch; sending this topic's records one at a time"
                    );
                }
            }
            reports.push(report);
        }
    }
}

impl Lanes {
    fn is_careful_in_flight(&self, topic: &str) -> bool {
        self.careful_in_flight.values().any(|in_flight| in_flight == topic)
    }

    fn enqueue_careful(
        &mut self,
        settings: &Settings,
        record: &Record<'_>,
        ticket: Ticket,
    ) -> Result<(), NotTaken> {
        let lane = match &mut self.careful {
            Some(lane) => lane,
            none => none.insert(
                Lane::open(LaneKind::Careful, settings, self.sender.clone())
                    .map_err(NotTaken::Broken)?,
            ),
        };
        lane.enqueue(record, ticket)?;
        self.careful_in_flight.insert(ticket, record.topic.to_owned());
        Ok(())
    }
}
