//! CloudEvents 1.0 in the binary mode of the Kafka binding: the payload is the value, and the
//! attributes are headers that begin with `ce_`.

use std::borrow::Cow;

use super::Encoded;
use super::cloudevents::attributes;
use super::data::JSON;
use crate::envelope::Header;
use crate::event::{Content, Event};
use crate::row::RowFault;

pub(super) fn encode<'a>(event: &'a Event<'_>) -> Result<Encoded<'a>, RowFault> {
    let attributes = attributes(event)?.into_iter();
    let headers = attributes.map(|(name, value)| Header {
        name: Cow::Borrowed(name),
        value: Some(match value {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }),
    });
    let is_json = event.content == Content::Json;
    let content_type = event.content_type.as_deref().or(is_json.then_some(JSON));
    Ok(Encoded {
        value: event.payload.as_deref().map(Cow::Borrowed),
        content_type: content_type.map(Cow::Borrowed),
        headers: headers.collect(),
    })
}
