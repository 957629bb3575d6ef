//! How a table is cleaned: leaf by leaf, row by row or as a whole.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::outbox::{Leaf, Outbox, Whole};
use super::pick::{NoTerms, Picker, Terms};
use super::{Cleaner, floor, mark};
use postrider_core::cleaning::rule::{Asker, Verdict};
use postrider_core::lsn::Lsn;

/// Rows picked before the log's end is read. The stored position of an idle relay advances only
/// every ten seconds, so a wait should be for many rows.
const PICKED_MAX: usize = 100_000;
/// How often the slots' positions are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A slot that has not passed the limit by then is named in the log.
const TELL_AFTER: Duration = Duration::from_secs(30);
/// After this time, what was picked is discarded.
const WAIT_MAX: Duration = Duration::from_secs(600);

impl Cleaner {
    pub(super) async fn clean(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        generation: &str,
    ) -> Result<(), Error> {
        let slot = self.slot.clone();
        let asker = Asker { slot: &slot, generation, outbox: outbox.oid };
        let retention = self.config.retention.as_secs_f64();
        mark::note(client, outbox, asker, retention).await?;
        self.finish_detached(client, outbox, asker).await?;
        for leaf in outbox.leaves.iter().filter(|leaf| !leaf.is_half_detached) {
            let as_rows = match leaf.whole {
                Whole::Rows => true,
                Whole::Later => false,
                // A row that keeps the partition from being dropped need not keep the other rows.
                Whole::Past => !self.detach(client, outbox, leaf, asker).await?,
            };
            if as_rows {
                self.rows(client, outbox, leaf, asker).await?;
            }
        }
        self.finish_detached(client, outbox, asker).await?;
        floor::forget(client, &slot).await
    }

    /// Cleans a leaf row by row.
    async fn rows(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        asker: Asker<'_>,
    ) -> Result<(), Error> {
        let Some(terms) = self.terms(client, outbox, leaf, asker).await? else { return Ok(()) };
        // Which rows will never be certain depends on both.
        let marks = format!("{} {}", terms.standing.marks, terms.wanted.floor);
        let known = self.cursors.remove(&leaf.oid).filter(|(of, _)| *of == marks);
        let from = known.map(|(_, cursor)| cursor);
        let mut picker = Picker::begin(client, outbox, leaf, &terms, from).await?;
        while self.vitals.why_no_progress().is_none() {
            // Deleting can take hours. Without new marks, what is published meanwhile would
            // count as late.
            mark::note(client, outbox, asker, terms.wanted.retention_seconds).await?;
            let began = Instant::now();
            let Some(picked) = picker.pick(client, PICKED_MAX).await? else { break };
            let picking = began.elapsed();
            if !self.wait(client, outbox, &terms, picked.limit).await? {
                return Ok(());
            }
            let waiting = began.elapsed() - picking;
            let mut rows = 0;
            for batch in &picked.batches {
                if self.vitals.why_no_progress().is_some() {
                    break;
                }
                let gone = picker.delete(client, batch, &terms, picked.limit).await?;
                self.metrics.cleaned(&outbox.name, gone);
                rows += gone;
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
        self.cursors.insert(leaf.oid, (marks, picker.rest_at()));
        Ok(())
    }

    /// The terms under which rows may be picked now; none if no row may be.
    pub(super) async fn terms<'a>(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        asker: Asker<'a>,
    ) -> Result<Option<Terms<'a>>, Error> {
        match Terms::find(client, outbox, leaf, asker, &self.config).await? {
            Ok(terms) => {
                if floor::is_in_the_future(client, &terms.wanted.floor).await? {
                    self.tell_future(outbox, leaf, &terms.wanted.floor);
                }
                Ok(Some(terms))
            }
            Err(NoTerms::NotYet) => {
                tracing::debug!(table = outbox.name, "{}", NoTerms::NotYet);
                Ok(None)
            }
            Err(why) => {
                self.told.warn(&outbox.name, &why.to_string());
                Ok(None)
            }
        }
    }

    /// Waits until every slot has passed `limit`. False: what was picked must not be deleted.
    pub(super) async fn wait(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        terms: &Terms<'_>,
        limit: Lsn,
    ) -> Result<bool, Error> {
        let began = Instant::now();
        self.vitals.set_cleaner_waits_for(limit);
        loop {
            match terms.judge(client, outbox, limit).await? {
                Verdict::Done => return Ok(true),
                Verdict::Forget => {
                    tracing::debug!(table = outbox.name, "a slot has changed; nothing is deleted");
                    return Ok(false);
                }
                Verdict::Wait(slots) => {
                    let waited = began.elapsed();
                    if waited > TELL_AFTER {
                        self.tell_held(outbox, &slots);
                    }
                    if waited > WAIT_MAX || self.vitals.why_no_progress().is_some() {
                        return Ok(false);
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// One row with a wrong date keeps all others from being deleted.
    fn tell_future(&mut self, outbox: &Outbox, leaf: &Leaf, floor: &str) {
        let reason = format!(
            "rows from before the slot have a created_at of up to {floor}, which is in the \
             future, and only rows with a later one are deleted; correct their created_at or \
             delete them, then run DELETE FROM postrider.cleaner_floor WHERE leaf = {}",
            leaf.oid
        );
        self.told.warn(&outbox.name, &reason);
    }

    /// Our own slot is left out: its lag is reported elsewhere.
    fn tell_held(&mut self, outbox: &Outbox, slots: &[String]) {
        for slot in slots.iter().filter(|slot| **slot != self.slot) {
            let reason = format!(
                "slot \"{slot}\" covers it too and has not advanced that far: start its relay, or \
                 if the slot is not used any more, run `postrider --slot {slot} teardown`, which \
                 also deletes its parked events; to keep them, drop the slot and run `postrider \
                 dead take-over --from {slot}` first"
            );
            self.told.warn(&outbox.name, &reason);
        }
    }
}
