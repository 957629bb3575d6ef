//! A record that waits in the careful lane: a copy, because its source may be gone by the time it
//! is sent.

use std::time::Instant;

use postrider_core::envelope::{COMMITTED_AT_HEADER, Header, Record, rfc3339};
use postrider_core::order::OrderedBy;

pub(super) struct OwnedRecord {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) key: Option<Vec<u8>>,
    pub(super) partition_by: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: i64,
    pub(super) adds_committed_at: bool,
    pub(super) ordered_by: OrderedBy,
    /// The current time when it was accepted, in case the broker refuses its timestamp.
    pub(super) fallback_timestamp: Option<(i64, Instant)>,
    pub(super) batch_bytes: usize,
}

/// What records of one queue have in common if they keep their order with each other.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum OrderKey {
    Key(Vec<u8>),
    Partition,
    Topic,
}

impl OwnedRecord {
    pub(super) fn copy(record: &Record<'_>, partition: i32) -> Self {
        let headers = record.headers.iter();
        OwnedRecord {
            topic: record.topic.to_owned(),
            partition,
            key: record.key.map(<[u8]>::to_vec),
            partition_by: record.partition_by.map(<[u8]>::to_vec),
            value: record.value.as_ref().map(|value| value.to_vec()),
            headers: headers
                .map(|it| (it.name.to_string(), it.value.as_ref().map(|value| value.to_vec())))
                .collect(),
            timestamp_ms: record.timestamp_ms,
            adds_committed_at: record.adds_committed_at,
            ordered_by: record.ordered_by,
            fallback_timestamp: Some((record.fallback_timestamp_ms, Instant::now())),
            batch_bytes: record.batch_bytes(),
        }
    }

    fn partition_key(&self) -> Option<&[u8]> {
        self.partition_by.as_deref().or(self.key.as_deref())
    }

    /// Which records of its queue it keeps its order with; none: it has no order to keep.
    pub(super) fn order_key(&self) -> Option<OrderKey> {
        match self.ordered_by {
            OrderedBy::Key => self.partition_key().map(|key| OrderKey::Key(key.to_vec())),
            OrderedBy::Partition => Some(OrderKey::Partition),
            OrderedBy::Topic => Some(OrderKey::Topic),
        }
    }

    /// The same for two records of one queue, without a copy.
    pub(super) fn keeps_order_with(&self, other: &OwnedRecord) -> bool {
        self.ordered_by == other.ordered_by
            && match self.ordered_by {
                OrderedBy::Key => {
                    let key = self.partition_key();
                    key.is_some() && key == other.partition_key()
                }
                OrderedBy::Partition | OrderedBy::Topic => true,
            }
    }

    /// Sets the current time, once.
    pub(super) fn use_current_time(&mut self) {
        let Some((then_ms, at)) = self.fallback_timestamp.take() else { return };
        let elapsed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        if self.adds_committed_at
            && self.headers.iter().all(|(name, _)| name != COMMITTED_AT_HEADER)
        {
            let committed_at = rfc3339(self.timestamp_ms.saturating_mul(1000));
            self.headers.push((COMMITTED_AT_HEADER.to_owned(), Some(committed_at.into_bytes())));
        }
        self.timestamp_ms = then_ms.saturating_add(elapsed_ms);
    }

    pub(super) fn as_record(&self) -> Record<'_> {
        let headers = self.headers.iter();
        Record {
            topic: &self.topic,
            partition: Some(self.partition),
            key: self.key.as_deref(),
            partition_by: None,
            value: self.value.as_deref().map(Into::into),
            headers: headers
                .map(|(name, value)| Header {
                    name: name.into(),
                    value: value.as_deref().map(Into::into),
                })
                .collect(),
            timestamp_ms: self.timestamp_ms,
            schema: None,
            adds_committed_at: self.adds_committed_at,
            ordered_by: self.ordered_by,
            fallback_timestamp_ms: self.timestamp_ms,
        }
    }
}
