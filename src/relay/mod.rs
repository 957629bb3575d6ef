//! The relay: sessions, one after the other.
//!
//! A [`session`] tails the slot and publishes. Anything transient that breaks ends it; the relay
//! waits a little and restarts from the stored position. That is the only recovery path, so every
//! restart exercises it. What needs an operator ends the relay with a [`Fatal`]: one sentence says what
//! happened, one says what to do, and nothing is confirmed that is not done.

mod condition;
mod confirmer;
mod incoming;
mod listening;
mod open;
mod session;

use std::sync::Arc;
use std::time::Instant;

use postrider_core::lsn::Lsn;
use prometheus_client::registry::Registry;

use self::open::Opening;
use crate::backfill::run::{Published, publish_rows};
use crate::config::Config;
use crate::engine::{Engine, table_names};
use crate::ops::{HttpServer, Metrics, PollerMetrics, Routes, Vitals};
use crate::restarts::Restarts;
pub use crate::session_end::Fatal;
use crate::session_end::{RestartReason, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::{Sink, SinkFactory};
use crate::standby::{self, paused};

/// A relay that can be embedded in a program: it tails the slot and publishes, or only watches the slot if
/// it is paused, until it is told to stop.
///
/// ```no_run
/// # async fn run(config: postrider::config::Config) -> Result<(), postrider::relay::Fatal> {
/// use postrider::shutdown::Shutdown;
/// use postrider::sink::kafka::Kafka;
///
/// let (stop, shutdown) = Shutdown::channel();
/// let kafka = Kafka::new(&config.kafka);
/// // `stop.drain()` from another task ends it.
/// postrider::Relay::builder(config).sink(kafka).run(shutdown).await
/// # }
/// ```
pub struct Relay(());

impl Relay {
    /// Begins to build a relay.
    pub fn builder(config: Config) -> RelayBuilder<()> {
        RelayBuilder { config, sink: () }
    }
}

/// A relay that is being built.
#[must_use = "a relay does nothing until it is run"]
pub struct RelayBuilder<F> {
    config: Config,
    sink: F,
}

impl RelayBuilder<()> {
    /// Where events go.
    pub fn sink<F: SinkFactory>(self, sink: F) -> RelayBuilder<F> {
        RelayBuilder { config: self.config, sink }
    }
}

impl<F: SinkFactory> RelayBuilder<F> {
    /// Runs the relay until it is told to stop, or until an operator is needed.
    ///
    /// # Errors
    /// What happened, with what to do about it. Nothing was confirmed that is not done.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<(), Fatal> {
        let RelayBuilder { config, sink } = self;
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
        let observer = config.undelivered.parks().then(|| {
            let routes = Routes::new(metrics.clone(), table_names(&config));
            PollerMetrics::new(routes, Arc::clone(&vitals))
        });
        let mut sessions = Sessions {
            engine: Engine::start(config, &sink, metrics, vitals, observer)?,
            restarts: Restarts::default(),
            confirmed: Lsn::ZERO,
            stuck_at: None,
            stood_by: false,
            text_only: false,
        };
        let result = sessions.run(&mut shutdown).await;
        sessions.engine.stop(&mut shutdown).await;
        result
    }
}

/// Sessions, and what is remembered from one to the next.
struct Sessions<S> {
    engine: Engine<S>,
    restarts: Restarts,
    /// The furthest position that this process has reported to the server.
    confirmed: Lsn,
    /// Where a session was given up because its producer got stuck.
    stuck_at: Option<Lsn>,
    /// It has stood by since its last session: it takes over only if it reads all that is promised.
    stood_by: bool,
    /// A row had a type whose binary form is unknown.
    text_only: bool,
}

impl<S: Sink> Sessions<S> {
    async fn run(&mut self, shutdown: &mut Shutdown) -> Result<(), Fatal> {
        loop {
            let began = Instant::now();
            let mut end = self.session(shutdown).await;
            if end.is_slot_in_use() {
                self.engine.metrics.restarted(RestartReason::SlotInUse.label());
                match self.stand_by(shutdown).await {
                    Ok(()) => continue,
                    Err(other) => end = other,
                }
            }
            if matches!(end, SessionEnd::BackfillFirst) {
                match self.backfill(shutdown).await {
                    Ok(_) => continue,
                    Err(other) => end = other,
                }
            }
            let restart = match end {
                SessionEnd::Shutdown => break,
                SessionEnd::Fatal(fatal) => return Err(fatal),
                SessionEnd::BackfillFirst => continue,
                SessionEnd::Restart(restart) => restart,
            };
            self.text_only |= restart.reason == RestartReason::NeedsText;
            let Engine { sink, metrics, vitals, .. } = &self.engine;
            let wait = self.restarts.note(&restart, began.elapsed(), sink, metrics, vitals);
            tokio::select! {
                () = shutdown.draining() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        tracing::info!(confirmed = %self.confirmed, "postrider stops");
        Ok(())
    }

    /// Waits until the slot is free, or until something else has to be done.
    async fn stand_by(&mut self, shutdown: &mut Shutdown) -> Result<(), SessionEnd> {
        self.stood_by = true;
        let Engine { config, background, vitals, sink, .. } = &mut self.engine;
        tokio::select! {
            biased;
            () = shutdown.draining() => Err(SessionEnd::Shutdown),
            // An instance that is configured for another destination ends: it could never take over.
            broken = background.refused() => Err(broken.into()),
            waited = standby::wait(&config.postgres, vitals, sink) => waited,
        }
    }

    /// Connects, streams, and says why it ended. The producers end with it: what they have queued
    /// would arrive late, after newer events of the next session or of another instance.
    async fn session(&mut self, shutdown: &mut Shutdown) -> SessionEnd {
        let end = self.stream(shutdown).await;
        self.engine.sink.stop().await;
        end
    }

    async fn stream(&mut self, shutdown: &mut Shutdown) -> SessionEnd {
        let limit = self.engine.config.relay.shutdown_timeout;
        let opening = Opening {
            is_quiet: self.restarts.is_quiet(),
            stuck_at: self.stuck_at,
            text_only: self.text_only,
            stood_by: self.stood_by,
        };
        let opened = tokio::select! {
            biased;
            () = shutdown.draining() => return SessionEnd::Shutdown,
            session = opening.open(&mut self.engine) => session,
        };
        let (mut session, _guards) = match opened {
            Ok(session) => session,
            Err(end) => return end,
        };
        self.stood_by = false;
        let end = session.run(shutdown).await;
        let reported = match &end {
            // What is in flight may still be finished and confirmed.
            SessionEnd::Shutdown | SessionEnd::Fatal(_) => session.drain(shutdown, limit).await,
            SessionEnd::Restart(_) | SessionEnd::BackfillFirst => session.reported_lsn(),
        };
        self.confirmed = self.confirmed.max(reported);
        if matches!(&end, SessionEnd::Restart(restart) if restart.reason == RestartReason::Stuck) {
            self.stuck_at = Some(reported);
        }
        end
    }

    /// Publishes the rows of the tables. After that, or if another instance has done it, the next session
    /// streams.
    async fn backfill(&mut self, shutdown: &mut Shutdown) -> Result<Published, SessionEnd> {
        let end = publish_rows(&mut self.engine, shutdown).await;
        self.engine.sink.stop().await;
        end
    }
}
