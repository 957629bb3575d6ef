//! Two outcomes of a row: what is different, if anything is.

use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

use super::case::Case;
use super::record::{Bytes, Outcome, Published, Recorded};

/// A difference that stays, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// `payloads/string`
    pub case: String,
    /// None: all rows of the case.
    pub id: Option<String>,
    pub reason: String,
}

#[track_caller]
pub fn read_known_differences(path: &Path) -> Vec<KnownDifference> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl KnownDifference {
    pub fn covers(&self, difference: &Difference) -> bool {
        self.case == difference.case && self.id.as_ref().is_none_or(|id| *id == difference.id)
    }
}

/// What is different in one row.
#[derive(Clone, Debug)]
pub struct Difference {
    pub case: String,
    pub id: String,
    pub what: String,
}

/// What is different in what postrider has done; an error is its output where it has refused to.
pub fn judge(case: &Case, expected: &Recorded, found: Result<Recorded, String>) -> Vec<Difference> {
    match found {
        Ok(found) => differences(case, expected, &found),
        // It says at the start what Debezium says at each row.
        Err(_) if expected.iter().all(|it| matches!(it, Outcome::Stopped(_))) => Vec::new(),
        Err(output) => {
            let what = format!("refused: {}", output.trim());
            let ids = case.ids().into_iter().map(str::to_owned);
            ids.map(|id| Difference { case: case.full_name(), id, what: what.clone() }).collect()
        }
    }
}

/// All rows whose outcomes differ, in their order.
pub fn differences(case: &Case, expected: &Recorded, found: &Recorded) -> Vec<Difference> {
    let ids = case.ids().into_iter();
    ids.filter_map(|id| {
        let of = |outcomes: &Recorded| -> Vec<Outcome> {
            outcomes.iter().filter(|it| it.id() == id).cloned().collect()
        };
        let (expected, found) = (of(expected), of(found));
        let what = match found.len() {
            0 | 1 => difference(expected.first(), found.first())?,
            many => format!("published {many} times"),
        };
        Some(Difference { case: case.full_name(), id: id.to_owned(), what })
    })
    .collect()
}

fn difference(expected: Option<&Outcome>, found: Option<&Outcome>) -> Option<String> {
    match (expected, found) {
        (Some(Outcome::Published(expected)), Some(Outcome::Published(found))) => {
            records_differ(expected, found)
        }
        (Some(Outcome::Stopped(_)), Some(Outcome::Stopped(_))) | (None, None) => None,
        (expected, found) => Some(format!("{} instead of {}", told(found), told(expected))),
    }
}

fn told(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "nothing".to_owned(),
        Some(Outcome::Stopped(stopped)) => stopped.stops.clone(),
        Some(Outcome::Published(record)) => {
            format!("a record with the value {} in {}", shown(&record.value), record.topic)
        }
    }
}

fn records_differ(expected: &Published, found: &Published) -> Option<String> {
    let differs = |what: &str, expected: String, found: String| {
        (expected != found).then(|| format!("{what}: {found} instead of {expected}"))
    };
    let number =
        |number: Option<i64>| number.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let headers = |record: &Published| {
        let pairs = record.headers.iter();
        pairs.map(|(name, value)| format!("{name}={}", shown(value))).collect::<Vec<_>>().join(" ")
    };
    differs("topic", expected.topic.clone(), found.topic.clone())
        .or_else(|| differs("key", shown(&expected.key), shown(&found.key)))
        .or_else(|| differs("value", shown(&expected.value), shown(&found.value)))
        .or_else(|| differs("headers", headers(expected), headers(found)))
        .or_else(|| {
            let partition = |record: &Published| number(record.partition.map(i64::from));
            differs("partition", partition(expected), partition(found))
        })
        .or_else(|| differs("timestamp", number(expected.timestamp), number(found.timestamp)))
}

fn shown(bytes: &Bytes) -> String {
    match bytes {
        Bytes::Null => "null".to_owned(),
        Bytes::Text(text) => Value::from(text.as_str()).to_string(),
        Bytes::Binary { hex } => format!("0x{hex}"),
    }
}
