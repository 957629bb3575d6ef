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
use tokio::time::{Instant, sleep};

use super::requests::{Admin, Answer, Existence, FoundTopic, describe, look_for};

/// How often a missing topic is asked about again while its patience lasts.
const CREATION_POLL: Duration = Duration::from_millis(200);
/// Topics looked for at the same time; each occupies a thread.
const LOOKUPS_MAX: usize = 16;
/// Topics whose settings are asked for in one request.
const DESCRIBED_MAX: usize = 200;

/// A topic that is asked about.
struct PendingTopic {
    may_appear_until: Instant,
    /// It was not found, or we are not allowed to know.
    absence: Option<fn() -> Answer>,
    /// Nothing was known of it, so events may wait for the answer.
    is_new: bool,
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
