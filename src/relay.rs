//! The relay: sessions, one after the other.
//!
//! A [`session`] tails the slot and publishes. Anything transient that breaks ends it; the relay
//! waits a little and begins anew from the slot's confirmed position. That is the only recovery
//! path, so it is exercised by every restart. What needs a person ends the relay with a [`Fatal`]:
//! one sentence what happened, one what to do, nothing confirmed that is not done.

mod desk;
mod forecast;
mod incoming;
mod lot;
mod outgoing;
mod paused;
mod preflight;
mod session;
mod source;
mod stop;
mod ties;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use tokio_postgres::Client;

use self::desk::Desk;
use self::incoming::Incoming;
use self::lot::Lot;
use self::outgoing::Outgoing;
use self::preflight::Facts;
use self::session::Session;
pub use self::stop::Fatal;
use self::stop::{BROKER, NEEDS_TEXT, POSTGRES, Restart, SLOT_IN_USE, STUCK, Stop};
use self::watch::SlotWatch;
use crate::ack::AckTracker;
use crate::config::{Config, Order, PostgresConfig, UndeliveredConfig};
use crate::envelope::{Envelope, TableEnvelope};
use crate::feedback::Feedback;
use crate::lsn::Lsn;
use crate::ops::{HttpServer, Metrics, PollerMetrics, Routes, State, Vitals};
use crate::outbox::MESSAGES;
use crate::postgres::{Connected, ConnectionGuard, Server};
use crate::replication::{ReplicationError, ReplicationStream, StreamOptions};
use crate::shutdown::Shutdown;
use crate::sink::kafka::{KafkaSink, Settings};
use crate::sink::{Obstacle, Sink};
use crate::undelivered::breaker::{Breaker, BreakerLimits};
use crate::undelivered::keys::HeldKeys;
use crate::undelivered::parker::Parking;

const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A slot that is only busy is asked for again this often.
const SLOT_RETRY: Duration = Duration::from_millis(500);
/// How often the same trouble is told.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// A session that lasted this long was a good one: the next failure waits from the beginning.
const GOOD_SESSION: Duration = Duration::from_secs(10);
/// Opening a session may take this many times what connecting may take.
const OPENING_SHARES: u32 = 3;
/// How long a server may be silent: as long as it lets us be, but not less than this. While it
/// decodes a large transaction of other tables it answers only every half of that time.
const SILENCE_MIN: Duration = Duration::from_secs(10);
/// Where it lets us be silent for ever.
const SILENCE_DEFAULT: Duration = Duration::from_secs(60);

/// Tails the slot and publishes to Kafka, or only watches the slot, until told to stop.
pub async fn run(config: Config, mut shutdown: Shutdown) -> Result<(), Fatal> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let vitals = Arc::new(Vitals::register(&config.postgres.slot, &mut registry));
    let _http = match config.http.listen {
        None => None,
        Some(address) => {
            let server = HttpServer::start(address, Arc::clone(&vitals), registry).await;
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
    let sink = kafka_sink(&config)?;
    let envelope = envelope(&config.postgres);
    let names: Vec<String> = envelope.tables.iter().map(|table| table.name.clone()).collect();
    // Nothing is parked where such events halt the relay.
    let parks = config.undelivered.order != Order::Halt;
    let routes = Routes::new(metrics.clone(), names.clone());
    let observer = PollerMetrics::new(routes, Arc::clone(&vitals));
    let desk = parks.then(|| Desk::start(&config, observer)).transpose()?;
    let mut relay = Relay {
        breaker: breaker(&config.undelivered),
        desk,
        routes: Routes::new(metrics.clone(), names),
        envelope,
        config,
        sink,
        metrics,
        vitals,
        confirmed: Lsn::ZERO,
        told: None,
        quiet: false,
        stuck_at: None,
        text_only: false,
    };
    let result = relay.run(&mut shutdown).await;
    if let Some(desk) = relay.desk.take() {
        desk.stop(&mut shutdown, relay.config.relay.shutdown_timeout).await;
    }
    result
}

/// Messages come behind the tables, as if they were one more.
fn envelope(config: &PostgresConfig) -> Envelope {
    let tables = config.tables.iter().map(|table| {
        let name = table.name.to_string();
        TableEnvelope { name, format: table.format }
    });
    let messages = config.messages.map(|format| {
        let name = MESSAGES.to_owned();
        TableEnvelope { name, format }
    });
    Envelope { tables: tables.chain(messages).collect() }
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
fn sink_settings(config: &Config, message_timeout: Option<Duration>) -> Settings {
    Settings {
        brokers: config.kafka.brokers.clone(),
        properties: config.kafka.properties.clone(),
        in_flight_events_max: config.limits.in_flight_events,
        in_flight_bytes_max: config.limits.in_flight_bytes,
        message_timeout,
    }
}

fn kafka_sink(config: &Config) -> Result<KafkaSink, Fatal> {
    let sink = KafkaSink::new(sink_settings(config, None));
    sink.map_err(|broken| {
        Fatal::new(
            broken.to_string(),
            "correct kafka.properties: the files it names must be there, readable and PEM, and a key \
             must have its password in ssl.key.password",
        )
    })
}

/// A stream, and what was learned on the way to it.
struct Opened {
    client: Client,
    postgres: ConnectionGuard,
    server: Server,
    stream: ReplicationStream,
    facts: Facts,
    start: Lsn,
}

/// The part of opening a session that waits for Postgres.
async fn open_stream(
    config: &PostgresConfig,
    text_only: bool,
    parks: bool,
) -> Result<Opened, Stop> {
    let Connected { client, guard, server } = crate::postgres::connect(&config.connection).await?;
    let mut facts = preflight::check(&client, config).await?;
    facts.binary &= !text_only;
    let options = StreamOptions {
        slot: config.slot.clone(),
        publication: config.publication.clone(),
        binary: facts.binary,
        messages: config.messages.is_some(),
        client_encoding: facts.client_encoding,
    };
    let stream = ReplicationStream::start(&server, &options).await?;
    if parks {
        preflight::check_side_table(&client).await?;
    }
    let start = preflight::confirmed_position(&client, &config.slot).await?;
    Ok(Opened { client, postgres: guard, server, stream, facts, start })
}

/// The part that waits for the side table.
async fn open_lot<'a>(
    config: &Config,
    server: &Server,
    desk: &'a mut Desk,
    breaker: &'a mut Breaker,
) -> Result<Lot<'a>, Stop> {
    let undelivered = &config.undelivered;
    let in_flight = config.limits.in_flight_events;
    let opening =
        Parking::open(&desk.runtime, server, &config.postgres.slot, undelivered, in_flight);
    let (parking, holdings) = opening.await?;
    breaker.set_live_bytes(holdings.live_bytes);
    breaker.mark(Instant::now());
    Ok(Lot {
        parking,
        by_key: undelivered.order == Order::ParkKey,
        keys: HeldKeys::new(holdings.keys),
        breaker,
        key_news: &mut desk.key_news,
        kick: Arc::clone(&desk.kick),
        handover_rows_max: undelivered.batch,
        check_every: undelivered.poll_interval,
        checked_at: Instant::now(),
        counted_at: Instant::now(),
        on_the_way: HashMap::new(),
        again: BTreeSet::new(),
        probe: None,
    })
}

/// What lives longer than a session.
struct Relay<S> {
    config: Config,
    /// The side table's thread, if events are parked.
    desk: Option<Desk>,
    breaker: Breaker,
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
    /// A row had a type whose binary form is unknown.
    text_only: bool,
}

impl<S: Sink> Relay<S> {
    async fn run(&mut self, shutdown: &mut Shutdown) -> Result<(), Fatal> {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let restart = match self.session(shutdown).await {
                Stop::Asked => break,
                Stop::Halt(fatal) => return Err(fatal),
                Stop::Restart(restart) => restart,
            };
            self.text_only |= restart.reason == NEEDS_TEXT;
            failures = if began.elapsed() > GOOD_SESSION { 0 } else { failures };
            let wait = self.wait_before_restart(&restart, failures);
            failures = failures.saturating_add(1);
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
        self.vitals.set_state(State::Connecting, Some(restart.text.clone()));
        let busy = restart.reason == SLOT_IN_USE;
        let wait = if busy {
            SLOT_RETRY
        } else {
            let delay = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
            delay.mul_f64(rand::random_range(0.5..=1.0))
        };
        // The same trouble again and again is told once in a while.
        let again = self
            .told
            .as_ref()
            .is_some_and(|(text, at)| *text == restart.text && at.elapsed() < TELL_AGAIN);
        self.quiet = again && restart.reason == BROKER;
        if !again {
            let next = if busy { "waiting for the slot" } else { "beginning anew where it stood" };
            tracing::warn!(kind = restart.reason, reason = restart.text, "{next}");
            self.told = Some((restart.text.clone(), Instant::now()));
        }
        wait
    }

    /// Connects, streams, and says why it ended.
    async fn session(&mut self, shutdown: &mut Shutdown) -> Stop {
        let limit = self.config.relay.shutdown_timeout;
        let opening = tokio::select! {
            biased;
            () = shutdown.draining() => return Stop::Asked,
            session = Self::open(self) => session,
        };
        let (mut session, _watch) = match opening {
            Ok(session) => session,
            Err(stop) => return stop,
        };
        let stop = session.run(shutdown).await;
        let told = match &stop {
            // What is in flight may still be finished and confirmed.
            Stop::Asked | Stop::Halt(_) => session.drain(shutdown, limit).await,
            Stop::Restart(_) => session.told,
        };
        self.confirmed = self.confirmed.max(told);
        if matches!(&stop, Stop::Restart(restart) if restart.reason == STUCK) {
            self.stuck_at = Some(told);
        }
        stop
    }

    async fn open(&mut self) -> Result<(Session<'_, S>, SlotWatch), Stop> {
        let config = &self.config.postgres;
        // A link that goes silent between two steps must not hold the relay for ever.
        let limit = config.connection.connect_limit().saturating_mul(OPENING_SHARES);
        let opening = open_stream(config, self.text_only, self.desk.is_some());
        let opening = tokio::time::timeout(limit, opening).await;
        let Opened { client, postgres, server, stream, facts, start } =
            opening.map_err(|_| ReplicationError::Silent(limit))??;
        if self.confirmed > Lsn::ZERO && start > self.confirmed {
            tracing::warn!(
                ours = %self.confirmed, slot = %start,
                "the slot is ahead of what this relay confirmed: somebody else has moved it"
            );
        }
        self.sink.restart().await?;
        let lot = match &mut self.desk {
            None => None,
            Some(desk) => {
                let opening = open_lot(&self.config, &server, desk, &mut self.breaker);
                let lot = tokio::time::timeout(limit, opening).await;
                Some(lot.map_err(|_| ReplicationError::Silent(limit))??)
            }
        };
        if !self.quiet {
            let sslmode = config.connection.tls.mode.to_string();
            let tables: Vec<&str> =
                self.envelope.tables.iter().map(|it| it.name.as_str()).collect();
            tracing::info!(
                from = %start,
                slot = config.slot,
                server = server.name(),
                tls = if stream.is_encrypted() { sslmode.as_str() } else { "none" },
                tables = tables.join(", "),
                brokers = self.config.kafka.brokers,
                "postrider {} publishes the outbox to Kafka", env!("CARGO_PKG_VERSION"),
            );
        }
        match self.sink.obstacle() {
            Some(Obstacle { text, certain: true }) => {
                self.vitals.set_state(State::BlockedOnBroker, Some(text));
            }
            _ => self.vitals.set_state(State::Streaming, None),
        }
        let watch = SlotWatch::start(client, config.slot.clone(), Arc::clone(&self.vitals));
        let timeout = facts.wal_sender_timeout;
        let now = Instant::now();
        let session = Session {
            stream,
            postgres,
            incoming: Incoming::new(&config.tables, config.messages.is_some(), facts),
            out: Outgoing {
                sink: &mut self.sink,
                acks: AckTracker::resume_at(start),
                routes: &mut self.routes,
                metrics: &self.metrics,
                envelope: &self.envelope,
                tables: &config.tables,
                limits: &self.config.limits,
                reports: Vec::new(),
                full: false,
                stamp_age_min: Duration::MAX,
                halted: 0,
                lot,
            },
            feedback: Feedback::new(timeout),
            vitals: &self.vitals,
            silence_max: match timeout {
                Duration::ZERO => SILENCE_DEFAULT,
                timeout => timeout.max(SILENCE_MIN),
            },
            listening_since: now,
            last_read: now,
            acknowledged_at: now,
            close_at: None,
            told: start,
            stuck_at: self.stuck_at,
            stopping: false,
        };
        Ok((session, watch))
    }
}
