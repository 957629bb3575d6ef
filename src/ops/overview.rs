//! The relays of this process, as HTTP shows them: one without a name, or any number by their
//! names.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};

use super::metrics_text::{MetricsText, encode};
use super::vitals::READY;
use super::{Vitals, page, process};

/// A name is in every series of its relay.
const NAME_BYTES_MAX: usize = 64;

/// Why a relay can't have the name that it was given.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// It is empty, too long, or has other characters.
    #[error("{0:?} can't be the name of a relay")]
    Unfit(String),
    /// Another one has it.
    #[error("there is already a relay {0:?} at this endpoint, and it has not ended")]
    Taken(String),
}

impl NameError {
    /// What to do about it.
    pub(crate) fn fix(&self) -> String {
        match self {
            NameError::Unfit(_) => format!(
                "choose a name of 1 to {NAME_BYTES_MAX} ASCII letters, digits, dots, hyphens and \
                 underscores"
            ),
            NameError::Taken(_) => "give each relay of the process a name of its own".to_owned(),
        }
    }
}

pub(crate) struct Overview {
    /// Locked only when a relay comes or goes, and when somebody asks.
    relays: Mutex<Vec<Arc<ListedRelay>>>,
    process: Registry,
    metrics_text: MetricsText,
}

struct ListedRelay {
    /// None: the only relay of a process.
    name: Option<String>,
    vitals: Arc<Vitals>,
    registry: Registry,
}

impl ListedRelay {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

impl Overview {
    /// For named relays.
    pub(crate) fn new() -> Self {
        Overview {
            relays: Mutex::default(),
            process: process::registry(),
            metrics_text: MetricsText::default(),
        }
    }

    /// For the only relay of a process.
    pub(crate) fn of_one(vitals: Arc<Vitals>, registry: Registry) -> Self {
        let overview = Overview::new();
        overview.lock().push(Arc::new(ListedRelay { name: None, vitals, registry }));
        overview
    }

    /// Shows a relay. One of the same name that has ended is replaced.
    pub(crate) fn add(
        &self,
        name: &str,
        vitals: Arc<Vitals>,
        registry: Registry,
    ) -> Result<(), NameError> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_fit) {
            return Err(NameError::Unfit(name.to_owned()));
        }
        let mut relays = self.lock();
        let is_same = |relay: &Arc<ListedRelay>| relay.name() == name;
        if relays.iter().any(|relay| is_same(relay) && !relay.vitals.state().has_ended()) {
            return Err(NameError::Taken(name.to_owned()));
        }
        relays.retain(|relay| !is_same(relay));
        relays.push(Arc::new(ListedRelay { name: Some(name.to_owned()), vitals, registry }));
        Ok(())
    }

    /// Shows a relay no more.
    pub(crate) fn remove(&self, vitals: &Arc<Vitals>) {
        self.lock().retain(|relay| !Arc::ptr_eq(&relay.vitals, vitals));
    }

    /// Whether all relays are ready, and what there is to report about them.
    pub(super) fn readiness(&self) -> (bool, String) {
        let relays = self.relays();
        if let [only] = relays.as_slice()
            && only.name.is_none()
        {
            return only.vitals.readiness();
        }
        if relays.is_empty() {
            return (false, "no relay reports to this endpoint".to_owned());
        }
        let answers: Vec<_> =
            relays.iter().map(|relay| (relay.name(), relay.vitals.readiness())).collect();
        let are_ready = answers.iter().all(|(_, (is_ready, _))| *is_ready);
        // If all are ready, those that are more than that: standbys.
        let lines: Vec<String> = answers
            .iter()
            .filter(|(_, (is_ready, text))| if are_ready { text != READY } else { !is_ready })
            .map(|(name, (_, text))| format!("{name}: {}", text.replace('\n', " ")))
            .collect();
        (are_ready, if lines.is_empty() { READY.to_owned() } else { lines.join("\n") })
    }

    /// For `/status`.
    pub(super) fn status(&self) -> Value {
        let relays = self.relays();
        match relays.as_slice() {
            [only] if only.name.is_none() => only.vitals.to_json(),
            relays => {
                let status =
                    |relay: &Arc<ListedRelay>| (relay.name().to_owned(), relay.vitals.to_json());
                json!({ "relays": relays.iter().map(status).collect::<Map<_, _>>() })
            }
        }
    }

    /// For people.
    pub(super) fn page(&self) -> String {
        let relays = self.relays();
        page::page(relays.iter().map(|relay| (relay.name.as_deref(), relay.vitals.to_json())))
    }

    /// For `/metrics`.
    pub(super) fn metrics(&self) -> Result<Bytes, fmt::Error> {
        self.metrics_text.get_or_write(|| {
            let relays = self.relays();
            encode(relays.iter().map(|relay| &relay.registry).chain([&self.process]))
        })
    }

    fn relays(&self) -> Vec<Arc<ListedRelay>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ListedRelay>>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn relay(slot: &str) -> (Arc<Vitals>, Registry) {
        let mut registry = Registry::default();
        (Arc::new(Vitals::register(slot, &mut registry)), registry)
    }

    #[track_caller]
    fn add(overview: &Overview, name: &str) -> Arc<Vitals> {
        let (vitals, registry) = relay(name);
        overview.add(name, Arc::clone(&vitals), registry).unwrap();
        vitals
    }

    #[test]
    fn the_only_relay_of_a_process_is_shown_as_it_is() {
        let (vitals, registry) = relay("s");
        let overview = Overview::of_one(Arc::clone(&vitals), registry);
        vitals.set_state(State::Standby, Some("slot \"s\" is held".to_owned()));
        assert_eq!(overview.readiness(), vitals.readiness());
        assert_eq!(overview.status(), vitals.to_json());
        assert!(!overview.page().contains("<h2>"));
        let metrics = String::from_utf8(overview.metrics().unwrap().to_vec()).unwrap();
        assert!(metrics.contains("\npostrider_active 0\n"), "{metrics}");
        assert!(metrics.contains("\npostrider_build_info{version="), "{metrics}");
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    }

    #[test]
    fn all_relays_have_to_be_ready() {
        let overview = Overview::new();
        assert_eq!(overview.readiness(), (false, "no relay reports to this endpoint".to_owned()));
        let (orders, invoices) = (add(&overview, "orders"), add(&overview, "invoices"));
        let check =
            |ready: bool, text: &str| assert_eq!(overview.readiness(), (ready, text.into()));
        check(false, "orders: connecting\ninvoices: connecting");
        orders.set_state(State::Streaming, None);
        check(false, "invoices: connecting");
        invoices.set_state(State::Standby, Some("slot \"i\" is held".to_owned()));
        check(true, "invoices: standby: slot \"i\" is held");
        invoices.set_state(State::CatchingUp, None);
        check(true, READY);
        orders.failed("the slot\nis gone", "run `postrider recover`");
        check(false, "orders: failed: the slot is gone; fix: run `postrider recover`");
        let status = overview.status();
        assert_eq!(status["relays"]["orders"]["state"], "failed");
        assert_eq!(status["relays"]["orders"]["reason"], "the slot\nis gone");
        assert_eq!(status["relays"]["orders"]["fix"], "run `postrider recover`");
        assert_eq!(status["relays"]["invoices"]["state"], "catching-up");
        assert_eq!(status["relays"]["invoices"].get("fix"), None);
        overview.remove(&orders);
        check(true, READY);
    }

    #[test]
    fn names_are_unique_among_those_that_run() {
        let overview = Overview::new();
        let first = add(&overview, "orders");
        let refused = |name: &str| {
            let (vitals, registry) = relay("s");
            overview.add(name, vitals, registry).unwrap_err()
        };
        assert_eq!(refused("orders"), NameError::Taken("orders".to_owned()));
        for name in ["", "a b", "a\"", "a\n", "ö", "a".repeat(65).as_str()] {
            assert_eq!(refused(name), NameError::Unfit(name.to_owned()));
        }
        first.stopped("it was stopped");
        let second = add(&overview, "orders");
        second.set_state(State::Streaming, None);
        assert_eq!(overview.readiness(), (true, READY.to_owned()));
        // The first one's end removes nothing of the second.
        overview.remove(&first);
        assert_eq!(overview.readiness(), (true, READY.to_owned()));
    }
}
