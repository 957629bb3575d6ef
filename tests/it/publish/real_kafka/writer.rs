//! One of the writers: the same rows in transactions of every kind and size.

use std::io::Write as _;

use postgres::{Client, Transaction};

use testkit::check::Expected;
use testkit::fixture::Fixture;

pub const WRITERS: usize = 8;
pub const SHARED_KEYS: usize = 5;
const OWN_KEYS: u64 = 4;

/// A block of a writer's work: 1 × 1000, 20 × 10 and 50 × 1 rows, mixed.
const BLOCKS: u64 = 20;
const BLOCK_TRANSACTIONS: u64 = 71;

/// Rows `first..=last` of a writer, committed together.
pub struct Commit {
    topic: String,
    writer: usize,
    first: u64,
    last: u64,
    /// The shared key of all rows, and its counter; otherwise they have the writer's own keys.
    pub shared: Option<(i32, i64)>,
}

impl Commit {
    pub fn push_to(&self, expected: &mut Expected) {
        for number in self.first..=self.last {
            let key = match self.shared {
                Some((key, _)) => format!("shared-{key}"),
                None => self.own_key(number),
            };
            expected.push(&self.topic, &key, format!("{}-{number}", self.writer));
        }
    }

    fn own_key(&self, number: u64) -> String {
        format!("own-{}-{}", self.writer, number % OWN_KEYS)
    }

    fn insert(&self, transaction: &mut Transaction<'_>, first: u64, last: u64) {
        let key = match self.shared {
            Some((key, _)) => format!("'shared-{key}'"),
            None => format!("'own-{}-' || g % {OWN_KEYS}", self.writer),
        };
        let Commit { topic, writer, .. } = self;
        let sql = format!(
            "insert into outbox (topic, payload, ordering_key, idempotency_key)
             select '{topic}', json_build_object('number', g), {key}, '{writer}-' || g
               from generate_series({first}, {last}) g"
        );
        transaction.batch_execute(&sql).unwrap();
    }

    fn insert_all(&self, transaction: &mut Transaction<'_>) {
        self.insert(transaction, self.first, self.last);
    }

    fn copy(&self, transaction: &mut Transaction<'_>) {
        let sql = "copy outbox (topic, payload, ordering_key, idempotency_key) from stdin";
        let mut copy = transaction.copy_in(sql).unwrap();
        for number in self.first..=self.last {
            let (key, topic, writer) = (self.own_key(number), &self.topic, self.writer);
            let row = format!("{topic}\t{{\"number\":{number}}}\t{key}\t{writer}-{number}\n");
            copy.write_all(row.as_bytes()).unwrap();
        }
        copy.finish().unwrap();
    }
}

pub struct Writer {
    client: Client,
    number: usize,
    topics: Vec<String>,
    /// Prepared transactions have names of the whole server.
    database: String,
    rows: u64,
    transactions: u64,
    commits: Vec<Commit>,
}

impl Writer {
    pub fn new(fixture: &Fixture, number: usize, topics: &[String]) -> Writer {
        Writer {
            client: fixture.client(),
            number,
            topics: topics.to_vec(),
            database: fixture.database().to_owned(),
            rows: 0,
            transactions: 0,
            commits: Vec::new(),
        }
    }

    pub fn run(mut self) -> Vec<Commit> {
        for number in 0..BLOCKS * BLOCK_TRANSACTIONS {
            // A prime length and this step visit each of a block's sizes once, out of order.
            let rows = match number * 37 % BLOCK_TRANSACTIONS {
                0 => 1000,
                1..=20 => 10,
                _ => 1,
            };
            self.commit(number, rows);
            match number % 9 {
                2 => self.roll_back(rows),
                5 => self.roll_back_prepared(rows),
                _ => {}
            }
        }
        self.commits
    }

    // The next rows of this writer. Those of a transaction that is rolled back are used up too.
    fn next(&mut self, rows: u64) -> Commit {
        let first = self.rows;
        self.rows += rows;
        self.transactions += 1;
        let topic = self.transactions % self.topics.len() as u64;
        Commit {
            topic: self.topics[usize::try_from(topic).unwrap()].clone(),
            writer: self.number,
            first,
            last: self.rows - 1,
            shared: None,
        }
    }

    fn commit(&mut self, number: u64, rows: u64) {
        match number % 6 {
            0 => self.plain(rows),
            1 => self.shared(number, rows),
            2 => self.savepoint_released(rows),
            3 => self.savepoint_rolled_back(rows),
            4 => self.copy(rows),
            _ => self.prepared(rows),
        }
    }

    fn plain(&mut self, rows: u64) {
        let commit = self.next(rows);
        let mut transaction = self.client.transaction().unwrap();
        commit.insert_all(&mut transaction);
        transaction.commit().unwrap();
        self.commits.push(commit);
    }

    fn shared(&mut self, number: u64, rows: u64) {
        let mut commit = self.next(rows);
        let key = i32::try_from(number / 6 % SHARED_KEYS as u64).unwrap();
        let mut transaction = self.client.transaction().unwrap();
        let count = "update shared_key set n = n + 1 where k = $1 returning n";
        let n = transaction.query_one(count, &[&key]).unwrap().get(0);
        commit.shared = Some((key, n));
        commit.insert_all(&mut transaction);
        transaction.commit().unwrap();
        self.commits.push(commit);
    }

    fn savepoint_released(&mut self, rows: u64) {
        let commit = self.next(rows);
        let middle = commit.first + rows / 2;
        let mut transaction = self.client.transaction().unwrap();
        commit.insert(&mut transaction, commit.first, middle);
        let mut savepoint = transaction.transaction().unwrap();
        commit.insert(&mut savepoint, middle + 1, commit.last);
        savepoint.commit().unwrap();
        transaction.commit().unwrap();
        self.commits.push(commit);
    }

    fn savepoint_rolled_back(&mut self, rows: u64) {
        let undone = self.next(rows);
        let commit = self.next(rows);
        let mut transaction = self.client.transaction().unwrap();
        let mut savepoint = transaction.transaction().unwrap();
        undone.insert_all(&mut savepoint);
        savepoint.rollback().unwrap();
        commit.insert_all(&mut transaction);
        transaction.commit().unwrap();
        self.commits.push(commit);
    }

    fn copy(&mut self, rows: u64) {
        let commit = self.next(rows);
        let mut transaction = self.client.transaction().unwrap();
        commit.copy(&mut transaction);
        transaction.commit().unwrap();
        self.commits.push(commit);
    }

    // Commits after a transaction that began later and has the same keys: commit order is not the
    // order of the rows.
    fn prepared(&mut self, rows: u64) {
        let mut commit = self.next(rows);
        // The overtaking transaction takes one of the rows, unless there is only one.
        let overtaking = (rows > 1).then(|| Commit {
            topic: commit.topic.clone(),
            first: commit.last,
            ..commit
        });
        if overtaking.is_some() {
            commit.last -= 1;
        }
        let name = self.prepare(&commit);
        if let Some(overtaking) = overtaking {
            let mut transaction = self.client.transaction().unwrap();
            overtaking.insert_all(&mut transaction);
            transaction.commit().unwrap();
            self.commits.push(overtaking);
        }
        self.finish_prepared("commit", &name);
        self.commits.push(commit);
    }

    fn roll_back(&mut self, rows: u64) {
        let undone = self.next(rows);
        let mut transaction = self.client.transaction().unwrap();
        undone.insert_all(&mut transaction);
        transaction.rollback().unwrap();
    }

    fn roll_back_prepared(&mut self, rows: u64) {
        let undone = self.next(rows);
        let name = self.prepare(&undone);
        self.finish_prepared("rollback", &name);
    }

    fn prepare(&mut self, rows: &Commit) -> String {
        let name = format!("{}-{}-{}", self.database, rows.writer, rows.first);
        let mut transaction = self.client.transaction().unwrap();
        rows.insert_all(&mut transaction);
        let sql = format!("prepare transaction '{name}'");
        transaction.batch_execute(&sql).unwrap();
        // It no longer belongs to the session; the rollback of a dropped handle does nothing.
        drop(transaction);
        name
    }

    fn finish_prepared(&mut self, how: &str, name: &str) {
        let sql = format!("{how} prepared '{name}'");
        self.client.batch_execute(&sql).unwrap();
    }
}
