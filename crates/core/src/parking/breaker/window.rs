//! How many events were published and parked lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Weight;

/// The number of parts in which a window is counted.
const PARTS: u32 = 20;

/// Events of some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowCounts {
    pub(super) published: u64,
    pub(super) parked: u64,
    /// Parked because postrider is not allowed to write to their topics.
    pub(super) denied: u64,
}

impl WindowCounts {
    pub(super) fn add(&mut self, other: WindowCounts) {
        self.published += other.published;
        self.parked += other.parked;
        self.denied += other.denied;
    }

    pub(super) fn one(weight: Weight) -> Self {
        match weight {
            Weight::Nothing => WindowCounts::default(),
            Weight::WhileNothingIsPublished => {
                WindowCounts { denied: 1, ..WindowCounts::default() }
            }
            Weight::Full => WindowCounts { parked: 1, ..WindowCounts::default() },
        }
    }
}

/// Counts of the last while. Older ones are forgotten part by part.
#[derive(Debug)]
pub(super) struct Window {
    length: Duration,
    parts: VecDeque<Part>,
}

#[derive(Debug)]
struct Part {
    since: Instant,
    counts: WindowCounts,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        Window { length, parts: VecDeque::new() }
    }

    pub(super) fn add(&mut self, counts: WindowCounts, now: Instant) {
        let part_length = self.length / PARTS;
        match self.parts.back_mut() {
            Some(part) if now.saturating_duration_since(part.since) <= part_length => {
                part.counts.add(counts);
            }
            _ => {
                self.forget(now);
                self.parts.push_back(Part { since: now, counts });
            }
        }
    }

    /// What happened within the window.
    pub(super) fn recent(&mut self, now: Instant) -> WindowCounts {
        self.forget(now);
        let mut recent = WindowCounts::default();
        self.parts.iter().for_each(|part| recent.add(part.counts));
        recent
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    fn forget(&mut self, now: Instant) {
        self.parts.retain(|part| now.saturating_duration_since(part.since) <= self.length);
    }
}
