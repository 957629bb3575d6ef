//! What the new configuration does differently.

use std::fmt;

/// Whom a difference concerns. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Records are different, or there are more or fewer of them.
    Consumers,
    /// A value that the file does not have, or that must not be copied.
    FillIn,
    /// Records are the same.
    Operators,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    /// The option with its line, and what follows from it.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concerns = match self.kind {
            Kind::Consumers => "consumers",
            Kind::FillIn => "fill in",
            Kind::Operators => "operators",
        };
        write!(f, "{concerns}: {}", self.text)
    }
}
