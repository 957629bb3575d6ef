//! The permission to clean: a session gives it while it streams.

use std::sync::Arc;

use tokio::sync::watch;

use crate::postgres::Server;

/// A session that streams: its server, and the generation of its slot.
pub(crate) struct Streaming {
    pub(crate) server: Server,
    pub(crate) generation: String,
}

/// Where sessions get their permits.
#[derive(Clone)]
pub(crate) struct Permits(watch::Sender<Option<Arc<Streaming>>>);

impl Permits {
    pub(crate) fn channel() -> (Self, Sessions) {
        let (sender, receiver) = watch::channel(None);
        (Permits(sender), Sessions(receiver))
    }

    /// The session counts as streaming until the permit is dropped.
    pub(crate) fn give(&self, session: Streaming) -> Permit {
        self.0.send_replace(Some(Arc::new(session)));
        Permit(self.0.clone())
    }
}

/// A session's permit; it ends with the session.
pub(crate) struct Permit(watch::Sender<Option<Arc<Streaming>>>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// The cleaner's end of the channel.
#[derive(Clone)]
pub(crate) struct Sessions(watch::Receiver<Option<Arc<Streaming>>>);

impl Sessions {
    /// The session that streams now, or the next one that does. Cancel safe.
    pub(crate) async fn current(&mut self) -> Arc<Streaming> {
        loop {
            if let Some(session) = self.0.borrow_and_update().clone() {
                return session;
            }
            self.changed().await;
        }
    }

    /// Returns once the session that was seen last has ended. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // No session will stream any more.
            std::future::pending::<()>().await;
        }
    }
}
