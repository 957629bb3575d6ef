//! The application: writes events without a pause, while publishers come and go.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use postgres::Client;

const WRITERS: usize = 3;
/// Of a writer: no other writes them, so their order is that of its commits.
const KEYS: usize = 5;
/// Each writer begins a transaction this often.
const PACE: Duration = Duration::from_millis(15);
/// Rows of the transactions, in turn.
const SIZES: [usize; 6] = [1, 1, 10, 1, 3, 40];
/// Coprime with the number of sizes, so that each size is rolled back now and then.
const ROLLED_BACK_EVERY: usize = 7;

const INSERT: &str = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
    VALUES (gen_random_uuid(), 'takeover', $1::text, 'Counted', jsonb_build_object('n', $2::bigint))
    RETURNING id::text";

/// An event that was committed.
pub(super) struct Written {
    pub(super) key: String,
    pub(super) id: String,
}

#[derive(Default)]
pub(super) struct Writers {
    is_over: AtomicBool,
}

impl Writers {
    pub(super) fn stop(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Runs all of them until they are stopped, and returns what they have committed. Events of a key are
    /// in their order.
    pub(super) fn write(&self, connect: impl Fn() -> Client + Sync) -> Vec<Written> {
        let write_as = |writer| self.write_as(writer, connect());
        std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || write_as(writer))).collect();
            writers.into_iter().flat_map(|it| it.join().expect("a writer failed")).collect()
        })
    }

    fn write_as(&self, writer: usize, mut client: Client) -> Vec<Written> {
        let insert = client.prepare(INSERT).unwrap();
        let mut written = Vec::new();
        let mut numbers = [0_i64; KEYS];
        let mut next = Instant::now();
        for number in 1.. {
            if self.is_over.load(Relaxed) {
                break;
            }
            let rows = SIZES[number % SIZES.len()];
            let mut counts = numbers;
            let mut transaction = client.transaction().unwrap();
            let mut rows: Vec<Written> = (0..rows)
                .map(|row| {
                    let position = (number + row) % KEYS;
                    counts[position] += 1;
                    let key = format!("{writer}-{position}");
                    let inserted = transaction.query_one(&insert, &[&key, &counts[position]]);
                    Written { id: inserted.unwrap().get(0), key }
                })
                .collect();
            if number % ROLLED_BACK_EVERY == 0 {
                transaction.rollback().unwrap();
            } else {
                transaction.commit().unwrap();
                numbers = counts;
                written.append(&mut rows);
            }
            next = (next + PACE).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        written
    }
}
