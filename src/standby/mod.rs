//! A relay that waits for its slot: ready, on one connection, with one query every half second.
//!
//! Another instance has the slot, or another program. When the slot is free, or something is wrong
//! with it, a session is opened in the one normal way; an instance that loses that race comes back
//! here.

mod forecast;
pub(crate) mod liveness;
pub(crate) mod paused;
pub(crate) mod slot_watch;

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_postgres::Client;

use crate::checks;
use crate::config::PostgresConfig;
use crate::ops::{State, Vitals};
use crate::postgres::{Connected, connect};
use crate::session_end::{RestartReason, SessionEnd};
use crate::sink::Sink;
use crate::standby::liveness::{Holder, SlotProbe, is_denied};

/// How often the slot is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often everything is checked that would keep this relay from taking over.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// A relay that is alive but has lost its ordinary session leaves its stream within two seconds.
const GRACE: Duration = Duration::from_secs(3);
/// How long a walsender takes to end after pg_terminate_backend.
const ENDED_WITHIN: Duration = Duration::from_millis(50);

/// What would keep this instance from publishing if it had the slot now, as text for people.
pub(crate) fn hindrance(sink: &impl Sink) -> Option<String> {
    let obstacle = sink.obstacle().filter(|obstacle| obstacle.certain)?;
    Some(format!("this instance could not publish: {}", obstacle.text))
}

/// An instance that reads less than was promised for the slot stands by again, whatever has ended
/// its waiting: a lost connection says nothing about the slot.
pub(crate) async fn check_takeover(
    client: &Client,
    config: &PostgresConfig,
) -> Result<(), SessionEnd> {
    match checks::unread_by(client, config).await? {
        unread if unread.is_empty() => Ok(()),
        unread => {
            let text = format!("this instance does not read {}", unread.join(", "));
            Err(SessionEnd::restart(RestartReason::SlotInUse, text))
        }
    }
}

/// Waits until the slot is free, or until something else has to be done.
pub(crate) async fn wait(
    config: &PostgresConfig,
    vitals: &Vitals,
    sink: &mut impl Sink,
) -> Result<(), SessionEnd> {
    let Connected { client, guard: _guard, server } = connect(&config.connection).await?;
    let limit = config.connection.connect_limit();
    let silent =
        |_| SessionEnd::restart(RestartReason::Postgres, format!("no answer within {limit:?}"));
    let preparing = timeout(limit, SlotProbe::prepare(&client, config, &server));
    let looking = preparing.await.map_err(silent)??;
    let (mut told, mut orphan) = (Told::default(), OrphanTimer::default());
    let mut checked_at = Instant::now();
    loop {
        let holder = timeout(limit, looking.look()).await.map_err(silent)??;
        let is_due = checked_at.elapsed() >= CHECK_EVERY;
        if holder.is_none() || is_due || !told.is_told {
            let looking = timeout(limit, checks::unread_by(&client, config));
            let unread = looking.await.map_err(silent)??;
            // An instance that reads less than was promised would only stop at the first row that
            // it does not read.
            if holder.is_none() && unread.is_empty() {
                return Ok(());
            }
            told.is_told &= told.unread == unread;
            told.unread = unread;
        }
        told.tell(&config.slot, holder.as_ref(), hindrance(sink), vitals);
        let mut pause = LOOK_EVERY;
        if let Some(holder) = holder.as_ref().filter(|it| orphan.is_due(it, Instant::now())) {
            let ending = timeout(limit, end(&looking, holder, &mut orphan));
            pause = ending.await.map_err(silent)??;
        }
        if is_due {
            let checking = async {
                checks::check_startup(&client, config).await?;
                Ok::<_, SessionEnd>(slot_watch::look(&client, &config.slot).await?)
            };
            vitals.set_slot(timeout(limit, checking).await.map_err(silent)??);
            checked_at = Instant::now();
        }
        listen(sink, pause).await;
    }
}

/// Pauses, and finds out meanwhile whether a broker can be reached: the sink is stopped, so it
/// reports nothing else.
async fn listen(sink: &mut impl Sink, pause: Duration) {
    let over = tokio::time::sleep(pause);
    tokio::pin!(over);
    let mut reports = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = &mut over => return,
            () = sink.receive(&mut reports) => reports.clear(),
        }
    }
}

/// What was reported last.
#[derive(Default)]
struct Told {
    holder: Option<Holder>,
    /// What is promised but not read here, which keeps this instance from taking over.
    unread: Vec<String>,
    is_hindered: bool,
    /// Something was reported, and what is not read here is still the same.
    is_told: bool,
}

impl Told {
    /// Sets the state, and logs what has changed.
    fn tell(
        &mut self,
        slot: &str,
        holder: Option<&Holder>,
        hindrance: Option<String>,
        vitals: &Vitals,
    ) {
        let is_same_holder = match (&self.holder, holder) {
            (Some(told), Some(holder)) => told.is(holder),
            (told, holder) => told.is_none() && holder.is_none(),
        };
        let is_hindered = hindrance.is_some();
        let is_news = !self.is_told || !is_same_holder || self.is_hindered != is_hindered;
        let mut reason = match holder {
            Some(holder) => format!("slot \"{slot}\" is held by {holder}"),
            None => format!("slot \"{slot}\" is free"),
        };
        if !self.unread.is_empty() {
            let unread = format!(
                ", and this instance does not take over: it does not read {}, which is promised \
                 for the slot; start it with the configuration that names them (postgres.tables, \
                 postgres.messages)",
                self.unread.join(", ")
            );
            reason.push_str(&unread);
        }
        if let Some(hindrance) = hindrance {
            reason.push_str(&format!(", and {hindrance}"));
        }
        let in_vain = is_hindered || !self.unread.is_empty();
        match in_vain {
            _ if !is_news => {}
            true => tracing::warn!("standing by: {reason}"),
            false => {
                tracing::info!(
                    "standing by: {reason}; this instance takes over when the slot is free"
                );
            }
        }
        // Every time, because the time since a broker was last reached changes.
        vitals.set_state(if in_vain { State::StandbyInVain } else { State::Standby }, Some(reason));
        self.holder = holder.cloned();
        (self.is_hindered, self.is_told) = (is_hindered, true);
    }
}

/// Terminates a walsender that has no relay any more, or logs why it can't. Returns how long to
/// wait before the next check.
async fn end(
    looking: &SlotProbe<'_>,
    holder: &Holder,
    orphan: &mut OrphanTimer,
) -> Result<Duration, SessionEnd> {
    match looking.end(holder).await {
        Ok(true) => {
            tracing::warn!(
                "terminated the orphaned walsender {holder}, which still held the slot: its relay \
                 is gone"
            );
            orphan.again_at(Instant::now());
            Ok(ENDED_WITHIN)
        }
        Ok(false) => Ok(LOOK_EVERY),
        Err(error) if is_denied(&error) => {
            tracing::warn!(
                reason = crate::postgres::describe(&error),
                "the relay of {holder} is gone, but this role is not allowed to terminate its \
                 walsender: GRANT EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) TO {}; \
                 waiting for wal_sender_timeout",
                looking.role
            );
            orphan.leave(holder);
            Ok(LOOK_EVERY)
        }
        Err(error) => Err(error.into()),
    }
}

/// A walsender without a relay, and since when.
#[derive(Default)]
struct OrphanTimer {
    since: Option<(Holder, Instant)>,
    /// It can't be terminated.
    left: Option<Holder>,
}

impl OrphanTimer {
    /// Whether the same walsender of ours has been without its relay for the whole grace period.
    fn is_due(&mut self, holder: &Holder, now: Instant) -> bool {
        let left = self.left.as_ref().is_some_and(|left| left.is(holder));
        // Without its start time, the session can't be identified.
        if !holder.ours || !holder.orphaned || holder.started.is_none() || left {
            self.since = None;
            return false;
        }
        match &self.since {
            Some((same, since)) if same.is(holder) => now.duration_since(*since) >= GRACE,
            _ => {
                self.since = Some((holder.clone(), now));
                false
            }
        }
    }

    /// It takes a moment to end.
    fn again_at(&mut self, now: Instant) {
        self.since = self.since.take().map(|(holder, _)| (holder, now));
    }

    fn leave(&mut self, holder: &Holder) {
        self.left = Some(holder.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_walsender_of_ours_that_stays_without_a_relay_is_ended() {
        let begun = Instant::now();
        let orphaned = Holder::of_ours(7, true);
        let mut orphan = OrphanTimer::default();
        let mut check = |holder: &Holder, seconds: u64, due: bool| {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(orphan.is_due(holder, now), due, "{holder:?} after {seconds} s");
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
        orphan.again_at(begun + Duration::from_secs(80));
        assert!(!orphan.is_due(&orphaned, begun + Duration::from_secs(81)));
        orphan.leave(&orphaned);
        assert!(!orphan.is_due(&orphaned, begun + Duration::from_secs(90)));
    }
}
