//! A relay that waits for its slot: ready, on one connection, with one query every half second.
//!
//! Another instance has the slot, or another program. When the slot is free, or something is wrong
//! with it, a session is opened in the one normal way; an instance that loses that race comes back
//! here.

mod forecast;
mod last_report;
pub(crate) mod liveness;
mod orphan;
pub(crate) mod paused;
pub(crate) mod slot_watch;

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_postgres::Client;

use self::last_report::LastReport;
use self::liveness::SlotProbe;
use self::orphan::{OrphanTimer, terminate};
use crate::checks;
use crate::config::PostgresConfig;
use crate::ops::Vitals;
use crate::postgres::{Connected, connect};
use crate::session_end::{RestartReason, SessionEnd};
use crate::sink::Sink;

/// How often it is asked who has the slot.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// How often everything is checked that would keep this relay from taking over.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// What would keep this instance from publishing if it had the slot now, as text for people.
pub(crate) fn publishing_obstacle(sink: &impl Sink) -> Option<String> {
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
    let probe = preparing.await.map_err(silent)??;
    let (mut last, mut orphan_timer) = (LastReport::default(), OrphanTimer::default());
    let mut checked_at = Instant::now();
    loop {
        let holder = timeout(limit, probe.holder()).await.map_err(silent)??;
        let must_check = checked_at.elapsed() >= CHECK_EVERY;
        if holder.is_none() || must_check || !last.was_reported() {
            let checking = timeout(limit, checks::unread_by(&client, config));
            let unread = checking.await.map_err(silent)??;
            // An instance that reads less than was promised would only stop at the first row that
            // it does not read.
            if holder.is_none() && unread.is_empty() {
                return Ok(());
            }
            last.set_unread(unread);
        }
        last.report(&config.slot, holder.as_ref(), publishing_obstacle(sink), vitals);
        let mut pause = PROBE_EVERY;
        if let Some(holder) =
            holder.as_ref().filter(|it| orphan_timer.may_be_terminated(it, Instant::now()))
        {
            let ending = timeout(limit, terminate(&probe, holder, &mut orphan_timer));
            pause = ending.await.map_err(silent)??;
        }
        if must_check {
            let checking = async {
                checks::check_startup(&client, config).await?;
                Ok::<_, SessionEnd>(slot_watch::slot_position(&client, &config.slot).await?)
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
