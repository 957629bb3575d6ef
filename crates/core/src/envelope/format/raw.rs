//! The payload, byte for byte.

use std::borrow::Cow;

use super::Encoded;
use crate::event::Event;

pub(super) fn encode<'a>(event: &'a Event<'_>) -> Encoded<'a> {
    Encoded {
        value: event.payload.as_deref().map(Cow::Borrowed),
        content_type: event.content_type.as_deref().map(Cow::Borrowed),
        headers: Vec::new(),
    }
}
