//! Writers that continue through every fault and know what they have committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::{Client, Transaction};

use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresAddress;
use testkit::wait::wait_until;

const WRITERS: usize = 4;
/// Keys of a writer: no other writes them, so their order is the order of its own commits.
const KEYS: usize = 3;
/// Rows of the transactions, in turn.
const SIZES: [usize; 8] = [1, 10, 1, 1, 200, 10, 1, 10];
pub const LARGEST_TRANSACTION: usize = 200;
/// Coprime with the number of sizes, so that each size is rolled back now and then.
const ROLLED_BACK_EVERY: usize = 7;

/// How often a writer begins a transaction. They have 29 rows on average.
#[derive(Clone, Copy)]
pub enum Pace {
    /// About 2,000 events a second: an outage of half a minute is caught up in seconds.
    Steady,
    /// About 6,000 events a second: some are always in flight.
    Hard,
}

impl Pace {
    fn interval(self) -> Duration {
        match self {
            Pace::Steady => Duration::from_millis(55),
            Pace::Hard => Duration::from_millis(20),
        }
    }
}

pub struct Load {
    topic: String,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Vec<Attempt>>>,
}

/// What the writers have written.
pub struct Written {
    pub expected: Expected,
    pub commits: Vec<Commit>,
}

/// A transaction that was committed between two positions of the log.
pub struct Commit {
    pub rows: usize,
    pub after_lsn: u64,
    pub before_lsn: u64,
}

/// A transaction that a writer has tried.
struct Attempt {
    number: usize,
    rows: usize,
    outcome: Outcome,
    /// Where the log ended after it; `None` if the server did not answer.
    wal_end: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Committed,
    RolledBack,
    /// The connection ended before COMMIT was answered.
    Unknown,
}

impl Load {
    #[track_caller]
    pub fn start(fixture: &Fixture, topic: &str, pace: Pace) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicUsize::new(0));
        let writers = (0..WRITERS).map(|number| {
            let writer = Writer {
                number,
                topic: topic.to_owned(),
                address: fixture.postgres().clone(),
                database: fixture.database().to_owned(),
                interval: pace.interval(),
                stop: Arc::clone(&stop),
                committed: Arc::clone(&committed),
            };
            std::thread::spawn(move || writer.run())
        });
        Load { topic: topic.to_owned(), writers: writers.collect(), stop, committed }
    }

    /// Rows known to be committed.
    pub fn committed(&self) -> usize {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until this many more rows are committed.
    #[track_caller]
    pub fn wait_for_more(&self, rows: usize) {
        let enough = self.committed() + rows;
        wait_until("the writers to continue", Duration::from_secs(60), || {
            self.committed() >= enough
        });
    }

    /// Ends the writers and returns what must be published. The server must be up.
    #[track_caller]
    pub fn finish(mut self, fixture: &Fixture) -> Written {
        self.stop.store(true, Ordering::Relaxed);
        let attempts: Vec<Vec<Attempt>> =
            self.writers.drain(..).map(|writer| writer.join().expect("a writer failed")).collect();
        // By idempotency key, not by id: a sequence may repeat numbers after a crash.
        let mut ids = HashMap::new();
        let sql = "select idempotency_key, id::text from outbox where topic = $1";
        for row in fixture.client().query(sql, &[&self.topic]).unwrap() {
            ids.insert(row.get::<_, String>(0), row.get::<_, String>(1));
        }
        let mut expected = Expected::default();
        for (writer, attempts) in attempts.iter().enumerate() {
            for attempt in attempts {
                attempt.expect(writer, &self.topic, &ids, &mut expected);
            }
        }
        assert_eq!(expected.len(), ids.len(), "the table has rows that nobody committed");
        let commits = attempts.iter().flat_map(|attempts| commits(attempts)).collect();
        Written { expected, commits }
    }
}

impl Drop for Load {
    // A test that fails must not leave writers behind for the others.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Attempt {
    fn expect(
        &self,
        writer: usize,
        topic: &str,
        ids: &HashMap<String, String>,
        expected: &mut Expected,
    ) {
        let name = |row| format!("{writer}-{}-{row}", self.number);
        let present = (1..=self.rows).filter(|&row| ids.contains_key(&name(row))).count();
        let whole = match self.outcome {
            Outcome::Committed => present == self.rows,
            Outcome::RolledBack => present == 0,
            Outcome::Unknown => present == 0 || present == self.rows,
        };
        assert!(
            whole,
            "Postgres has {present} of {} rows of transaction {} of writer {writer}",
            self.rows, self.number
        );
        if present > 0 {
            for row in 1..=self.rows {
                expected.push(topic, &key(writer, row), &ids[&name(row)]);
            }
        }
    }
}

/// The commits of one writer. Each is after the position where the log ended after the previous
/// one.
fn commits(attempts: &[Attempt]) -> Vec<Commit> {
    let mut after_lsn = 0;
    let mut commits = Vec::new();
    for attempt in attempts {
        if attempt.outcome != Outcome::RolledBack {
            let before_lsn = attempt.wal_end.unwrap_or(u64::MAX);
            commits.push(Commit { rows: attempt.rows, after_lsn, before_lsn });
        }
        after_lsn = attempt.wal_end.unwrap_or(after_lsn);
    }
    commits
}

fn key(writer: usize, row: usize) -> String {
    format!("{writer}-{}", row % KEYS)
}

struct Writer {
    number: usize,
    topic: String,
    address: PostgresAddress,
    database: String,
    interval: Duration,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
}

const INSERT: &str = "insert into outbox (topic, idempotency_key, ordering_key, payload)
    select $1, $2 || '-' || $3::int || '-' || row, $2 || '-' || row % $4::int,
           json_build_object('row', row, 'filler', repeat('x', 20 + row * 37 % 300))
      from generate_series(1, $5::int) row order by row";

const WAL_END: &str = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";

fn wal_end(client: &mut Client) -> Option<u64> {
    let bytes: i64 = client.query_one(WAL_END, &[]).ok()?.get(0);
    u64::try_from(bytes).ok()
}

impl Writer {
    fn run(&self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        let mut client: Option<Client> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let connected = match client.take() {
                Some(client) => Some(client),
                None => self.address.try_client(&self.database).ok(),
            };
            if let Some(mut connected) = connected {
                let attempt = self.attempt(&mut connected, attempts.len());
                if attempt.outcome == Outcome::Committed {
                    self.committed.fetch_add(attempt.rows, Ordering::Relaxed);
                }
                attempts.push(attempt);
                client = Some(connected).filter(|client| !client.is_closed());
            } else {
                // The server is down: it is tried again soon.
                std::thread::sleep(Duration::from_millis(50));
            }
            std::thread::sleep(self.interval.saturating_sub(begun.elapsed()));
        }
        attempts
    }

    fn attempt(&self, client: &mut Client, number: usize) -> Attempt {
        let rows = SIZES[number % SIZES.len()];
        let outcome = match client.transaction() {
            Ok(transaction) => self.write(transaction, number, rows),
            Err(_) => Outcome::RolledBack,
        };
        Attempt { number, rows, outcome, wal_end: wal_end(client) }
    }

    fn write(&self, mut transaction: Transaction<'_>, number: usize, rows: usize) -> Outcome {
        let writer = self.number.to_string();
        let (txn, count) = (i32::try_from(number).unwrap(), i32::try_from(rows).unwrap());
        let keys = i32::try_from(KEYS).unwrap();
        let inserted = transaction.execute(INSERT, &[&self.topic, &writer, &txn, &keys, &count]);
        // Without a COMMIT, the server keeps nothing.
        let Ok(inserted) = inserted else {
            return Outcome::RolledBack;
        };
        assert_eq!(inserted, rows as u64);
        if number.is_multiple_of(ROLLED_BACK_EVERY) {
            drop(transaction.rollback());
            return Outcome::RolledBack;
        }
        match transaction.commit() {
            Ok(()) => Outcome::Committed,
            Err(_) => Outcome::Unknown,
        }
    }
}
