//! An event as an application writes it. No I/O.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value as Json;

use super::check;
use super::error::Invalid;
use super::trace;
use super::{Call, Value};

/// An event to be written to an outbox.
///
/// ```
/// # fn main() -> Result<(), postrider_outbox::Invalid> {
/// #[derive(serde::Serialize)]
/// struct Placed { order: i64 }
///
/// let event = postrider_outbox::Event::json("orders", &Placed { order: 17 })?
///     .ordering_key("customer-4")
///     .event_type("OrderPlaced")
///     .header("source", "shop");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an event is published only if it is enqueued"]
pub struct Event {
    topic: String,
    pub(super) payload: Payload,
    pub(super) idempotency_key: Option<String>,
    pub(super) ordering_key: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) headers: Headers,
    pub(super) traceparent: Option<String>,
    pub(super) event_type: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) partition: Option<i32>,
}

#[derive(Clone, PartialEq)]
pub(super) enum Payload {
    Json(String),
    Bytes(Vec<u8>),
    Tombstone,
}

/// Its size: a log must not contain payloads.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payload::Json(text) => write!(f, "{} bytes of JSON", text.len()),
            Payload::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Payload::Tombstone => f.write_str("a tombstone"),
        }
    }
}

impl Payload {
    pub(super) fn len(&self) -> usize {
        self.bytes().map_or(0, <[u8]>::len)
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Payload::Json(text) => Some(text.as_bytes()),
            Payload::Bytes(bytes) => Some(bytes),
            Payload::Tombstone => None,
        }
    }

    pub(super) fn json(&self) -> Option<&str> {
        match self {
            Payload::Json(text) => Some(text),
            Payload::Bytes(_) | Payload::Tombstone => None,
        }
    }
}

/// In the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Headers(pub(super) Vec<(String, Json)>);

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Event {
    fn new(topic: impl Into<String>, payload: Payload) -> Self {
        Event {
            topic: topic.into(),
            payload,
            idempotency_key: None,
            ordering_key: None,
            tenant: None,
            headers: Headers::default(),
            traceparent: None,
            event_type: None,
            content_type: None,
            partition: None,
        }
    }

    /// An event whose payload is JSON.
    ///
    /// # Errors
    /// If the payload can't be JSON, for example a map whose keys are not strings.
    pub fn json<P: Serialize + ?Sized>(
        topic: impl Into<String>,
        payload: &P,
    ) -> Result<Self, Invalid> {
        match serde_json::to_string(payload) {
            Ok(text) => Ok(Self::new(topic, Payload::Json(text))),
            // The error's own text could quote the payload.
            Err(_) => Err(Invalid::new(
                "payload",
                "can't be written as JSON",
                "check its implementation of Serialize",
            )),
        }
    }

    /// An event whose payload is published as it is. A column of JSON or text accepts only JSON or
    /// UTF-8.
    pub fn bytes(topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self::new(topic, Payload::Bytes(payload.into()))
    }

    /// An event without a payload, which makes a compacted topic forget its key.
    pub fn tombstone(topic: impl Into<String>) -> Self {
        Self::new(topic, Payload::Tombstone)
    }

    /// Makes the event unique within its topic, as long as its row is in the outbox: a second one
    /// with this key is not written. At most 512 bytes; without one a key is generated.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Events with the same ordering key keep their order. It is the key of the record.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Whose event it is; the header `tenant`.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// One more header of the record: strings are sent as they are, null as no value, and
    /// everything else as its JSON text.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.headers.0.push((name.into(), value.into()));
        self
    }

    /// The W3C trace context. With the feature `opentelemetry` it is the current one if this is not
    /// called.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// What kind of event it is; the header `type`.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// The media type of the payload; the header `content-type`.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// The Kafka partition; without one it follows from the record's key.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Checks the event, as [`enqueue`](super::enqueue) does first.
    ///
    /// ```
    /// use postrider_outbox::Event;
    ///
    /// assert!(Event::tombstone("orders").validate().is_ok());
    /// let error = Event::tombstone("two words").validate().unwrap_err();
    /// assert!(error.to_string().contains("topic"), "{error}");
    /// ```
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.check(false)
    }

    pub(super) fn check(&self, tenant_keys: bool) -> Result<(), Invalid> {
        check::event(self, tenant_keys)
    }

    /// Its own trace context, or the current one.
    pub(super) fn trace(&self) -> Option<Cow<'_, str>> {
        match &self.traceparent {
            Some(own) => Some(Cow::Borrowed(own)),
            None => trace::current().map(Cow::Owned),
        }
    }

    /// As a JSON object.
    pub(super) fn headers_json(&self) -> Option<String> {
        if self.headers.0.is_empty() { None } else { serde_json::to_string(&self.headers).ok() }
    }

    pub(super) fn call_enqueue<'a>(
        &'a self,
        table: &'a str,
        trace: &'a Option<Cow<'_, str>>,
    ) -> Call<'a> {
        let mut call = self.call(["enqueue", "enqueue_bytes"], trace);
        call.argument("outbox", "text::regclass", Value::Text(Some(Cow::Borrowed(table))));
        call
    }

    pub(super) fn call_enqueue_new<'a>(
        &'a self,
        table: &'a str,
        trace: &'a Option<Cow<'_, str>>,
    ) -> Call<'a> {
        let mut call = self.call(["enqueue_new", "enqueue_new_bytes"], trace);
        call.argument("outbox", "text::regclass", Value::Text(Some(Cow::Borrowed(table))));
        call.telling()
    }

    pub(super) fn call_emit<'a>(&'a self, trace: &'a Option<Cow<'_, str>>) -> Call<'a> {
        self.call(["emit", "emit_bytes"], trace)
    }

    /// Arguments that are not given are left to the function's defaults.
    fn call<'a>(
        &'a self,
        [for_json, for_bytes]: [&'static str; 2],
        trace: &'a Option<Cow<'_, str>>,
    ) -> Call<'a> {
        let mut call = match &self.payload {
            Payload::Bytes(bytes) => {
                let mut call = Call::new(for_bytes);
                call.argument("payload", "bytea", Value::Bytes(Some(bytes)));
                call
            }
            payload => {
                let mut call = Call::new(for_json);
                let json = payload.json().map(Cow::Borrowed);
                call.argument("payload", "text::json", Value::Text(json));
                call
            }
        };
        call.text("topic", "text", Some(&self.topic));
        call.text("idempotency_key", "text", self.idempotency_key.as_deref());
        call.text("ordering_key", "text", self.ordering_key.as_deref());
        call.text("tenant", "text", self.tenant.as_deref());
        if let Some(headers) = self.headers_json() {
            call.argument("headers", "text::json", Value::Text(Some(Cow::Owned(headers))));
        }
        call.text("traceparent", "text", trace.as_deref());
        call.text("type", "text", self.event_type.as_deref());
        call.text("content_type", "text", self.content_type.as_deref());
        if let Some(partition) = self.partition {
            call.argument("partition", "int", Value::Int(partition));
        }
        call
    }
}
