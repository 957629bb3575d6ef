//! Whether Postgres still answers on the session that shows that this relay is alive (ADR 19).
//!
//! The server ends that session about four seconds after it last heard from us, and three seconds
//! later a standby may have the slot. A relay without an answer can't know whether it was replaced,
//! so it stops its producers before that: their queued records would otherwise arrive late, after
//! newer events of its successor.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, Error, ToStatement};

use crate::clock;
use crate::ops::Vitals;
use crate::session_end::{RestartReason, SessionEnd};

/// How often Postgres is asked for a sign of life.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long it may be silent: with a second until the next check, less than a standby needs to take
/// over, and less than the lease of a snapshot lasts.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(6);

/// When Postgres last answered, and what its clock showed.
pub(crate) struct Pulse {
    began: Instant,
    heard_millis: AtomicU64,
    server_ahead_micros: AtomicI64,
}

impl Pulse {
    /// Asks for the first time: no timestamp is made before both clocks are known.
    pub(crate) async fn begin(client: &Client, vitals: &Vitals) -> Result<Self, Error> {
        let pulse = Pulse::new();
        pulse.ask(client, clock::QUESTION, vitals).await?;
        Ok(pulse)
    }

    /// Postgres has just answered.
    fn new() -> Self {
        let (heard_millis, server_ahead_micros) = (AtomicU64::new(0), AtomicI64::new(0));
        Pulse { began: Instant::now(), heard_millis, server_ahead_micros }
    }

    /// Asks, and records the answer.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        question: &(impl ToStatement + ?Sized + Sync + Send),
        vitals: &Vitals,
    ) -> Result<(), Error> {
        let asked_at = Instant::now();
        if let Some(ahead) = clock::server_ahead_micros(client, question).await? {
            self.server_ahead_micros.store(ahead, Relaxed);
            note_clocks(ahead, vitals);
        }
        // Counted from the question: it is unknown when the answer arrived.
        let millis = asked_at.saturating_duration_since(self.began).as_millis();
        self.heard_millis.store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
        Ok(())
    }

    /// By how much the server's clock is ahead of this machine's.
    pub(crate) fn server_ahead_micros(&self) -> i64 {
        self.server_ahead_micros.load(Relaxed)
    }

    /// Ends the session of a relay that may have been replaced.
    pub(crate) fn check(&self, now: Instant) -> Result<(), SessionEnd> {
        let heard_at = self.began + Duration::from_millis(self.heard_millis.load(Relaxed));
        let silence = now.saturating_duration_since(heard_at);
        if silence <= SILENCE_MAX {
            return Ok(());
        }
        Err(silent(silence))
    }
}

/// Waits for an answer of Postgres, for no longer than a relay may continue without one.
pub(crate) async fn answer<T, E: Into<SessionEnd>>(
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, SessionEnd> {
    match tokio::time::timeout(SILENCE_MAX, asking).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(silent(SILENCE_MAX)),
    }
}

fn silent(silence: Duration) -> SessionEnd {
    SessionEnd::restart(
        RestartReason::Postgres,
        format!(
            "Postgres has not answered for {} s; another instance may have taken over, so this one \
             gives up its events in flight",
            silence.as_secs()
        ),
    )
}

/// Logs when the clocks begin to differ, and when they agree again.
pub(crate) fn note_clocks(ahead_micros: i64, vitals: &Vitals) {
    let differed = !postrider_core::clock::agree(vitals.set_clock_difference(ahead_micros));
    match (postrider_core::clock::agree(ahead_micros), differed) {
        (true, true) => tracing::info!("the clocks of this machine and of Postgres agree again"),
        (false, false) => {
            let way = if ahead_micros > 0 { "lags" } else { "is ahead of" };
            tracing::warn!(
                seconds = ahead_micros.unsigned_abs() / 1_000_000,
                "this machine's clock {way} that of the Postgres server; record timestamps are \
                 kept within what both clocks allow (fix: synchronise both with NTP)"
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_leaves_before_a_standby_can_have_the_slot() {
        const STANDBY_NEEDS: Duration = Duration::from_secs(4 + 3);
        assert!(SILENCE_MAX + ASK_EVERY <= STANDBY_NEEDS);
        let pulse = Pulse::new();
        assert!(pulse.check(pulse.began + SILENCE_MAX).is_ok());
        assert!(pulse.check(pulse.began + STANDBY_NEEDS).is_err());
        pulse.heard_millis.store(3_000, Relaxed);
        assert!(pulse.check(pulse.began + STANDBY_NEEDS).is_ok());
    }
}
