//! Publishes rows that are in the tables already; the relay streams once that is done (ADR 20).

mod kept;
mod lease;
mod pass;
mod place;

use std::time::{Duration, Instant};

pub(super) use self::kept::unreadable;
use self::pass::{Pass, Rest};
use self::place::{PREPARING, Place};
use super::Relay;
use super::opening::open_lot;
use super::outgoing::Outgoing;
use super::stop::Stop;
use super::topic_queues::TopicQueues;
use crate::backfill::store::{Finish, Finished};
use crate::clock;
use crate::ops::State;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::ack::AckTracker;
use postrider_core::delivery::Obstacle;
use postrider_core::lsn::Lsn;

/// The label of restarts because somebody else is at it, or has begun anew.
pub(super) const ELSEWHERE: &str = "backfill_elsewhere";
/// While Postgres is waited for: how often to look whether a broker can be reached.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The label of restarts because the tables changed meanwhile.
const LAPSED: &str = "backfill_lapsed";

impl<S: Sink> Relay<S> {
    /// Does what is stored to be done; then the slot can be read.
    pub(super) async fn backfill(&mut self, shutdown: &mut Shutdown) -> Stop {
        match self.try_backfill(shutdown).await {
            Ok(()) => Stop::Backfill,
            Err(stop) => stop,
        }
    }

    async fn try_backfill(&mut self, shutdown: &mut Shutdown) -> Result<(), Stop> {
        let mut place = tokio::select! {
            biased;
            () = shutdown.draining() => return Err(Stop::Asked),
            place = self.prepare() => place?,
        };
        self.sink.restart().await?;
        let kind = place.job.kind.name();
        tracing::info!(kind, slot = self.config.postgres.slot, at = %place.starts_at,
            "publishing rows that are in the tables");
        let began = Instant::now();
        let rows = self.read_all(&mut place, shutdown).await?;
        self.finish(&mut place).await?;
        self.backfilled += rows;
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!(kind, rows, seconds, "all rows are published; the slot takes over");
        Ok(())
    }

    /// Making a slot waits for open transactions. Meanwhile a relay that can't reach a broker says so.
    async fn prepare(&mut self) -> Result<Place, Stop> {
        let Relay { config, destination, vitals, sink, .. } = self;
        let preparing = Place::prepare(&config.postgres, destination, vitals);
        tokio::pin!(preparing);
        let mut reports = Vec::new();
        loop {
            tokio::select! {
                biased;
                place = &mut preparing => return place,
                () = sink.news(&mut reports) => reports.clear(),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            // Before the lease is taken another instance may be at it.
            let is_ours = matches!(vitals.state(), State::Snapshotting | State::BlockedOnBroker);
            match sink.obstacle() {
                Some(Obstacle { text, certain: true }) if is_ours => {
                    vitals.set_state(State::BlockedOnBroker, Some(text));
                }
                _ if is_ours => vitals.set_state(State::Snapshotting, Some(PREPARING.to_owned())),
                _ => {}
            }
        }
    }

    /// Publishes the rows of all tables; gives back how many.
    async fn read_all(&mut self, place: &mut Place, shutdown: &mut Shutdown) -> Result<u64, Stop> {
        let lot = match self.parks {
            false => None,
            true => {
                let (desk, alarms) = (&mut self.desk, (&mut self.breaker, &mut self.notices));
                let Place { server, here, .. } = &*place;
                Some(open_lot(&self.config, server, here, desk, alarms).await?)
            }
        };
        let out = Outgoing {
            sink: &mut self.sink,
            acks: AckTracker::resume_at(Lsn::ZERO, None),
            kept: None,
            routes: &mut self.routes,
            metrics: &self.metrics,
            envelope: &self.envelope,
            tables: &self.config.postgres.tables,
            limits: &self.config.limits,
            reports: Vec::new(),
            full: false,
            lacks_room: false,
            stamp_wait_min: Duration::MAX,
            now: Instant::now(),
            clocks: clock::now(0),
            halted: 0,
            queues: TopicQueues::default(),
            lot,
        };
        let grace = self.config.relay.shutdown_timeout;
        let position = (place.starts_at, place.attempt.change_lsn());
        let mut pass = Pass::new(out, &self.vitals, position, grace);
        for number in 0..place.tables.len() {
            let Some((name, _, job)) = place.table(number) else { break };
            let estimate = place.estimate(number).await?;
            let doing = format!("{name}: finding out in which order its rows come");
            // A large table without useful ids takes its time.
            let (rows, order) = tokio::select! {
                biased;
                () = shutdown.draining() => return Err(Stop::Asked),
                read = pass.beside(&doing, place.read(number, &self.config.postgres)) => read?,
            };
            pass.begin_table(name, job.rows, estimate, order.is_unique());
            let rest = pass.publish(place, number, rows, shutdown).await?;
            if rest == Rest::Asked {
                return Err(Stop::Asked);
            }
        }
        Ok(pass.rows())
    }

    async fn finish(&self, place: &mut Place) -> Result<(), Stop> {
        let end = Finish {
            here: &place.here,
            starts_at: place.starts_at,
            seen_before: &place.seen_before,
            publication: &self.config.postgres.publication,
            tables: &place.job.tables,
            names: &self.config.postgres.table_names(),
            traces: &place.traces,
        };
        match place.attempt.finish(&mut place.control, &end).await? {
            Finished::Done => Ok(()),
            Finished::Overtaken => Err(overtaken()),
            Finished::Lapsed => Err(lapsed()),
        }
    }
}

/// The next try reads again what was written since the first one began.
fn lapsed() -> Stop {
    Stop::restart(
        LAPSED,
        "a table was replaced, or out of the publication, while its rows were being published; reading \
         again what was written meanwhile",
    )
}

/// Another instance does the same, and may go on.
fn overtaken() -> Stop {
    Stop::restart(ELSEWHERE, "another instance has begun to publish the rows of the tables")
}
