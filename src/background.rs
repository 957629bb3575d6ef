//! A thread of its own for postrider's own tables: parking, polling, cleaning and storing progress
//! must not slow the stream, and a busy stream must not slow them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use postrider_core::delivery::Broken;
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::cleaner::{Cleaner, Permits};
use crate::config::Config;
use crate::ops::{Metrics, PollerMetrics, Vitals};
use crate::parking::poller::Poller;
use crate::parking::session::PollerLink;
use crate::registry::SchemaSinks;
use crate::session_end::Fatal;
use crate::shutdown::{Shutdown, ShutdownHandle};
use crate::sink::{SinkFactory, SinkOptions};

/// Delivered keys that the relay has not processed yet; one that does not fit is found by a query.
const KEY_EVENTS_MAX: usize = 1024;

/// The thread, and the links to it.
pub(crate) struct Background {
    pub(crate) poller: PollerLink,
    /// Why parked events must not be sent before an operator has acted.
    refusals: mpsc::Receiver<Broken>,
    permits: Permits,
    stop: StopOnDrop,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

/// A relay whose future is dropped must not continue to retry events.
struct StopOnDrop(ShutdownHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.drain();
    }
}

impl Background {
    /// Without an observer nothing is polled.
    pub(crate) fn start<F: SinkFactory>(
        config: &Config,
        factory: SchemaSinks<F>,
        options: SinkOptions,
        observer: Option<PollerMetrics>,
        (metrics, vitals): (Metrics, Arc<Vitals>),
    ) -> Result<Self, Fatal> {
        let failed = |error: std::io::Error| {
            Fatal::new(
                format!("can't start a thread: {error}"),
                "free memory and file descriptors, then start again",
            )
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (key_sender, key_events) = mpsc::channel(KEY_EVENTS_MAX);
        let kick = Arc::new(Notify::new());
        let (refused, refusals) = mpsc::channel(1);
        let (permits, sessions) = Permits::channel();
        let cleaner = Cleaner::new(config, metrics, vitals, sessions);
        let (stop, mut shutdown) = Shutdown::channel();
        let (ending, ended) = oneshot::channel();
        let (config, woken) = (config.clone(), Arc::clone(&kick));
        // Names the relay in the log lines of this thread too, if there are several.
        let span = tracing::Span::current();
        let thread = std::thread::Builder::new().name("background".to_owned());
        let thread = thread
            .spawn(move || {
                let _span = span.enter();
                let cleaning = cleaner.run(shutdown.clone());
                // Created here: a sink does not move between threads. One with the same settings
                // has just been created for the stream.
                match observer.map(|observer| (factory.make(options), observer)) {
                    Some((Ok(sink), observer)) => {
                        let poller =
                            Poller::new(&config, sink, key_sender, woken, refused, observer);
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
                // Nobody waits any more: the process is about to end.
                let _ = ending.send(());
            })
            .map_err(failed)?;
        let poller = PollerLink { runtime: handle, key_events, kick };
        let stop = StopOnDrop(stop);
        Ok(Background { poller, refusals, permits, stop, ended, thread })
    }

    /// Waits until the poller's destination is refused.
    pub(crate) async fn refused(&mut self) -> Broken {
        match self.refusals.recv().await {
            Some(broken) => broken,
            // Nothing is polled.
            None => std::future::pending().await,
        }
    }

    /// Where a session gets its permit to clean.
    pub(crate) fn cleaning(&self) -> Permits {
        self.permits.clone()
    }

    /// Lets the poller finish what it has claimed.
    pub(crate) async fn stop(self, shutdown: &mut Shutdown, limit: Duration) {
        self.stop.0.drain();
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
