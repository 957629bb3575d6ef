//! Which events keep their order with each other. No I/O.

use std::borrow::Cow;

/// Texts of an event that Postgres can't store are cut to this.
pub const STORABLE_CHARS_MAX: usize = 200;

/// A text in a form that every database stores: in ASCII, and cut. None if it has such a form.
pub fn storable(text: &str) -> Option<String> {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\'' | b'\\');
    let is_plain = text.len() <= STORABLE_CHARS_MAX && text.bytes().all(plain);
    (!is_plain).then(|| text.escape_default().take(STORABLE_CHARS_MAX).collect())
}

/// A value of a row that decides the order of its event.
#[derive(Debug, Clone)]
pub struct Key<'a> {
    /// As text.
    pub text: Cow<'a, str>,
    /// Every event has another one, so there is nothing to keep in order.
    pub is_unique: bool,
}

/// What a record keeps its order by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedBy {
    /// By its key: it has an ordering key, or nothing to be ordered by.
    Key,
    /// By its explicit partition: it has no ordering key.
    Partition,
    /// By its topic.
    Topic,
}

impl OrderedBy {
    /// The one place that decides.
    pub fn of(has_ordering_key: bool, has_partition: bool, whole_topic: bool) -> Self {
        match (whole_topic, has_ordering_key, has_partition) {
            (true, _, _) => OrderedBy::Topic,
            (false, false, true) => OrderedBy::Partition,
            (false, _, _) => OrderedBy::Key,
        }
    }
}

/// Events with the same one keep their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderKey {
    /// The topic.
    pub topic: String,
    /// Which events of the topic.
    pub within: Within,
}

/// Which events of a topic keep their order with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Within {
    /// Those of an ordering key.
    Key(String),
    /// Those without an ordering key that ask for this partition.
    Partition(i32),
    /// All.
    Topic,
}

impl OrderKey {
    /// What an event keeps its order with, if anything.
    pub fn of(
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
        whole_topic: bool,
    ) -> Option<Self> {
        let within = match OrderedBy::of(ordering_key.is_some(), partition.is_some(), whole_topic) {
            OrderedBy::Topic => Within::Topic,
            OrderedBy::Partition => Within::Partition(partition?),
            OrderedBy::Key => Within::Key(ordering_key?.to_owned()),
        };
        Some(OrderKey { topic: topic.to_owned(), within })
    }

    /// The key under which the side table has such events if Postgres can't store this one. None:
    /// this one can be stored in any case, as can the topic, if records can be sent to it.
    pub fn storable(&self) -> Option<Self> {
        let Within::Key(key) = &self.within else { return None };
        let within = Within::Key(storable(key)?);
        Some(OrderKey { topic: self.topic.clone(), within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordering_key_goes_before_a_partition_and_a_topic_before_both() {
        let within = |key, partition, whole_topic| {
            OrderKey::of("t", key, partition, whole_topic).map(|key| key.within)
        };
        assert_eq!(within(Some("k"), Some(3), false), Some(Within::Key("k".to_owned())));
        assert_eq!(within(None, Some(3), false), Some(Within::Partition(3)));
        assert_eq!(within(None, None, false), None);
        assert_eq!(within(Some("k"), Some(3), true), Some(Within::Topic));
        assert_eq!(within(None, None, true), Some(Within::Topic));
    }

    #[test]
    fn what_every_database_stores_is_stored_as_it_is() {
        for text in ["", "order-17", "a b/c:~"] {
            assert_eq!(storable(text), None, "{text}");
        }
        assert_eq!(storable("größe \"1\"").as_deref(), Some(r#"gr\u{f6}\u{df}e \"1\""#));
        assert_eq!(storable(&"x".repeat(300)), Some("x".repeat(STORABLE_CHARS_MAX)));
        let of = |key: Option<&str>| OrderKey::of("t", key, Some(1), false).unwrap().storable();
        assert_eq!(of(Some("中")), OrderKey::of("t", Some(r"\u{4e2d}"), Some(1), false));
        assert_eq!((of(Some("k")), of(None)), (None, None));
    }
}
