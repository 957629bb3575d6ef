//! The metrics as text.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

/// A text is served again for this many times as long as it took to write: however often it is
/// scraped, and however many topics there are, writing it takes at most a tenth of a core.
const REUSE_FACTOR: u32 = 9;

/// The last text, and until when it is served.
#[derive(Default)]
pub(super) struct MetricsText(Mutex<Option<(Instant, Bytes)>>);

impl MetricsText {
    /// The last text, or a new one.
    pub(super) fn get_or_write(
        &self,
        write: impl FnOnce() -> Result<String, fmt::Error>,
    ) -> Result<Bytes, fmt::Error> {
        self.get_or_write_at(Instant::now, write)
    }

    fn get_or_write_at(
        &self,
        clock: impl Fn() -> Instant,
        write: impl FnOnce() -> Result<String, fmt::Error>,
    ) -> Result<Bytes, fmt::Error> {
        // Held while the text is written: others that scrape meanwhile get the same one.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let began = clock();
        if let Some((until, text)) = &*last
            && began < *until
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(write()?);
        let ended = clock();
        *last = Some((ended + ended.duration_since(began) * REUSE_FACTOR, text.clone()));
        Ok(text)
    }
}

/// The metrics of all registries as one text.
pub(super) fn encode<'a>(
    registries: impl Iterator<Item = &'a Registry>,
) -> Result<String, fmt::Error> {
    let mut texts = Vec::new();
    for registry in registries {
        let mut text = String::new();
        encode_registry(&mut text, registry)?;
        texts.push(text);
    }
    let mut text = merge(&texts);
    encode_eof(&mut text)?;
    Ok(text)
}

/// Puts the samples of each family together. OpenMetrics allows a family only one HELP and one
/// TYPE, with all its samples after them
/// (<https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md#metricfamily>).
fn merge(texts: &[String]) -> String {
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    let mut families: Vec<Vec<&str>> = Vec::new();
    for text in texts {
        let (mut index, mut is_new) = (0, false);
        // No label value can begin a line: line breaks in them are escaped.
        for line in text.split_inclusive('\n') {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let name = help.split_once(' ').map_or(help, |(name, _)| name);
                is_new = !indexes.contains_key(name);
                index = *indexes.entry(name).or_insert(families.len());
                if is_new {
                    families.push(Vec::new());
                }
            }
            if let Some(family) = families.get_mut(index)
                && (is_new || !line.starts_with('#'))
            {
                family.push(line);
            }
        }
    }
    families.concat().concat()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    /// A clock that is at `at`, and advances by `took` while a text is written.
    fn clock(at: Instant, took: Duration) -> impl Fn() -> Instant {
        let next = Cell::new(at);
        move || next.replace(next.get() + took)
    }

    #[test]
    fn a_text_is_kept_for_nine_times_as_long_as_it_took_to_write() {
        let metrics_text = MetricsText::default();
        let written = Cell::new(0);
        let (start, took) = (Instant::now(), Duration::from_millis(100));
        let text_at = |after: Duration| {
            let write = || Ok(format!("text {}", written.replace(written.get() + 1)));
            metrics_text.get_or_write_at(clock(start + after, took), write).unwrap()
        };
        assert_eq!(text_at(Duration::ZERO), "text 0");
        assert_eq!(text_at(Duration::from_millis(999)), "text 0");
        assert_eq!(text_at(Duration::from_millis(1_000)), "text 1");
        assert_eq!(written.get(), 2);
    }

    #[test]
    fn families_of_several_registries_are_written_once() {
        let relay = |name: &'static str, topics: &[&'static str]| {
            let label = ("relay".into(), name.into());
            let mut registry = Registry::with_labels(std::iter::once(label));
            let published: Family<Vec<(&'static str, &'static str)>, Counter> = Family::default();
            for topic in topics {
                published.get_or_create(&vec![("topic", *topic)]).inc();
            }
            registry.register("published", "Events", published);
            registry.register("active", "Whether it is", Gauge::<i64>::default());
            registry
        };
        let mut process = Registry::default();
        process.register("threads", "Threads", Gauge::<i64>::default());
        // The second has a family that the first has no sample of.
        let registries = [relay("a", &[]), relay("b", &["x\n# HELP active"]), relay("c", &["y"])];
        let text = encode(registries.iter().chain([&process])).unwrap();
        let expected = r#"# HELP active Whether it is.
# TYPE active gauge
active{relay="a"} 0
active{relay="b"} 0
active{relay="c"} 0
# HELP published Events.
# TYPE published counter
published_total{relay="b",topic="x\n# HELP active"} 1
published_total{relay="c",topic="y"} 1
# HELP threads Threads.
# TYPE threads gauge
threads 0
# EOF
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn nothing_is_a_text_too() {
        assert_eq!(encode(std::iter::empty()).unwrap(), "# EOF\n");
    }
}
