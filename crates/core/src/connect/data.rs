//! Values of Kafka Connect.

use std::borrow::Cow;

use num_bigint::BigInt;

use super::java;

/// A value. Which of the integer kinds it has is in its schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float32(f32),
    Float64(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Decimal(Decimal),
    /// A `java.util.Date`.
    Date(JavaDate),
    Array(Vec<Data<'a>>),
    /// In the order of the schema's fields.
    Struct(Vec<Data<'a>>),
}

/// A `java.math.BigDecimal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// The number without its decimal point.
    pub(crate) unscaled: BigInt,
    /// How many of its digits come after the point.
    pub(crate) scale: u32,
}

/// What `time.precision.mode = connect` makes of dates and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JavaDate {
    /// Days since the epoch.
    Day(i64),
    /// Milliseconds since midnight.
    Time(i64),
    /// Milliseconds since the epoch.
    Moment(i64),
}

impl Data<'_> {
    /// The same without borrowing.
    pub(crate) fn into_owned(self) -> Data<'static> {
        let all = |items: Vec<Data<'_>>| items.into_iter().map(Data::into_owned).collect();
        match self {
            Data::Null => Data::Null,
            Data::Boolean(value) => Data::Boolean(value),
            Data::Integer(value) => Data::Integer(value),
            Data::Float32(value) => Data::Float32(value),
            Data::Float64(value) => Data::Float64(value),
            Data::Text(value) => Data::Text(Cow::Owned(value.into_owned())),
            Data::Bytes(value) => Data::Bytes(Cow::Owned(value.into_owned())),
            Data::Decimal(value) => Data::Decimal(value),
            Data::Date(value) => Data::Date(value),
            Data::Array(items) => Data::Array(all(items)),
            Data::Struct(members) => Data::Struct(all(members)),
        }
    }
}

impl Decimal {
    /// Reads a number as Postgres writes it. None: it is not finite.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let unscaled = BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?;
        Some(Decimal { unscaled, scale: u32::try_from(fraction.len()).ok()? })
    }

    /// As `BigDecimal.toString` has it.
    pub(crate) fn text(&self) -> String {
        java::decimal(&self.unscaled, self.scale)
    }

    /// The bytes of `BigInteger.toByteArray`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.unscaled.to_signed_bytes_be()
    }
}
