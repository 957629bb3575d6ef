//! One batch: what is due is claimed, sent, and its results are written.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;

use super::unwritten::WriteOptions;
use super::{PollError, Poller};
use crate::clock;
use crate::config::Order;
use crate::parking::notices::log_died;
use crate::parking::references::load_values;
use crate::parking::sender::{RowResult, SendOptions, SendResults, Timestamp, send_rows};
use crate::parking::store::{self, Claim, ParkedRow};
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::parking::Observer;

impl<S: Sink, O: Observer> Poller<S, O> {
    /// Processes one batch, if something is due. Returns how long to wait before looking again.
    pub(super) async fn poll_once(
        &mut self,
        client: &mut Client,
        shutdown: &mut Shutdown,
    ) -> Result<Duration, PollError> {
        let idle = self.config.poll_interval;
        let due = store::due(client, &self.slot).await?;
        self.observer.taken_over(due.takeovers);
        if due.leases {
            self.expire(client).await?;
        }
        if !(due.events || due.leases) {
            return Ok(idle);
        }
        if !self.is_sink_ready
            && let Err(broken) = self.sink.restart().await
        {
            return Ok(self.pause_after_failure(&broken));
        }
        self.is_sink_ready = true;
        // From before the claim: the lease begins no earlier.
        let deadline = Instant::now() + self.config.lease / 2;
        let mut rows = self.claim(client).await?;
        if rows.is_empty() {
            return Ok(idle);
        }
        let unreadable = match load_values(client, &mut rows, &self.tables).await {
            Ok(unreadable) => unreadable,
            Err(error) => {
                let untried = rows.iter().map(|_| RowResult::NotTried).collect();
                self.unwritten.add(&rows, untried, &self.config, rand::random);
                return Err(error.into());
            }
        };
        let ahead = clock::server_ahead_micros(&*client, clock::QUESTION).await?;
        let options = SendOptions {
            server_ahead_micros: ahead.unwrap_or_default(),
            replayed: false,
            waits_for_topics: false,
            timestamp: Timestamp::Original,
            keep_order: self.keeps_order(),
            deadline,
        };
        let SendResults { mut results, interrupted_by, is_sink_ready } =
            send_rows(&mut self.sink, &rows, &options, shutdown).await;
        self.is_sink_ready = is_sink_ready;
        unreadable.explain(&rows, &mut results);
        let progress = results.iter().any(|result| !result.is_untried());
        let delivered = results.contains(&RowResult::Delivered);
        // There may be more. Rows refused now are not due before their pause ends, so this comes to
        // an end; if it were slower, events that can't be sent could delay those that can.
        let more = rows.len() >= self.config.batch && progress && interrupted_by.is_none();
        self.unwritten.add(&rows, results, &self.config, rand::random);
        self.write_results(client).await?;
        match interrupted_by {
            Some(broken) if !progress => Ok(self.pause_after_failure(&broken)),
            _ => {
                self.unsent_pause.reset();
                Ok(if delivered || more { Duration::ZERO } else { idle })
            }
        }
    }

    async fn claim(&self, client: &mut Client) -> Result<Vec<ParkedRow>, PollError> {
        let claim = Claim {
            slot: &self.slot,
            owner: &self.owner,
            batch: self.config.batch,
            bytes_max: self.bytes_max,
            lease: self.config.lease,
            order: self.config.order,
        };
        Ok(store::claim(client, &claim).await?)
    }

    fn keeps_order(&self) -> bool {
        self.config.order != Order::Continue
    }

    /// Records what became of claimed rows; what could not be written is kept for the next
    /// connection.
    pub(super) async fn write_results(&mut self, client: &mut Client) -> Result<(), PollError> {
        let options = WriteOptions {
            slot: &self.slot,
            owner: &self.owner,
            order: self.config.order,
            live_count_max: self.config.batch + 1,
        };
        let written = self.unwritten.write(client, &options, &mut self.observer).await;
        self.key_notifier.add(self.unwritten.take_keys());
        let died = self.unwritten.take_died();
        log_died(self.notices.add(died, std::time::Instant::now()));
        self.key_notifier.publish();
        Ok(written?)
    }
}
