//! How the text of a column becomes a value.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::data::{Data, Decimal, JavaDate};
use super::times::{self, Fraction};

/// By type and by the modes of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Text,
    Boolean,
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
}

/// What a number of a time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn of_micros(self, micros: i64) -> Option<i64> {
        match self {
            // Java rounds down here, too.
            Unit::Millis => Some(micros.div_euclid(1000)),
            Unit::Micros => Some(micros),
            Unit::Nanos => micros.checked_mul(1000),
        }
    }

    /// The microseconds that so many of these are.
    pub(super) fn to_micros(self, count: i64) -> Option<i64> {
        match self {
            Unit::Millis => count.checked_mul(1000),
            Unit::Micros => Some(count),
            Unit::Nanos => Some(count / 1000),
        }
    }
}

impl Reader {
    /// Whether it reads bytes, and not text.
    pub(super) fn reads_bytes(self) -> bool {
        matches!(self, Reader::Bytes | Reader::Base64 | Reader::Base64Url | Reader::Hex)
    }

    /// What it reads, for people.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Reader::Boolean => "a boolean",
            Reader::Integer => "an integer",
            Reader::Float32 | Reader::Float64 => "a number",
            Reader::Decimal { .. } | Reader::VariableDecimal | Reader::DecimalText => {
                "a finite number, as decimal.handling.mode = precise needs it"
            }
            Reader::Interval => "an interval",
            _ => "a date or time from the years 1 to 9999",
        }
    }

    /// The value of a bytea.
    pub(super) fn read_bytes(self, bytes: Cow<'_, [u8]>) -> Data<'_> {
        match self {
            Reader::Base64 => Data::Text(Cow::Owned(STANDARD.encode(bytes))),
            Reader::Base64Url => Data::Text(Cow::Owned(URL_SAFE.encode(bytes))),
            Reader::Hex => Data::Text(Cow::Owned(hex(&bytes))),
            _ => Data::Bytes(bytes),
        }
    }

    /// The value of anything else. None: it is not what the column's type promises.
    pub(super) fn read(self, text: Cow<'_, str>) -> Option<Data<'_>> {
        let iso = |text: String| Data::Text(Cow::Owned(text));
        Some(match self {
            Reader::Text => Data::Text(text),
            Reader::Boolean => match text.as_ref() {
                "true" => Data::Boolean(true),
                "false" => Data::Boolean(false),
                _ => return None,
            },
            Reader::Integer => Data::Integer(text.parse().ok()?),
            Reader::Float32 => Data::Float32(text.parse().ok()?),
            Reader::Float64 => Data::Float64(text.parse().ok()?),
            Reader::Decimal { scale } => Data::Decimal(decimal(&text, scale)?),
            Reader::VariableDecimal => variable_decimal(&text)?,
            Reader::DecimalText => Data::Text(special_decimal(text)),
            Reader::Date => Data::Integer(times::days(&text)?),
            Reader::Time(unit) => Data::Integer(unit.of_micros(times::micros_of_day(&text)?)?),
            Reader::Timestamp(unit) => Data::Integer(unit.of_micros(times::micros(&text)?)?),
            Reader::ZonedTime => {
                let micros = times::micros_of_day_with_zone(&text)?;
                iso(times::zoned_time(micros, Fraction::Shortest))
            }
            Reader::ZonedTimestamp(_) if matches!(text.as_ref(), "infinity" | "-infinity") => {
                Data::Text(text)
            }
            Reader::ZonedTimestamp(fraction) => {
                iso(times::zoned_moment(times::micros_with_zone(&text)?, fraction))
            }
            Reader::IsoDate => iso(format!("{}Z", times::date(times::days(&text)?))),
            Reader::IsoTime => {
                iso(times::zoned_time(times::micros_of_day(&text)?, Fraction::Shortest))
            }
            Reader::IsoTimestamp => {
                iso(times::zoned_moment(times::micros(&text)?, Fraction::Shortest))
            }
            Reader::ConnectDate => Data::Date(JavaDate::Day(times::days(&text)?)),
            Reader::ConnectTime => {
                let millis = Unit::Millis.of_micros(times::micros_of_day(&text)?)?;
                Data::Date(JavaDate::Time(millis))
            }
            Reader::ConnectTimestamp => {
                Data::Date(JavaDate::Moment(Unit::Millis.of_micros(times::micros(&text)?)?))
            }
            Reader::Interval => Data::Integer(times::interval_micros(&text)?),
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

/// What is no number has other names in Java.
fn special_decimal(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.as_ref() {
        "NaN" => Cow::Borrowed("NAN"),
        "Infinity" => Cow::Borrowed("POSITIVE_INFINITY"),
        "-Infinity" => Cow::Borrowed("NEGATIVE_INFINITY"),
        _ => text,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
