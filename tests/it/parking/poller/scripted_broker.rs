//! A broker that follows a script, and a poller that sends to it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider::Config;
use postrider::internals::{Flags, Inputs, KeyDelivered, Needs, Poller};
use postrider::shutdown::{Shutdown, ShutdownHandle};
use postrider::sink::Sink;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Broken, NotTaken, Obstacle, ReadyTopics, Report};
use postrider_core::delivery::{Class, Outcome};
use postrider_core::envelope::{Destination, Record};
use postrider_core::parking::{Counts, Observer};
use tokio::sync::mpsc;

use crate::parking::store::rig::{Rig, refusal};
use testkit::wait::Deadline;

/// What the broker does, and what it has received.
#[derive(Default)]
pub struct Script {
    /// Values it refuses.
    pub refused: HashSet<String>,
    /// It does not answer.
    pub silent: bool,
    /// It can't be reached.
    pub unreachable: bool,
    /// How often the connection was restarted.
    pub restarts: usize,
    /// What it accepted, in order.
    pub sent: Vec<String>,
    pub delivered: usize,
    pub dead: usize,
    pub failed: Vec<&'static str>,
    pub fetch_errors: usize,
    pub counts: Counts,
}

#[derive(Clone, Default)]
pub struct ScriptedBroker(Arc<Mutex<Script>>);

impl ScriptedBroker {
    pub fn with<T>(&self, look: impl FnOnce(&mut Script) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// Waits for something to become true.
    pub async fn until(&self, what: &str, check: impl Fn(&Script) -> bool) {
        let mut deadline = Deadline::after(Duration::from_secs(20));
        while !self.with(|script| check(script)) {
            assert!(
                !deadline.left().is_zero(),
                "never: {what}; sent {:?}",
                self.with(|b| b.sent.clone())
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub struct ScriptedSink {
    broker: ScriptedBroker,
    in_flight: Vec<(Ticket, String)>,
    destination: Destination,
}

impl Sink for ScriptedSink {
    async fn stop(&mut self) {
        self.in_flight.clear();
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.in_flight.clear();
        self.broker.with(|script| script.restarts += 1);
        Ok(())
    }

    fn destination(&mut self, _topic: &str) -> Option<&Destination> {
        Some(&self.destination)
    }

    fn ready_topics(&mut self) -> ReadyTopics {
        ReadyTopics::all()
    }

    fn partitions_in_use(&self) -> usize {
        1
    }

    fn hurry(&mut self) {}

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        // One at a time: a refusal must concern one record.
        if !self.in_flight.is_empty() {
            return Err(NotTaken::Busy);
        }
        let value = String::from_utf8(record.value.clone().unwrap().into_owned()).unwrap();
        self.in_flight.push((ticket, value));
        Ok(())
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let answered = self.broker.with(|script| {
                if script.silent || script.unreachable || self.in_flight.is_empty() {
                    return false;
                }
                for (ticket, value) in self.in_flight.drain(..) {
                    let outcome = if script.refused.contains(&value) {
                        Outcome::Retry(refusal())
                    } else {
                        script.sent.push(value);
                        Outcome::Ok
                    };
                    reports.push(Report::Settled(ticket, outcome));
                }
                true
            });
            if answered {
                return;
            }
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let text = "the broker is unreachable".to_owned();
        self.broker.with(|script| script.unreachable).then_some(Obstacle { text, certain: true })
    }

    fn answered_at(&self) -> Option<Instant> {
        None
    }
}

impl Observer for ScriptedBroker {
    fn delivered(&mut self, _table: &str, _topic: &str, _latency_seconds: f64) {
        self.with(|script| script.delivered += 1);
    }
    fn failed(&mut self, _table: &str, _topic: &str, class: Class) {
        self.with(|script| script.failed.push(class.name()));
    }
    fn died(&mut self, _table: &str, _topic: &str) {
        self.with(|script| script.dead += 1);
    }
    fn counted(&mut self, counts: &Counts, _began: std::time::Instant) {
        self.with(|script| script.counts = counts.clone());
    }
    fn taken_over(&mut self, _takeovers: i64) {}
    fn fetch_error(&mut self) {
        self.with(|script| script.fetch_errors += 1);
    }
}

/// A poller, its shutdown handles and its reports.
pub type RunningPoller =
    (Poller<ScriptedSink, ScriptedBroker>, ShutdownHandle, Shutdown, mpsc::Receiver<KeyDelivered>);

/// A poller that polls every 20 ms, tries three times, and holds a lease for 3 s.
pub fn poller(rig: &Rig, broker: &ScriptedBroker) -> RunningPoller {
    poller_with(rig, broker, &[])
}

/// The same with other settings.
pub fn poller_with(rig: &Rig, broker: &ScriptedBroker, settings: &[(&str, &str)]) -> RunningPoller {
    let variables: BTreeMap<String, String> = [
        ("POSTRIDER_DATABASE_URL", rig.url().as_str()),
        ("POSTRIDER_SLOT", &rig.slot),
        ("POSTRIDER_BROKERS", "nowhere:1"),
        ("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "20ms"),
        ("POSTRIDER_UNDELIVERED_LEASE", "3s"),
        ("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "3"),
        ("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "10ms"),
        ("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "20ms"),
        ("POSTRIDER_UNDELIVERED_BATCH", "10"),
    ]
    .into_iter()
    .chain(settings.iter().copied())
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    let read: &dyn Fn(&std::path::Path) -> std::io::Result<String> =
        &|_| Err(std::io::ErrorKind::NotFound.into());
    let inputs = Inputs { flags: Flags::default(), variables, read, os_user: None, home: None };
    let config = Config::load(&inputs, Needs::PostgresAndKafka).unwrap();
    let destination = Destination::new(None, Duration::MAX);
    let sink = ScriptedSink { broker: broker.clone(), in_flight: Vec::new(), destination };
    let (sender, delivered_keys) = mpsc::channel(100);
    let (handle, shutdown) = Shutdown::channel();
    let refusals = mpsc::channel(1).0;
    let poller = Poller::new(&config, sink, sender, Default::default(), refusals, broker.clone());
    (poller, handle, shutdown, delivered_keys)
}
