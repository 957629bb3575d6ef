//! What the relay is doing, and how people are informed about it.

/// What the relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Connecting to Postgres.
    Connecting,
    /// Publishing rows that are in the tables already.
    Snapshotting,
    /// Publishing events as they are committed.
    Streaming,
    /// Publishing a backlog.
    CatchingUp,
    /// Events are in flight and the broker acknowledges none.
    BlockedOnBroker,
    /// Postgres does not store the position.
    BlockedOnPostgres,
    /// Too many events can't be published: no more are parked.
    BreakerOpen,
    /// Ready, and waiting for the slot, which another instance has.
    Standby,
    /// Waiting for the slot, but unable to take over: it reads less than was promised, or reaches
    /// no broker.
    StandbyBlocked,
    /// Configured to read nothing.
    Paused,
    /// Draining what is in flight before it ends.
    Stopping,
    /// It has ended, as it was asked to.
    Stopped,
    /// It has ended, because an operator is needed.
    Failed,
}

impl State {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        State::Connecting,
        State::Snapshotting,
        State::Streaming,
        State::CatchingUp,
        State::BlockedOnBroker,
        State::BlockedOnPostgres,
        State::BreakerOpen,
        State::Standby,
        State::StandbyBlocked,
        State::Paused,
        State::Stopping,
        State::Stopped,
        State::Failed,
    ];

    /// The name people see.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::Snapshotting => "snapshotting",
            State::Streaming => "streaming",
            State::CatchingUp => "catching-up",
            State::BlockedOnBroker => "blocked-on-broker",
            State::BlockedOnPostgres => "blocked-on-postgres",
            State::BreakerOpen => "breaker-open",
            State::Standby | State::StandbyBlocked => "standby",
            State::Paused => "paused",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }

    /// Whether the relay does nothing more.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, State::Stopped | State::Failed)
    }
}

/// The state, with what people need to know about it.
#[derive(Clone)]
pub(super) struct Condition {
    pub(super) state: State,
    pub(super) reason: Option<String>,
    /// What an operator has to do.
    pub(super) fix: Option<String>,
}

impl Condition {
    pub(super) fn describe(self) -> String {
        let mut text = self.state.name().to_owned();
        if let Some(reason) = self.reason {
            text.push_str(&format!(": {reason}"));
        }
        if let Some(fix) = self.fix {
            text.push_str(&format!("; fix: {fix}"));
        }
        text
    }
}
