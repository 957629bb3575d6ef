//! The metrics as text.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A text is as good as a new one for so many times what it took to write: however often somebody
/// scrapes, and however many topics there are, that takes at most a tenth of a core.
const GOOD_FOR: u32 = 9;

/// The registry, and its last text.
pub(super) struct Encoded {
    registry: Registry,
    /// With the time until which it is good.
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Encoded {
    pub(super) fn new(registry: Registry) -> Self {
        Encoded { registry, last: Mutex::new(None) }
    }

    pub(super) fn text(&self) -> Result<Bytes, std::fmt::Error> {
        self.text_at(Instant::now)
    }

    fn text_at(&self, clock: impl Fn() -> Instant) -> Result<Bytes, std::fmt::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let began = clock();
        if let Some((until, text)) = &*last
            && began < *until
        {
            return Ok(text.clone());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        let text = Bytes::from(text);
        let ended = clock();
        *last = Some((ended + ended.duration_since(began) * GOOD_FOR, text.clone()));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use prometheus_client::metrics::counter::Counter;

    use super::*;

    /// A clock that stands at `at`, and moves on by `took` while a text is written.
    fn clock(at: Instant, took: Duration) -> impl Fn() -> Instant {
        let next = Cell::new(at);
        move || next.replace(next.get() + took)
    }

    #[test]
    fn a_text_is_kept_for_nine_times_as_long_as_it_took_to_write() {
        let mut registry = Registry::default();
        let count = Counter::<u64>::default();
        registry.register("scrapes", "Counts", count.clone());
        let encoded = Encoded::new(registry);
        let (start, took) = (Instant::now(), Duration::from_millis(100));
        let text_at = |after: Duration| encoded.text_at(clock(start + after, took)).unwrap();
        let first = text_at(Duration::ZERO);
        count.inc();
        assert_eq!(text_at(Duration::from_millis(999)), first);
        let second = text_at(Duration::from_millis(1_000));
        assert!(String::from_utf8_lossy(&second).contains("scrapes_total 1"), "{second:?}");
    }
}
