//! How a record refers to its schema in a registry. The payload's own bytes are never touched.

use std::borrow::Cow;

use crate::envelope::{Header, Record};
use crate::format::{Frame, FramePlace, SchemaId};

/// The first byte of a value with an id, and of a header with a GUID.
const MAGIC_ID: u8 = 0;
const MAGIC_GUID: u8 = 1;
/// The header that consumers of schema registries look for.
const HEADER: &str = "__value_schema_id";
const GUID_BYTES: usize = 16;
const ID_BYTES: usize = 4;

/// A schema as the registry knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Its number.
    pub id: SchemaId,
    /// Its GUID; none: the registry has no GUIDs.
    pub guid: Option<[u8; GUID_BYTES]>,
}

/// A schema that has to be looked up before the record can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaNeed<'a> {
    /// The subject whose newest schema it is.
    pub subject: Cow<'a, str>,
    /// How the record is to carry it.
    pub frame: Cow<'a, Frame>,
}

impl SchemaNeed<'_> {
    /// Bytes that it adds to the value.
    pub(in crate::envelope) fn value_bytes(&self) -> usize {
        match self.frame.place {
            FramePlace::Value => 1 + ID_BYTES + self.frame.message_index.len(),
            FramePlace::Header => 0,
        }
    }

    /// Bytes of the header that it adds: of its name and its value.
    pub(in crate::envelope) fn header_bytes(&self) -> Option<(usize, usize)> {
        let bytes = 1 + GUID_BYTES + self.frame.message_index.len();
        (self.frame.place == FramePlace::Header).then_some((HEADER.len(), bytes))
    }
}

/// A value with its schema's id.
pub(in crate::envelope) fn frame(value: &[u8], id: SchemaId, frame: &Frame) -> Vec<u8> {
    let mut framed = Vec::with_capacity(1 + ID_BYTES + frame.message_index.len() + value.len());
    framed.push(MAGIC_ID);
    framed.extend_from_slice(&id.to_be_bytes());
    framed.extend_from_slice(&frame.message_index);
    framed.extend_from_slice(value);
    framed
}

impl Record<'_> {
    /// The record with the schema that it needed. None: it needs a GUID, and the registry has none.
    pub fn with_schema(&self, schema: &Schema) -> Option<Record<'_>> {
        let value = self.value.as_deref().map(Cow::Borrowed);
        let headers = self.headers.clone();
        let mut record = Record { value, headers, schema: None, ..*self };
        let Some(need) = &self.schema else { return Some(record) };
        match need.frame.place {
            FramePlace::Value => {
                let value = self.value.as_deref();
                record.value = value.map(|value| Cow::Owned(frame(value, schema.id, &need.frame)));
            }
            FramePlace::Header => {
                let mut value = vec![MAGIC_GUID];
                value.extend_from_slice(&schema.guid?);
                value.extend_from_slice(&need.frame.message_index);
                let value = Some(Cow::Owned(value));
                record.headers.push(Header { name: Cow::Borrowed(HEADER), value });
            }
        }
        Some(record)
    }
}
