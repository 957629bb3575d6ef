//! The way into the table: one task with a connection of its own, so that the relay's loop never
//! waits for SQL. One position at a time; while it is on its way the next one grows.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::StoredLsn;
use super::store::Storing;
use crate::ack::ConfirmedLsn;
use crate::lsn::Lsn;
use crate::postgres::{self, ConnectionGuard, OpenError, Server};

/// How often the publication is looked at.
const INTACT_EVERY: Duration = Duration::from_secs(10);

/// What came of storing a position.
#[derive(Debug)]
pub(crate) enum KeeperNews {
    /// It is stored, and may be told; with a position: once the stream has come so far.
    Stored(StoredLsn, Option<Lsn>),
    /// It can't go on.
    Failed(String),
}

/// The relay's end.
pub(crate) struct Keeper {
    orders: mpsc::Sender<ConfirmedLsn>,
    news: mpsc::Receiver<KeeperNews>,
    task: JoinHandle<()>,
    is_storing: bool,
}

impl Keeper {
    /// Begins on the given runtime.
    pub(crate) async fn open(
        runtime: &Handle,
        server: &Server,
        slot: &str,
        generation: &str,
        reads_messages: bool,
    ) -> Result<Self, OpenError> {
        let (orders, inbox) = mpsc::channel(1);
        let (outbox, news) = mpsc::channel(1);
        let (server, slot) = (server.clone(), slot.to_owned());
        let generation = generation.to_owned();
        // On the other runtime from the beginning: a connection lives where it was made.
        let opening = runtime.spawn(async move {
            let connecting = postgres::connect_server(&server).await;
            let (client, guard) = connecting.map_err(OpenError::Connect)?;
            let storing = Storing::prepare(&client, slot, generation, reads_messages).await;
            let storing = storing.map_err(OpenError::Query)?;
            Ok::<_, OpenError>(tokio::spawn(keep(client, guard, storing, inbox, outbox)))
        });
        let task = opening.await.map_err(|error| OpenError::Ended(error.to_string()))??;
        Ok(Keeper { orders, news, task, is_storing: false })
    }

    /// Whether a position is on its way.
    pub(crate) fn is_storing(&self) -> bool {
        self.is_storing
    }

    /// Stores a position, unless another is on its way.
    pub(crate) fn store(&mut self, position: ConfirmedLsn) {
        self.is_storing = self.is_storing || self.orders.try_send(position).is_ok();
    }

    /// Waits for news. Cancel safe.
    pub(crate) async fn news(&mut self) -> KeeperNews {
        let ended = || KeeperNews::Failed("the task that stores progress has ended".to_owned());
        let news = self.news.recv().await.unwrap_or_else(ended);
        self.is_storing = false;
        news
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(
    client: Client,
    mut guard: ConnectionGuard,
    storing: Storing,
    mut inbox: mpsc::Receiver<ConfirmedLsn>,
    news: mpsc::Sender<KeeperNews>,
) {
    let mut seen_intact = Instant::now();
    loop {
        let position = tokio::select! {
            biased;
            // Whoever can't store should not stream: another may be about to take over.
            reason = guard.ended() => {
                let reason = reason.map(|error| postgres::describe(&error)).unwrap_or_default();
                let text = format!("Postgres closed the session that stores progress: {reason}");
                let _ = news.send(KeeperNews::Failed(text)).await;
                return;
            }
            position = inbox.recv() => match position {
                Some(position) => position,
                None => return,
            },
        };
        let mut stored = storing.store(&client, position.lsn()).await;
        if stored.is_ok() && seen_intact.elapsed() > INTACT_EVERY {
            seen_intact = Instant::now();
            stored = storing.note_intact(&client).await.and(stored);
        }
        let told = match stored {
            Ok(true) => match storing.shown_by(&client).await {
                Ok(shown_by) => KeeperNews::Stored(StoredLsn(position.lsn()), shown_by),
                Err(error) => KeeperNews::Failed(format!(
                    "can't read the log's end: {}",
                    postgres::describe(&error)
                )),
            },
            Ok(false) => KeeperNews::Failed(
                "the slot's row in postrider.progress is gone, or another one, or messages are promised \
                 that this relay does not read"
                    .to_owned(),
            ),
            Err(error) => {
                KeeperNews::Failed(format!("can't store progress: {}", postgres::describe(&error)))
            }
        };
        let failed = matches!(told, KeeperNews::Failed(_));
        // Nobody listens: the session is over.
        if news.send(told).await.is_err() || failed {
            return;
        }
    }
}
