//! Whether Postgres can be heard on the session that shows that this relay is there (ADR 19).
//!
//! The server ends that session about four seconds after it last heard of us, and three seconds later a
//! standby may have the slot. A relay that can't hear Postgres can't know whether it was replaced, so
//! it stops its producers before that: what they have queued would otherwise arrive late, after newer
//! events of its successor.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, Error, Statement};

use super::stop::{POSTGRES, Stop};

/// How often Postgres is asked for a sign of life.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long it may be silent: with a second until somebody looks, less than a standby needs.
const SILENCE_MAX: Duration = Duration::from_secs(6);

/// When Postgres last answered.
pub(super) struct Pulse {
    began: Instant,
    heard_millis: AtomicU64,
}

impl Pulse {
    /// Postgres has just answered.
    pub(super) fn new() -> Self {
        Pulse { began: Instant::now(), heard_millis: AtomicU64::new(0) }
    }

    pub(super) async fn prepare(client: &Client) -> Result<Statement, Error> {
        client.prepare("SELECT 1").await
    }

    /// Asks, and notes the answer.
    pub(super) async fn ask(&self, client: &Client, question: &Statement) -> Result<(), Error> {
        let asked_at = Instant::now();
        client.query_one(question, &[]).await?;
        // Counted from the question: nobody knows how long the answer has been here.
        let millis = asked_at.saturating_duration_since(self.began).as_millis();
        self.heard_millis.store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
        Ok(())
    }

    /// Ends the session of a relay that may have been replaced.
    pub(super) fn check(&self, now: Instant) -> Result<(), Stop> {
        let heard_at = self.began + Duration::from_millis(self.heard_millis.load(Relaxed));
        let silence = now.saturating_duration_since(heard_at);
        if silence <= SILENCE_MAX {
            return Ok(());
        }
        Err(Stop::restart(
            POSTGRES,
            format!(
                "Postgres has not answered for {} s; another instance may have taken over, so what is \
                 in flight is given up here",
                silence.as_secs()
            ),
        ))
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
