//! The relay: sessions, one after the other.
//!
//! A [`session`] tails the slot and publishes. Anything transient that breaks ends it; the relay
//! waits a little and begins anew from the slot's confirmed position. That is the only recovery
//! path, so it is exercised by every restart. What needs a person ends the relay with a [`Fatal`]:
//! one sentence what happened, one what to do, nothing confirmed that is not done.

mod backfill;
mod condition;
mod desk;
mod flight;
mod forecast;
mod halting;
mod incoming;
mod lock;
mod lot;

mod opening;
mod outgoing;
mod paused;
mod preflight;
mod pulse;
mod recover;
mod renames;
mod retry;
mod room;
mod session;
mod source;
mod standby;
mod stop;

mod topic_queues;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;

use self::backfill::ELSEWHERE;
use self::desk::Desk;
pub use self::recover::{Doubtful, RecoverOptions, Recovery, Unread, recover};
pub use self::stop::Fatal;
use self::stop::{BROKER, NEEDS_TEXT, POSTGRES, REFUSED, Restart, SLOT_IN_USE, STUCK, Stop};
use crate::config::{Config, Order, UndeliveredConfig};
use crate::ops::{HttpServer, Metrics, PollerMetrics, Routes, State, Vitals};
use crate::progress::DestinationCheck;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use crate::sink::kafka::{KafkaSink, Settings};
use crate::undelivered::notices::{Fact, log};
use postrider_core::envelope::{Envelope, TableEnvelope};
use postrider_core::lsn::Lsn;
use postrider_core::parking::breaker::{Breaker, BreakerLimits};
use postrider_core::parking::notices::Notices;
use postrider_core::row::MESSAGES;

const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often to look whether another instance is done with the rows of the tables.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often the same trouble is told.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// A session that lasted this long was a good one: the next failure waits from the beginning.
const GOOD_SESSION: Duration = Duration::from_secs(10);
/// Tails the slot and publishes to Kafka, or only watches the slot, until told to stop.
pub async fn run(config: Config, mut shutdown: Shutdown) -> Result<(), Fatal> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let vitals = Arc::new(Vitals::register(&config.postgres.slot, &mut registry));
    let _http = match config.http.listen {
        None => None,
        Some(address) => {
            let server = HttpServer::start(address, Arc::clone(&vitals), registry);
            Some(server.map_err(|error| {
                Fatal::new(
                    format!("{error}: {}", error.source),
                    "name a free address in http.listen, or `off`",
                )
            })?)
        }
    };
    if !config.relay.enabled {
        return paused::run(&config.postgres, &vitals, &mut shutdown).await;
    }
    for caution in config.kafka.cautions() {
        tracing::warn!("{caution}");
    }
    // Nothing is parked where such events halt the relay.
    let parks = config.undelivered.order != Order::Halt;
    let observer = parks.then(|| {
        let routes = Routes::new(metrics.clone(), table_names(&config));
        PollerMetrics::new(routes, Arc::clone(&vitals))
    });
    let mut relay = make(config, metrics, vitals, observer)?;
    let result = relay.run(&mut shutdown).await;
    log(Fact::Parked, relay.notices.close(Instant::now()));
    relay.desk.stop(&mut shutdown, relay.config.relay.shutdown_timeout).await;
    result
}

/// A relay with its thread for our own tables; without an observer nothing is polled there.
fn make(
    config: Config,
    metrics: Metrics,
    vitals: Arc<Vitals>,
    observer: Option<PollerMetrics>,
) -> Result<Relay<KafkaSink>, Fatal> {
    let destination = DestinationCheck::new(&config);
    let sink = kafka_sink(&config, &destination)?;
    let desk = Desk::start(&config, &destination, observer, metrics.clone(), Arc::clone(&vitals))?;
    Ok(Relay {
        breaker: breaker(&config.undelivered),
        notices: Notices::new(Instant::now()),
        desk,
        destination,
        parks: config.undelivered.order != Order::Halt,
        routes: Routes::new(metrics.clone(), table_names(&config)),
        envelope: envelope(&config),
        config,
        sink,
        metrics,
        vitals,
        confirmed: Lsn::ZERO,
        told: None,
        quiet: false,
        stuck_at: None,
        stood_by: false,
        text_only: false,
        backfilled: 0,
    })
}

fn table_names(config: &Config) -> Vec<String> {
    envelope(config).tables.iter().map(|table| table.name.clone()).collect()
}

/// Messages come behind the tables, as if they were one more.
fn envelope(config: &Config) -> Envelope {
    let tables = config.postgres.tables.iter().map(|table| {
        let name = table.name.to_string();
        TableEnvelope { name, format: table.format }
    });
    let messages = config.postgres.messages.map(|format| {
        let name = MESSAGES.to_owned();
        TableEnvelope { name, format }
    });
    let whole_topic = config.undelivered.order == Order::ParkTopic;
    Envelope { tables: tables.chain(messages).collect(), whole_topic }
}

fn breaker(config: &UndeliveredConfig) -> Breaker {
    let limits = BreakerLimits {
        events: config.breaker_events as u64,
        share: config.breaker_share,
        window: config.breaker_window,
        bytes: config.breaker_bytes,
    };
    Breaker::new(limits, 0, Instant::now())
}

/// Settings of a sink that gives records up after a while, or never.
fn sink_settings(
    config: &Config,
    destination: &DestinationCheck,
    message_timeout: Option<Duration>,
) -> Settings {
    Settings {
        brokers: config.kafka.brokers.clone(),
        properties: config.kafka.properties.clone(),
        in_flight_events_max: config.limits.in_flight_events.max(),
        in_flight_bytes_max: config.limits.in_flight_bytes,
        message_timeout,
        approval: Some(destination.approval()),
    }
}

fn kafka_sink(config: &Config, destination: &DestinationCheck) -> Result<KafkaSink, Fatal> {
    let sink = KafkaSink::new(sink_settings(config, destination, None));
    sink.map_err(|broken| {
        Fatal::new(
            broken.to_string(),
            "correct kafka.properties: the files it names must be there, readable and PEM, and a key \
             must have its password in ssl.key.password",
        )
    })
}

/// What lives longer than a session.
struct Relay<S> {
    config: Config,
    /// The thread for our own tables.
    desk: Desk,
    /// Whether events go where they went before.
    destination: DestinationCheck,
    /// Whether events that can't be published are parked.
    parks: bool,
    breaker: Breaker,
    /// What was told of parked events.
    notices: Notices,
    sink: S,
    envelope: Envelope,
    routes: Routes,
    metrics: Metrics,
    vitals: Arc<Vitals>,
    /// The furthest position this process has told the server.
    confirmed: Lsn,
    /// The trouble last told to people, and when.
    told: Option<(String, Instant)>,
    /// The session before broke at the broker, which was told: the beginning of the next is no news.
    quiet: bool,
    /// Where a session was given up because its producer had stopped to move.
    stuck_at: Option<Lsn>,
    /// It has stood by since its last session: it takes over only if it reads all that is promised.
    stood_by: bool,
    /// A row had a type whose binary form is unknown.
    text_only: bool,
    /// Rows published from the tables themselves.
    backfilled: u64,
}

impl<S: Sink> Relay<S> {
    async fn run(&mut self, shutdown: &mut Shutdown) -> Result<(), Fatal> {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let mut stop = self.session(shutdown).await;
            if stop.is_slot_in_use() {
                self.metrics.restarted(SLOT_IN_USE);
                match self.stand_by(shutdown).await {
                    Ok(()) => continue,
                    Err(other) => stop = other,
                }
            }
            let restart = match stop {
                Stop::Asked => break,
                Stop::Halt(fatal) => return Err(fatal),
                // It is done, or was never begun.
                Stop::Backfill => continue,
                Stop::Restart(restart) => restart,
            };
            self.text_only |= restart.reason == NEEDS_TEXT;
            failures = if began.elapsed() > GOOD_SESSION { 0 } else { failures };
            // After a refusal one more topic is sent to with care: that is progress, not failure.
            let is_failure = restart.reason != REFUSED;
            let wait = self.wait_before_restart(&restart, if is_failure { failures } else { 0 });
            failures = failures.saturating_add(u32::from(is_failure));
            tokio::select! {
                () = shutdown.draining() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        tracing::info!(confirmed = %self.confirmed, "postrider stops");
        Ok(())
    }

    fn wait_before_restart(&mut self, restart: &Restart, failures: u32) -> Duration {
        self.metrics.restarted(restart.reason);
        if restart.reason == POSTGRES {
            self.metrics.fetch_errors.inc();
        }
        self.vitals.set_in_flight(0, 0, 0.0);
        let elsewhere = restart.reason == ELSEWHERE;
        let text = &restart.text;
        let (state, reason) = match standby::hindrance(&self.sink) {
            _ if !elsewhere => (State::Connecting, text.clone()),
            None => (State::Standby, text.clone()),
            Some(hindrance) => (State::StandbyInVain, format!("{text}; {hindrance}")),
        };
        self.vitals.set_state(state, Some(reason));
        // The same trouble again and again is told once in a while.
        let again = self
            .told
            .as_ref()
            .is_some_and(|(text, at)| *text == restart.text && at.elapsed() < TELL_AGAIN);
        self.quiet = again && restart.reason == BROKER;
        if !again {
            let (kind, reason) = (restart.reason, &restart.text);
            tracing::warn!(kind, reason, "beginning anew where it stood");
            self.told = Some((restart.text.clone(), Instant::now()));
        }
        if elsewhere {
            return LOOK_AGAIN;
        }
        let delay = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
        delay.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Connects, streams, and says why it ended. The producers end with it: what they have queued
    /// would arrive late, after newer events of the next session or of another instance.
    async fn session(&mut self, shutdown: &mut Shutdown) -> Stop {
        let stop = self.stream(shutdown).await;
        self.sink.stop().await;
        stop
    }

    async fn stream(&mut self, shutdown: &mut Shutdown) -> Stop {
        let limit = self.config.relay.shutdown_timeout;
        let opening = tokio::select! {
            biased;
            () = shutdown.draining() => return Stop::Asked,
            session = Self::open(self) => session,
        };
        let (mut session, _aside) = match opening {
            Ok(session) => session,
            Err(Stop::Backfill) => return self.backfill(shutdown).await,
            Err(stop) => return stop,
        };
        let stop = session.run(shutdown).await;
        let told = match &stop {
            // What is in flight may still be finished and confirmed.
            Stop::Asked | Stop::Halt(_) => session.drain(shutdown, limit).await,
            Stop::Restart(_) | Stop::Backfill => session.told,
        };
        self.confirmed = self.confirmed.max(told);
        if matches!(&stop, Stop::Restart(restart) if restart.reason == STUCK) {
            self.stuck_at = Some(told);
        }
        stop
    }
}
