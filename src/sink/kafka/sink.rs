//! The sink: which lane takes a record, and what the relay learns meanwhile.

mod reports;

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::approval::ApprovalGate;
use super::delivery::Delivery;
use super::lane::{Lane, LaneKind};
use super::lanes::{Closing, Lanes};
use super::log::ClientLog;
use super::options::KafkaOptions;
use super::reachability::Reachability;
use super::refusals::Refusals;
use super::topics::Topics;
use crate::sink::Sink;
use postrider_core::delivery::{
    Broken, NotTaken, Obstacle, ReadyTopics, Reason, Refusal, Report, Ticket,
};
use postrider_core::envelope::{Destination, Record};

/// How long a new producer may take to learn whether it is allowed to produce at all.
const PRODUCER_ID_TIMEOUT: Duration = Duration::from_secs(2);
/// Producers that are being closed at the same time.
const CLOSING_MAX: usize = 4;
/// Reports received at once.
const REPORTS_MAX: usize = 4096;

/// The Kafka sink. Lives as long as the relay; its producers live for a session.
pub struct KafkaSink {
    options: KafkaOptions,
    log: ClientLog,
    topics: Topics,
    reachability: Reachability,
    lanes: Option<Lanes>,
    /// Closed until the cluster is approved.
    gate: ApprovalGate,
    refusals: Refusals,
    received: Vec<Delivery>,
    received_at: Instant,
    /// Topics that may have become ready.
    ready_topics: ReadyTopics,
    /// Producers of earlier sessions that take long to end. They have nothing left to send.
    closing: Vec<JoinHandle<()>>,
}

impl KafkaSink {
    pub(super) fn open(options: KafkaOptions) -> Result<Self, Broken> {
        let log = ClientLog::new(options.secrets());
        let topics = Topics::open(&options, &log)?;
        Ok(KafkaSink {
            reachability: Reachability::new(topics.admin()),
            topics,
            gate: ApprovalGate::new(options.sink.approval.clone()),
            options,
            log,
            lanes: None,
            refusals: Refusals::default(),
            received: Vec::new(),
            received_at: Instant::now(),
            ready_topics: ReadyTopics::default(),
            closing: Vec::new(),
        })
    }

    fn needs_care(&self, topic: &str) -> bool {
        self.topics.is_unbatchable(topic) || self.refusals.require_care(topic, Instant::now())
    }

    /// Why a topic accepts nothing, if that is known without trying.
    fn known_refusal(&self, record: &Record<'_>) -> Option<Refusal> {
        let by_topic = || self.topics.refusal(record.topic, record.partition);
        self.refusals.closed_topic(record.topic, Instant::now()).or_else(by_topic)
    }

    /// What a refusal that is known without trying means. If the client has no permissions at all,
    /// it is not about the topic; each session finds out again whether that is so.
    fn explain_refusal(&self, refusal: Refusal) -> NotTaken {
        if refusal.reason != Reason::TOPIC_DENIED || !self.log.is_cluster_denied() {
            return NotTaken::Retry(refusal);
        }
        match &self.lanes {
            Some(lanes) if lanes.opened_at.elapsed() < PRODUCER_ID_TIMEOUT => NotTaken::Busy,
            _ => NotTaken::Broken(self.producer_denied(refusal.detail)),
        }
    }

    /// Without any write permission we are not a producer.
    fn producer_denied(&self, detail: String) -> Broken {
        let obstacle = self.log.obstacle().map(|obstacle| obstacle.text);
        Broken::new(obstacle.unwrap_or(detail))
    }

    /// A topic must not change to the careful lane with records in the fast one.
    fn check_for_unbatchable_topic(&mut self, reports: &mut Vec<Report>) {
        if let Some(topic) = self.topics.take_newly_unbatchable() {
            let broken = Broken::new(format!("topic {topic} now has a smaller batch limit"));
            reports.push(Report::Broken(broken));
        }
    }
}

impl Sink for KafkaSink {
    async fn stop(&mut self) {
        self.gate.close();
        self.closing.retain(|closing| !closing.is_finished());
        let Some(lanes) = self.lanes.take() else { return };
        match lanes.close().await {
            Closing::Done(deliveries) => self.drain_reports(deliveries),
            Closing::Failed => {}
            Closing::Unfinished(closing) => self.closing.push(closing),
        }
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.stop().await;
        if self.closing.len() >= CLOSING_MAX {
            let text = format!("{CLOSING_MAX} earlier Kafka producers are still being closed");
            return Err(Broken::new(text));
        }
        let now = Instant::now();
        self.refusals.begin_session(now);
        self.lanes = Some(Lanes::open(&self.options, &self.log, now)?);
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
        if let Some(refusal) = self.known_refusal(record) {
            return Err(self.explain_refusal(refusal));
        }
        let needs_care = self.needs_care(record.topic);
        let facts = self.topics.facts(record.topic);
        let Some(lanes) = &mut self.lanes else {
            return Err(NotTaken::Broken(Broken::new("the producer is not open")));
        };
        if !needs_care {
            // A topic leaves the careful lane once nothing of it is in flight there: it gets no
            // more records until then.
            if lanes.careful_queues.has(record.topic) {
                return Err(NotTaken::TopicBusy);
            }
            return lanes.fast.enqueue(record, ticket);
        }
        let lane = match &mut lanes.careful {
            Some(lane) => lane,
            none => none.insert(
                Lane::open(LaneKind::Careful, &self.options, &self.log, lanes.sender.clone())
                    .map_err(NotTaken::Broken)?,
            ),
        };
        if !self.gate.admits(lane).map_err(NotTaken::Broken)? {
            return Err(NotTaken::Busy);
        }
        lanes.careful_queues.enqueue(lane, record, ticket, facts)
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        let Some(lanes) = &mut self.lanes else {
            return self.reachability.probe().await;
        };
        let is_unnamed =
            !self.gate.is_open() && self.topics.is_cluster_unnamed_since(lanes.opened_at);
        tokio::select! {
            biased;
            _ = lanes.deliveries.recv_many(&mut self.received, REPORTS_MAX) => {}
            () = self.topics.next_answers(&mut self.ready_topics) => {
                if let Some(at) = self.topics.answered_at() {
                    self.reachability.note_answer(at);
                }
            }
            () = self.reachability.probe() => {}
            refused = self.gate.next_event(&lanes.fast, is_unnamed) => {
                self.ready_topics = ReadyTopics::all();
                reports.extend(refused.map(Report::Broken));
            }
        }
        self.received_at = Instant::now();
        for delivery in std::mem::take(&mut self.received) {
            self.report(delivery, reports);
        }
        self.check_for_unbatchable_topic(reports);
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let reported = self.log.obstacle();
        let Some(silence) = self.reachability.unreachable_for() else { return reported };
        if reported.as_ref().is_some_and(|obstacle| obstacle.certain) {
            return reported;
        }
        let reason = reported.map(|obstacle| format!(": {}", obstacle.text)).unwrap_or_default();
        let text = format!("no broker could be reached for {} s{reason}", silence.as_secs());
        Some(Obstacle { text, certain: true })
    }

    fn answered_at(&self) -> Option<Instant> {
        self.topics.answered_at()
    }
}

#[cfg(test)]
mod tests;
