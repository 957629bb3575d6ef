//! `outbox_enqueue_total{topic,result}`: what became of the events in the statement that wrote
//! them. A transaction that is rolled back afterwards is counted too.

use super::{Error, Event};

pub(super) fn result<T>(topic: &str, result: Result<T, Error>) -> Result<T, Error> {
    add(topic, name(&result), 1);
    result
}

pub(super) fn results<T>(events: &[Event], result: Result<T, Error>) -> Result<T, Error> {
    // Batches tend to have one topic: consecutive events of one are counted at once.
    for run in events.chunk_by(|one, next| one.topic() == next.topic()) {
        if let Some(first) = run.first() {
            add(first.topic(), name(&result), run.len());
        }
    }
    result
}

fn name<T>(result: &Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "success",
        Err(Error::Invalid(_)) => "invalid",
        #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
        Err(_) => "failure",
    }
}

#[cfg(not(feature = "metrics"))]
fn add(_topic: &str, _result: &'static str, _events: usize) {}

#[cfg(feature = "metrics")]
use counter::add;

#[cfg(feature = "metrics")]
mod counter {
    use std::collections::HashSet;
    use std::sync::{Once, PoisonError, RwLock};

    const NAME: &str = "outbox_enqueue_total";
    /// Anybody can invent topics, and every label is a time series forever.
    const TOPIC_LABELS_MAX: usize = 200;
    const OTHER: &str = "other";

    static TOPICS: RwLock<Option<HashSet<String>>> = RwLock::new(None);

    pub(super) fn add(topic: &str, result: &'static str, events: usize) {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(|| {
            metrics::describe_counter!(NAME, "Events written to an outbox, by result");
        });
        let topic = if has_label(topic) { topic } else { OTHER };
        let counter = metrics::counter!(NAME, "topic" => topic.to_owned(), "result" => result);
        counter.increment(events as u64);
    }

    fn has_label(topic: &str) -> bool {
        let known = |topics: &Option<HashSet<String>>| {
            topics.as_ref().is_some_and(|topics| topics.contains(topic))
        };
        if known(&TOPICS.read().unwrap_or_else(PoisonError::into_inner)) {
            return true;
        }
        let mut topics = TOPICS.write().unwrap_or_else(PoisonError::into_inner);
        let topics = topics.get_or_insert_default();
        if topics.len() < TOPIC_LABELS_MAX {
            topics.insert(topic.to_owned());
        }
        topics.contains(topic)
    }
}
