//! A destination that does as it is told, and a poller that sends there.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider::config::Config;
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

/// What the destination does, and what it has seen.
#[derive(Default)]
pub struct Book {
    /// Values it refuses.
    pub refused: HashSet<String>,
    /// It answers nothing.
    pub silent: bool,
    /// Nobody can reach it.
    pub away: bool,
    /// How often the way there was begun anew.
    pub restarts: usize,
    /// What it took, in order.
    pub sent: Vec<String>,
    pub delivered: usize,
    pub dead: usize,
    pub failed: Vec<&'static str>,
    pub fetch_errors: usize,
    pub counts: Counts,
}

#[derive(Clone, Default)]
pub struct Desk(Arc<Mutex<Book>>);

impl Desk {
    pub fn with<T>(&self, look: impl FnOnce(&mut Book) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// Waits for something to become true.
    pub async fn until(&self, what: &str, check: impl Fn(&Book) -> bool) {
        let mut deadline = Deadline::after(Duration::from_secs(20));
        while !self.with(|book| check(book)) {
            assert!(
                !deadline.left().is_zero(),
                "never: {what}; sent {:?}",
                self.with(|b| b.sent.clone())
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub struct DeskSink {
    desk: Desk,
    in_flight: Vec<(Ticket, String)>,
    destination: Destination,
}

impl Sink for DeskSink {
    async fn stop(&mut self) {
        self.in_flight.clear();
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.in_flight.clear();
        self.desk.with(|book| book.restarts += 1);
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
        // One at a time: a refusal must speak about one record.
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
            let told = self.desk.with(|book| {
                if book.silent || book.away || self.in_flight.is_empty() {
                    return false;
                }
                for (ticket, value) in self.in_flight.drain(..) {
                    let outcome = match book.refused.contains(&value) {
                        true => Outcome::Retry(refusal()),
                        false => {
                            book.sent.push(value);
                            Outcome::Ok
                        }
                    };
                    reports.push(Report::Settled(ticket, outcome));
                }
                true
            });
            if told {
                return;
            }
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let text = "nobody is there".to_owned();
        self.desk.with(|book| book.away).then_some(Obstacle { text, certain: true })
    }

    fn answered_at(&self) -> Option<Instant> {
        None
    }
}

impl Observer for Desk {
    fn delivered(&mut self, _table: &str, _topic: &str, _latency_seconds: f64) {
        self.with(|book| book.delivered += 1);
    }
    fn failed(&mut self, _table: &str, _topic: &str, class: Class) {
        self.with(|book| book.failed.push(class.name()));
    }
    fn died(&mut self, _table: &str, _topic: &str) {
        self.with(|book| book.dead += 1);
    }
    fn counted(&mut self, counts: &Counts, _began: std::time::Instant) {
        self.with(|book| book.counts = counts.clone());
    }
    fn taken_over(&mut self, _takeovers: i64) {}
    fn fetch_error(&mut self) {
        self.with(|book| book.fetch_errors += 1);
    }
}

/// A poller, and the ways to it.
pub type Hired = (Poller<DeskSink, Desk>, ShutdownHandle, Shutdown, mpsc::Receiver<KeyDelivered>);

/// A poller that looks every 20 ms, tries three times, and holds a lease for 3 s.
pub fn poller(rig: &Rig, desk: &Desk) -> Hired {
    poller_with(rig, desk, &[])
}

/// The same with other settings.
pub fn poller_with(rig: &Rig, desk: &Desk, settings: &[(&str, &str)]) -> Hired {
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
    let sink = DeskSink { desk: desk.clone(), in_flight: Vec::new(), destination };
    let (sender, news) = mpsc::channel(100);
    let (handle, shutdown) = Shutdown::channel();
    let refusals = mpsc::channel(1).0;
    let poller = Poller::new(&config, sink, sender, Default::default(), refusals, desk.clone());
    (poller, handle, shutdown, news)
}
