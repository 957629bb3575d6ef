//! What a record's value is: what `[format]` means for one table. The encoders are in
//! [`envelope`](crate::envelope). No I/O.

use std::collections::BTreeMap;

use crate::route::Template;
use crate::row::Column;

/// How the events of one table are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// What a record's value is.
    pub value: ValueFormat,
    /// The CloudEvents attribute `type`.
    pub event_type: Template,
    /// The CloudEvents attribute `source`; those formats need it.
    pub source: Option<Template>,
    /// Whether and how the value refers to its schema.
    pub schema: Option<SchemaRules>,
}

/// What a record's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFormat {
    /// The payload, byte for byte.
    Raw,
    /// A JSON object with the event in it.
    Json,
    /// `postrider.v1.Envelope`.
    Protobuf,
    /// The payload; the event's attributes are headers, as CloudEvents names them.
    CloudEventsBinary,
    /// A CloudEvent as JSON.
    CloudEventsStructured,
}

impl ValueFormat {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Raw,
        Self::Json,
        Self::Protobuf,
        Self::CloudEventsBinary,
        Self::CloudEventsStructured,
    ];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Json => "json",
            Self::Protobuf => "protobuf",
            Self::CloudEventsBinary => "cloudevents-binary",
            Self::CloudEventsStructured => "cloudevents-structured",
        }
    }

    /// Whether the record is a CloudEvent.
    pub fn is_cloud_event(self) -> bool {
        matches!(self, Self::CloudEventsBinary | Self::CloudEventsStructured)
    }
}

/// The headers that say what a CloudEvent is, where its value does not.
pub const CLOUD_EVENT_HEADERS: [&str; 8] = [
    "ce_specversion",
    "ce_id",
    "ce_source",
    "ce_type",
    "ce_time",
    "ce_partitionkey",
    "ce_traceparent",
    "ce_tenant",
];

/// How values refer to their schema, so that consumers of a schema registry can read them. The
/// first that is known is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaRules {
    /// Ids by topic.
    pub topic_ids: BTreeMap<String, SchemaId>,
    /// The id, as a constant or from a column.
    pub id: Option<Template>,
    /// The subject whose newest schema the registry is asked for.
    pub subject: Option<Subject>,
    /// How the record carries it.
    pub frame: Frame,
}

/// Which subject of the registry an event's schema is registered under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The record's topic and `-value`.
    OfTopic,
    /// A text over the row's columns.
    Template(Template),
}

/// A schema's number in its registry.
pub type SchemaId = u32;

/// How a record carries its schema's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where.
    pub place: FramePlace,
    /// Which message of a protobuf schema the value is, encoded; empty: it is not protobuf.
    pub message_index: Vec<u8>,
}

/// Where a record carries its schema's id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FramePlace {
    /// Before the value: a zero byte, and the id in four bytes.
    #[default]
    Value,
    /// In a header: a byte that is 1, and the schema's GUID.
    Header,
}

impl Frame {
    /// Encodes a message index, `[1, 0]` for the first message inside the second. The first message
    /// of a schema has a short form.
    pub fn encode_index(path: &[u32]) -> Vec<u8> {
        if path == [0] {
            return vec![0];
        }
        let mut encoded = Vec::new();
        let length = u32::try_from(path.len()).unwrap_or(u32::MAX);
        for number in std::iter::once(&length).chain(path) {
            // A zigzag varint, as in Kafka's own format.
            let mut rest = u64::from(*number) << 1;
            while rest >= 0x80 {
                encoded.push((rest as u8 & 0x7F) | 0x80);
                rest >>= 7;
            }
            encoded.push(rest as u8);
        }
        encoded
    }
}

impl Default for Format {
    fn default() -> Self {
        Format::of(ValueFormat::Raw)
    }
}

impl Format {
    /// This format with its defaults.
    pub fn of(value: ValueFormat) -> Self {
        let event_type = Template::of_column(Column::Type);
        Format { value, event_type, source: None, schema: None }
    }

    /// Whether a record's value is the payload and nothing else.
    pub fn value_is_payload(&self) -> bool {
        matches!(self.value, ValueFormat::Raw | ValueFormat::CloudEventsBinary)
            && self.schema.as_ref().is_none_or(|it| it.frame.place == FramePlace::Header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples are those of the wire format's description.
    #[test]
    fn message_indexes_are_zigzag_varints_after_their_count() {
        assert_eq!(Frame::encode_index(&[0]), [0]);
        assert_eq!(Frame::encode_index(&[1, 0]), [4, 2, 0]);
        assert_eq!(Frame::encode_index(&[1]), [2, 2]);
        assert_eq!(Frame::encode_index(&[200]), [2, 0x90, 0x03]);
    }
}
