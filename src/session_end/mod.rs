//! Why a session ends, and who has to do something about it.

mod causes;

use postrider_core::delivery::Broken;

/// The relay can't continue without an operator. Nothing was confirmed that is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fatal {
    what: String,
    fix: String,
    is_passing: bool,
    is_in_settings: bool,
}

impl Fatal {
    pub(crate) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Fatal { what: what.into(), fix: fix.into(), is_passing: false, is_in_settings: false }
    }

    /// A sink that could not be created.
    pub(crate) fn of_sink(broken: &Broken) -> Self {
        let fix = broken.fix.as_deref().unwrap_or("correct the configuration of the destination");
        Fatal::new(&broken.text, fix)
    }

    /// The same for something that may pass: a server that is down, for example.
    pub(crate) fn passing(self) -> Self {
        Fatal { is_passing: true, ..self }
    }

    /// The same for something that is wrong in the configuration.
    pub(crate) fn in_settings(self) -> Self {
        Fatal { is_in_settings: true, ..self }
    }

    /// Whether the configuration is wrong, as the database shows.
    pub fn is_in_settings(&self) -> bool {
        self.is_in_settings
    }

    /// Whether it may pass, so that a retry later may be enough.
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// What to do about it.
    pub fn fix(&self) -> &str {
        &self.fix
    }
}

/// Why a session ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// A stop was requested.
    Shutdown,
    /// Something broke that recovers on its own: wait a little and restart from the stored
    /// position.
    Restart(Restart),
    /// An operator is needed.
    Fatal(Fatal),
    /// Rows of the tables have to be published first.
    BackfillFirst,
}

/// A session that will be followed by another.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) reason: RestartReason,
    /// What happened, in a sentence.
    pub(crate) text: String,
}

/// Why a session is followed by another: the label of `postrider_restarts_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RestartReason {
    /// Postgres, or the link to it, failed.
    Postgres,
    /// Postgres is shutting down.
    PostgresShutdown,
    /// The destination, or the link to it, failed.
    Broker,
    /// Records were refused in a batch, so it is unknown which of them were at fault.
    Refused,
    /// The destination answers, but the oldest event is not acknowledged.
    Stuck,
    /// Another relay, or another program, has the slot.
    SlotInUse,
    /// A row has a type whose binary form is unknown.
    NeedsText,
    /// Columns that are published as Debezium does have changed.
    Columns,
    /// The keys that wait for parked events have to be read again.
    Keys,
    /// An event in flight needs a new timestamp.
    Stamps,
    /// Another instance publishes the rows of the tables.
    BackfillElsewhere,
    /// A table changed while its rows were being published.
    BackfillLapsed,
}

impl RestartReason {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 12] = [
        Self::Postgres,
        Self::PostgresShutdown,
        Self::Broker,
        Self::Refused,
        Self::Stuck,
        Self::SlotInUse,
        Self::NeedsText,
        Self::Columns,
        Self::Keys,
        Self::Stamps,
        Self::BackfillElsewhere,
        Self::BackfillLapsed,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::PostgresShutdown => "postgres_shutdown",
            Self::Broker => "broker",
            Self::Refused => "refused",
            Self::Stuck => "stuck",
            Self::SlotInUse => "slot_in_use",
            Self::NeedsText => "needs_text",
            Self::Columns => "columns",
            Self::Keys => "keys",
            Self::Stamps => "stamps",
            Self::BackfillElsewhere => "backfill_elsewhere",
            Self::BackfillLapsed => "backfill_lapsed",
        }
    }
}

impl SessionEnd {
    pub(crate) fn restart(reason: RestartReason, text: impl Into<String>) -> Self {
        SessionEnd::Restart(Restart { reason, text: text.into() })
    }

    pub(crate) fn fatal(what: impl Into<String>, fix: impl Into<String>) -> Self {
        SessionEnd::Fatal(Fatal::new(what, fix))
    }

    /// What happened, in a sentence.
    pub(crate) fn text(&self) -> &str {
        match self {
            SessionEnd::Shutdown => "a stop was requested",
            SessionEnd::Restart(restart) => &restart.text,
            SessionEnd::Fatal(fatal) => &fatal.what,
            SessionEnd::BackfillFirst => "rows of the tables have to be published first",
        }
    }

    /// Whether the only problem is that another client has the slot.
    pub(crate) fn is_slot_in_use(&self) -> bool {
        matches!(self, SessionEnd::Restart(restart) if restart.reason == RestartReason::SlotInUse)
    }

    /// The more informative of two: what is purged because of a refusal can be reported before the
    /// refusal.
    pub(crate) fn more_informative(self, other: SessionEnd) -> SessionEnd {
        let rather = match (&self, &other) {
            (SessionEnd::Fatal(_), _) => false,
            (_, SessionEnd::Fatal(_)) => true,
            (SessionEnd::Restart(first), SessionEnd::Restart(second)) => {
                first.reason == RestartReason::Broker && second.reason == RestartReason::Refused
            }
            _ => false,
        };
        if rather { other } else { self }
    }

    /// The stream violated the protocol. Reading it again would bring the same.
    pub(crate) fn violation(error: impl std::fmt::Display) -> Self {
        SessionEnd::fatal(
            format!("the replication stream is not valid: {error}"),
            "check that the server is a supported Postgres (14 or newer) and report this as a bug; \
             nothing after this point was confirmed",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_more_than_what_it_broke() {
        let check = |first: SessionEnd, second: SessionEnd, wanted: RestartReason| {
            let SessionEnd::Restart(restart) = first.more_informative(second) else {
                panic!("no restart")
            };
            assert_eq!(restart.reason, wanted);
        };
        let stop = |reason| SessionEnd::restart(reason, "");
        check(stop(RestartReason::Broker), stop(RestartReason::Refused), RestartReason::Refused);
        check(stop(RestartReason::Refused), stop(RestartReason::Broker), RestartReason::Refused);
        check(stop(RestartReason::Postgres), stop(RestartReason::Refused), RestartReason::Postgres);
        assert!(matches!(
            stop(RestartReason::Broker).more_informative(SessionEnd::fatal("", "")),
            SessionEnd::Fatal(_)
        ));
    }
}
