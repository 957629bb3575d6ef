//! The task that writes: it parks events in batches, and answers which keys are free.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::{Command, WriterEvent};
use crate::config::UndeliveredConfig;
use crate::parking::content::is_about_content;
use crate::parking::store::{self, ParkError};
use crate::postgres::{self, ConnectionGuard};
use postrider_core::delivery::Ticket;
use postrider_core::order::OrderKey;
use postrider_core::parking::{EventToPark, ParkAs, backoff};

/// Rows and bytes of one transaction at the most.
const BATCH_EVENTS: usize = 500;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long to wait for more events after a batch that was not full. Otherwise each event of a
/// steady trickle would be a transaction of its own, and take capacity of Postgres from the stream.
const GATHER: Duration = Duration::from_millis(20);

pub(super) struct WriterTask {
    pub(super) client: Client,
    pub(super) _guard: ConnectionGuard,
    pub(super) slot: String,
    /// Proves that no later session parks.
    pub(super) parker: String,
    pub(super) system_identifier: String,
    pub(super) config: UndeliveredConfig,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) reports: mpsc::Sender<WriterEvent>,
}

impl WriterTask {
    pub(super) async fn run(mut self) {
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
