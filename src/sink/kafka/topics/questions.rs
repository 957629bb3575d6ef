//! Questions about topics: many at a time, and none that delays anything else.
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
const LOOKS_MAX: usize = 16;
/// Topics whose settings are asked for in one request.
const DESCRIBED_MAX: usize = 200;

pub(in crate::sink::kafka) type Admin = AdminClient<ClientLog>;

/// What is known of one topic's settings.
pub(super) type Settings = Result<ConfigResource, KafkaError>;

/// What the brokers answer about a topic.
pub(super) enum Answer {
    /// No broker has answered.
    Nobody,
    /// It has this many partitions, and these settings.
    There(usize, Settings),
    Missing,
    /// We are not allowed to know.
    Denied,
}

/// Whether a topic exists, according to one broker.
enum Look {
    Nobody,
    There { partitions: usize, told_by: Option<i32> },
    Missing,
    Denied,
}

/// A topic that is asked about.
struct Asked {
    /// Until when it may appear.
    until: Instant,
    /// It was not found, or we are not allowed to know.
    absent: Option<fn() -> Answer>,
    /// Nothing was known of it, so events may wait for the answer.
    is_new: bool,
}

/// An existing topic whose settings are to be requested.
struct Found {
    topic: String,
    partitions: usize,
    told_by: Option<i32>,
}

type Task<T> = Pin<Box<dyn Future<Output = T>>>;

pub(super) struct Questions {
    admin: Arc<Admin>,
    asked: HashMap<String, Asked>,
    /// Topics to be looked for.
    waiting: VecDeque<String>,
    looking: FuturesUnordered<Task<(String, Look)>>,
    /// Topics to be looked for again in a moment.
    resting: FuturesUnordered<Task<String>>,
    found: VecDeque<Found>,
    describing: Option<Task<Vec<(String, Answer)>>>,
    answers: Vec<(String, Answer)>,
}

impl Questions {
    pub(super) fn new(admin: Admin) -> Self {
        Questions {
            admin: Arc::new(admin),
            asked: HashMap::new(),
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
        self.asked.len()
    }

    /// Asks about a topic, unless a question about it is pending.
    pub(super) fn ask(&mut self, topic: &str, patience: Duration, is_new: bool) {
        if let Some(asked) = self.asked.get_mut(topic) {
            asked.is_new |= is_new;
            return;
        }
        let until = Instant::now() + patience;
        self.asked.insert(topic.to_owned(), Asked { until, absent: None, is_new });
        self.waiting.push_back(topic.to_owned());
        self.start();
    }

    /// Ends the patience with new topics that were not found.
    pub(super) fn hurry(&mut self) {
        let is_absent = |asked: &Asked| asked.is_new && asked.absent.is_some();
        if self.asked.values().any(is_absent) {
            for (topic, asked) in self.asked.extract_if(|_, asked| is_absent(asked)) {
                self.answers.extend(asked.absent.map(|answer| (topic, answer())));
            }
        }
    }

    /// Waits for answers. Cancel safe: pending questions are kept.
    pub(super) async fn answers(&mut self) -> Vec<(String, Answer)> {
        loop {
            self.start();
            if !self.answers.is_empty() {
                return std::mem::take(&mut self.answers);
            }
            tokio::select! {
                Some((topic, look)) = self.looking.next() => self.looked(topic, look),
                Some(topic) = self.resting.next() => {
                    if self.asked.contains_key(&topic) {
                        self.waiting.push_back(topic);
                    }
                }
                described = finished(&mut self.describing) => {
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
        while self.looking.len() < LOOKS_MAX
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

    fn looked(&mut self, topic: String, look: Look) {
        match look {
            Look::Nobody => self.finish(topic, Answer::Nobody),
            Look::There { partitions, told_by } => {
                self.found.push_back(Found { topic, partitions, told_by });
            }
            Look::Missing => self.absent(topic, || Answer::Missing),
            Look::Denied => self.absent(topic, || Answer::Denied),
        }
    }

    fn absent(&mut self, topic: String, answer: fn() -> Answer) {
        let Some(asked) = self.asked.get_mut(&topic) else { return };
        if Instant::now() >= asked.until {
            return self.finish(topic, answer());
        }
        asked.absent = Some(answer);
        self.resting.push(Box::pin(async move {
            sleep(CREATION_POLL).await;
            topic
        }));
    }

    fn finish(&mut self, topic: String, answer: Answer) {
        self.asked.remove(&topic);
        self.answers.push((topic, answer));
    }
}

async fn finished<T>(task: &mut Option<Task<T>>) -> T {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// If the brokers create topics automatically, this question does it.
async fn look_for(admin: Arc<Admin>, topic: String) -> (String, Look) {
    let name = topic.clone();
    let metadata =
        tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(Some(&name), ASK_TIMEOUT));
    let look = match metadata.await {
        Ok(Ok(metadata)) => look(&metadata, &topic),
        Ok(Err(_)) | Err(_) => {
            sleep(ASK_AGAIN).await;
            Look::Nobody
        }
    };
    (topic, look)
}

fn look(metadata: &Metadata, topic: &str) -> Look {
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Look::Missing;
    };
    match (found.error().map(Code::from), found.partitions().len()) {
        (Some(Code::TopicAuthorizationFailed), _) => Look::Denied,
        (_, 0) => Look::Missing,
        (_, partitions) => {
            // Any broker knows a topic's settings; the one that has just answered is reachable. By
            // default librdkafka waits for the controller, forever if the metadata names one that
            // is not in the cluster.
            let answering = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
            let first = || metadata.brokers().first().map(|broker| broker.id());
            Look::There { partitions, told_by: answering.or_else(first) }
        }
    }
}

async fn describe(admin: Arc<Admin>, found: Vec<Found>) -> Vec<(String, Answer)> {
    let told_by = found.first().and_then(|it| it.told_by);
    let options = AdminOptions::new().request_timeout(Some(ASK_TIMEOUT)).broker_id(told_by);
    let topics: Vec<_> = found.iter().map(|it| ResourceSpecifier::Topic(&it.topic)).collect();
    let answer = admin.describe_configs(&topics, &options).await;
    let (mut settings, error) = match answer {
        Ok(answers) => (by_topic(answers), None),
        Err(error) => (HashMap::new(), Some(error)),
    };
    let answer = |Found { topic, partitions, .. }: Found| {
        let told = settings.remove(&topic).ok_or_else(|| {
            // rdkafka does not pass on the error of a single resource; a resource without settings
            // had an error.
            error.clone().unwrap_or(KafkaError::AdminOp(Code::TopicAuthorizationFailed))
        });
        (topic, Answer::There(partitions, told))
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
