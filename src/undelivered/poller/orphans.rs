//! Says which slots are gone and have left events behind.

use crate::undelivered::store::Orphans;

/// What was said. A slot is named when it is found, and again when it was found before and gone since.
#[derive(Default)]
pub(super) struct ToldOrphans {
    slots: Vec<String>,
}

impl ToldOrphans {
    pub(super) fn tell(&mut self, orphans: Vec<Orphans>) {
        orphans.iter().filter(|it| !self.slots.contains(&it.slot)).for_each(Orphans::warn);
        self.slots = orphans.into_iter().map(|orphans| orphans.slot).collect();
    }
}
