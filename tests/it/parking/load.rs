//! Writers of events of every kind: good ones, ones that are too large, ones for a missing topic,
//! and ones with headers that can't be sent. They continue through every fault.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::Client;

use testkit::fixture::Fixture;
use testkit::postgres::PostgresAddress;
use testkit::wait::wait_until;

const WRITERS: usize = 2;
/// Rows of the transactions, in turn.
const SIZES: [i64; 5] = [1, 5, 20, 1, 3];
/// About 800 events a second.
const INTERVAL: Duration = Duration::from_millis(15);
/// Hexadecimal digits of an event that is too large: compressed they are half as many bytes.
const LARGE_DIGITS: usize = 128 * 1024;
/// The topic's limit: far more than the other events have, and less than a large one.
pub const LIMIT: (&str, &str) = ("max.message.bytes", "50000");

/// The topics of the events.
#[derive(Clone)]
pub struct Topics {
    /// Has the limit.
    pub limited: String,
    pub missing: String,
}

pub struct Load {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    #[track_caller]
    pub fn start(fixture: &Fixture, topics: &Topics) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicUsize::new(0));
        let writers = (0..WRITERS).map(|number| {
            let writer = Writer {
                number,
                topics: topics.clone(),
                large: large(),
                address: fixture.postgres().clone(),
                database: fixture.database().to_owned(),
                stop: Arc::clone(&stop),
                committed: Arc::clone(&committed),
            };
            std::thread::spawn(move || writer.run())
        });
        Load { writers: writers.collect(), stop, committed }
    }

    /// Waits until this many more rows are committed.
    #[track_caller]
    pub fn wait_for_more(&self, rows: usize) {
        let enough = self.committed.load(Ordering::Relaxed) + rows;
        wait_until("the writers to continue", Duration::from_secs(60), || {
            self.committed.load(Ordering::Relaxed) >= enough
        });
    }

    /// Ends the writers and returns their events in the table, in the order of each key.
    #[track_caller]
    pub fn finish(mut self, fixture: &Fixture) -> Vec<Written> {
        self.stop.store(true, Ordering::Relaxed);
        let writers = self.writers.drain(..);
        let names: Vec<String> =
            writers.flat_map(|it| it.join().expect("a writer failed")).collect();
        let written = Written::all(fixture);
        let found: HashSet<&str> = written.iter().map(|event| event.name.as_str()).collect();
        let lost = names.iter().filter(|name| !found.contains(name.as_str())).count();
        assert_eq!(lost, 0, "Postgres has lost committed rows");
        assert!(!names.is_empty(), "the load wrote nothing");
        written
    }
}

impl Drop for Load {
    // A test that fails must not leave writers behind for the others.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn large() -> String {
    let digit = |_| char::from_digit(rand::random_range(0..16), 16).unwrap();
    (0..LARGE_DIGITS).map(digit).collect()
}

/// An event in the outbox.
#[derive(Clone, Debug)]
pub struct Written {
    pub id: String,
    pub topic: String,
    pub key: Option<String>,
    /// The reason with which it becomes dead, if it can never be published.
    pub fault: Option<String>,
    name: String,
}

impl Written {
    #[track_caller]
    fn all(fixture: &Fixture) -> Vec<Written> {
        // A sequence may repeat numbers after a crash: the order is in the names.
        let sql = "SELECT id::text, topic, ordering_key, type, idempotency_key FROM public.outbox
            ORDER BY split_part(idempotency_key, '-', 1)::int,
                     split_part(idempotency_key, '-', 2)::bigint";
        let rows = fixture.client().query(sql, &[]).unwrap();
        let read = |row: &postgres::Row| Written {
            id: row.get(0),
            topic: row.get(1),
            key: row.get(2),
            fault: row.get(3),
            name: row.get(4),
        };
        rows.iter().map(read).collect()
    }
}

struct Writer {
    number: usize,
    topics: Topics,
    large: String,
    address: PostgresAddress,
    database: String,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
}

/// The numbers are coprime, so that every kind meets every key. Keys change with time: most of them
/// are held by a dead event sooner or later. A writer's keys are its own, so that their order is the
/// order of its rows.
const INSERT: &str = "INSERT INTO public.outbox
       (topic, idempotency_key, ordering_key, type, payload, headers)
SELECT CASE WHEN n % 5 = 2 AND fault IS DISTINCT FROM 'too-large' THEN $1 ELSE $2 END,
       $3 || '-' || n,
       CASE WHEN n % 4 > 0 THEN $3 || '-' || n / 200 || '-' || n % 7 END,
       fault,
       to_json(CASE WHEN fault = 'too-large' THEN $4 ELSE repeat('x', 20 + (n * 37 % 300)::int) END),
       CASE WHEN fault = 'bad-headers' THEN '[]'::json END
  FROM (SELECT n, CASE WHEN n % 47 = 11 THEN 'bad-headers' WHEN n % 61 = 7 THEN 'too-large' END fault
          FROM generate_series($5::bigint, $6::bigint) n) events
 ORDER BY n";

impl Writer {
    /// Returns the names of the events that were certainly committed.
    fn run(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut client: Option<Client> = None;
        let mut next = 0;
        for size in SIZES.iter().cycle() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            let connected = client.take().filter(|client| !client.is_closed());
            let connected = connected.or_else(|| self.address.try_client(&self.database).ok());
            if let Some(mut connected) = connected {
                if self.write(&mut connected, next, next + size - 1).is_ok() {
                    names.extend((next..next + size).map(|n| format!("{}-{n}", self.number)));
                    self.committed.fetch_add(usize::try_from(*size).unwrap(), Ordering::Relaxed);
                }
                // The numbers of a failed transaction may be taken nevertheless.
                next += size;
                client = Some(connected);
            }
            std::thread::sleep(INTERVAL.saturating_sub(begun.elapsed()));
        }
        names
    }

    fn write(&self, client: &mut Client, from: i64, to: i64) -> Result<u64, postgres::Error> {
        let Topics { limited, missing } = &self.topics;
        let writer = self.number.to_string();
        client.execute(INSERT, &[missing, limited, &writer, &self.large, &from, &to])
    }
}
