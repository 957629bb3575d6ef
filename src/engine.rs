//! What outlives a session, and what streaming and backfilling both use to publish.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::ack::{AckTracker, Done};
use postrider_core::envelope::Envelope;
use postrider_core::event::TableRules;
use postrider_core::parking::breaker::{Breaker, BreakerLimits};
use postrider_core::parking::notices::Notices;
use postrider_core::row::MESSAGES;

use crate::background::Background;
use crate::clock;
use crate::config::{Config, Order, UndeliveredConfig};
use crate::ops::{Metrics, PollerMetrics, Routes, Vitals};
use crate::parking::notices::log_parked;
use crate::parking::session::Parking;
use crate::postgres::Server;
use crate::progress::{DestinationCheck, Identity};
use crate::publish::flight::Flight;
use crate::publish::outgoing::Outgoing;
use crate::publish::topic_queues::TopicQueues;
use crate::registry::{SchemaSink, SchemaSinks};
use crate::session_end::{Fatal, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::{Sink, SinkFactory, SinkOptions};

/// What outlives a session.
pub(crate) struct Engine<S> {
    pub(crate) config: Config,
    /// The thread for postrider's own tables.
    pub(crate) background: Background,
    /// Whether events go to the same destination as before.
    pub(crate) destination: DestinationCheck,
    /// A name that no other relay has, not even in this process.
    pub(crate) instance: String,
    /// Whether events that can't be published are parked.
    pub(crate) parks: bool,
    breaker: Breaker,
    /// Which parked events have been logged.
    notices: Notices,
    pub(crate) sink: S,
    pub(crate) envelope: Envelope,
    routes: Routes,
    pub(crate) metrics: Metrics,
    pub(crate) vitals: Arc<Vitals>,
}

/// What an engine lends to a session.
pub(crate) struct Lent<'a, S, P> {
    pub(crate) config: &'a Config,
    pub(crate) vitals: &'a Arc<Vitals>,
    pub(crate) out: Outgoing<'a, S, P>,
}

impl<S: Sink> Engine<SchemaSink<S>> {
    /// An engine with its thread for postrider's own tables. Without an observer nothing is polled
    /// there.
    pub(crate) fn start<F: SinkFactory<Sink = S>>(
        config: Config,
        factory: &F,
        metrics: Metrics,
        vitals: Arc<Vitals>,
        observer: Option<PollerMetrics>,
    ) -> Result<Self, Fatal> {
        let destination = DestinationCheck::new(&config);
        let factory = SchemaSinks::new(factory.clone(), &config);
        let sink = factory
            .make(sink_options(&config, &destination, None))
            .map_err(|broken| Fatal::of_sink(&broken))?;
        // Given up well before the lease ends, so that nobody else has claimed the event by then.
        let give_up_after = config.undelivered.lease / 3;
        let mut options = sink_options(&config, &destination, Some(give_up_after));
        options.in_flight_events_max = options.in_flight_events_max.max(config.undelivered.batch);
        let background = (metrics.clone(), Arc::clone(&vitals));
        let background = Background::start(&config, factory, options, observer, background)?;
        Ok(Engine {
            breaker: breaker(&config.undelivered),
            notices: Notices::new(Instant::now()),
            background,
            destination,
            instance: instance(),
            parks: config.undelivered.order != Order::Halt,
            routes: Routes::new(metrics.clone(), table_names(&config)),
            envelope: envelope(&config),
            config,
            sink,
            metrics,
            vitals,
        })
    }
}

impl<S: Sink> Engine<S> {
    /// Lends a session everything that publishing needs. Reads the side table, if events are parked
    /// there.
    pub(crate) async fn lend<P: Copy + Ord>(
        &mut self,
        server: &Server,
        here: &Identity,
        acks: AckTracker<P, Flight>,
        stored: Option<Done>,
    ) -> Result<Lent<'_, S, P>, SessionEnd> {
        let Engine { config, background, breaker, notices, vitals, .. } = self;
        let parking = if !self.parks {
            None
        } else {
            let poller = &mut background.poller;
            Some(Parking::open(config, server, here, poller, breaker, notices).await?)
        };
        let out = Outgoing {
            sink: &mut self.sink,
            acks,
            stored,
            routes: &mut self.routes,
            metrics: &self.metrics,
            envelope: &self.envelope,
            tables: &config.postgres.tables,
            limits: &config.limits,
            reports: Vec::new(),
            full: false,
            lacks_room: false,
            stamp_wait_min: Duration::MAX,
            now: Instant::now(),
            clocks: clock::now(0),
            halted: 0,
            queues: TopicQueues::default(),
            parking,
        };
        Ok(Lent { config, vitals, out })
    }

    /// Ends the thread for postrider's own tables, and logs what has been counted so far.
    pub(crate) async fn stop(mut self, shutdown: &mut Shutdown) {
        log_parked(self.notices.end_period(Instant::now()));
        self.background.stop(shutdown, self.config.relay.shutdown_timeout).await;
    }
}

fn instance() -> String {
    let host = whoami::hostname().unwrap_or_default();
    format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>())
}

/// The tables that events come from; messages count as one more.
pub(crate) fn table_names(config: &Config) -> Vec<String> {
    envelope(config).tables.iter().map(|table| table.name.clone()).collect()
}

/// Messages come after the tables, as if they were one more.
fn envelope(config: &Config) -> Envelope {
    let tables = config.postgres.tables.iter().map(|table| {
        let (route, format) = (table.route.clone(), table.format.clone());
        let debezium = table.debezium.clone();
        TableRules { name: table.name.to_string(), route, format, debezium }
    });
    let messages = config.postgres.messages.clone().map(|(route, format)| {
        let name = MESSAGES.to_owned();
        TableRules { name, route, format, debezium: None }
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

/// Options of a sink that gives records up after a while, or never.
pub(crate) fn sink_options(
    config: &Config,
    destination: &DestinationCheck,
    give_up_after: Option<Duration>,
) -> SinkOptions {
    SinkOptions {
        in_flight_events_max: config.limits.in_flight_events.max(),
        in_flight_bytes_max: config.limits.in_flight_bytes,
        give_up_after,
        approval: Some(destination.approval()),
    }
}
