//! What a poller does apart from retrying events: it handles expired leases, counts rows, and
//! deletes old ones.

use super::*;

impl<S: Sink, O: Observer> Poller<S, O> {
    pub(super) async fn expire(&mut self, client: &mut Client) -> Result<(), PollError> {
        let UndeliveredConfig { max_attempts, order, .. } = self.config;
        let expired = store::expire(client, &self.slot, max_attempts, order).await?;
        if !expired.is_empty() {
            tracing::warn!(
                events = expired.len(),
                "taking over parked events whose instance did not report back within its lease"
            );
        }
        let mut died = Vec::new();
        for event in expired.into_iter().filter(|event| event.is_dead) {
            self.observer.died(&event.source_table, &event.topic);
            died.push(event.notice());
        }
        log_died(self.notices.add(died, std::time::Instant::now()));
        Ok(())
    }

    pub(super) async fn run_upkeep(&mut self, client: &mut Client) -> Result<(), PollError> {
        if Instant::now() >= self.count_at {
            let began = Instant::now();
            let counts = store::counts(client, &self.slot).await?;
            self.observer.counted(&counts, began.into_std());
            self.orphans.log_new(counts.orphans);
            self.count_at = Instant::now() + COUNT_EVERY.max(began.elapsed() * COUNT_SHARE);
        }
        if Instant::now() >= self.upkeep_at {
            self.upkeep_at = Instant::now() + UPKEEP_EVERY;
            let found = store::sweep(client, &self.slot, self.config.order).await?;
            if found > 0 {
                tracing::info!(
                    keys = found,
                    "released parked events whose predecessor no longer exists"
                );
            }
            for _ in 0..CLEAN_BATCHES_MAX {
                let retention = self.config.retention;
                let (slot, tables) = (&self.slot, &self.tables);
                let kept = self.delivered_kept;
                let delivered = store::clean(client, slot, kept, CLEAN_BATCH).await?;
                let discarded =
                    store::clean_discarded(client, slot, retention, CLEAN_BATCH, tables).await?;
                if delivered.max(discarded) < CLEAN_BATCH {
                    break;
                }
            }
        }
        Ok(())
    }
}
