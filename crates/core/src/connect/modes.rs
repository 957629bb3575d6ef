//! How Debezium's connector represents values: its options `….handling.mode` and
//! `time.precision.mode`.

/// What is set for all columns of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    /// `decimal.handling.mode`.
    pub decimals: DecimalMode,
    /// `time.precision.mode`.
    pub times: TimeMode,
    /// `binary.handling.mode`.
    pub bytes: BinaryMode,
}

/// What becomes of a `numeric`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DecimalMode {
    /// Exact, as bytes.
    #[default]
    Precise,
    /// A floating-point number.
    Double,
    /// Text.
    Text,
}

/// What becomes of dates and times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeMode {
    /// Milliseconds or microseconds, by the column's precision.
    #[default]
    Adaptive,
    /// The same, but times of day are always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Text in ISO 8601.
    IsoText,
    /// Kafka Connect's own types, in milliseconds.
    Connect,
    /// Always microseconds.
    Microseconds,
    /// Always nanoseconds.
    Nanoseconds,
}

/// What becomes of a `bytea`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BinaryMode {
    /// Its bytes.
    #[default]
    Bytes,
    /// Text in base64.
    Base64,
    /// Text in the base64 that URLs can have.
    Base64Url,
    /// Text in hexadecimal digits.
    Hex,
}

impl DecimalMode {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 3] =
        [("precise", Self::Precise), ("double", Self::Double), ("string", Self::Text)];
}

impl TimeMode {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 6] = [
        ("adaptive", Self::Adaptive),
        ("adaptive_time_microseconds", Self::AdaptiveTimeMicroseconds),
        ("isostring", Self::IsoText),
        ("connect", Self::Connect),
        ("microseconds", Self::Microseconds),
        ("nanoseconds", Self::Nanoseconds),
    ];
}

impl BinaryMode {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 4] = [
        ("bytes", Self::Bytes),
        ("base64", Self::Base64),
        ("base64-url-safe", Self::Base64Url),
        ("hex", Self::Hex),
    ];
}
