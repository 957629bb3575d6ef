//! Positions in the write-ahead log.

use std::fmt;
use std::str::FromStr;

/// A position in Postgres' write-ahead log, written `16/B374D848`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The invalid position: before everything.
    pub const ZERO: Lsn = Lsn(0);

    /// The position at this byte of the log.
    pub const fn new(bytes: u64) -> Self {
        Lsn(bytes)
    }

    /// The position as a byte count from the beginning of the log.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an LSN: expected two hexadecimal numbers like 16/B374D848")]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (high, low) = text.split_once('/')?;
            let high = u32::from_str_radix(high, 16).ok()?;
            let low = u32::from_str_radix(low, 16).ok()?;
            Some(Lsn(u64::from(high) << 32 | u64::from(low)))
        };
        parse().ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, bytes) in
            [("0/0", 0), ("16/B374D848", 0x16_B374_D848), ("FFFFFFFF/FFFFFFFF", u64::MAX)]
        {
            assert_eq!(text.parse(), Ok(Lsn::new(bytes)));
            assert_eq!(Lsn::new(bytes).to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_position() {
        for text in ["", "/", "1", "1/", "G/0", "1/2/3", "100000000/0", "-1/0"] {
            assert!(text.parse::<Lsn>().is_err(), "{text:?}");
        }
    }
}
