//! Where an event goes, and under which key and headers: what `[route]` means for one table. No
//! I/O.
//!
//! A route is compiled once, when the configuration is read; the columns that it names are resolved
//! per table, and located in a row by the table's layout.

mod headers;
mod key;
mod template;

use std::borrow::Cow;

pub use headers::{DefaultHeader, HeaderRule, HeaderRules};
pub use key::KeyList;

pub use crate::order::Key;
pub use template::{Piece, Template, TemplateError};

use crate::debezium::TopicRouter;
use crate::order::OrderKey;
use crate::row::{Column, Row, RowFault, Source, explicit_partition};

/// The route of one table's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The topic.
    pub topic: Template,
    /// What becomes of the topic's text, if that is not the topic itself.
    pub topic_router: Option<TopicRouter>,
    /// The record's key: the first of these that is not NULL.
    pub key: KeyList,
    /// What decides the partition in place of the key; empty: the key does.
    pub partition_by: KeyList,
    /// The record's headers.
    pub headers: HeaderRules,
    /// All events of a topic keep their order.
    pub whole_topic: bool,
}

impl Default for Route {
    fn default() -> Self {
        Route {
            topic: Template::of_column(Column::Topic),
            topic_router: None,
            key: KeyList::of_columns(&[Column::OrderingKey, Column::IdempotencyKey]),
            partition_by: KeyList::default(),
            headers: HeaderRules::default(),
            whole_topic: false,
        }
    }
}

impl Route {
    /// Whether the topic depends on our topic column.
    pub fn reads_topic(&self) -> bool {
        self.topic.columns().any(|column| *column == Source::Ours(Column::Topic))
    }

    /// The topic of a row's event; a name Kafka allows.
    pub fn topic<'a>(&self, row: &Row<'a>) -> Result<Cow<'a, str>, RowFault> {
        let topic = self.routed(row)?;
        if is_legal_topic(&topic) { Ok(topic) } else { Err(RowFault::IllegalTopic) }
    }

    fn routed<'a>(&self, row: &Row<'a>) -> Result<Cow<'a, str>, RowFault> {
        let text = self.topic.render(row)?;
        let Some(router) = &self.topic_router else { return Ok(text) };
        Ok(match text {
            Cow::Borrowed(text) => router.topic(text),
            Cow::Owned(text) => Cow::Owned(router.topic(&text).into_owned()),
        })
    }

    /// What the events that have to keep their order with this one have in common: what decides
    /// their partition, unless every event has a value of its own there.
    pub fn ordering_key<'a>(&self, row: &Row<'a>) -> Result<Option<Cow<'a, str>>, RowFault> {
        let by = self.partition_by.find(row)?;
        let by = if by.is_some() { by } else { self.key.find(row)? };
        Ok(by.filter(|found| !found.is_unique).map(|found| found.text))
    }

    /// What the row's event keeps its order with, if anything.
    pub fn order_key(&self, row: &Row<'_>) -> Result<Option<OrderKey>, RowFault> {
        let (topic, key) = (self.topic(row)?, self.ordering_key(row)?);
        let partition = explicit_partition(row)?;
        Ok(OrderKey::of(&topic, key.as_deref(), partition, self.whole_topic))
    }

    /// Its topic when something is wrong with it. An illegal name is not shown: an INSERT that
    /// mixed up its values could have put the payload there.
    pub fn topic_for_log(&self, row: &Row<'_>) -> String {
        match self.routed(row) {
            Ok(topic) if is_legal_topic(&topic) => topic.into_owned(),
            Ok(topic) => format!("(an illegal name of {} bytes)", topic.len()),
            Err(_) => "(none)".to_owned(),
        }
    }
}

/// Kafka's rule for topic names (`org.apache.kafka.common.internals.Topic`).
pub fn is_legal_topic(topic: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&topic.len()) && topic.bytes().all(legal) && topic != "." && topic != ".."
}

#[cfg(test)]
mod tests;
