//! Events in flight that could be neither published nor parked: which is retried next, and how the
//! breaker closes.

use std::time::Instant;

use super::Parking;
use postrider_core::delivery::Ticket;
use postrider_core::parking::breaker::Cause;

impl Parking<'_> {
    /// How many events in flight have to be retried. Nothing is read while there are any.
    pub(crate) fn retry_len(&self) -> usize {
        self.retry_queue.len()
    }

    /// The event to be retried now, if there is one.
    pub(crate) fn retry_next(&self) -> Option<Ticket> {
        let first = *self.retry_queue.first()?;
        let must_wait = self.breaker.opened().is_some()
            && (self.breaker_probe.is_some() || !self.breaker.is_probe_due(Instant::now()));
        (!must_wait).then_some(first)
    }

    pub(crate) fn retry_later(&mut self, ticket: Ticket) {
        self.retry_queue.insert(ticket);
    }

    /// An event was retried, with a result.
    pub(crate) fn retried(&mut self, ticket: Ticket) {
        self.retry_queue.remove(&ticket);
    }

    /// The sink has taken an event. While the breaker is open, the first such event is the probe,
    /// which shows whether the breaker can close.
    pub(crate) fn taken(&mut self, ticket: Ticket) {
        if self.breaker.opened().is_some() && self.breaker_probe.is_none() {
            self.breaker_probe = Some(ticket);
        }
    }

    /// An event was published. If it was the probe, the breaker closes.
    pub(crate) fn delivered(&mut self, ticket: Ticket) {
        if self.breaker_probe == Some(ticket) {
            self.breaker_probe = None;
            if self.breaker.opened().is_some() {
                self.breaker.close();
                tracing::info!("the circuit breaker has closed; continuing");
            }
        }
    }

    /// An event was not published. If it was the probe, another one is needed.
    pub(crate) fn not_delivered(&mut self, ticket: Ticket) {
        self.breaker_probe = self.breaker_probe.filter(|probe| *probe != ticket);
    }

    /// For the breaker, which compares events published with events parked.
    pub(crate) fn count_published(&mut self, events: u64) {
        self.breaker.published(events, Instant::now());
    }

    /// In a sentence. None: the breaker is closed.
    pub(crate) fn why_breaker_is_open(&self) -> Option<String> {
        let (since, cause) = self.breaker.opened()?;
        let cause = match cause {
            Cause::Events => "too many recent events can't be published",
            Cause::Denied => {
                "postrider is not allowed to write to the topics of recent events, and nothing \
                 was published meanwhile"
            }
            Cause::Bytes => "the side table holds more bytes than undelivered.breaker_bytes",
        };
        Some(format!(
            "for {} s: {cause}; `postrider dead list --status pending,dead` shows them",
            since.elapsed().as_secs()
        ))
    }
}
