//! Whether a broker can be reached, also while there is nothing to publish.
//!
//! Acknowledgements and answers about topics prove it. When there was neither for a while, a small
//! question is asked that creates nothing: the settings of a topic that is there. Where there is no such
//! topic, or its settings may not be seen, the list of topics is asked for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::log::ClientLog;

/// A broker that was not heard for so long is asked.
const ASK_AFTER: Duration = Duration::from_secs(4);
/// How long an answer may take. There are two questions within the time below.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Pause between questions that were not answered.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Brokers that were not heard for so long are unreachable.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);
/// After so many questions for settings that were not told only the list of topics is asked for.
const UNTOLD_MAX: u32 = 3;
/// Longer than a pause, or both questions, take: who has not looked for so long was not listening.
const LISTENS_FOR: Duration = Duration::from_secs(8);

type Admin = AdminClient<ClientLog>;
type Asking = Pin<Box<dyn Future<Output = Answer>>>;

/// A broker's number, and a topic whose settings it tells.
type Target = (i32, String);

enum Answer {
    /// A broker has answered; that one can be asked next time.
    Heard(Option<Target>),
    /// It has answered, and does not tell settings.
    Untold,
    Nothing,
}

/// What is known of the way to the brokers.
pub(super) struct Reach {
    admin: Arc<Admin>,
    heard_at: Instant,
    /// When somebody last listened. Other time does not count.
    looked_at: Instant,
    asking: Option<Asking>,
    target: Option<Target>,
    /// How often settings were not told. A topic may be gone; but where it is denied, each question is a
    /// line in the brokers' log.
    untold: u32,
}

impl Reach {
    pub(super) fn new(admin: Arc<Admin>) -> Self {
        let now = Instant::now();
        Reach { admin, heard_at: now, looked_at: now, asking: None, target: None, untold: 0 }
    }

    /// A broker has answered something.
    pub(super) fn heard(&mut self, at: Instant) {
        self.heard_at = self.heard_at.max(at);
    }

    /// For how long no broker could be reached, if that is too long.
    pub(super) fn unreachable_for(&self) -> Option<Duration> {
        let now = Instant::now().min(self.looked_at + LISTENS_FOR);
        let silence = now.saturating_duration_since(self.heard_at);
        (silence >= UNREACHABLE_AFTER).then_some(silence)
    }

    /// Asks when it is time, and returns when there is an answer. Cancel safe: what is asked stays
    /// asked.
    pub(super) async fn look(&mut self) {
        let pause = self.looked_at.elapsed();
        self.looked_at += pause;
        if pause > LISTENS_FOR {
            self.heard_at += pause;
        }
        let asking = match &mut self.asking {
            Some(asking) => asking,
            none => {
                let due = self.heard_at + ASK_AFTER;
                tokio::time::sleep_until(due.into()).await;
                self.looked_at = Instant::now();
                let (admin, target) = (Arc::clone(&self.admin), self.target.clone());
                none.insert(Box::pin(ask(admin, target)))
            }
        };
        let answer = asking.await;
        self.asking = None;
        match answer {
            Answer::Nothing => return,
            Answer::Heard(target) => self.target = target.filter(|_| self.untold < UNTOLD_MAX),
            Answer::Untold => (self.untold, self.target) = (self.untold + 1, None),
        }
        self.heard(Instant::now());
    }
}

async fn ask(admin: Arc<Admin>, target: Option<Target>) -> Answer {
    if let Some(target) = target {
        match settings(&admin, &target).await {
            Ok(true) => return Answer::Heard(Some(target)),
            Ok(false) => return Answer::Untold,
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
        Ok(Some(target)) => Answer::Heard(target),
        _ => {
            tokio::time::sleep(ASK_AGAIN).await;
            Answer::Nothing
        }
    }
}

/// Asks a broker for the settings of a topic: whether it tells them. No answer is an error.
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
