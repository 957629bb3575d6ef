//! A walsender whose relay is gone: it is terminated, so that a standby need not wait until the
//! server notices.

use std::time::{Duration, Instant};

use crate::session_end::SessionEnd;
use crate::standby::PROBE_EVERY;
use crate::standby::liveness::{Holder, SlotProbe, is_denied};

/// A relay that is alive but has lost its ordinary session leaves its stream within two seconds.
const GRACE: Duration = Duration::from_secs(3);
/// How long a walsender takes to end after pg_terminate_backend.
const ENDED_WITHIN: Duration = Duration::from_millis(50);

/// Terminates a walsender that has no relay any more, or logs why it can't. Returns how long to
/// wait before the next check.
pub(super) async fn terminate(
    probe: &SlotProbe<'_>,
    holder: &Holder,
    orphan: &mut OrphanTimer,
) -> Result<Duration, SessionEnd> {
    match probe.terminate(holder).await {
        Ok(true) => {
            tracing::warn!(
                "terminated the orphaned walsender {holder}, which still held the slot: its relay \
                 is gone"
            );
            orphan.begin_grace(Instant::now());
            Ok(ENDED_WITHIN)
        }
        Ok(false) => Ok(PROBE_EVERY),
        Err(error) if is_denied(&error) => {
            tracing::warn!(
                reason = crate::postgres::describe(&error),
                "the relay of {holder} is gone, but this role is not allowed to terminate its \
                 walsender: GRANT EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) TO {}; \
                 waiting for wal_sender_timeout",
                probe.role
            );
            orphan.leave_alone(holder);
            Ok(PROBE_EVERY)
        }
        Err(error) => Err(error.into()),
    }
}

/// A walsender without a relay, and since when.
#[derive(Default)]
pub(super) struct OrphanTimer {
    since: Option<(Holder, Instant)>,
    /// It can't be terminated.
    left_alone: Option<Holder>,
}

impl OrphanTimer {
    /// Whether the same walsender of ours has been without its relay for the whole grace period.
    pub(super) fn may_be_terminated(&mut self, holder: &Holder, now: Instant) -> bool {
        let left_alone =
            self.left_alone.as_ref().is_some_and(|left_alone| left_alone.is_same_session(holder));
        // Without its start time, the session can't be identified.
        if !holder.ours || !holder.orphaned || holder.started.is_none() || left_alone {
            self.since = None;
            return false;
        }
        match &self.since {
            Some((same, since)) if same.is_same_session(holder) => {
                now.duration_since(*since) >= GRACE
            }
            _ => {
                self.since = Some((holder.clone(), now));
                false
            }
        }
    }

    /// It takes a moment to end.
    fn begin_grace(&mut self, now: Instant) {
        self.since = self.since.take().map(|(holder, _)| (holder, now));
    }

    fn leave_alone(&mut self, holder: &Holder) {
        self.left_alone = Some(holder.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_walsender_of_ours_that_stays_without_a_relay_is_ended() {
        let begin = Instant::now();
        let orphaned = Holder::of_ours(7, true);
        let mut orphan = OrphanTimer::default();
        let mut check = |holder: &Holder, seconds: u64, due: bool| {
            let now = begin + Duration::from_secs(seconds);
            assert_eq!(orphan.may_be_terminated(holder, now), due, "{holder:?} after {seconds} s");
        };
        check(&orphaned, 0, false);
        check(&orphaned, 2, false);
        check(&Holder::of_ours(7, false), 3, false);
        check(&orphaned, 4, false);
        check(&orphaned, 7, true);
        check(&Holder::of_ours(8, true), 8, false);
        check(&Holder { ours: false, ..orphaned.clone() }, 20, false);
        check(&Holder { ours: false, ..orphaned.clone() }, 40, false);
        check(&Holder { started: None, ..orphaned.clone() }, 50, false);
        check(&Holder { started: None, ..orphaned.clone() }, 60, false);
        check(&orphaned, 70, false);
        check(&orphaned, 80, true);
        orphan.begin_grace(begin + Duration::from_secs(80));
        assert!(!orphan.may_be_terminated(&orphaned, begin + Duration::from_secs(81)));
        orphan.leave_alone(&orphaned);
        assert!(!orphan.may_be_terminated(&orphaned, begin + Duration::from_secs(90)));
    }
}
