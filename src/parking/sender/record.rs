//! Turns a parked row into a record again. No I/O; the clock is an argument.

use std::borrow::Cow;

use super::{SendOptions, Timestamp};
use crate::parking::store::ParkedRow;
use postrider_core::clock::Clocks;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::envelope::{COMMITTED_AT_HEADER, Destination, Header, Record, stamp};
use postrider_core::parking::{Completeness, SchemaToFind};
use postrider_core::pgoutput::PgTime;

/// The header of events that were published by hand.
const REPLAYED_HEADER: &str = "replayed";

/// The record of a row for a topic with this destination, or why there is none.
pub(super) fn record<'a>(
    row: &'a ParkedRow,
    destination: &Destination,
    options: &SendOptions,
    now: Clocks,
) -> Result<Record<'a>, Refusal> {
    if row.completeness != Completeness::Whole {
        let detail = match row.completeness {
            Completeness::Reference => "the event's value is not in the side table",
            _ => "no record could be made of the event's row",
        };
        return Err(Refusal { reason: Reason::ValueMissing, detail: detail.to_owned() });
    }
    let age_max = match options.timestamp {
        Timestamp::Now => std::time::Duration::ZERO,
        Timestamp::Original => destination.stamp_age_max,
    };
    let commit_time = PgTime::from_unix_micros(row.commit_unix_micros);
    let stamp = stamp(commit_time, now, age_max);
    let mut headers = headers(&row.headers)?;
    let added = [
        (COMMITTED_AT_HEADER, stamp.committed_at.filter(|_| row.adds_committed_at)),
        (REPLAYED_HEADER, options.replayed.then(|| "true".to_owned())),
    ];
    for (name, value) in added {
        if let Some(value) = value {
            let value = Some(Cow::Owned(value.into_bytes()));
            headers.push(Header { name: Cow::Borrowed(name), value });
        }
    }
    let record = Record {
        topic: &row.topic,
        partition: row.partition,
        key: row.key.as_deref(),
        partition_by: row.partition_by.as_deref(),
        value: row.value.as_deref().map(Cow::Borrowed),
        headers,
        timestamp_ms: stamp.timestamp_ms,
        schema: row.schema.as_ref().filter(|_| row.value.is_some()).map(SchemaToFind::need),
        adds_committed_at: row.adds_committed_at,
        ordered_by: row.ordered_by(),
        fallback_timestamp_ms: stamp.fallback_timestamp_ms,
    };
    match record.check_size(destination) {
        Ok(()) => Ok(record),
        Err(fault) => Err(Refusal { reason: fault.reason(), detail: fault.to_string() }),
    }
}

/// Pairs of name and value. Somebody may have changed them by hand.
fn headers(json: &str) -> Result<Vec<Header<'_>>, Refusal> {
    let refused = |detail: &str| Refusal { reason: Reason::BadHeaders, detail: detail.to_owned() };
    let pairs: Vec<(String, Option<String>)> = serde_json::from_str(json)
        .map_err(|_| refused("the event's headers in the side table are not a list of pairs"))?;
    pairs
        .into_iter()
        .map(|(name, value)| {
            if name.contains('\0') {
                Err(refused("the name of a header has a NUL character"))
            } else {
                Ok(Header {
                    name: Cow::Owned(name),
                    value: value.map(|value| Cow::Owned(value.into_bytes())),
                })
            }
        })
        .collect()
}
