//! Says which slots are gone and have left events behind.

use crate::undelivered::store::Orphans;

/// What was said. A slot is named when it is found, and again when it was found before and gone since.
#[derive(Default)]
pub(super) struct ToldOrphans {
    slots: Vec<String>,
}

impl ToldOrphans {
    pub(super) fn tell(&mut self, orphans: Vec<Orphans>) {
        for Orphans { slot, events } in &orphans {
            if !self.slots.contains(slot) {
                tracing::warn!(
                    slot,
                    events,
                    "parked events belong to a slot that does not exist: nobody retries them, and later \
                     events of their keys overtake them; `postrider dead take-over --from {slot}` gives \
                     them to this relay's slot"
                );
            }
        }
        self.slots = orphans.into_iter().map(|orphans| orphans.slot).collect();
    }
}
