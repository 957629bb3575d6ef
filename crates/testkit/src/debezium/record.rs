//! What becomes of each row: a record, or the end of Debezium's task; and the files in which that is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::Case;
use super::unstable;
use crate::consumer::Received;

/// What became of the rows of a case, in their order.
pub type Recorded = Vec<Outcome>;

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    Published(Published),
    Stopped(Stopped),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub id: String,
    pub topic: String,
    /// None if it is another one each time, because the record has no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    pub key: Bytes,
    pub value: Bytes,
    pub headers: Vec<(String, Bytes)>,
    /// None if it is another one each time: the time of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// Debezium publishes neither this row nor any later one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    pub id: String,
    /// The class of the exception at the root.
    pub stops: String,
}

/// Text where they are text, so that people can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    Null,
    Text(String),
    Binary { hex: String },
}

impl From<Option<&[u8]>> for Bytes {
    fn from(bytes: Option<&[u8]>) -> Bytes {
        let Some(bytes) = bytes else { return Bytes::Null };
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.to_owned()),
            Err(_) => {
                Bytes::Binary { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
            }
        }
    }
}

impl Published {
    /// Without what is another one each time.
    #[track_caller]
    pub fn of(record: &Received, case: &Case) -> Published {
        let id = event_id(record);
        let step = case.steps.iter().find(|step| step.id.as_deref() == Some(&id));
        let step = step.unwrap_or_else(|| panic!("{}: no row has the id {id}", case.full_name()));
        let headers = record.headers.iter().map(|(name, value)| {
            let value = unstable::header(name, value.as_deref(), step);
            (name.clone(), value.as_deref().into())
        });
        Published {
            topic: record.topic.clone(),
            partition: unstable::partition(record, case),
            key: record.key.as_deref().into(),
            value: unstable::value(record.value.as_deref(), case).as_deref().into(),
            headers: headers.collect(),
            timestamp: unstable::timestamp_ms(record, case),
            id,
        }
    }
}

/// The header `id`, whatever its converter was.
#[track_caller]
pub fn event_id(record: &Received) -> String {
    let header = record.id();
    match serde_json::from_str(header) {
        Ok(Value::String(id)) => id,
        Ok(Value::Object(fields)) => match &fields["payload"] {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        },
        _ => header.to_owned(),
    }
}

impl Outcome {
    pub fn id(&self) -> &str {
        match self {
            Outcome::Published(record) => &record.id,
            Outcome::Stopped(stopped) => &stopped.id,
        }
    }

    pub fn published(&self) -> Option<&Published> {
        match self {
            Outcome::Published(record) => Some(record),
            Outcome::Stopped(_) => None,
        }
    }
}

/// The topics that records are in.
pub fn topics(recorded: &Recorded) -> Vec<String> {
    let records = recorded.iter().filter_map(Outcome::published);
    let topics: BTreeSet<_> = records.map(|record| record.topic.clone()).collect();
    topics.into_iter().collect()
}

/// What is in a file: the name of each configuration, and what became of its rows.
pub type RecordedFile = BTreeMap<String, Recorded>;

/// `None` if there is no such file.
#[track_caller]
pub fn read(path: &Path) -> Option<RecordedFile> {
    let text = std::fs::read_to_string(path).ok()?;
    let parsed = serde_json::from_str(&text);
    Some(parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// One line for each row.
#[track_caller]
pub fn write(path: &Path, file: &RecordedFile) {
    let mut text = String::from("{");
    for (number, (name, outcomes)) in file.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(text, "{comma}\n  {}: [", Value::from(name.as_str())).unwrap();
        for (number, outcome) in outcomes.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let line = serde_json::to_string(outcome).unwrap();
            write!(text, "{comma}\n    {line}").unwrap();
        }
        text.push_str("\n  ]");
    }
    text.push_str("\n}\n");
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
