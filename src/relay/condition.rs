//! The state that a session reports: how much is in flight, whether it makes progress, and if not,
//! why.

use std::time::{Duration, Instant};

use super::session::Session;
use crate::ops::State;
use crate::sink::Sink;

/// A lag longer than this is reported as catching up.
const CATCHING_UP_LAG_SECONDS: f64 = 5.0;
/// Storing a position takes milliseconds. If it takes this long, and no more may be read before it
/// is done, something is wrong with Postgres.
const STORING_MAX: Duration = Duration::from_secs(5);

impl<S: Sink> Session<'_, S> {
    /// Reports the state of the session.
    pub(super) fn update_vitals(&mut self, now: Instant) {
        let waiting = self.is_waiting();
        if !waiting {
            self.waiting.note_acknowledged(now);
        }
        let acks = &self.out.acks;
        let lag = self.out.lag_seconds(self.incoming.held_since());
        self.vitals.set_in_flight(acks.in_flight_events(), acks.in_flight_bytes(), lag);
        if self.stopping {
            return;
        }
        let held = usize::from(self.incoming.is_holding());
        let trouble = self.waiting.trouble(&self.out, held, now);
        let (state, reason) = if let Some((state, reason)) = trouble {
            (state, Some(reason))
        } else if let Some(reason) = self.blocked_on_postgres(now) {
            (State::BlockedOnPostgres, Some(reason))
        } else if lag > CATCHING_UP_LAG_SECONDS {
            (State::CatchingUp, None)
        } else {
            (State::Streaming, None)
        };
        self.vitals.set_state(state, reason);
    }

    /// Why nothing is read although no acknowledgement is overdue.
    fn blocked_on_postgres(&self, now: Instant) -> Option<String> {
        let storing = self.confirmer.storing_for(now);
        let is_blocked = storing > STORING_MAX && !self.out.has_room();
        is_blocked.then(|| {
            format!(
                "for {} s the position could not be stored in Postgres, and no more events are \
                 read before it is: its commit may wait for a synchronous standby (see \
                 synchronous_standby_names and pg_stat_replication), for a lock or for the disk",
                storing.as_secs()
            )
        })
    }
}
