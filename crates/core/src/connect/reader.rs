//! How the text of a column becomes a value.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::data::{Data, Decimal, JavaDate};
use super::times::{self, Fraction, Moment};

/// By type and by the modes of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Text,
    Boolean,
    /// A single one, as a boolean.
    Bit,
    Integer,
    Float32,
    Float64,
    /// With this many digits after the point.
    Decimal {
        scale: u32,
    },
    /// A struct of the scale and the digits.
    VariableDecimal,
    DecimalText,
    Bytes,
    Base64,
    Base64Url,
    Hex,
    Date,
    /// In this many units per microsecond, or microseconds per unit.
    Time(Unit),
    Timestamp(Unit),
    ZonedTime,
    ZonedTimestamp(Fraction),
    IsoDate,
    IsoTime,
    IsoTimestamp,
    ConnectDate,
    ConnectTime,
    ConnectTimestamp,
    Interval,
    /// Little-endian, without the bytes that would be zero at the end.
    Bits,
    /// Of items that are read so.
    Array(&'static Reader),
}

/// What a number of a time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    /// Of a time of day.
    fn of_micros(self, micros: i64) -> i64 {
        match self {
            Unit::Millis => micros / 1_000,
            Unit::Micros => micros,
            Unit::Nanos => micros * 1_000,
        }
    }

    /// None: it is out of range, and lost in Debezium.
    fn of_moment(self, moment: Moment) -> Option<i64> {
        match self {
            Unit::Millis => Some(moment.millis()),
            Unit::Micros => Some(moment.unix_micros()),
            Unit::Nanos => moment.nanos(),
        }
    }

    /// A number of these in microseconds.
    pub(crate) fn to_micros(self, count: i64) -> Option<i64> {
        match self {
            Unit::Millis => count.checked_mul(1000),
            Unit::Micros => Some(count),
            Unit::Nanos => Some(count / 1000),
        }
    }
}

impl Reader {
    /// Whether it reads bytes, and not text.
    pub(crate) fn reads_bytes(self) -> bool {
        matches!(self, Reader::Bytes | Reader::Base64 | Reader::Base64Url | Reader::Hex)
    }

    /// What it reads, for people.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Reader::Boolean => "a boolean",
            Reader::Integer => "an integer",
            Reader::Float32 | Reader::Float64 => "a number",
            Reader::Decimal { .. } | Reader::VariableDecimal | Reader::DecimalText => "a number",
            Reader::Interval => "an interval",
            Reader::Bit | Reader::Bits => "bits",
            Reader::Array(_) => "an array with one dimension",
            _ => "a date or time",
        }
    }

    /// The value of a bytea.
    pub(crate) fn read_bytes(self, bytes: Cow<'_, [u8]>) -> Data<'_> {
        match self {
            Reader::Base64 => Data::Text(Cow::Owned(STANDARD.encode(bytes))),
            Reader::Base64Url => Data::Text(Cow::Owned(URL_SAFE.encode(bytes))),
            Reader::Hex => Data::Text(Cow::Owned(hex(&bytes))),
            _ => Data::Bytes(bytes),
        }
    }

    /// The value of an array's item.
    fn read_item(self, text: String) -> Option<Data<'static>> {
        let text = match (self, text.as_str()) {
            (Reader::Boolean, "t") => "true".to_owned(),
            (Reader::Boolean, "f") => "false".to_owned(),
            _ => text,
        };
        self.read(Cow::Owned(text)).map(Data::into_owned)
    }

    /// The value of anything else. None: it is not what the column's type promises.
    pub(crate) fn read(self, text: Cow<'_, str>) -> Option<Data<'_>> {
        let iso = |text: String| Data::Text(Cow::Owned(text));
        Some(match self {
            Reader::Text => Data::Text(text),
            Reader::Boolean => match text.as_ref() {
                "true" => Data::Boolean(true),
                "false" => Data::Boolean(false),
                _ => return None,
            },
            Reader::Bit => match text.as_ref() {
                "1" => Data::Boolean(true),
                "0" => Data::Boolean(false),
                _ => return None,
            },
            Reader::Integer => Data::Integer(text.parse().ok()?),
            Reader::Float32 => Data::Float32(text.parse().ok()?),
            Reader::Float64 => Data::Float64(text.parse().ok()?),
            // As in Debezium, what is not a number is lost in this mode.
            Reader::Decimal { .. } | Reader::VariableDecimal if is_special(&text) => Data::Null,
            Reader::Decimal { scale } => Data::Decimal(decimal(&text, scale)?),
            Reader::VariableDecimal => variable_decimal(&text)?,
            Reader::DecimalText => Data::Text(special_decimal(text)),
            Reader::Date => Data::Integer(times::days(&text)?),
            Reader::Time(unit) => Data::Integer(unit.of_micros(times::micros_of_day(&text)?)),
            Reader::Timestamp(unit) => {
                unit.of_moment(times::moment(&text)?).map_or(Data::Null, Data::Integer)
            }
            Reader::ZonedTime => {
                let micros = times::micros_of_day_with_zone(&text)?;
                iso(times::zoned_time(micros, Fraction::Shortest))
            }
            Reader::ZonedTimestamp(_) if matches!(text.as_ref(), "infinity" | "-infinity") => {
                Data::Text(text)
            }
            Reader::ZonedTimestamp(fraction) => {
                iso(times::zoned_moment(times::moment_with_zone(&text)?, fraction))
            }
            Reader::IsoDate => iso(format!("{}Z", times::date(times::days(&text)?))),
            Reader::IsoTime => {
                iso(times::zoned_time(times::micros_of_day(&text)?, Fraction::Shortest))
            }
            Reader::IsoTimestamp => {
                iso(times::zoned_moment(times::moment(&text)?, Fraction::Shortest))
            }
            Reader::ConnectDate => Data::Date(JavaDate::Day(times::days(&text)?)),
            Reader::ConnectTime => {
                let millis = Unit::Millis.of_micros(times::micros_of_day(&text)?);
                Data::Date(JavaDate::Time(millis))
            }
            Reader::ConnectTimestamp => {
                Data::Date(JavaDate::Moment(times::moment(&text)?.millis()))
            }
            Reader::Interval => Data::Integer(times::interval_micros(&text)?),
            Reader::Bits => Data::Bytes(Cow::Owned(bits(&text)?)),
            Reader::Array(reader) => array(&text, *reader)?,
            Reader::Bytes | Reader::Base64 | Reader::Base64Url | Reader::Hex => return None,
        })
    }
}

/// A number that is brought to the column's scale.
fn decimal(text: &str, scale: u32) -> Option<Decimal> {
    let Decimal { unscaled, scale: found } = Decimal::parse(text)?;
    let added = scale.checked_sub(found)?;
    Some(Decimal { unscaled: unscaled * num_bigint::BigInt::from(10).pow(added), scale })
}

fn variable_decimal(text: &str) -> Option<Data<'static>> {
    let fraction = text.contains('.');
    let text = if fraction { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    let decimal = Decimal::parse(text)?;
    let bytes = Data::Bytes(Cow::Owned(decimal.bytes()));
    Some(Data::Struct(vec![Data::Integer(i64::from(decimal.scale)), bytes]))
}

fn is_special(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}

/// What is not a number has other names in Java.
fn special_decimal(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.as_ref() {
        "NaN" => Cow::Borrowed("NAN"),
        "Infinity" => Cow::Borrowed("POSITIVE_INFINITY"),
        "-Infinity" => Cow::Borrowed("NEGATIVE_INFINITY"),
        _ => text,
    }
}

fn bits(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, digit) in text.bytes().rev().enumerate() {
        if number % 8 == 0 {
            bytes.push(0);
        }
        let byte = bytes.last_mut()?;
        match digit {
            b'0' => {}
            b'1' => *byte |= 1 << (number % 8),
            _ => return None,
        }
    }
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(length);
    Some(bytes)
}

/// `{a,NULL,"b c"}`.
fn array(text: &str, reader: Reader) -> Option<Data<'static>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inner.chars().peekable();
    while chars.peek().is_some() {
        let mut item = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        loop {
            match chars.next() {
                Some('"') if is_quoted => break,
                Some('\\') => item.push(chars.next()?),
                Some(',') | None if !is_quoted => break,
                // An array inside the array.
                Some('{' | '"') if !is_quoted => return None,
                Some(char) => item.push(char),
                None => return None,
            }
        }
        if is_quoted {
            chars.next_if_eq(&',');
        }
        let is_null = !is_quoted && item == "NULL";
        items.push(if is_null { Data::Null } else { reader.read_item(item)? });
    }
    Some(Data::Array(items))
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0F)]).collect()
}
