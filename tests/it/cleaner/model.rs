//! Random interleavings of everything that can happen between picking and deleting a row: a row is
//! never deleted before its event is delivered or discarded.
//!
//! Postgres, slot and publication are real, and so are the cleaner's own steps. The relay is a
//! model: it reads everything from the slot, delivers or parks it, and stores its position.

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::{Client, Transaction};
use postrider::Config;
use postrider::internals::cleaner::{
    CleanableTable, CleaningRules, Leaf, Picked, Picker, RowFilter,
};
use postrider::internals::{CleanerConfig, Flags, Inputs, Needs, OutboxTable, coverage};
use postrider_core::cleaning::rule::{CoverageFingerprint, Decision, OwnSlot};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use super::BINARY;
use testkit::fixture::Fixture;

const STEPS: usize = 600;
const ROUNDS: usize = 4;
const DELETED_MIN: usize = 100;
/// How many concurrent transactions are opened in all, and how many at a time.
const BESIDE_MAX: usize = 20;
const OPEN_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write,
    WriteAsync,
    Open,
    WriteMore,
    Commit,
    Rollback,
    Relay,
    Settle,
    Restart,
    Recreate,
    Lapse,
    SecondSlot,
    SecondRelay,
    DropSecond,
    Pick,
    Delete,
}

const STEPS_BY_WEIGHT: [(Step, u32); 16] = [
    (Step::Write, 20),
    (Step::WriteAsync, 10),
    (Step::Open, 6),
    (Step::WriteMore, 6),
    (Step::Commit, 6),
    (Step::Rollback, 2),
    (Step::Relay, 20),
    (Step::Settle, 6),
    (Step::Restart, 3),
    (Step::Recreate, 2),
    (Step::Lapse, 2),
    (Step::SecondSlot, 2),
    (Step::SecondRelay, 10),
    (Step::DropSecond, 1),
    (Step::Pick, 14),
    (Step::Delete, 20),
];

fn any_step() -> Step {
    let sum = STEPS_BY_WEIGHT.iter().map(|(_, weight)| weight).sum();
    let mut left = rand::random_range(0..sum);
    for (step, weight) in STEPS_BY_WEIGHT {
        if left < weight {
            return step;
        }
        left -= weight;
    }
    Step::Write
}

/// Rows that were picked and not yet deleted.
struct Pending {
    picker: Picker,
    picked: Picked,
    fingerprint: (String, u64),
    since: String,
    uncertain_until: String,
    generation: String,
}

struct World {
    fixture: Fixture,
    runtime: Runtime,
    cleaner: tokio_postgres::Client,
    sql: Client,
    table: OutboxTable,
    config: CleanerConfig,
    /// Delivered by the first slot, and by the second.
    delivered: [BTreeSet<i64>; 2],
    second: Option<String>,
    pending: Option<Pending>,
    deleted: usize,
}

const WRITE: &str = "INSERT INTO outbox (topic, payload, created_at)
    SELECT 't', '{}', now() - interval '1 hour' FROM generate_series(1, $1::bigint)";

impl World {
    #[track_caller]
    fn new() -> World {
        let fixture = Fixture::new(BINARY, "clean_model");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = fixture.postgres().url(fixture.database());
        let cleaner = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        let variables = fixture.env().iter().cloned().collect();
        let read: &dyn Fn(&std::path::Path) -> std::io::Result<String> =
            &|_| Err(std::io::ErrorKind::NotFound.into());
        let inputs = Inputs { flags: Flags::default(), variables, read, os_user: None, home: None };
        let config = Config::load(&inputs, Needs::PostgresAndKafka).unwrap();
        let mut sql = fixture.client();
        sql.batch_execute("UPDATE postrider.progress SET system_identifier = 'here'").unwrap();
        World {
            table: config.postgres.tables[0].clone(),
            config: CleanerConfig {
                enabled: true,
                retention: Duration::from_secs(60),
                interval: Duration::from_secs(1),
                batch: 7,
            },
            fixture,
            runtime,
            cleaner,
            sql,
            delivered: Default::default(),
            second: None,
            pending: None,
            deleted: 0,
        }
    }

    fn ids(&mut self) -> BTreeSet<i64> {
        self.sql.query("SELECT id FROM outbox", &[]).unwrap().iter().map(|row| row.get(0)).collect()
    }

    fn generation(&mut self) -> String {
        let sql = "SELECT generation::text FROM postrider.progress WHERE slot = $1";
        self.sql.query_one(sql, &[&self.fixture.slot()]).unwrap().get(0)
    }

    /// Reads everything from the slot: each event is delivered or parked, then the position is
    /// stored.
    fn relay(&mut self, slot: &str, number: usize) {
        let position: String =
            self.sql.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).unwrap().get(0);
        let sql = "SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL,
            'proto_version', '1', 'publication_names', 'postrider')";
        for row in self.sql.query(sql, &[&slot]).unwrap() {
            let Some(id) = inserted_id(row.get(0)) else { continue };
            if rand::random_range(0..5) == 0 {
                let sql = "INSERT INTO postrider.undelivered (slot, source_table, row_id, commit_lsn,
                    ordinal, topic, value_bytes, headers, timestamp, form, status, reason)
                    VALUES ($1, 'public.outbox', $2, '0/1', $3, 't', 0, '[]', now(), 'whole', 'dead', 'x')";
                self.sql.execute(sql, &[&slot, &id.to_string(), &id]).unwrap();
            } else {
                self.delivered[number].insert(id);
            }
        }
        let sql = "UPDATE postrider.progress SET position = $2::text::pg_lsn WHERE slot = $1";
        self.sql.execute(sql, &[&slot, &position]).unwrap();
    }

    /// Some parked events are delivered or discarded.
    fn settle(&mut self) {
        let sql = "UPDATE postrider.undelivered SET status = 'discarded' WHERE id IN (
            SELECT id FROM postrider.undelivered WHERE status = 'dead' ORDER BY random() LIMIT 2)
            RETURNING row_id::bigint, slot";
        for row in self.sql.query(sql, &[]).unwrap() {
            let number = usize::from(row.get::<_, String>(1) != self.fixture.slot());
            self.delivered[number].insert(row.get(0));
        }
    }

    /// What a session does when it begins.
    fn begin_session(&mut self, slot: &str) {
        let World { runtime, cleaner, .. } = self;
        let oid: u32 =
            self.sql.query_one("SELECT 'public.outbox'::regclass::oid", &[]).unwrap().get(0);
        runtime.block_on(coverage::cover(cleaner, slot, "postrider", &[oid])).unwrap();
    }

    fn create_slot(&mut self, slot: &str) {
        // Two statements: Postgres can lose track of a table if a slot is made by the same one.
        let sql = "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')";
        let made: String = self.sql.query_one(sql, &[&slot]).unwrap().get(0);
        let sql = "INSERT INTO postrider.progress (slot, position, system_identifier)
            VALUES ($1, $2::text::pg_lsn, 'here')";
        self.sql.execute(sql, &[&slot, &made]).unwrap();
        self.begin_session(slot);
    }

    fn drop_slot(&mut self, slot: &str) {
        self.sql.execute("SELECT pg_drop_replication_slot($1)", &[&slot]).unwrap();
        self.sql.execute("DELETE FROM postrider.progress WHERE slot = $1", &[&slot]).unwrap();
    }

    fn lapse(&mut self) {
        self.sql.batch_execute("ALTER PUBLICATION postrider DROP TABLE outbox").unwrap();
        self.sql.execute(WRITE, &[&3_i64]).unwrap();
        let sql = "BEGIN; LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE;
            ALTER PUBLICATION postrider ADD TABLE outbox; COMMIT";
        self.sql.batch_execute(sql).unwrap();
        self.sql.execute(WRITE, &[&3_i64]).unwrap();
    }

    fn pick(&mut self) {
        let generation = self.generation();
        let World { runtime, cleaner, table, config, fixture, .. } = self;
        self.pending = runtime.block_on(async {
            let outbox = find(cleaner, table).await;
            let leaf: &Leaf = &outbox.leaves[0];
            let own = OwnSlot { slot: fixture.slot(), generation: &generation, outbox: outbox.oid };
            let rules =
                CleaningRules::find(cleaner, &outbox, leaf, own, config).await.unwrap().ok()?;
            let mut picker = Picker::begin(cleaner, &outbox, leaf, &rules, None).await.unwrap();
            let picked = picker.pick(cleaner, 20).await.unwrap()?;
            let fingerprint = (rules.fingerprint.text.clone(), rules.fingerprint.since);
            let (since, uncertain_until) =
                (rules.filter.since.clone(), rules.filter.uncertain_until.clone());
            let generation = generation.clone();
            Some(Pending { picker, picked, fingerprint, since, uncertain_until, generation })
        });
    }

    /// Whatever the decision was: the statement alone must be safe.
    fn delete(&mut self) {
        let Some(mut pending) = self.pending.take() else { return };
        let before = self.ids();
        let World { runtime, cleaner, table, config, fixture, .. } = self;
        runtime.block_on(async {
            let outbox = find(cleaner, table).await;
            let Pending { picker, picked, fingerprint, since, uncertain_until, generation } =
                &mut pending;
            let own = OwnSlot { slot: fixture.slot(), generation, outbox: outbox.oid };
            let rules = CleaningRules {
                own,
                fingerprint: CoverageFingerprint {
                    text: fingerprint.0.clone(),
                    since: fingerprint.1,
                },
                filter: RowFilter {
                    retention_seconds: config.retention.as_secs_f64(),
                    since: since.clone(),
                    uncertain_until: uncertain_until.clone(),
                    batch: 7,
                },
            };
            let decision = rules.decide(cleaner, &outbox, picked.limit).await.unwrap();
            for batch in &picked.batches {
                let gone = picker.delete(cleaner, batch, &rules, picked.limit).await.unwrap();
                assert!(gone == 0 || decision == Decision::Delete, "{decision:?}");
            }
        });
        let gone: BTreeSet<i64> = before.difference(&self.ids()).copied().collect();
        self.deleted += gone.len();
        self.check(&gone);
    }

    #[track_caller]
    fn check(&mut self, gone: &BTreeSet<i64>) {
        let slots = if self.second.is_some() { 2 } else { 1 };
        for delivered in &self.delivered[..slots] {
            let lost: Vec<&i64> = gone.difference(delivered).collect();
            assert!(lost.is_empty(), "deleted and not delivered: {lost:?}");
        }
        let sql = "SELECT row_id::bigint FROM postrider.undelivered WHERE status = 'dead'";
        for row in self.sql.query(sql, &[]).unwrap() {
            assert!(!gone.contains(&row.get(0)), "deleted and parked: {}", row.get::<_, i64>(0));
        }
    }
}

async fn find(client: &tokio_postgres::Client, table: &OutboxTable) -> CleanableTable {
    CleanableTable::find(client, table, 60.0).await.unwrap().unwrap()
}

/// The first column of pgoutput's Insert, in text.
fn inserted_id(data: &[u8]) -> Option<i64> {
    let value = data.strip_prefix(b"I")?.get(4..)?.strip_prefix(b"N")?.get(2..)?;
    let value = value.strip_prefix(b"t")?;
    let length = u32::from_be_bytes(value.get(..4)?.try_into().ok()?) as usize;
    std::str::from_utf8(value.get(4..4 + length)?).ok()?.parse().ok()
}

#[test]
fn no_interleaving_deletes_an_undelivered_row() {
    // By chance the cleaner may delete nothing in a whole round.
    let (mut rounds, mut deleted) = (0, 0);
    while rounds < ROUNDS || deleted < DELETED_MIN {
        assert!(rounds < 3 * ROUNDS, "only {deleted} rows were deleted: this proves nothing");
        deleted += round();
        rounds += 1;
    }
}

/// Returns how many rows were deleted.
fn round() -> usize {
    let mut world = World::new();
    let slot = world.fixture.slot().to_owned();
    let second = format!("{slot}_2");
    let mut clients: Vec<Client> = (0..BESIDE_MAX).map(|_| world.fixture.client()).collect();
    let mut idle: Vec<&mut Client> = clients.iter_mut().collect();
    let mut open: Vec<Transaction<'_>> = Vec::new();
    for _ in 0..STEPS {
        let step = any_step();
        // Printed if the test fails. A slot can't be created, nor a table locked, while
        // transactions are open: both would wait for them.
        println!("{step:?}");
        match step {
            Step::Write => drop(world.sql.execute(WRITE, &[&2_i64]).unwrap()),
            Step::WriteAsync => {
                let sql = "SET synchronous_commit = off";
                world.sql.batch_execute(sql).unwrap();
                world.sql.execute(WRITE, &[&2_i64]).unwrap();
                world.sql.batch_execute("RESET synchronous_commit").unwrap();
            }
            Step::Open if !idle.is_empty() && open.len() < OPEN_MAX => {
                let mut transaction = idle.pop().unwrap().transaction().unwrap();
                transaction.execute(WRITE, &[&2_i64]).unwrap();
                open.push(transaction);
            }
            Step::WriteMore => {
                if let Some(transaction) = open.first_mut() {
                    let mut savepoint = transaction.savepoint("s").unwrap();
                    savepoint.execute(WRITE, &[&2_i64]).unwrap();
                    savepoint.commit().unwrap();
                }
            }
            Step::Commit if !open.is_empty() => open.remove(0).commit().unwrap(),
            Step::Rollback if !open.is_empty() => open.remove(0).rollback().unwrap(),
            Step::Relay => world.relay(&slot, 0),
            Step::Settle => world.settle(),
            Step::Restart => world.begin_session(&slot),
            Step::Recreate if open.is_empty() => {
                world.drop_slot(&slot);
                world.sql.execute(WRITE, &[&3_i64]).unwrap();
                world.create_slot(&slot);
            }
            Step::Lapse if open.is_empty() => {
                world.lapse();
                if rand::random() {
                    world.begin_session(&slot);
                }
            }
            Step::SecondSlot if open.is_empty() && world.second.is_none() => {
                world.create_slot(&second);
                world.delivered[1] = BTreeSet::new();
                world.second = Some(second.clone());
            }
            Step::SecondRelay if world.second.is_some() => world.relay(&second, 1),
            Step::DropSecond if world.second.is_some() => {
                world.drop_slot(&second);
                world.second = None;
            }
            Step::Pick => world.pick(),
            Step::Delete => world.delete(),
            _ => {}
        }
    }
    drop(open);
    world.deleted
}
