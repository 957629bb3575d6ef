//! Events in flight whose topic is not ready: the brokers are being asked about it, or it changes
//! lanes. They wait here, topic by topic, in the order of the log, while the events of other topics
//! continue.

use std::collections::{BTreeSet, HashMap, VecDeque};

use postrider_core::delivery::ReadyTopics;
use postrider_core::delivery::Ticket;

/// The events that wait, by topic.
#[derive(Debug, Default)]
pub(crate) struct TopicQueues {
    queues: HashMap<String, VecDeque<Ticket>>,
    events: usize,
    /// Topics that may be ready.
    due: BTreeSet<String>,
}

impl TopicQueues {
    /// How many events wait.
    pub(crate) fn len(&self) -> usize {
        self.events
    }

    /// The event that waits longest.
    pub(crate) fn oldest(&self) -> Option<Ticket> {
        self.queues.values().filter_map(|queue| queue.front()).min().copied()
    }

    /// Whether events of the topic wait: later ones have to wait too.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.events > 0 && self.queues.contains_key(topic)
    }

    /// An event waits, after those that are waiting already.
    pub(crate) fn push(&mut self, topic: &str, ticket: Ticket) {
        match self.queues.get_mut(topic) {
            Some(queue) => queue.push_back(ticket),
            None => drop(self.queues.insert(topic.to_owned(), VecDeque::from([ticket]))),
        }
        self.events += 1;
    }

    /// The sink has named topics that may be ready.
    pub(crate) fn mark_ready(&mut self, news: ReadyTopics) {
        match news.topics() {
            None => self.due = self.queues.keys().cloned().collect(),
            Some(topics) => {
                let waiting = topics.into_iter().filter(|topic| self.queues.contains_key(topic));
                self.due.extend(waiting);
            }
        }
    }

    /// The topics to be tried now.
    pub(crate) fn take_due(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.due)
    }

    /// The sink was busy: retry this topic in any case.
    pub(crate) fn try_again(&mut self, topic: &str) {
        self.due.insert(topic.to_owned());
    }

    /// The event of the topic that is next.
    pub(crate) fn front(&self, topic: &str) -> Option<Ticket> {
        self.queues.get(topic)?.front().copied()
    }

    /// That event no longer waits.
    pub(crate) fn pop(&mut self, topic: &str) {
        let Some(queue) = self.queues.get_mut(topic) else { return };
        self.events -= usize::from(queue.pop_front().is_some());
        if queue.is_empty() {
            self.queues.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_by_topic_in_their_order() {
        let mut queues = TopicQueues::default();
        for (topic, number) in [("a", 1), ("b", 2), ("a", 3)] {
            assert_eq!(queues.has(topic), number == 3);
            queues.push(topic, Ticket::from_number(number));
        }
        assert_eq!((queues.len(), queues.oldest()), (3, Some(Ticket::from_number(1))));
        assert_eq!(queues.front("a"), Some(Ticket::from_number(1)));
        queues.pop("a");
        assert_eq!(queues.front("a"), Some(Ticket::from_number(3)));
        queues.pop("a");
        queues.pop("a");
        assert!(!queues.has("a") && queues.has("b") && queues.len() == 1);
    }

    #[test]
    fn they_are_tried_when_there_is_news_of_their_topic() {
        let mut queues = TopicQueues::default();
        let due = |queues: &mut TopicQueues| Vec::from_iter(queues.take_due());
        for (topic, number) in [("a", 1), ("b", 2)] {
            queues.push(topic, Ticket::from_number(number));
        }
        assert!(due(&mut queues).is_empty());
        let mut news = ReadyTopics::default();
        news.push("a");
        news.push("unknown");
        queues.mark_ready(news);
        assert_eq!(due(&mut queues), ["a"]);
        assert!(due(&mut queues).is_empty(), "once");
        queues.try_again("b");
        assert_eq!(due(&mut queues), ["b"]);
        queues.mark_ready(ReadyTopics::all());
        assert_eq!(due(&mut queues), ["a", "b"]);
    }
}
