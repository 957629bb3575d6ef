//! What is known of subjects, and which of them the registry is asked about. A few at a time, and
//! none that delays another.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::answer::Answer;
use super::error::LookupError;
use super::known::{Known, Verdict, pauses, unaskable};
use crate::log_limit::LogLimit;
use crate::retry::RetryPause;
use postrider_core::delivery::{ReadyTopics, Reason, Refusal};
use postrider_core::envelope::{Schema, SchemaNeed};

/// Questions at the same time.
const QUESTIONS_MAX: usize = 4;
/// Subjects that are remembered; beyond that, those used longest ago are forgotten.
const SUBJECTS_MAX: usize = 10_000;
/// Schemas that are asked for again at the same time.
const REFRESHED_MAX: usize = 8;
/// A registry that has not answered for this long is in the way.
const SLOW_AFTER: Duration = Duration::from_secs(2);
/// The same problem is logged again after this long.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A question on its way: the subject, and the answer.
pub(super) type Asking = Pin<Box<dyn Future<Output = (String, Result<Answer, LookupError>)>>>;
/// Asks about a subject.
type Ask = Box<dyn Fn(String) -> Asking>;

/// What becomes of a record that needs a schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It can be sent.
    Schema(Schema),
    /// It can't, for a reason that can pass.
    Refused(Refusal),
    /// The registry is asked; its topic is named once there is an answer.
    Asked,
    /// The registry can't be asked now; its topic is named when it is worth another try.
    Unreachable,
}

pub(super) struct Subjects {
    /// The registry, for people.
    registry: String,
    ask: Ask,
    known: HashMap<String, Known>,
    known_max: usize,
    /// Records that needed a schema so far.
    uses: u64,
    /// Subjects that are asked about, or that wait for their turn, and since when.
    asked: HashMap<String, Instant>,
    queue: VecDeque<String>,
    asking: FuturesUnordered<Asking>,
    /// By subject, the topics with events that wait for it.
    waiting: HashMap<String, BTreeSet<String>>,
    /// When the topics that wait for a subject are worth another try.
    retries: BTreeSet<(Instant, String)>,
    ready: ReadyTopics,
    /// Nobody can be asked about anything before that.
    outage: Option<Outage>,
    log_limit: LogLimit,
    /// A problem was logged, and no answer since.
    has_logged: bool,
}

struct Outage {
    ask_at: Instant,
    pauses: RetryPause,
    text: String,
}

impl Subjects {
    pub(super) fn new(registry: String, ask: Ask) -> Self {
        Subjects {
            registry,
            ask,
            known: HashMap::new(),
            known_max: SUBJECTS_MAX,
            uses: 0,
            asked: HashMap::new(),
            queue: VecDeque::new(),
            asking: FuturesUnordered::new(),
            waiting: HashMap::new(),
            retries: BTreeSet::new(),
            ready: ReadyTopics::default(),
            outage: None,
            log_limit: LogLimit::changes(LOG_INTERVAL),
            has_logged: false,
        }
    }

    /// A limit that tests can reach.
    #[cfg(test)]
    pub(super) fn keep_at_most(&mut self, subjects: usize) {
        self.known_max = subjects;
    }

    /// What becomes of a record of this topic that needs a schema.
    pub(super) fn find(&mut self, need: &SchemaNeed<'_>, topic: &str) -> Found {
        let subject: &str = &need.subject;
        if let Some(why) = unaskable(subject) {
            return Found::Refused(missing(why));
        }
        let now = Instant::now();
        self.uses += 1;
        let verdict = self.known.get_mut(subject).map(|known| {
            known.last_use = self.uses;
            known.verdict(need, now)
        });
        match verdict {
            Some(Verdict::Send(schema, is_old)) => {
                let may_ask = self.asked.len() < REFRESHED_MAX;
                if is_old && may_ask && self.outage_until(now).is_none() {
                    self.ask(subject, now);
                }
                return Found::Schema(schema);
            }
            Some(Verdict::Park(why)) => return Found::Refused(missing(why)),
            Some(Verdict::WaitUntil(at)) => {
                self.wait_until(at, subject, topic);
                return Found::Unreachable;
            }
            Some(Verdict::Ask) | None => {}
        }
        if let Some(at) = self.outage_until(now) {
            self.wait_until(at, subject, topic);
            return Found::Unreachable;
        }
        self.ask(subject, now);
        self.wait(subject, topic);
        Found::Asked
    }

    fn outage_until(&self, now: Instant) -> Option<Instant> {
        self.outage.as_ref().map(|outage| outage.ask_at).filter(|at| now < *at)
    }

    fn ask(&mut self, subject: &str, now: Instant) {
        if !self.asked.contains_key(subject) {
            self.asked.insert(subject.to_owned(), now);
            self.queue.push_back(subject.to_owned());
        }
    }

    fn wait(&mut self, subject: &str, topic: &str) {
        match self.waiting.get_mut(subject) {
            Some(topics) if topics.contains(topic) => {}
            Some(topics) => drop(topics.insert(topic.to_owned())),
            None => {
                self.waiting.insert(subject.to_owned(), BTreeSet::from([topic.to_owned()]));
            }
        }
    }

    fn wait_until(&mut self, at: Instant, subject: &str, topic: &str) {
        self.wait(subject, topic);
        self.retries.insert((at, subject.to_owned()));
    }

    /// Whether nothing is asked, and nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.retries.is_empty()
    }

    /// The topics that had to wait and may be ready now.
    pub(super) fn ready_topics(&mut self) -> ReadyTopics {
        std::mem::take(&mut self.ready)
    }

    /// Nothing waits any more. What is known is kept.
    pub(super) fn abandon(&mut self) {
        self.asked.clear();
        self.queue.clear();
        self.asking.clear();
        self.waiting.clear();
        self.retries.clear();
        self.ready = ReadyTopics::default();
    }

    /// Waits for an answer, or until it is time to ask again. Cancel safe: questions are kept.
    pub(super) async fn next_event(&mut self) {
        self.start(Instant::now());
        let retry_at = self.retries.first().map(|(at, _)| *at);
        tokio::select! {
            Some((subject, answer)) = self.asking.next() => self.apply(subject, answer),
            () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                self.name_due();
            }
            else => std::future::pending().await,
        }
    }

    fn start(&mut self, now: Instant) {
        let outage_until = self.outage_until(now);
        while self.asking.len() < QUESTIONS_MAX
            && let Some(subject) = self.queue.pop_front()
        {
            match outage_until {
                None => self.asking.push((self.ask)(subject)),
                // The registry has become unreachable while it was in the queue.
                Some(at) => {
                    self.asked.remove(&subject);
                    if self.waiting.contains_key(&subject) {
                        self.retries.insert((at, subject));
                    }
                }
            }
        }
    }

    /// Names the topics that are worth another try.
    fn name_due(&mut self) {
        let now = Instant::now();
        while let Some((at, subject)) = self.retries.pop_first() {
            if at > now {
                self.retries.insert((at, subject));
                return;
            }
            self.name_topics(&subject);
        }
    }

    fn name_topics(&mut self, subject: &str) {
        for topic in self.waiting.remove(subject).unwrap_or_default() {
            self.ready.push(&topic);
        }
    }

    fn apply(&mut self, subject: String, answer: Result<Answer, LookupError>) {
        let now = Instant::now();
        self.asked.remove(&subject);
        let mut known = match answer {
            Ok(answer) => {
                self.note_answer();
                self.name_topics(&subject);
                Known::answered(answer, now)
            }
            Err(error) => {
                let not_before = self.note_failure(&error, now);
                let text = self.text(&error);
                let before = self.known.remove(&subject);
                let known = Known::failed(before, text, not_before, now);
                if self.waiting.contains_key(&subject) {
                    let ask_at = known.ask_at().unwrap_or(now);
                    self.retries.insert((ask_at, subject.clone()));
                }
                known
            }
        };
        known.last_use = self.uses;
        self.known.insert(subject, known);
        self.forget_unused();
    }

    /// The registry can be asked.
    fn note_answer(&mut self) {
        if std::mem::take(&mut self.has_logged) {
            tracing::info!(registry = self.registry, "the schema registry answers again");
        }
        if self.outage.take().is_some() {
            self.name_all();
        }
    }

    /// There is no usable answer; returns when anything may be asked again, if that concerns all.
    fn note_failure(&mut self, error: &LookupError, now: Instant) -> Option<Instant> {
        let text = self.text(error);
        if self.log_limit.allows(&text, now.into_std()) {
            self.has_logged = true;
            tracing::warn!(
                reason = text,
                "can't look up schemas; events whose schema is unknown wait"
            );
        }
        if !error.concerns_all() {
            if self.outage.take().is_some() {
                self.name_all();
            }
            return None;
        }
        let (ask_at, mut pauses) = match self.outage.take() {
            Some(outage) => (outage.ask_at, outage.pauses),
            None => (now, pauses()),
        };
        // Questions that were on their way at the same time fail together.
        let ask_at = if now < ask_at { ask_at } else { now + pauses.after_failure(Duration::ZERO) };
        self.outage = Some(Outage { ask_at, pauses, text });
        Some(ask_at)
    }

    /// The registry can be reached again: each subject may be asked about again when its own time
    /// has come.
    fn name_all(&mut self) {
        self.retries.clear();
        for (_, topics) in std::mem::take(&mut self.waiting) {
            topics.iter().for_each(|topic| self.ready.push(topic));
        }
    }

    /// If there are too many subjects, forgets the half that was used longest ago.
    fn forget_unused(&mut self) {
        if self.known.len() <= self.known_max {
            return;
        }
        let mut uses: Vec<u64> = self.known.values().map(|known| known.last_use).collect();
        let middle = uses.len() / 2;
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        self.known.retain(|_, known| known.last_use > median);
    }

    fn text(&self, error: &LookupError) -> String {
        let (registry, fix) = (&self.registry, error.fix());
        format!("the schema registry at {registry} can't be used: {error}; fix: {fix}")
    }

    /// What events wait for, if that is in the way.
    pub(super) fn obstacle(&self) -> Option<String> {
        let failures = self.waiting.keys().filter_map(|subject| {
            let known = self.known.get(subject)?;
            known.failure()
        });
        if let Some((_, text)) = failures.min() {
            return Some(text.to_owned());
        }
        if let Some(outage) = self.outage.as_ref().filter(|_| !self.waiting.is_empty()) {
            return Some(outage.text.clone());
        }
        let asked = self.waiting.keys().filter_map(|subject| self.asked.get(subject));
        let silence = asked.min()?.elapsed();
        (silence > SLOW_AFTER).then(|| {
            let (registry, seconds) = (&self.registry, silence.as_secs());
            format!("the schema registry at {registry} has not answered for {seconds} s")
        })
    }
}

fn missing(detail: String) -> Refusal {
    Refusal { reason: Reason::SchemaMissing, detail }
}

#[cfg(test)]
mod tests;
