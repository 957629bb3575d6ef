//! How a table is cleaned: leaf by leaf, row by row or as a whole.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::pick::Picker;
use super::rules::{CleaningRules, NotAllowed};
use super::table::{CleanableTable, DropWhole, Leaf};
use super::{Cleaner, mark, uncertain_until};
use postrider_core::cleaning::rule::{Decision, OwnSlot};
use postrider_core::lsn::Lsn;

/// Rows picked before the log's end is read. The stored position of an idle relay advances only
/// every ten seconds, so a wait should be for many rows.
const PICKED_ROWS_MAX: usize = 100_000;
/// How often the slots' positions are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A slot that has not passed the limit by then is named in the log.
const WARN_AFTER: Duration = Duration::from_secs(30);
/// After this time, what was picked is discarded.
const WAIT_MAX: Duration = Duration::from_secs(600);

impl Cleaner {
    pub(super) async fn clean(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        generation: &str,
    ) -> Result<(), Error> {
        let slot = self.slot.clone();
        let own = OwnSlot { slot: &slot, generation, outbox: outbox.oid };
        let retention = self.config.retention.as_secs_f64();
        mark::update(client, outbox, own, retention).await?;
        self.finish_detached(client, outbox, own).await?;
        for leaf in outbox.leaves.iter().filter(|leaf| !leaf.is_half_detached) {
            let as_rows = match leaf.drop_whole {
                DropWhole::Never => true,
                DropWhole::Later => false,
                // A row that keeps the partition from being dropped need not keep the other rows.
                DropWhole::Now => !self.detach(client, outbox, leaf, own).await?,
            };
            if as_rows {
                self.clean_rows(client, outbox, leaf, own).await?;
            }
        }
        self.finish_detached(client, outbox, own).await?;
        uncertain_until::forget_dropped_leaves(client, &slot).await
    }

    /// Cleans a leaf row by row.
    async fn clean_rows(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        own: OwnSlot<'_>,
    ) -> Result<(), Error> {
        let Some(rules) = self.rules(client, outbox, leaf, own).await? else { return Ok(()) };
        // Which rows will never be certain depends on both.
        let key = format!("{} {}", rules.fingerprint.text, rules.filter.uncertain_until);
        let known = self.cursors.remove(&leaf.oid).filter(|(of, _)| *of == key);
        let from = known.map(|(_, cursor)| cursor);
        let mut picker = Picker::begin(client, outbox, leaf, &rules, from).await?;
        while self.vitals.why_no_progress().is_none() {
            // Deleting can take hours. Without new marks, what is published meanwhile would
            // count as late.
            mark::update(client, outbox, own, rules.filter.retention_seconds).await?;
            let began = Instant::now();
            let Some(picked) = picker.pick(client, PICKED_ROWS_MAX).await? else { break };
            let picking = began.elapsed();
            if !self.wait_for_slots(client, outbox, &rules, picked.limit).await? {
                return Ok(());
            }
            let waiting = began.elapsed() - picking;
            let mut rows = 0;
            for batch in &picked.batches {
                if self.vitals.why_no_progress().is_some() {
                    break;
                }
                let deleted = picker.delete(client, batch, &rules, picked.limit).await?;
                self.metrics.cleaned(&outbox.name, deleted);
                rows += deleted;
            }
            let all = began.elapsed();
            tracing::debug!(
                table = outbox.name,
                rows,
                ?picking,
                ?waiting,
                ?all,
                "deleted old rows"
            );
        }
        self.cursors.insert(leaf.oid, (key, picker.next_start()));
        Ok(())
    }

    /// The rules by which rows may be picked now; none if no row may be.
    pub(super) async fn rules<'a>(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        own: OwnSlot<'a>,
    ) -> Result<Option<CleaningRules<'a>>, Error> {
        match CleaningRules::find(client, outbox, leaf, own, &self.config).await? {
            Ok(rules) => {
                if uncertain_until::is_in_the_future(client, &rules.filter.uncertain_until).await? {
                    self.warn_future(outbox, leaf, &rules.filter.uncertain_until);
                }
                Ok(Some(rules))
            }
            Err(NotAllowed::NotYet) => {
                tracing::debug!(table = outbox.name, "{}", NotAllowed::NotYet);
                Ok(None)
            }
            Err(why) => {
                self.warn(&outbox.name, &why.to_string());
                Ok(None)
            }
        }
    }

    /// Waits until every slot has passed `limit`. False: what was picked must not be deleted.
    pub(super) async fn wait_for_slots(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        rules: &CleaningRules<'_>,
        limit: Lsn,
    ) -> Result<bool, Error> {
        let began = Instant::now();
        self.vitals.set_cleaner_waits_for(limit);
        loop {
            match rules.decide(client, outbox, limit).await? {
                Decision::Delete => return Ok(true),
                Decision::Discard => {
                    tracing::debug!(table = outbox.name, "a slot has changed; nothing is deleted");
                    return Ok(false);
                }
                Decision::WaitFor(slots) => {
                    let waited = began.elapsed();
                    if waited > WARN_AFTER {
                        self.warn_waiting(outbox, slots);
                    }
                    if waited > WAIT_MAX || self.vitals.why_no_progress().is_some() {
                        return Ok(false);
                    }
                }
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// One row with a wrong date keeps all others from being deleted.
    fn warn_future(&mut self, outbox: &CleanableTable, leaf: &Leaf, uncertain_until: &str) {
        let reason = format!(
            "rows from before the slot have a created_at of up to {uncertain_until}, which is in \
             the future, and only rows with a later one are deleted; correct their created_at or \
             delete them, then run DELETE FROM postrider.cleaner_floor WHERE leaf = {}",
            leaf.oid
        );
        self.warn(&outbox.name, &reason);
    }

    /// Our own slot is left out: its lag is reported elsewhere.
    fn warn_waiting(&mut self, outbox: &CleanableTable, slots: Vec<String>) {
        for slot in slots {
            if slot == self.slot {
                continue;
            }
            let reason = format!(
                "slot \"{slot}\" covers it too and has not advanced that far: start its relay, or \
                 if the slot is not used any more, run `postrider --slot {slot} teardown`, which \
                 also deletes its parked events; to keep them, drop the slot and run `postrider \
                 dead take-over --from {slot}` first"
            );
            self.warn(&outbox.name, &reason);
        }
    }
}
