//! Writes events into the side table: one task with a connection of its own, so that the relay's
//! loop never waits for SQL. It processes its commands in sequence, so its reports are in the same
//! sequence.

use std::collections::HashSet;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::store::{self, ParkError};
use crate::config::{Order, UndeliveredConfig};
use crate::postgres::{self, ConnectionGuard, OpenError, Server};
use crate::progress::Identity;
use postrider_core::delivery::Ticket;
use postrider_core::order::OrderKey;
use postrider_core::parking::keys::HeldKeys;
use postrider_core::parking::{EventToPark, LiveTotal, ParkAs, backoff};

/// With more rows than this, the keys are read page by page.
const ROWS_READ_MAX: usize = 200_000;
/// Room in a channel for what is not about an event: the question, and the end.
const CONTROL_SLOTS: usize = 2;

/// Rows and bytes of one transaction at the most.
const BATCH_EVENTS: usize = 500;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long to wait for more events after a batch that was not full. Otherwise each event of a
/// steady trickle would be a transaction of its own, and take capacity of Postgres from the stream.
const GATHER: Duration = Duration::from_millis(20);

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
) -> Result<(String, Holdings), Error> {
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

/// The task that writes: it parks events in batches, and answers which keys are free.
struct WriterTask {
    client: Client,
    _guard: ConnectionGuard,
    slot: String,
    /// Proves that no later session parks.
    parker: String,
    system_identifier: String,
    config: UndeliveredConfig,
    commands: mpsc::Receiver<Command>,
    reports: mpsc::Sender<WriterEvent>,
}

impl WriterTask {
    async fn run(mut self) {
        let mut commands = Vec::new();
        loop {
            let count = self.commands.recv_many(&mut commands, BATCH_EVENTS).await;
            if count == 0 {
                return;
            }
            if let Err(error) = self.process(std::mem::take(&mut commands)).await {
                let text = format!("can't park events: {error}");
                // If nobody listens, the session has ended.
                let _ = self.reports.send(WriterEvent::Failed(text)).await;
                return;
            }
            if count < BATCH_EVENTS {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    async fn process(&mut self, commands: Vec<Command>) -> Result<(), ParkError> {
        let (mut tickets, mut events, mut bytes) = (Vec::new(), Vec::new(), 0);
        for command in commands {
            match command {
                Command::Park(ticket, to_park) => {
                    bytes += to_park.memory_bytes();
                    tickets.push(ticket);
                    events.push(*to_park);
                    if bytes >= BATCH_BYTES {
                        self.park(&mut tickets, &mut events).await?;
                        bytes = 0;
                    }
                }
                Command::FindFree(keys) => {
                    // Events parked before must be in the table to be seen.
                    self.park(&mut tickets, &mut events).await?;
                    bytes = 0;
                    let free = self.free_keys(&keys).await?;
                    self.report(WriterEvent::Free(free)).await;
                }
            }
        }
        self.park(&mut tickets, &mut events).await
    }

    async fn park(
        &mut self,
        tickets: &mut Vec<Ticket>,
        events: &mut Vec<EventToPark>,
    ) -> Result<(), ParkError> {
        if tickets.is_empty() {
            return Ok(());
        }
        let new = match self.store(events).await {
            Err(ParkError::Postgres(error)) if is_about_content(&error) => {
                self.store_each(events).await?
            }
            new => new?,
        };
        events.clear();
        let parked = std::mem::take(tickets).into_iter().zip(new).collect();
        self.report(WriterEvent::Parked(parked)).await;
        Ok(())
    }

    /// Postgres refuses at least one of them; the others are stored as they are.
    async fn store_each(&mut self, events: &[EventToPark]) -> Result<Vec<bool>, ParkError> {
        let mut new = Vec::with_capacity(events.len());
        for to_park in events {
            new.extend(match self.store(std::slice::from_ref(to_park)).await {
                Err(ParkError::Postgres(error)) if is_about_content(&error) => {
                    self.store_fragment(to_park.storable(&postgres::describe(&error))).await?
                }
                one => one?,
            });
        }
        Ok(new)
    }

    async fn store_fragment(&mut self, fragment: EventToPark) -> Result<Vec<bool>, ParkError> {
        match self.store(std::slice::from_ref(&fragment)).await {
            Err(ParkError::Postgres(error)) if is_about_content(&error) => {
                self.store(&[fragment.under_storable_key()]).await
            }
            new => new,
        }
    }

    /// A key is free if it has no live rows, and neither has its storable substitute.
    async fn free_keys(&mut self, keys: &[OrderKey]) -> Result<Vec<OrderKey>, ParkError> {
        let mut free = self.unused_keys(keys).await?;
        let substitutes: Vec<OrderKey> = free.iter().filter_map(OrderKey::storable).collect();
        if !substitutes.is_empty() {
            let unused: HashSet<_> = self.unused_keys(&substitutes).await?.into_iter().collect();
            free.retain(|key| key.storable().is_none_or(|substitute| unused.contains(&substitute)));
        }
        Ok(free)
    }

    /// A key that Postgres cannot even accept as a parameter has no rows in the table.
    async fn unused_keys(&mut self, keys: &[OrderKey]) -> Result<Vec<OrderKey>, ParkError> {
        match store::free_keys(&mut self.client, &self.slot, keys).await {
            Err(error) if is_about_content(&error) => {}
            free => return Ok(free?),
        }
        let mut free = Vec::new();
        for key in keys {
            let one = std::slice::from_ref(key);
            free.extend(match store::free_keys(&mut self.client, &self.slot, one).await {
                Err(error) if is_about_content(&error) => one.to_vec(),
                found => found?,
            });
        }
        Ok(free)
    }

    async fn store(&mut self, events: &[EventToPark]) -> Result<Vec<bool>, ParkError> {
        let delays: Vec<Duration> = events
            .iter()
            .map(|to_park| match to_park.park_as {
                ParkAs::Retry => {
                    let (base, max) = (self.config.backoff_base, self.config.backoff_max);
                    backoff::delay(1, base, max, rand::random)
                }
                ParkAs::WaitForEarlier | ParkAs::Dead => Duration::ZERO,
            })
            .collect();
        let session = store::ParkingSession {
            slot: &self.slot,
            parker: Some(&self.parker),
            system_identifier: Some(&self.system_identifier),
        };
        store::park(&mut self.client, &session, events, &delays).await
    }

    /// If nobody listens, the session has ended.
    async fn report(&self, event: WriterEvent) {
        let _ = self.reports.send(event).await;
    }
}

/// Whether Postgres refuses to store an event's content, and would do so again: a character that
/// the database's encoding lacks (22), a constraint of the table (23), a size limit (54). Any other
/// error can be temporary. So is an id that was assigned twice: the next session advances the
/// sequence, and the event is fine.
fn is_about_content(error: &Error) -> bool {
    error.code().is_some_and(refuses_content)
}

fn refuses_content(code: &SqlState) -> bool {
    let classes = ["22", "23", "54"];
    *code != SqlState::UNIQUE_VIOLATION && classes.iter().any(|it| code.code().starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_taken_says_nothing_about_the_event() {
        for code in [SqlState::UNTRANSLATABLE_CHARACTER, SqlState::CHECK_VIOLATION] {
            assert!(refuses_content(&code), "{code:?}");
        }
        for code in [SqlState::UNIQUE_VIOLATION, SqlState::ADMIN_SHUTDOWN, SqlState::DISK_FULL] {
            assert!(!refuses_content(&code), "{code:?}");
        }
    }
}
