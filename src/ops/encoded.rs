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
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        if let Some((until, text)) = &*last
            && began < *until
        {
            return Ok(text.clone());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        let text = Bytes::from(text);
        let now = Instant::now();
        *last = Some((now + now.duration_since(began) * GOOD_FOR, text.clone()));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn scrapes_in_a_row_take_little_of_the_time() {
        let mut registry = Registry::default();
        let many: Family<Vec<(String, String)>, Counter> = Family::default();
        for number in 0..5_000 {
            many.get_or_create(&vec![("topic".to_owned(), number.to_string())]).inc();
        }
        registry.register("many", "Many series", many.clone());
        let encoded = Encoded::new(registry);
        let began = Instant::now();
        let first = encoded.text().unwrap();
        let took = began.elapsed();
        // As many as there are in so many times what one takes.
        let (mut written, mut last) = (1, first.as_ptr());
        while began.elapsed() < took * 100 {
            let text = encoded.text().unwrap();
            if text.as_ptr() != last {
                (written, last) = (written + 1, text.as_ptr());
            }
        }
        assert!(written <= 20, "written {written} times");
        let labels = vec![("topic".to_owned(), "7".to_owned())];
        many.get_or_create(&labels).inc();
        let is_shown = |text: Bytes| String::from_utf8_lossy(&text).contains(r#"{topic="7"} 2"#);
        while !is_shown(encoded.text().unwrap()) {
            assert!(began.elapsed() < took * 1_000);
        }
    }
}
