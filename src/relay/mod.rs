//! The relay: sessions, one after the other.
//!
//! A `session` tails the slot and publishes. Any transient failure ends it; the relay waits a
//! little and restarts from the stored position. That is the only recovery path, so every restart
//! exercises it. A failure that needs an operator ends the relay with a [`Fatal`], which has one
//! sentence about what happened and one about what to do; nothing is confirmed that is not done.

mod condition;
mod confirmer;
mod endpoint;
mod incoming;
mod listening;
mod open;
mod report;
mod session;
mod updates;

use std::sync::Arc;
use std::time::Instant;

use postrider_core::lsn::Lsn;
use tracing::Instrument;

pub use self::endpoint::Endpoint;
use self::open::Opening;
use self::report::Report;
use crate::backfill::run::{Published, publish_rows};
use crate::config::Config;
use crate::engine::{Engine, table_names};
use crate::ops::{PollerMetrics, Routes};
use crate::restarts::Restarts;
pub use crate::session_end::Fatal;
use crate::session_end::{RestartReason, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::{Sink, SinkFactory};
use crate::standby::{self, paused};

/// A relay that can be embedded in a program: it tails the slot and publishes, or only watches the
/// slot if it is paused, until it is stopped.
///
/// ```no_run
/// # async fn run(config: postrider::Config) -> Result<(), postrider::relay::Fatal> {
/// use postrider::shutdown::Shutdown;
/// use postrider::sink::kafka::Kafka;
///
/// let (stop, shutdown) = Shutdown::channel();
/// let kafka = Kafka::new(&config.kafka);
/// // `stop.drain()` from another task ends it.
/// postrider::Relay::builder(config).sink(kafka).run(shutdown).await
/// # }
/// ```
///
/// Several relays of one process share an [`Endpoint`].
pub struct Relay(());

impl Relay {
    /// Begins to build a relay. [`Config::from_file`] and [`Config::from_toml`] make
    /// configurations.
    pub fn builder(config: Config) -> RelayBuilder<()> {
        RelayBuilder { config, sink: (), report: None }
    }
}

/// A relay that is being built. It can be sent to the thread that will run it.
#[must_use = "a relay does nothing until it is run"]
pub struct RelayBuilder<F> {
    config: Config,
    sink: F,
    /// None: its own HTTP server.
    report: Option<Report>,
}

impl RelayBuilder<()> {
    /// Where events go.
    pub fn sink<F: SinkFactory>(self, sink: F) -> RelayBuilder<F> {
        let RelayBuilder { config, sink: (), report } = self;
        RelayBuilder { config, sink, report }
    }
}

impl<F> RelayBuilder<F> {
    /// Makes the relay one of several in this process. It is shown at the endpoint from now on, and
    /// starts no HTTP server of its own: `http.listen` is ignored. Its metrics have the label
    /// `relay="NAME"`, and its log lines the field `relay`.
    ///
    /// # Errors
    /// The name is not one to 64 ASCII letters, digits, dots, hyphens and underscores, or a relay
    /// of this name has not ended yet.
    pub fn report_to(mut self, endpoint: &Endpoint, name: &str) -> Result<Self, Fatal> {
        self.report = Some(Report::to(endpoint, name, &self.config)?);
        Ok(self)
    }
}

impl<F: SinkFactory> RelayBuilder<F> {
    /// Runs the relay until it is stopped, or until an operator is needed.
    ///
    /// The future is not `Send`, because sinks need not be: see [`Endpoint`] for how to run
    /// several. While there is a backlog, it blocks its thread for up to 5 ms at a time. If it is
    /// dropped before it is done, events in flight are given up, and published again at the next
    /// start.
    ///
    /// # Errors
    /// What happened, with what to do about it. Nothing was confirmed that is not done.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fatal> {
        let RelayBuilder { config, sink, report } = self;
        let mut report = match report {
            Some(report) => report,
            None => Report::alone(&config)?,
        };
        report.begin();
        let span = report.span();
        let running = async move {
            let result = publish(config, &sink, &report, shutdown).await;
            report.end(&result);
            result
        };
        // Boxed, because a program that awaits several relays would hold all of it several times.
        Box::pin(running).instrument(span).await
    }
}

async fn publish<F: SinkFactory>(
    config: Config,
    sink: &F,
    report: &Report,
    mut shutdown: Shutdown,
) -> Result<(), Fatal> {
    let (metrics, vitals) = (report.metrics.clone(), Arc::clone(&report.vitals));
    if !config.relay.enabled {
        return paused::run(&config.postgres, &vitals, &mut shutdown).await;
    }
    let observer = config.undelivered.parks().then(|| {
        let routes = Routes::new(metrics.clone(), table_names(&config));
        PollerMetrics::new(routes, Arc::clone(&vitals))
    });
    let mut sessions = Sessions {
        engine: Engine::start(config, sink, metrics, vitals, observer)?,
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

/// Sessions, and what is remembered from one to the next.
struct Sessions<S> {
    engine: Engine<S>,
    restarts: Restarts,
    /// The furthest position that this process has reported to the server.
    confirmed: Lsn,
    /// Where a session was given up because its producer was stuck.
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
            if matches!(end, SessionEnd::BackfillFirst) {
                match self.backfill(shutdown).await {
                    Ok(_) => continue,
                    Err(other) => end = other,
                }
            }
            if end.is_slot_in_use() {
                self.engine.metrics.restarted(RestartReason::SlotInUse.label());
                match self.stand_by(shutdown).await {
                    Ok(()) => continue,
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
            // An instance that is configured for another destination ends: it could never take
            // over.
            broken = background.refused() => Err(broken.into()),
            waited = standby::wait(&config.postgres, vitals, sink) => waited,
        }
    }

    /// Connects, streams, and returns why that ended. The producers end with it: what they have
    /// queued would arrive late, after newer events of the next session or of another instance.
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

    /// Publishes the rows of the tables. After that, or if another instance has done it, the next
    /// session streams.
    async fn backfill(&mut self, shutdown: &mut Shutdown) -> Result<Published, SessionEnd> {
        let end = publish_rows(&mut self.engine, shutdown).await;
        self.engine.sink.stop().await;
        end
    }
}
