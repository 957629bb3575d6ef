//! Asks the brokers about topics: many at a time, and none that delays anything else.
//!
//! Whether a topic exists is asked topic by topic, a limited number at once; the settings of
//! existing topics are requested together. The question itself may create a missing topic, so it is
//! asked again for a while: its patience.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::{Instant, sleep};

use crate::sink::kafka::log::ClientLog;

/// How long an answer may take, and how long to wait before asking again if nobody answers.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How often a missing topic is asked about again while its patience lasts.
const CREATION_POLL: Duration = Duration::from_millis(200);
/// Topics looked for at the same time; each occupies a thread.
const LOOKUPS_MAX: usize = 16;
/// Topics whose settings are asked for in one request.
const DESCRIBED_MAX: usize = 200;

pub(in crate::sink::kafka) type Admin = AdminClient<ClientLog>;

/// What is known of one topic's settings.
pub(super) type TopicSettings = Result<ConfigResource, KafkaError>;

/// What the brokers answer about a topic.
pub(super) enum Answer {
    /// No broker has answered.
    NoBroker,
    /// It has this many partitions, and these settings.
    Exists(usize, TopicSettings),
    Missing,
    /// We are not allowed to know.
    Denied,
}

/// Whether a topic exists, according to one broker.
enum Existence {
    NoBroker,
    Exists { partitions: usize, answered_by: Option<i32> },
    Missing,
    Denied,
}

/// A topic that is asked about.
struct PendingTopic {
    may_appear_until: Instant,
    /// It was not found, or we are not allowed to know.
    absence: Option<fn() -> Answer>,
    /// Nothing was known of it, so events may wait for the answer.
    is_new: bool,
}

/// An existing topic whose settings are to be requested.
struct FoundTopic {
    topic: String,
    partitions: usize,
    answered_by: Option<i32>,
}

type Task<T> = Pin<Box<dyn Future<Output = T>>>;

pub(super) struct TopicLookup {
    admin: Arc<Admin>,
    pending: HashMap<String, PendingTopic>,
    /// Topics to be looked for.
    waiting: VecDeque<String>,
    looking: FuturesUnordered<Task<(String, Existence)>>,
    /// Topics to be looked for again in a moment.
    resting: FuturesUnordered<Task<String>>,
    found: VecDeque<FoundTopic>,
    describing: Option<Task<Vec<(String, Answer)>>>,
    answers: Vec<(String, Answer)>,
}

impl TopicLookup {
    pub(super) fn new(admin: Admin) -> Self {
        TopicLookup {
            admin: Arc::new(admin),
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            looking: FuturesUnordered::new(),
            resting: FuturesUnordered::new(),
            found: VecDeque::new(),
            describing: None,
            answers: Vec::new(),
        }
    }

    /// The client that asks.
    pub(super) fn admin(&self) -> Arc<Admin> {
        Arc::clone(&self.admin)
    }

    /// Whether the brokers have not reported a cluster id.
    pub(super) fn is_cluster_unnamed(&self) -> bool {
        self.admin.inner().fetch_cluster_id(Duration::ZERO).is_none()
    }

    /// How many topics are asked about.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Asks about a topic, unless a question about it is pending.
    pub(super) fn ask(&mut self, topic: &str, patience: Duration, is_new: bool) {
        if let Some(pending) = self.pending.get_mut(topic) {
            pending.is_new |= is_new;
            return;
        }
        let may_appear_until = Instant::now() + patience;
        self.pending
            .insert(topic.to_owned(), PendingTopic { may_appear_until, absence: None, is_new });
        self.waiting.push_back(topic.to_owned());
        self.start();
    }

    /// Ends the patience with new topics that were not found.
    pub(super) fn hurry(&mut self) {
        let is_absent = |pending: &PendingTopic| pending.is_new && pending.absence.is_some();
        if self.pending.values().any(is_absent) {
            for (topic, pending) in self.pending.extract_if(|_, pending| is_absent(pending)) {
                self.answers.extend(pending.absence.map(|answer| (topic, answer())));
            }
        }
    }

    /// Waits for answers. Cancel safe: pending questions are kept.
    pub(super) async fn next_answers(&mut self) -> Vec<(String, Answer)> {
        loop {
            self.start();
            if !self.answers.is_empty() {
                return std::mem::take(&mut self.answers);
            }
            tokio::select! {
                Some((topic, existence)) = self.looking.next() => self.apply_existence(topic, existence),
                Some(topic) = self.resting.next() => {
                    if self.pending.contains_key(&topic) {
                        self.waiting.push_back(topic);
                    }
                }
                described = result_of(&mut self.describing) => {
                    self.describing = None;
                    for (topic, answer) in described {
                        self.finish(topic, answer);
                    }
                }
                else => return std::future::pending().await,
            }
        }
    }

    fn start(&mut self) {
        while self.looking.len() < LOOKUPS_MAX
            && let Some(topic) = self.waiting.pop_front()
        {
            self.looking.push(Box::pin(look_for(Arc::clone(&self.admin), topic)));
        }
        if self.describing.is_none() && !self.found.is_empty() {
            let count = self.found.len().min(DESCRIBED_MAX);
            let found = self.found.drain(..count).collect();
            self.describing = Some(Box::pin(describe(Arc::clone(&self.admin), found)));
        }
    }

    fn apply_existence(&mut self, topic: String, existence: Existence) {
        match existence {
            Existence::NoBroker => self.finish(topic, Answer::NoBroker),
            Existence::Exists { partitions, answered_by } => {
                self.found.push_back(FoundTopic { topic, partitions, answered_by });
            }
            Existence::Missing => self.finish_or_retry(topic, || Answer::Missing),
            Existence::Denied => self.finish_or_retry(topic, || Answer::Denied),
        }
    }

    fn finish_or_retry(&mut self, topic: String, answer: fn() -> Answer) {
        let Some(pending) = self.pending.get_mut(&topic) else { return };
        if Instant::now() >= pending.may_appear_until {
            return self.finish(topic, answer());
        }
        pending.absence = Some(answer);
        self.resting.push(Box::pin(async move {
            sleep(CREATION_POLL).await;
            topic
        }));
    }

    fn finish(&mut self, topic: String, answer: Answer) {
        self.pending.remove(&topic);
        self.answers.push((topic, answer));
    }
}

async fn result_of<T>(task: &mut Option<Task<T>>) -> T {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// If the brokers create topics automatically, this question does it.
async fn look_for(admin: Arc<Admin>, topic: String) -> (String, Existence) {
    let name = topic.clone();
    let metadata =
        tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(Some(&name), ASK_TIMEOUT));
    let existence = match metadata.await {
        Ok(Ok(metadata)) => existence(&metadata, &topic),
        Ok(Err(_)) | Err(_) => {
            sleep(ASK_AGAIN).await;
            Existence::NoBroker
        }
    };
    (topic, existence)
}

fn existence(metadata: &Metadata, topic: &str) -> Existence {
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Existence::Missing;
    };
    match (found.error().map(Code::from), found.partitions().len()) {
        (Some(Code::TopicAuthorizationFailed), _) => Existence::Denied,
        (_, 0) => Existence::Missing,
        (_, partitions) => {
            // Any broker knows a topic's settings; the one that has just answered is reachable. By
            // default librdkafka waits for the controller, forever if the metadata names one that
            // is not in the cluster.
            let answering = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
            let first = || metadata.brokers().first().map(|broker| broker.id());
            Existence::Exists { partitions, answered_by: answering.or_else(first) }
        }
    }
}

async fn describe(admin: Arc<Admin>, found: Vec<FoundTopic>) -> Vec<(String, Answer)> {
    let answered_by = found.first().and_then(|it| it.answered_by);
    let options = AdminOptions::new().request_timeout(Some(ASK_TIMEOUT)).broker_id(answered_by);
    let topics: Vec<_> = found.iter().map(|it| ResourceSpecifier::Topic(&it.topic)).collect();
    let answer = admin.describe_configs(&topics, &options).await;
    let (mut settings, error) = match answer {
        Ok(answers) => (by_topic(answers), None),
        Err(error) => (HashMap::new(), Some(error)),
    };
    let answer = |FoundTopic { topic, partitions, .. }: FoundTopic| {
        let described = settings.remove(&topic).ok_or_else(|| {
            // rdkafka does not pass on the error of a single resource; a resource without settings
            // had an error.
            error.clone().unwrap_or(KafkaError::AdminOp(Code::TopicAuthorizationFailed))
        });
        (topic, Answer::Exists(partitions, described))
    };
    found.into_iter().map(answer).collect()
}

fn by_topic(answers: Vec<rdkafka::admin::ConfigResourceResult>) -> HashMap<String, ConfigResource> {
    let answers = answers.into_iter().flatten().filter(|it| !it.entries.is_empty());
    let named = answers.filter_map(|it| match &it.specifier {
        rdkafka::admin::OwnedResourceSpecifier::Topic(name) => Some((name.clone(), it)),
        _ => None,
    });
    named.collect()
}
