//! How a running relay is stopped: first it drains, then it stops at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The phase of a stop. Phases only increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No stop was requested.
    Running,
    /// Read nothing more; wait for the events in flight.
    Draining,
    /// Return promptly; events in flight are published again after the next start.
    Now,
}

/// The listening side. Clones see the same phase.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

impl Shutdown {
    /// A stop that the program requests itself. Dropping the handle requests nothing.
    pub fn channel() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// A stop by SIGTERM or SIGINT: the first drains, the second stops at once. Needs a Tokio
    /// runtime; the signals are handled until the guard is dropped.
    pub fn on_signals() -> io::Result<(SignalGuard, Self)> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (handle, shutdown) = Self::channel();
        let task = tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    Some(()) = terminate.recv() => "SIGTERM",
                    Some(()) = interrupt.recv() => "SIGINT",
                    else => break,
                };
                if handle.phase() == Phase::Running {
                    tracing::info!(
                        "{name}: draining events in flight; a second signal stops at once"
                    );
                    handle.drain();
                } else {
                    tracing::warn!("{name}: stopping at once");
                    handle.now();
                }
            }
        });
        Ok((SignalGuard(task), shutdown))
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Returns once draining, or an immediate stop, was requested. Cancel safe.
    pub async fn draining(&mut self) {
        self.reached(Phase::Draining).await;
    }

    /// Returns once an immediate stop was requested. Cancel safe.
    pub async fn now(&mut self) {
        self.reached(Phase::Now).await;
    }

    async fn reached(&mut self, phase: Phase) {
        if self.0.wait_for(|current| *current >= phase).await.is_err() {
            // The handle is gone: nobody can request a stop any more.
            std::future::pending::<()>().await;
        }
    }
}

/// The requesting side.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<Phase>);

impl ShutdownHandle {
    /// Requests to drain.
    pub fn drain(&self) {
        self.raise(Phase::Draining);
    }

    /// Requests to stop at once.
    pub fn now(&self) {
        self.raise(Phase::Now);
    }

    fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    fn raise(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let rises = *current < phase;
            *current = phase.max(*current);
            rises
        });
    }
}

/// Owns the task that listens for signals, and ends it when dropped.
#[derive(Debug)]
pub struct SignalGuard(JoinHandle<()>);

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn phases_only_rise_and_late_listeners_see_them() {
        let (handle, mut shutdown) = Shutdown::channel();
        assert_eq!(shutdown.phase(), Phase::Running);
        assert!(shutdown.draining().now_or_never().is_none());

        handle.drain();
        shutdown.draining().await;
        shutdown.draining().await;
        assert!(shutdown.now().now_or_never().is_none());

        handle.now();
        handle.drain();
        assert_eq!(shutdown.phase(), Phase::Now);
        shutdown.clone().draining().await;
        shutdown.now().await;
    }

    #[tokio::test]
    async fn a_dropped_handle_stops_nothing() {
        let (handle, mut shutdown) = Shutdown::channel();
        drop(handle);
        assert!(shutdown.draining().now_or_never().is_none());

        let (handle, mut shutdown) = Shutdown::channel();
        handle.drain();
        drop(handle);
        shutdown.draining().await;
    }
}
