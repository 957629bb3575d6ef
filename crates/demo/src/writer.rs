//! The application: changes accounts and writes an event about each change in the same
//! transaction.
//!
//! An account's row stays locked until its transaction ends, so its version counts the commits:
//! events of one account must arrive in the order of their versions, whichever writer wrote them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use postgres::{Client, Statement, Transaction};

const ACCOUNT_COUNT: i64 = 64;
/// Each writer begins a transaction this often: a busy application, not a stress test.
const PACE: Duration = Duration::from_millis(20);

const CREATE_ACCOUNTS: &str = "CREATE TABLE account (number bigint PRIMARY KEY, version bigint)";
const FILL_ACCOUNTS: &str = "INSERT INTO account SELECT n, 0 FROM generate_series(1, $1::bigint) n";
/// Changes an account `$2` times and writes an event for each change.
const CHANGE: &str = "
    WITH changed AS (
        UPDATE account SET version = version + $2 WHERE number = $1 RETURNING version
    )
    INSERT INTO outbox (topic, ordering_key, type, tenant, payload)
    SELECT $3, 'account-' || $1, 'account.changed', 'demo',
           json_build_object('account', $1, 'version', n, 'text', repeat('demo ', 20))
    FROM changed, generate_series(changed.version - $2 + 1, changed.version) n
    RETURNING id, (payload ->> 'version')::bigint";

/// The shape of a transaction.
#[derive(Clone, Copy)]
enum Shape {
    Single,
    Batch,
    Bulk,
    /// The part after a savepoint is undone, the rest is committed.
    Savepoint,
    RolledBack,
}

impl Shape {
    // Of twenty transactions, one is large, and four do not commit all that they wrote.
    fn pick() -> Shape {
        match rand::random_range(0..20) {
            0 => Shape::Bulk,
            1..4 => Shape::Batch,
            4..6 => Shape::Savepoint,
            6..8 => Shape::RolledBack,
            _ => Shape::Single,
        }
    }

    fn rows(self) -> i64 {
        match self {
            Shape::Single | Shape::Savepoint => 1,
            Shape::Batch | Shape::RolledBack => 10,
            Shape::Bulk => 200,
        }
    }
}

/// A committed event.
pub(crate) struct Written {
    pub(crate) id: i64,
    pub(crate) account: i64,
    pub(crate) version: i64,
    /// Just before COMMIT was sent.
    pub(crate) committed_at: Instant,
}

/// What one writer has done.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) transactions: usize,
    pub(crate) committed: Vec<Written>,
    pub(crate) rolled_back: usize,
}

/// What the writers share.
pub(crate) struct Writers {
    topic: String,
    stopping: AtomicBool,
    pub(crate) committed: AtomicUsize,
}

impl Writers {
    pub(crate) fn prepare(client: &mut Client, topic: &str) -> Writers {
        client.batch_execute(CREATE_ACCOUNTS).unwrap();
        client.execute(FILL_ACCOUNTS, &[&ACCOUNT_COUNT]).unwrap();
        Writers {
            topic: topic.to_owned(),
            stopping: AtomicBool::new(false),
            committed: AtomicUsize::new(0),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Writes until stopped.
    pub(crate) fn write(&self, mut client: Client) -> Ledger {
        let change = client.prepare(CHANGE).unwrap();
        let mut ledger = Ledger::default();
        let mut next = Instant::now();
        while !self.stopping.load(Relaxed) {
            self.transact(&mut client, &change, Shape::pick(), &mut ledger);
            next = (next + PACE).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        ledger
    }

    pub(crate) fn write_one(&self, mut client: Client) -> Ledger {
        let change = client.prepare(CHANGE).unwrap();
        let mut ledger = Ledger::default();
        self.transact(&mut client, &change, Shape::Single, &mut ledger);
        ledger
    }

    fn transact(&self, client: &mut Client, change: &Statement, shape: Shape, ledger: &mut Ledger) {
        let account = rand::random_range(1..=ACCOUNT_COUNT);
        let change = |transaction: &mut Transaction<'_>, rows: i64| -> Vec<(i64, i64)> {
            let rows = transaction.query(change, &[&account, &rows, &self.topic]).unwrap();
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        };
        let mut transaction = client.transaction().unwrap();
        let mut events = change(&mut transaction, shape.rows());
        if let Shape::Savepoint = shape {
            let mut undone = transaction.savepoint("before").unwrap();
            ledger.rolled_back += change(&mut undone, 3).len();
            undone.rollback().unwrap();
            events.extend(change(&mut transaction, 1));
        }
        ledger.transactions += 1;
        if let Shape::RolledBack = shape {
            transaction.rollback().unwrap();
            ledger.rolled_back += events.len();
            return;
        }
        let committed_at = Instant::now();
        transaction.commit().unwrap();
        self.committed.fetch_add(events.len(), Relaxed);
        ledger.committed.extend(events.into_iter().map(|(id, version)| Written {
            id,
            account,
            version,
            committed_at,
        }));
    }
}
