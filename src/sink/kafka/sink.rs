//! The sink: which lane takes a record, and what the relay learns meanwhile.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::approval::ApprovalGate;
use super::delivery::Delivery;
use super::lane::{Lane, LaneKind};
use super::lanes::{Closing, Lanes};
use super::log::ClientLog;
use super::murmur2::partition_of;
use super::options::KafkaOptions;
use super::reachability::Reachability;
use super::refusals::{Refusals, TopicState};
use super::topics::Topics;
use crate::sink::Sink;
use postrider_core::delivery::{
    Broken, NotTaken, Obstacle, Outcome, ReadyTopics, Reason, Refusal, Report, Ticket,
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

    /// Whether a record can be sent now, and in which lane.
    fn topic_state(&self, record: &Record<'_>) -> TopicState {
        let state = self.refusals.look_up(record.topic, Instant::now());
        if matches!(state, TopicState::Closed(_)) {
            return state;
        }
        match self.topics.refusal(record.topic, record.partition) {
            Some(refusal) => TopicState::Closed(refusal),
            None if self.topics.is_unbatchable(record.topic) => TopicState::Careful,
            None => state,
        }
    }

    /// What a refusal that is known without trying means. If the client has no permissions at all,
    /// it is not about the topic; each session finds out again whether that is so.
    fn explain_refusal(&self, refusal: Refusal) -> NotTaken {
        if refusal.reason != Reason::TopicDenied || !self.log.is_cluster_denied() {
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
    fn describe(&self) -> String {
        format!("Kafka at {}", self.options.brokers)
    }

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
        let needs_care = match self.topic_state(record) {
            TopicState::Closed(refusal) => return Err(self.explain_refusal(refusal)),
            TopicState::Careful => true,
            TopicState::Open => false,
        };
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
            // The client decides the partition by the key alone.
            let by_other = || Some(partition_of(record.partition_by?, facts.partitions));
            return lanes.fast.enqueue(record, record.partition.or_else(by_other), ticket);
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

/// The delivery reports of the producers: what they mean for the relay, and for their topics.
impl KafkaSink {
    /// Handles the last reports of the old producers.
    fn drain_reports(&mut self, mut deliveries: mpsc::Receiver<Delivery>) {
        while let Ok(delivery) = deliveries.try_recv() {
            if let Some(failure) = delivery.failure.filter(|failure| failure.is_refusal()) {
                self.refusals.add(&failure.topic, &failure.detail);
                if failure.is_about_timestamp() {
                    self.topics.note_refused_timestamp(&failure.topic);
                }
            }
        }
    }

    /// A record was refused alone.
    fn note_refusal(&mut self, topic: &str, outcome: &Outcome) {
        let (Outcome::Retry(refusal) | Outcome::Reject(refusal)) = outcome else { return };
        self.refusals.add(topic, &refusal.detail);
        if [Reason::TopicMissing, Reason::TopicDenied].contains(&refusal.reason) {
            self.refusals.close_topic(topic, refusal);
            self.topics.ask(topic);
        }
    }

    fn report(&mut self, delivery: Delivery, reports: &mut Vec<Report>) {
        let Delivery { lane, ticket, failure } = delivery;
        let report = match (ticket, failure) {
            (Some(ticket), None) => {
                self.log.clear_error();
                self.reachability.note_answer(self.received_at);
                match lane {
                    LaneKind::Fast => Report::Settled(ticket, Outcome::Ok),
                    LaneKind::Careful => return self.settle_careful(ticket, Outcome::Ok, reports),
                }
            }
            (Some(ticket), Some(failure)) if failure.is_refusal() => {
                let outcome = failure.outcome();
                if failure.is_about_timestamp() {
                    self.topics.note_refused_timestamp(&failure.topic);
                }
                if matches!(outcome, Outcome::Retry(_)) && self.log.is_cluster_denied() {
                    Report::Broken(self.producer_denied(failure.detail))
                } else if lane == LaneKind::Careful {
                    self.note_refusal(&failure.topic, &outcome);
                    return self.settle_careful(ticket, outcome, reports);
                } else {
                    self.refusals.add(&failure.topic, &failure.detail);
                    self.topics.forget(&failure.topic);
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
    fn settle_careful(&mut self, ticket: Ticket, outcome: Outcome, reports: &mut Vec<Report>) {
        let Some(Lanes { careful: Some(lane), careful_queues, .. }) = &mut self.lanes else {
            return;
        };
        if let (Outcome::Ok, Some(topic)) = (&outcome, careful_queues.topic(ticket)) {
            self.refusals.note_acknowledgement(topic);
        }
        let facts = |topic: &str| self.topics.facts(topic);
        match careful_queues.settle(lane, ticket, outcome, facts, reports) {
            Ok(Some(topic)) => self.ready_topics.push(&topic),
            Ok(None) => {}
            Err(broken) => reports.push(Report::Broken(broken)),
        }
    }
}

#[cfg(test)]
mod tests;
