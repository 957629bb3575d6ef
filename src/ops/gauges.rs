//! Gauges with labels that come and go.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// One gauge for each set of labels of the last count. A scrape in the middle of a change sees some
/// new values and some old ones, but a gauge that is in both counts is never missing: that would
/// end alerts.
#[derive(Clone)]
pub(super) struct Gauges<L> {
    pub(super) family: Family<L, Gauge>,
    /// The values that are shown.
    shown: Arc<Mutex<HashMap<L, i64>>>,
}

impl<L: Clone + Eq + Hash> Default for Gauges<L> {
    fn default() -> Self {
        Gauges { family: Family::default(), shown: Arc::default() }
    }
}

impl<L: Clone + Eq + Hash> Gauges<L> {
    /// Shows these values, and no others.
    pub(super) fn replace(&self, counted: HashMap<L, i64>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, value) in &counted {
            self.family.get_or_create(labels).set(*value);
        }
        for gone in shown.keys().filter(|labels| !counted.contains_key(labels)) {
            self.family.remove(gone);
        }
        *shown = counted;
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn what_stays_is_never_missing() {
        let gauges: Gauges<Vec<(String, String)>> = Gauges::default();
        let mut registry = Registry::default();
        registry.register("dead", "Dead events", gauges.family.clone());
        fn labels(topic: &str) -> Vec<(String, String)> {
            vec![("topic".to_owned(), topic.to_owned())]
        }
        let count = |n: i64| HashMap::from([(labels("stays"), n), (labels(&n.to_string()), n)]);
        gauges.replace(count(0));
        let counting = std::thread::spawn({
            let gauges = gauges.clone();
            move || (0..5_000).for_each(|n| gauges.replace(count(n)))
        });
        while !counting.is_finished() {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            assert!(text.contains("stays"), "{text}");
        }
        counting.join().unwrap();
        assert!(!gauges.family.remove(&labels("4998")), "what is gone is still shown");
        assert!(gauges.family.remove(&labels("4999")));
    }
}
