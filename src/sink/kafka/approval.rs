//! No record is sent before its cluster is known and approved.
//!
//! Each producer is asked for its own cluster, because names and addresses can be moved between two
//! clusters. librdkafka learns the cluster's id with the first metadata; until then the call
//! returns nothing immediately, so it is polled: a call that blocks would need a thread, and would
//! keep a producer alive after its session.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::lane::Lane;
use crate::sink::Approval;
use postrider_core::delivery::Broken;

/// How often a producer is asked for its cluster.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long to wait before an approval that failed is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Closed until the cluster is approved.
pub(super) struct ApprovalGate {
    approval: Option<Approval>,
    state: GateState,
    poll_at: Instant,
    careful: CarefulProducer,
}

/// The careful lane's producer, which connects later than the fast one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CarefulProducer {
    /// Nobody has asked for it.
    Unused,
    /// It does not know its cluster yet.
    Connecting,
    /// It is connected to the approved cluster.
    Approved,
}

enum GateState {
    /// The producer does not know its cluster yet.
    Connecting,
    /// It is being approved, by a task that finishes whatever happens here: a half-open connection
    /// to Postgres that is left behind would keep the server from stopping.
    BeingApproved(Option<String>, JoinSet<Result<(), Broken>>),
    /// Records may go to this cluster; none: the brokers don't report an id.
    Open(Option<String>),
    /// Records must not be sent, and that was reported.
    Refused,
}

impl ApprovalGate {
    pub(super) fn new(approval: Option<Approval>) -> Self {
        let state = GateState::Refused;
        ApprovalGate { approval, state, poll_at: Instant::now(), careful: CarefulProducer::Unused }
    }

    /// There is a new producer, or no producer any longer.
    pub(super) fn close(&mut self) {
        self.state = match self.approval {
            None => GateState::Open(None),
            Some(_) => GateState::Connecting,
        };
        self.poll_at = Instant::now();
        self.careful = CarefulProducer::Unused;
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, GateState::Open(_))
    }

    /// Whether waiting can change anything.
    fn is_waiting(&self) -> bool {
        match self.state {
            GateState::Connecting | GateState::BeingApproved(..) => true,
            GateState::Open(_) => self.careful == CarefulProducer::Connecting,
            GateState::Refused => false,
        }
    }

    /// Waits for the next step, forever if there is none; an error ends the session. Cancel safe.
    ///
    /// `is_unnamed`: brokers have answered in this session, but without a cluster id.
    pub(super) async fn next_event(&mut self, fast: &Lane, is_unnamed: bool) -> Option<Broken> {
        if !self.is_waiting() {
            return pending().await;
        }
        if let GateState::BeingApproved(cluster, asking) = &mut self.state {
            let answer = match asking.join_next().await {
                Some(Ok(answer)) => answer,
                Some(Err(error)) => Err(Broken::new(error.to_string())),
                None => return None,
            };
            let cluster = cluster.take();
            return self.apply_answer(cluster, answer);
        }
        sleep_until(self.poll_at).await;
        self.poll_at = Instant::now() + POLL_EVERY;
        let (GateState::Connecting, Some(approval)) = (&self.state, &self.approval) else {
            return None;
        };
        match fast.cluster_id() {
            None if !is_unnamed => {}
            cluster => {
                let mut asking = JoinSet::new();
                asking.spawn(approval.ask(cluster.clone()).in_current_span());
                self.state = GateState::BeingApproved(cluster, asking);
            }
        }
        None
    }

    fn apply_answer(
        &mut self,
        cluster: Option<String>,
        answer: Result<(), Broken>,
    ) -> Option<Broken> {
        match answer {
            Ok(()) => {
                self.state = GateState::Open(cluster);
                None
            }
            Err(broken) if broken.fix.is_none() => {
                tracing::warn!(
                    reason = broken.text,
                    "can't check whether this is the right Kafka cluster; retrying"
                );
                self.state = GateState::Connecting;
                self.poll_at = Instant::now() + ASK_AGAIN;
                None
            }
            Err(broken) => {
                self.state = GateState::Refused;
                Some(broken)
            }
        }
    }

    /// Whether the careful lane's producer may be used.
    pub(super) fn admits(&mut self, careful: &Lane) -> Result<bool, Broken> {
        let GateState::Open(approved) = &self.state else { return Ok(false) };
        if self.careful == CarefulProducer::Approved {
            return Ok(true);
        }
        self.careful = match (approved, careful.cluster_id()) {
            (None, _) => CarefulProducer::Approved,
            (Some(_), None) => CarefulProducer::Connecting,
            (Some(approved), Some(found)) if *approved == found => CarefulProducer::Approved,
            (Some(approved), Some(found)) => {
                return Err(Broken::new(format!(
                    "the brokers belonged to Kafka cluster {approved}, and now belong to {found}"
                )));
            }
        };
        Ok(self.careful == CarefulProducer::Approved)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use tokio::sync::{Notify, mpsc};

    use super::*;
    use crate::sink::SinkOptions;
    use crate::sink::kafka::lane::LaneKind;
    use crate::sink::kafka::log::ClientLog;
    use crate::sink::kafka::options::KafkaOptions;

    fn lane() -> Lane {
        let options = KafkaOptions {
            brokers: "127.0.0.1:1".to_owned(),
            properties: BTreeMap::new(),
            sink: SinkOptions {
                in_flight_events_max: 1,
                in_flight_bytes_max: 1,
                give_up_after: None,
                approval: None,
            },
        };
        let (sender, _deliveries) = mpsc::channel(8);
        Lane::open(LaneKind::Fast, &options, &ClientLog::new(Vec::new()), sender).unwrap()
    }

    #[tokio::test]
    async fn brokers_that_don_t_say_who_they_are_are_asked_about_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&asked);
        let approval = Approval::new(move |cluster| {
            note.lock().unwrap().push(cluster);
            Box::pin(async { Ok(()) })
        });
        let lane = lane();
        let mut gate = ApprovalGate::new(Some(approval));
        gate.close();
        assert_eq!(gate.next_event(&lane, false).await, None);
        assert!(!gate.is_open() && asked.lock().unwrap().is_empty(), "nobody has answered yet");
        while !gate.is_open() {
            assert_eq!(gate.next_event(&lane, true).await, None);
        }
        assert_eq!(*asked.lock().unwrap(), [None]);
        assert_eq!(gate.admits(&lane), Ok(true));
    }
    /// As when the session that asked ends.
    #[tokio::test]
    async fn a_question_goes_on_though_nobody_waits_for_the_answer() {
        let is_over = Arc::new(Notify::new());
        let over = Arc::clone(&is_over);
        let approval = Approval::new(move |_| {
            let over = Arc::clone(&over);
            Box::pin(async move {
                tokio::task::yield_now().await;
                over.notify_one();
                Ok(())
            })
        });
        let mut gate = ApprovalGate::new(Some(approval));
        gate.close();
        assert_eq!(gate.next_event(&lane(), true).await, None);
        tokio::time::timeout(Duration::from_secs(10), is_over.notified()).await.unwrap();
        assert!(!gate.is_open(), "nobody has looked at the answer");
    }
}
