//! Picks, waits, deletes.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::outbox::{Leaf, Outbox};
use super::removal::Removal;
use super::rule::{Asker, Standing, Verdict, judge};
use super::walk::{Batch, Walk, Wanted};
use super::{Cleaner, coverage};
use crate::lsn::Lsn;

/// Rows picked before the log's end is read. The stored position of an idle relay moves every ten
/// seconds, so a wait should be for many.
const PICKED_MAX: u64 = 100_000;
/// Pages looked at for them: what is kept, is kept in front of the rest.
const PAGES_MAX: usize = 2_000;
/// How often to look how far the slots are.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A slot that has not come so far by then is named.
const TELL_AFTER: Duration = Duration::from_secs(60);
/// What was picked is forgotten when this has passed.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// What holds from picking to deleting.
pub(super) struct Terms<'a> {
    pub(super) asker: Asker<'a>,
    pub(super) standing: Standing,
    pub(super) wanted: Wanted,
}

impl Cleaner {
    /// Cleans a table.
    pub(super) async fn clean(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        generation: &str,
    ) -> Result<(), Error> {
        let slot = self.slot.clone();
        let asker = Asker { slot: &slot, generation, outbox: outbox.oid };
        for leaf in &outbox.leaves {
            self.leaf(client, outbox, leaf, asker).await?;
        }
        Ok(())
    }

    /// Cleans a leaf row by row.
    async fn leaf(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        asker: Asker<'_>,
    ) -> Result<(), Error> {
        let Some(terms) = self.terms(client, outbox, asker).await? else { return Ok(()) };
        let marks = terms.standing.marks.clone();
        let known = self.cursors.remove(&leaf.oid).filter(|(of, _)| *of == marks);
        let from = known.map(|(_, cursor)| cursor);
        let mut walk = Walk::begin(client, outbox, leaf, terms.wanted.clone(), from).await?;
        let removal = Removal::prepare(client, outbox, leaf).await?;
        while !walk.is_over() && self.vitals.trouble().is_none() {
            let picked = pick(client, &mut walk).await?;
            if picked.is_empty() {
                break;
            }
            let limit = coverage::log_end(client).await?;
            if !self.wait(client, outbox, &terms, limit).await? {
                return Ok(());
            }
            let began = Instant::now();
            let mut rows = 0;
            for batch in &picked {
                if self.vitals.trouble().is_some() {
                    break;
                }
                rows += self.delete(client, &removal, batch, &terms, limit, outbox).await?;
            }
            let seconds = began.elapsed().as_secs_f64();
            tracing::debug!(table = outbox.name, rows, seconds, "old rows are deleted");
        }
        self.cursors.insert(leaf.oid, (marks, walk.skip));
        Ok(())
    }

    async fn delete(
        &mut self,
        client: &Client,
        removal: &Removal,
        batch: &Batch,
        terms: &Terms<'_>,
        limit: Lsn,
        outbox: &Outbox,
    ) -> Result<u64, Error> {
        let Terms { asker, standing, wanted } = terms;
        let rows = removal.delete(client, batch, wanted, *asker, standing, limit).await?;
        self.metrics.cleaned(&outbox.name, rows);
        Ok(rows)
    }

    /// Under which terms rows may be picked now, if under any.
    pub(super) async fn terms<'a>(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        asker: Asker<'a>,
    ) -> Result<Option<Terms<'a>>, Error> {
        let covers = coverage::load(client, &outbox.family, asker.slot).await?;
        let standing = match Standing::of(&covers, asker) {
            Ok(standing) => standing,
            Err(why) => {
                self.told.warn(&outbox.name, &why.to_string());
                return Ok(None);
            }
        };
        let wanted = Wanted {
            retention_seconds: self.config.retention.as_secs_f64(),
            since: standing.since.to_string(),
            floor: "-infinity".to_owned(),
            batch: i64::try_from(self.config.batch).unwrap_or(i64::MAX),
        };
        Ok(Some(Terms { asker, standing, wanted }))
    }

    /// Waits until every slot has passed `limit`. False: what was picked is worth nothing.
    pub(super) async fn wait(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        terms: &Terms<'_>,
        limit: Lsn,
    ) -> Result<bool, Error> {
        let began = Instant::now();
        loop {
            let covers = coverage::load(client, &outbox.family, terms.asker.slot).await?;
            match judge(&terms.standing, &covers, terms.asker, limit) {
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
                    if waited > WAIT_MAX || self.vitals.trouble().is_some() {
                        return Ok(false);
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Our own slot needs no word: that it lags is told elsewhere.
    fn tell_held(&mut self, outbox: &Outbox, slots: &[String]) {
        for slot in slots.iter().filter(|slot| **slot != self.slot) {
            let reason = format!(
                "slot \"{slot}\" covers it too and has not come as far: start its relay, or if it is \
                 not used any more, drop the slot and run DELETE FROM postrider.progress WHERE slot \
                 = '{slot}'"
            );
            self.told.warn(&outbox.name, &reason);
        }
    }
}

async fn pick(client: &Client, walk: &mut Walk) -> Result<Vec<Batch>, Error> {
    let mut picked = Vec::new();
    let mut rows = 0;
    for _ in 0..PAGES_MAX {
        if walk.is_over() || rows >= PICKED_MAX {
            break;
        }
        if let Some(batch) = walk.next(client).await? {
            rows += batch.rows;
            picked.push(batch);
        }
    }
    Ok(picked)
}
