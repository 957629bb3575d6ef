//! A thread of its own for postrider's own tables: parking, polling, cleaning and storing progress
//! must not slow the stream, and a busy stream must not slow them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, mpsc, oneshot};

use super::sink_settings;
use super::stop::Fatal;
use crate::cleaner::{Cleaner, Permits};
use crate::config::Config;
use crate::ops::{Metrics, PollerMetrics, Vitals};
use crate::progress::DestinationCheck;
use crate::shutdown::{Shutdown, ShutdownHandle};
use crate::sink::kafka::KafkaSink;
use crate::undelivered::poller::{KeyNews, Poller};
use postrider_core::delivery::Broken;

/// News of keys that may wait for the relay; one that does not fit is found out by asking.
const KEY_NEWS_MAX: usize = 1024;

/// The thread, and the ways to it.
pub(super) struct Desk {
    pub(super) runtime: Handle,
    pub(super) key_news: mpsc::Receiver<KeyNews>,
    /// Wakes the poller.
    pub(super) kick: Arc<Notify>,
    /// Why parked events may not be sent before an operator has done something.
    refusals: mpsc::Receiver<Broken>,
    permits: Permits,
    stop: ShutdownHandle,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Desk {
    /// Without an observer there is nothing to be polled for.
    pub(super) fn start(
        config: &Config,
        destination: &DestinationCheck,
        observer: Option<PollerMetrics>,
        metrics: Metrics,
        vitals: Arc<Vitals>,
    ) -> Result<Self, Fatal> {
        let failed = |error: std::io::Error| {
            Fatal::new(
                format!("can't start a thread: {error}"),
                "free memory and file descriptors, then start again",
            )
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (news, key_news) = mpsc::channel(KEY_NEWS_MAX);
        let kick = Arc::new(Notify::new());
        let (refused, refusals) = mpsc::channel(1);
        let (permits, sessions) = Permits::channel();
        let cleaner = Cleaner::new(config, metrics, vitals, sessions);
        let (stop, mut shutdown) = Shutdown::channel();
        let (ending, ended) = oneshot::channel();
        // Given up well before the lease ends, so that nobody else has taken the event by then.
        let timeout = config.undelivered.lease / 3;
        let mut settings = sink_settings(config, destination, Some(timeout));
        settings.in_flight_events_max = settings.in_flight_events_max.max(config.undelivered.batch);
        let (config, woken) = (config.clone(), Arc::clone(&kick));
        let thread = std::thread::Builder::new().name("desk".to_owned());
        let thread = thread
            .spawn(move || {
                let cleaning = cleaner.run(shutdown.clone());
                // Made here: a sink does not move between threads. One of the same settings has just
                // been made for the stream.
                match observer.map(|observer| (KafkaSink::new(settings), observer)) {
                    Some((Ok(sink), observer)) => {
                        let poller = Poller::new(&config, sink, news, woken, refused, observer);
                        let polling = poller.run(shutdown);
                        runtime.block_on(async { tokio::join!(polling, cleaning) });
                    }
                    Some((Err(broken), _)) => {
                        tracing::error!(reason = broken.text, "parked events will not be retried");
                        runtime.block_on(async { tokio::join!(shutdown.draining(), cleaning) });
                    }
                    None => {
                        runtime.block_on(async { tokio::join!(shutdown.draining(), cleaning) });
                    }
                }
                runtime.shutdown_background();
                // Nobody waits any more: the process is on its way out.
                let _ = ending.send(());
            })
            .map_err(failed)?;
        Ok(Desk { runtime: handle, key_news, kick, refusals, permits, stop, ended, thread })
    }

    /// Waits until the poller is refused its destination.
    pub(super) async fn refused(&mut self) -> Broken {
        match self.refusals.recv().await {
            Some(broken) => broken,
            // Nobody polls.
            None => std::future::pending().await,
        }
    }

    /// Where a session gets its permit to clean.
    pub(super) fn cleaning(&self) -> Permits {
        self.permits.clone()
    }

    /// Lets the poller finish what it has taken up.
    pub(super) async fn stop(self, shutdown: &mut Shutdown, limit: Duration) {
        self.stop.drain();
        let in_time = tokio::select! {
            ended = self.ended => ended.is_ok(),
            () = shutdown.now() => false,
            () = tokio::time::sleep(limit) => false,
        };
        if in_time && self.thread.join().is_err() {
            tracing::error!("the thread for postrider's own tables has failed");
        }
    }
}
