//! Writers that follow the database to its new server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use postgres::Client;

use super::SOON;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresAddress;
use testkit::wait::wait_until;

const WRITERS: usize = 3;
/// Rows of a transaction, each of another key. A key has one writer.
const ROWS: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

const INSERT: &str = "INSERT INTO public.outbox (topic, idempotency_key, ordering_key, payload)
    SELECT $1, $2 || '-' || row, $3 || '-' || row, to_json(row)
      FROM generate_series(1, $4::bigint) row ORDER BY row";

pub struct Writers {
    place: Arc<Mutex<PostgresAddress>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    pub fn start(fixture: &Fixture, topic: &str) -> Writers {
        let place = Arc::new(Mutex::new(fixture.postgres().clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicUsize::new(0));
        let threads = (0..WRITERS).map(|number| {
            let writer = Writer {
                number,
                topic: topic.to_owned(),
                database: fixture.database().to_owned(),
                place: Arc::clone(&place),
                stop: Arc::clone(&stop),
                committed: Arc::clone(&committed),
            };
            std::thread::spawn(move || writer.run())
        });
        Writers { threads: threads.collect(), place, stop, committed }
    }

    pub fn move_to(&self, address: &PostgresAddress) {
        *self.place.lock().unwrap() = address.clone();
    }

    /// Rows whose commit a server has confirmed.
    pub fn committed(&self) -> usize {
        self.committed.load(Ordering::Relaxed)
    }

    #[track_caller]
    pub fn wait_for_more(&self, rows: usize) {
        let enough = self.committed() + rows;
        wait_until("the writers to continue", SOON, || self.committed() >= enough);
    }

    /// Ends them, and returns how many rows were confirmed as committed.
    pub fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a writer failed");
        }
        self.committed()
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Writer {
    number: usize,
    topic: String,
    database: String,
    place: Arc<Mutex<PostgresAddress>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
}

impl Writer {
    fn run(&self) {
        let mut client: Option<Client> = None;
        for transaction in 0_u64.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            client = client.take().or_else(|| self.connect());
            if let Some(connected) = &mut client {
                let name = format!("{}-{transaction}", self.number);
                let key = self.number.to_string();
                let rows = i64::try_from(ROWS).unwrap();
                match connected.execute(INSERT, &[&self.topic, &name, &key, &rows]) {
                    Ok(_) => drop(self.committed.fetch_add(ROWS, Ordering::Relaxed)),
                    // It is unknown whether it is committed: the next one has another name.
                    Err(_) => client = None,
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn connect(&self) -> Option<Client> {
        let place = self.place.lock().unwrap().clone();
        place.try_client(&self.database).ok()
    }
}
