//! What goes to the broker.

use std::borrow::Cow;
use std::time::Duration;

use super::SchemaNeed;
use crate::order::OrderedBy;
use crate::row::RowFault;

/// A finished record, borrowed from its event where possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition, if the row asks for one; else the key decides.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// What decides the partition in place of the key.
    pub partition_by: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// The headers, in order.
    pub headers: Vec<Header<'a>>,
    /// Milliseconds of the Unix epoch.
    pub timestamp_ms: i64,
    /// The schema that has to be looked up and added before it can be sent.
    pub schema: Option<SchemaNeed<'a>>,
    /// It gets the header `committed-at` if its timestamp has to differ from the time of its commit.
    pub adds_committed_at: bool,
    /// What it keeps its order by.
    pub ordered_by: OrderedBy,
    /// The present time, to be tried if the broker refuses that timestamp.
    pub fallback_timestamp_ms: i64,
}

/// A record header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header<'a> {
    /// Its name, without NUL.
    pub name: Cow<'a, str>,
    /// Its value.
    pub value: Option<Cow<'a, [u8]>>,
}

/// What is known of a topic before anything is sent to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// The largest batch it accepts (`max.message.bytes`); None if the broker does not report it,
    /// or if compression makes the size on the wire unknown beforehand.
    pub batch_bytes_max: Option<usize>,
    /// How old a record's timestamp may be without the record being refused or deleted at once.
    pub stamp_age_max: Duration,
    /// For how long such a record may wait for its acknowledgement before its timestamp is too old.
    pub unacknowledged_max: Duration,
}

impl Destination {
    /// A topic of which half the allowed age may be used up by waiting.
    pub fn new(batch_bytes_max: Option<usize>, stamp_age_max: Duration) -> Self {
        let unacknowledged_max = stamp_age_max / 2;
        Destination { batch_bytes_max, stamp_age_max, unacknowledged_max }
    }
}

/// Bytes of a batch (format v2) around its only record.
const BATCH_OVERHEAD_BYTES: usize = 61;

impl Record<'_> {
    /// A record that its topic is known not to accept is a fault.
    pub fn check_size(&self, destination: &Destination) -> Result<(), RowFault> {
        let bytes = self.batch_bytes();
        match destination.batch_bytes_max {
            Some(limit) if bytes > limit => Err(RowFault::TooLarge { bytes, limit }),
            _ => Ok(()),
        }
    }

    /// Records with the same bytes here go to the same partition, and keep their order.
    pub fn partition_key(&self) -> Option<&[u8]> {
        self.partition_by.or(self.key)
    }

    /// Bytes of the value as it will be sent.
    fn value_bytes(&self) -> Option<usize> {
        let frame = self.schema.as_ref().map_or(0, SchemaNeed::value_bytes);
        self.value.as_ref().map(|value| value.len() + frame)
    }

    /// How many headers will be sent, and a sum over them: of what `bytes` makes of the length of
    /// each name and value.
    fn headers_with(&self, bytes: impl Fn(usize, Option<usize>) -> usize) -> (usize, usize) {
        let of = |it: &Header<'_>| bytes(it.name.len(), it.value.as_ref().map(|value| value.len()));
        let sum: usize = self.headers.iter().map(of).sum();
        match self.schema.as_ref().and_then(SchemaNeed::header_bytes) {
            None => (self.headers.len(), sum),
            Some((name, value)) => (self.headers.len() + 1, sum + bytes(name, Some(value))),
        }
    }

    /// Bytes of the record's own content: what it takes in memory while it is in flight.
    pub fn content_bytes(&self) -> usize {
        let (_, headers) = self.headers_with(|name, value| name + value.unwrap_or_default());
        self.key.map_or(0, <[u8]>::len) + self.value_bytes().unwrap_or_default() + headers
    }

    /// Bytes of an uncompressed batch with this record alone: what brokers compare with
    /// `max.message.bytes`. (The record format v2 of Kafka's "Message Format" page.)
    pub fn batch_bytes(&self) -> usize {
        let sized = |bytes: Option<usize>| bytes.map_or(1, |len| varint_bytes(len) + len);
        let (count, headers) = self.headers_with(|name, value| sized(Some(name)) + sized(value));
        // attributes, timestamp delta 0 and offset delta 0 take a byte each
        let body = 3
            + sized(self.key.map(<[u8]>::len))
            + sized(self.value_bytes())
            + varint_bytes(count)
            + headers;
        BATCH_OVERHEAD_BYTES + varint_bytes(body) + body
    }
}

/// Bytes of a zigzag varint of a number that is not negative.
fn varint_bytes(number: usize) -> usize {
    let bits = usize::BITS - number.leading_zeros() + 1;
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_the_length_of_the_encoding() {
        for (number, bytes) in [(0, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), (1 << 20, 4)] {
            assert_eq!(varint_bytes(number), bytes, "{number}");
        }
    }
}
