//! The attributes of CloudEvents 1.0, which both modes have in common.

use std::borrow::Cow;

use crate::envelope::rfc3339;
use crate::event::Event;
use crate::row::{Column, RowFault};

/// The version of the specification.
const SPEC_VERSION: &str = "1.0";
/// What headers put before an attribute's name.
const PREFIX: &str = "ce_";

/// An attribute, by the name of its header.
pub(super) type Attribute<'a> = (&'static str, Cow<'a, str>);

/// An attribute's name in JSON.
pub(super) fn json_name(header: &'static str) -> &'static str {
    header.strip_prefix(PREFIX).unwrap_or(header)
}

/// The attributes of an event: those that are required, then the time, then the extensions for the
/// record's key, for tracing, and for the tenant.
pub(super) fn attributes<'a>(event: &'a Event<'_>) -> Result<Vec<Attribute<'a>>, RowFault> {
    let id = event.idempotency_key.as_deref().or(event.id.as_deref());
    let id = id.ok_or(RowFault::Null(Column::IdempotencyKey))?;
    let missing = RowFault::CloudAttribute { attribute: "source", why: "is not configured" };
    let cloud = event.cloud.as_ref().ok_or(missing)?;
    let mut attributes: Vec<Attribute<'_>> = Vec::with_capacity(8);
    attributes.push(("ce_specversion", Cow::Borrowed(SPEC_VERSION)));
    attributes.push(("ce_id", Cow::Borrowed(id)));
    attributes.push(("ce_source", Cow::Borrowed(&cloud.source)));
    attributes.push(("ce_type", Cow::Borrowed(&cloud.event_type)));
    attributes.push(("ce_time", Cow::Owned(rfc3339(event.commit_time.unix_micros()))));
    let extensions = [
        ("ce_partitionkey", event.key.as_ref().map(|key| key.text.as_ref())),
        ("ce_traceparent", event.traceparent.as_deref()),
        ("ce_tenant", event.tenant.as_deref()),
    ];
    for (name, value) in extensions {
        // An attribute must not be empty; one that may be left out is.
        if let Some(value) = value.filter(|value: &&str| !value.is_empty()) {
            attributes.push((name, Cow::Borrowed(value)));
        }
    }
    for (name, value) in &attributes {
        check(json_name(name), value)?;
    }
    Ok(attributes)
}

/// What the specification demands of a string.
fn check(attribute: &'static str, value: &str) -> Result<(), RowFault> {
    if value.is_empty() {
        return Err(RowFault::CloudAttribute { attribute, why: "is empty" });
    }
    // Most attributes are plain.
    if value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    let is_noncharacter = |char: char| {
        let code = u32::from(char);
        code & 0xFFFE == 0xFFFE || (0xFDD0..=0xFDEF).contains(&code)
    };
    if value.contains(|char: char| char.is_control() || is_noncharacter(char)) {
        let why = "has a character that CloudEvents do not allow";
        return Err(RowFault::CloudAttribute { attribute, why });
    }
    Ok(())
}
