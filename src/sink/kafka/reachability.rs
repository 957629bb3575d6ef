//! Whether a broker can be reached, also while there is nothing to publish.
//!
//! Acknowledgements and answers about topics prove it. After a while without either, a small
//! request is sent that creates nothing: for the settings of an existing topic. If there is none,
//! or we are not allowed to see its settings, the list of topics is requested.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::log::ClientLog;

/// A broker that was silent for this long is asked.
const ASK_AFTER: Duration = Duration::from_secs(4);
/// How long an answer may take. Two questions must fit into `UNREACHABLE_AFTER`.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Pause between questions that were not answered.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Brokers that were silent for this long count as unreachable.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);
/// After settings were withheld this many times, only the list of topics is requested.
const WITHHELD_MAX: u32 = 3;
/// Longer than a pause or both questions take: after a longer gap between calls, nobody was
/// listening.
const LISTENS_FOR: Duration = Duration::from_secs(8);

type Admin = AdminClient<ClientLog>;
type PendingAnswer = Pin<Box<dyn Future<Output = Answer>>>;

/// A broker's id, and a topic whose settings it reports.
type Target = (i32, String);

enum Answer {
    /// A broker has answered; that one can be asked next time.
    Answered(Option<Target>),
    /// A broker has answered, but withholds settings.
    Withheld,
    /// No broker has answered.
    Missing,
}

/// When a broker last answered, and whom to ask next.
pub(super) struct Reachability {
    admin: Arc<Admin>,
    answered_at: Instant,
    /// When somebody last listened. Time in which nobody does is not counted.
    listened_at: Instant,
    pending: Option<PendingAnswer>,
    target: Option<Target>,
    /// How often settings were withheld. The topic may be gone; but if access is denied, each
    /// question is a line in the brokers' log.
    withheld: u32,
}

impl Reachability {
    pub(super) fn new(admin: Arc<Admin>) -> Self {
        let now = Instant::now();
        Reachability {
            admin,
            answered_at: now,
            listened_at: now,
            pending: None,
            target: None,
            withheld: 0,
        }
    }

    /// A broker has answered something.
    pub(super) fn note_answer(&mut self, at: Instant) {
        self.answered_at = self.answered_at.max(at);
    }

    /// For how long no broker could be reached, if that is too long.
    pub(super) fn unreachable_for(&self) -> Option<Duration> {
        let now = Instant::now().min(self.listened_at + LISTENS_FOR);
        let silence = now.saturating_duration_since(self.answered_at);
        (silence >= UNREACHABLE_AFTER).then_some(silence)
    }

    /// Asks when it is time, and returns when there is an answer. Cancel safe: a pending question
    /// is kept.
    pub(super) async fn probe(&mut self) {
        let pause = self.listened_at.elapsed();
        self.listened_at += pause;
        if pause > LISTENS_FOR {
            self.answered_at += pause;
        }
        let pending = match &mut self.pending {
            Some(pending) => pending,
            none => {
                let due = self.answered_at + ASK_AFTER;
                tokio::time::sleep_until(due.into()).await;
                self.listened_at = Instant::now();
                let (admin, target) = (Arc::clone(&self.admin), self.target.clone());
                none.insert(Box::pin(ask(admin, target)))
            }
        };
        let answer = pending.await;
        self.pending = None;
        match answer {
            Answer::Missing => return,
            Answer::Answered(target) => {
                self.target = target.filter(|_| self.withheld < WITHHELD_MAX)
            }
            Answer::Withheld => (self.withheld, self.target) = (self.withheld + 1, None),
        }
        self.note_answer(Instant::now());
    }
}

async fn ask(admin: Arc<Admin>, target: Option<Target>) -> Answer {
    if let Some(target) = target {
        match settings(&admin, &target).await {
            Ok(true) => return Answer::Answered(Some(target)),
            Ok(false) => return Answer::Withheld,
            Err(()) => {}
        }
    }
    // Any broker answers this.
    let client = Arc::clone(&admin);
    let metadata = move || {
        let metadata = client.inner().fetch_metadata(None, ANSWER_WITHIN).ok()?;
        let broker = metadata.brokers().first().map(|broker| broker.id());
        let topic = metadata.topics().iter().find(|topic| topic.error().is_none());
        Some(broker.zip(topic.map(|topic| topic.name().to_owned())))
    };
    match tokio::task::spawn_blocking(metadata).await {
        Ok(Some(target)) => Answer::Answered(target),
        _ => {
            tokio::time::sleep(ASK_AGAIN).await;
            Answer::Missing
        }
    }
}

/// Asks a broker for the settings of a topic, and returns whether it reports them. A missing answer
/// is an error.
async fn settings(admin: &Admin, (broker, topic): &Target) -> Result<bool, ()> {
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER_WITHIN))
        .operation_timeout(Some(ANSWER_WITHIN))
        .broker_id(Some(*broker));
    match admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await {
        Ok(mut answers) => Ok(matches!(answers.pop(), Some(Ok(it)) if !it.entries.is_empty())),
        Err(KafkaError::AdminOp(
            Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve,
        )) => Err(()),
        Err(_) => Ok(false),
    }
}
