//! Updates of outbox rows, which are never published: what Debezium's option
//! `table.op.invalid.behavior` does about them.

use std::time::{Duration, Instant};

use crate::config::OutboxTable;
use crate::log_limit::LogLimit;
use crate::session_end::{Fatal, SessionEnd};
use postrider_core::debezium::OnUpdate;

/// How often the updates of a table are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What was noticed in a session.
pub(super) struct Updates {
    log: LogLimit,
    /// An update that halts the relay, once the events before it are done.
    halt: Option<Fatal>,
}

impl Updates {
    pub(super) fn new() -> Self {
        Updates { log: LogLimit::each(LOG_INTERVAL), halt: None }
    }

    /// A row of the table was updated.
    pub(super) fn note(&mut self, table: &OutboxTable) {
        let Some(router) = &table.debezium else { return };
        let text =
            format!("a row of outbox table {} was updated, which is not published", table.name);
        match router.options().on_update {
            OnUpdate::Halt => {
                self.halt = Some(Fatal::new(
                    format!("{text}; debezium.\"table.op.invalid.behavior\" is fatal"),
                    "let applications only insert into the outbox; to continue after this update, \
                     set the option to warn",
                ));
            }
            _ if !self.log.allows(&text, Instant::now()) => {}
            OnUpdate::Error => tracing::error!("{text}"),
            OnUpdate::Warn => tracing::warn!("{text}"),
        }
    }

    /// Whether nothing more may be read.
    pub(super) fn is_halting(&self) -> bool {
        self.halt.is_some()
    }

    /// Ends the session if an update halts it and nothing is in flight any more.
    pub(super) fn check(&mut self, in_flight: usize) -> Result<(), SessionEnd> {
        match self.halt.take_if(|_| in_flight == 0) {
            Some(fatal) => Err(SessionEnd::Fatal(fatal)),
            None => Ok(()),
        }
    }
}
