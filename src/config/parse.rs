//! Parses each value: from text to a value, or to an error with its fix. The caller adds where it
//! was typed.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytesize::ByteSize;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::checked::{LogFormat, Snapshot};
use super::in_flight::InFlightEvents;
use super::keys::{FORMAT_SCHEMA_IDS, Key, ROUTE_HEADERS};
use super::presets::Preset;
use super::secrets::{self, looks_secret};
use super::table_name::{NAME_BYTES_MAX, TableName, split_unquoted};
use postrider_core::format::{Frame, FramePlace, SchemaId, ValueFormat};

const SHUTDOWN_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
const IN_FLIGHT_EVENTS: RangeInclusive<usize> = 1..=1_000_000;
const IN_FLIGHT_BYTES: RangeInclusive<u64> = bytesize::KIB..=4 * bytesize::GIB;

/// <https://www.postgresql.org/docs/current/warm-standby.html#STREAMING-REPLICATION-SLOTS-MANIPULATION>
pub(super) fn slot(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match text.len() {
        1..=NAME_BYTES_MAX if text.chars().all(legal) => Ok(text.to_owned()),
        _ => {
            Err(format!("a slot's name has 1 to {NAME_BYTES_MAX} lower case letters, digits and _"))
        }
    }
}

pub(super) fn publication(text: &str) -> Result<String, String> {
    match text.len() {
        1..=NAME_BYTES_MAX if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(format!("a publication's name has 1 to {NAME_BYTES_MAX} bytes")),
    }
}

pub(super) fn environment(text: &str) -> Result<Option<String>, String> {
    match text.len() {
        0 => Ok(None),
        _ if text == "none" => Ok(None),
        1..=NAME_BYTES_MAX if !text.contains(char::is_control) => Ok(Some(text.to_owned())),
        _ => Err(format!("an environment's name has at most {NAME_BYTES_MAX} bytes, on one line")),
    }
}

pub(super) fn tables(text: &str) -> Result<Vec<TableName>, String> {
    let mut tables: Vec<TableName> = Vec::new();
    for part in split_unquoted(text, ',') {
        let table: TableName = part.parse().map_err(|error| {
            if part == text {
                format!("{error}")
            } else {
                format!("{}: {error}", secrets::part(format!("{part:?}"), text))
            }
        })?;
        if tables.contains(&table) {
            let table = secrets::part(table.to_string(), text);
            return Err(format!("{table} appears twice; name each table once"));
        }
        // Changes to tables of this schema are skipped, as postrider's own.
        if table.schema == "postrider" {
            return Err(format!(
                "{}: schema postrider is reserved; put the outbox into another schema",
                secrets::part(table.to_string(), text)
            ));
        }
        tables.push(table);
    }
    Ok(tables)
}

pub(super) fn preset(text: &str) -> Result<Preset, String> {
    Preset::ALL
        .into_iter()
        .find(|preset| preset.name() == text)
        .ok_or_else(|| "choose debezium, quarkus, open-outbox or none".to_owned())
}

pub(super) fn snapshot(text: &str) -> Result<Snapshot, String> {
    match text {
        "never" => Ok(Snapshot::Never),
        "initial" => Ok(Snapshot::Initial),
        _ => Err("choose never or initial".to_owned()),
    }
}

/// `topic=destination,payload="Odd, name"`: as they were typed, each once.
pub(super) fn pairs(key: &Key, text: &str) -> Result<Vec<(String, String)>, String> {
    let (what, example) = match key.path() {
        path if path == ROUTE_HEADERS.path() => ("header", "eventType={type},source=shop"),
        path if path == FORMAT_SCHEMA_IDS.path() => ("topic", "orders=7,payments=8"),
        _ => ("column", "topic=destination,payload=body"),
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in split_unquoted(text, ',') {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            let part = secrets::part(format!("{part:?}"), text);
            format!("{part}: write it as in {example}")
        })?;
        let name = name.trim();
        if pairs.iter().any(|(known, _)| known == name) {
            let name = secrets::part(name.to_owned(), text);
            return Err(format!("{name} appears twice; name each {what} once"));
        }
        pairs.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(pairs)
}

pub(super) fn brokers(text: &str) -> Result<String, String> {
    let brokers: Vec<&str> = text.split(',').map(str::trim).collect();
    for broker in &brokers {
        let port = broker.rsplit(']').next().and_then(|tail| tail.rsplit_once(':'));
        let bad_port = port.is_some_and(|(_, port)| port.parse::<u16>().is_err());
        // A user and a password belong in kafka.properties; here, librdkafka and the log would
        // treat them as part of a host.
        if broker.is_empty() || bad_port || broker.contains(|c: char| c.is_whitespace() || c == '@')
        {
            let broker = secrets::part(format!("{broker:?}"), text);
            return Err(format!("{broker} is not a broker; write host:port, as in localhost:9092"));
        }
    }
    Ok(brokers.join(","))
}

pub(super) fn value_format(text: &str) -> Result<ValueFormat, String> {
    let names = ValueFormat::ALL.map(ValueFormat::name);
    let format = ValueFormat::ALL.into_iter().find(|format| format.name() == text);
    format.ok_or_else(|| format!("choose {}", one_of(&names)))
}

/// `a, b or c`.
fn one_of(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        names => names.join(", "),
    }
}

pub(super) fn schema_id(text: &str) -> Result<SchemaId, String> {
    text.parse().map_err(|_| "a schema's id is a number".to_owned())
}

pub(super) fn schema_in(text: &str) -> Result<FramePlace, String> {
    match text {
        "value" => Ok(FramePlace::Value),
        "header" => Ok(FramePlace::Header),
        _ => Err("choose value or header".to_owned()),
    }
}

/// `1.0`: the first message inside the second.
pub(super) fn message_index(text: &str) -> Result<Vec<u8>, String> {
    const DEPTH_MAX: usize = 32;
    let path: Result<Vec<u32>, _> = text.split('.').map(|part| part.trim().parse()).collect();
    match path {
        Ok(path) if path.len() <= DEPTH_MAX => Ok(Frame::encode_index(&path)),
        _ => Err("write it as 0 for the first message of the schema, or 1.0 for the first one \
                  inside the second"
            .to_owned()),
    }
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "choose true or false".to_owned())
}

pub(super) fn shutdown_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration(text)?;
    if timeout <= SHUTDOWN_TIMEOUT_MAX { Ok(timeout) } else { Err("choose 1h or less".to_owned()) }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| {
        if looks_secret(text) {
            "not a duration; write it like 30s or 2m".to_owned()
        } else {
            format!("not a duration: {error}; write it like 30s or 2m")
        }
    })
}

pub(super) fn duration_within(
    text: &str,
    min: Duration,
    max: Duration,
) -> Result<Duration, String> {
    let duration = duration(text)?;
    if (min..=max).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!(
            "choose {} to {}",
            humantime::format_duration(min),
            humantime::format_duration(max)
        ))
    }
}

pub(super) fn in_flight_events(text: &str) -> Result<InFlightEvents, String> {
    match text {
        "auto" => Ok(InFlightEvents::Auto),
        _ => number_within(text, IN_FLIGHT_EVENTS)
            .map(InFlightEvents::Fixed)
            .map_err(|problem| format!("{problem}, or auto")),
    }
}

pub(super) fn number_within(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let (min, max) = (range.start(), range.end());
    number.ok_or_else(|| format!("choose a number from {min} to {max}"))
}

pub(super) fn in_flight_bytes(text: &str) -> Result<usize, String> {
    let bytes = Some(bytes(text)?).filter(|bytes| IN_FLIGHT_BYTES.contains(bytes));
    bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "choose a size from 1KiB to 4GiB".to_owned())
}

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>()
        .map(|size| size.0)
        .map_err(|_| "not a size; write it like 16MiB, or as a number of bytes".to_owned())
}

pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| "write an IP address and a port, as in 127.0.0.1:7678, or off".to_owned())
}

/// A level alone applies to postrider: at `debug`, libraries would log far more than it.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let wrong = "choose error, warn, info, debug, trace or off, or directives such as \
                 postrider=debug,warn";
    // The parser would accept an empty text as a level.
    if text.is_empty() {
        return Err(wrong.to_owned());
    }
    if let Ok(level) = text.parse::<LevelFilter>() {
        let others = level.min(LevelFilter::WARN);
        return Ok(format!("{others},postrider={level}"));
    }
    // A single word, for example a misspelled level, would be read as the name of a crate.
    let is_directive = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    match EnvFilter::builder().parse(text) {
        Ok(_) if text.split(',').all(|part| is_directive(part.trim())) => Ok(text.to_owned()),
        _ => Err(wrong.to_owned()),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("choose text or json".to_owned()),
    }
}
