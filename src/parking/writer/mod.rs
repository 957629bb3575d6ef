//! Writes events into the side table: one task with a connection of its own, so that the relay's
//! loop never waits for SQL. It processes its commands in sequence, so its reports are in the same
//! sequence.

mod task;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use self::task::WriterTask;
use super::store;
use crate::config::{Order, UndeliveredConfig};
use crate::postgres::{self, OpenError, Server};
use crate::progress::Identity;
use postrider_core::delivery::Ticket;
use postrider_core::order::OrderKey;
use postrider_core::parking::EventToPark;
use postrider_core::parking::LiveTotal;
use postrider_core::parking::keys::HeldKeys;

/// With more rows than this, the keys are read page by page.
const ROWS_READ_MAX: usize = 200_000;
/// Room in a channel for what is not about an event: the question, and the end.
const CONTROL_SLOTS: usize = 2;

enum Command {
    Park(Ticket, Box<EventToPark>),
    /// Which of these keys have no live rows?
    FindFree(Vec<OrderKey>),
}

/// What the task has done.
#[derive(Debug)]
pub(crate) enum WriterEvent {
    /// These events are committed in the side table; false: the event was there before.
    Parked(Vec<(Ticket, bool)>),
    /// These keys had no live rows when they were looked for, after all that was parked before.
    Free(Vec<OrderKey>),
    /// It can't continue.
    Failed(String),
}

/// The relay's side of the task.
pub(crate) struct ParkingWriter {
    commands: mpsc::Sender<Command>,
    reports: mpsc::Receiver<WriterEvent>,
    task: JoinHandle<()>,
    /// A question is pending. More than one would take channel capacity from events.
    is_asking: bool,
}

/// What the side table holds when a session begins.
pub(crate) struct Holdings {
    pub(crate) keys: HeldKeys,
    pub(crate) live: LiveTotal,
    pub(crate) takeovers: i64,
}

impl ParkingWriter {
    /// Starts the task on the given runtime. Waits until an earlier relay of the slot has finished
    /// its writes.
    pub(crate) async fn open(
        runtime: &Handle,
        server: &Server,
        here: &Identity,
        slot: &str,
        config: &UndeliveredConfig,
        in_flight_events_max: usize,
    ) -> Result<(Self, Holdings), OpenError> {
        let (commands, received) = mpsc::channel(in_flight_events_max + CONTROL_SLOTS);
        let (reporting, reports) = mpsc::channel(in_flight_events_max + CONTROL_SLOTS);
        let (server, slot, config) = (server.clone(), slot.to_owned(), config.clone());
        let system_identifier = here.system_identifier.clone();
        // On the other runtime from the beginning: a connection lives where it was made.
        let opening = runtime.spawn(async move {
            let (mut client, guard) =
                postgres::connect_server(&server).await.map_err(OpenError::Connect)?;
            let whole_topic = config.order == Order::ParkTopic;
            let (parker, holdings) =
                read_holdings(&mut client, &slot, &system_identifier, whole_topic).await?;
            let task = WriterTask {
                client,
                _guard: guard,
                slot,
                parker,
                system_identifier,
                config,
                commands: received,
                reports: reporting,
            };
            Ok::<_, OpenError>((tokio::spawn(task.run()), holdings))
        });
        let (task, holdings) =
            opening.await.map_err(|error| OpenError::Ended(error.to_string()))??;
        Ok((ParkingWriter { commands, reports, task, is_asking: false }, holdings))
    }

    /// Hands an event over. The channel has space for everything that can be in flight.
    pub(crate) fn park(&self, ticket: Ticket, to_park: EventToPark) -> Result<(), String> {
        let command = Command::Park(ticket, Box::new(to_park));
        self.commands
            .try_send(command)
            .map_err(|_| "the side table's writer has ended, or its channel is full".to_owned())
    }

    /// Whether a question has not been answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Asks which keys are free. Until the answer arrives, nothing more is asked.
    pub(crate) fn find_free(&mut self, keys: Vec<OrderKey>) {
        self.is_asking = self.is_asking || self.commands.try_send(Command::FindFree(keys)).is_ok();
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> WriterEvent {
        let ended = || WriterEvent::Failed("the side table's writer has ended".to_owned());
        let event = self.reports.recv().await.unwrap_or_else(ended);
        self.is_asking &= !matches!(event, WriterEvent::Free(_));
        event
    }
}

impl Drop for ParkingWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_holdings(
    client: &mut Client,
    slot: &str,
    system_identifier: &str,
    whole_topic: bool,
) -> Result<(String, Holdings), tokio_postgres::Error> {
    store::begin_session(client).await?;
    let transaction = client.transaction().await?;
    let parker = store::begin_parking(&transaction, slot).await?;
    store::rescope(&transaction, slot, whole_topic).await?;
    let rebased = store::rebase(&transaction, slot, system_identifier).await?;
    transaction.commit().await?;
    // Without the lock, which others need: nobody else parks now, and keys that become free are
    // asked about later. This is read before the keys, so that a take-over in between is noticed.
    let takeovers = store::takeovers(client, slot).await?;
    let mut keys = HeldKeys::new(whole_topic);
    store::held_keys(client, slot, ROWS_READ_MAX, |key| keys.found(&key)).await?;
    let live = store::live_total(client, slot).await?;
    store::mark_takeovers_known(client, slot, takeovers).await?;
    if rebased > 0 {
        tracing::info!(
            events = rebased,
            slot,
            "parked events had positions in the WAL of another server; they now come before the \
             events that are parked here, in their order"
        );
    }
    Ok((parker, Holdings { keys, live, takeovers }))
}
