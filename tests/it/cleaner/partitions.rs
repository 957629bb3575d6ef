//! Outboxes partitioned by time: old partitions are dropped as a whole.

use std::time::Instant;

use super::{BINARY, SOON, cleaned, with_fast_cleaner};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

/// A partition with rows that are two to three days old, and one with newer rows.
const TABLE: &str = "
    CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY, topic text NOT NULL, payload json,
        created_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (created_at);
    DO $$ BEGIN
        EXECUTE format('CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (%L) TO (%L)',
                       now() - interval '3 days', now() - interval '2 days');
        EXECUTE format('CREATE TABLE outbox_now PARTITION OF outbox FOR VALUES FROM (%L) TO (%L)',
                       now() - interval '2 days', now() + interval '2 days');
    END $$";

struct Parts {
    fixture: Fixture,
    topic: String,
}

impl Parts {
    #[track_caller]
    fn new(name: &str, more: &str) -> Parts {
        let (postgres, broker) = shared::pair();
        let fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
        let mut fixture = with_fast_cleaner(fixture);
        let topic = fixture.create_topic("events", 1, &[]);
        fixture.client().batch_execute(TABLE).unwrap();
        fixture.client().batch_execute(more).unwrap();
        fixture.migrate();
        Parts { fixture, topic }
    }

    #[track_caller]
    fn write(&self, topic: &str, days: i32, events: i64) {
        let sql = "INSERT INTO outbox (topic, payload, created_at) SELECT $1, '{}',
            now() - $2 * interval '1 day' FROM generate_series(1, $3::bigint)";
        self.fixture.client().execute(sql, &[&topic, &f64::from(days), &events]).unwrap();
    }

    fn write_old(&self, events: i64) {
        let sql = "INSERT INTO outbox (topic, payload, created_at) SELECT $1, '{}',
            now() - interval '60 hours' FROM generate_series(1, $2::bigint)";
        self.fixture.client().execute(sql, &[&self.topic, &events]).unwrap();
    }

    #[track_caller]
    fn count(&self, sql: &str) -> i64 {
        self.fixture.client().query_one(sql, &[]).unwrap().get(0)
    }

    fn exists(&self, table: &str) -> bool {
        self.count(&format!("SELECT count(*) FROM pg_class WHERE relname = '{table}'")) == 1
    }

    #[track_caller]
    fn wait_dropped(&mut self, table: &str) {
        wait_until("the partition to be dropped", SOON, || {
            // The stored position advances with events.
            self.write(&self.topic, 0, 1);
            !self.exists(table)
        });
        let notes = self.count("SELECT count(*) FROM postrider.detached");
        assert_eq!(notes, 0);
    }
}

#[test]
fn old_partitions_are_dropped_and_others_are_kept() {
    let mut parts = Parts::new("parts_drop", "SELECT 1");
    parts.write_old(30);
    parts.write(&parts.topic.clone(), 1, 30);
    parts.fixture.start_relay().wait_ready(SOON);
    parts.wait_dropped("outbox_old");
    assert!(
        parts.count("SELECT count(*) FROM outbox_now") >= 30,
        "these rows are dropped later, with their partition"
    );
    wait_until("the dropped rows to be counted", SOON, || cleaned(&mut parts.fixture) == 30.0);
    parts.fixture.consumer().read_n(60, SOON);
}

#[test]
fn a_parked_row_keeps_its_partition_but_not_the_others_in_it() {
    let mut parts = Parts::new("parts_parked", "SELECT 1");
    parts.write_old(30);
    let sql = "INSERT INTO outbox (topic, payload, created_at)
        VALUES ('not a topic!', '{}', now() - interval '60 hours')";
    parts.fixture.client().batch_execute(sql).unwrap();
    parts.fixture.start_relay().wait_ready(SOON);
    wait_until("the other rows to be deleted", SOON, || {
        parts.write(&parts.topic, 0, 1);
        parts.count("SELECT count(*) FROM outbox_old") == 1
    });
    let output = parts.fixture.run(&["dead", "discard", "--all", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parts.wait_dropped("outbox_old");
}

#[test]
fn rows_from_before_a_table_became_a_partition_are_kept() {
    let more = "CREATE TABLE attached (LIKE outbox INCLUDING DEFAULTS)";
    let mut parts = Parts::new("parts_attached", more);
    parts.fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO attached (id, topic, payload, created_at)
            SELECT n, 't', '{}', now() - interval '100 hours' FROM generate_series(1, 3) n;
        DO $$ BEGIN
            EXECUTE format('ALTER TABLE outbox ATTACH PARTITION attached FOR VALUES FROM (%L) TO (%L)',
                           now() - interval '5 days', now() - interval '4 days');
        END $$";
    parts.fixture.client().batch_execute(sql).unwrap();
    parts.write_old(5);
    parts.wait_dropped("outbox_old");
    assert_eq!(parts.count("SELECT count(*) FROM attached"), 3, "these were never published");
}

#[test]
fn with_a_default_partition_rows_are_deleted_one_by_one() {
    let more = "CREATE TABLE outbox_default PARTITION OF outbox DEFAULT";
    let mut parts = Parts::new("parts_default", more);
    parts.write_old(30);
    parts.fixture.start_relay().wait_ready(SOON);
    wait_until("the rows to be deleted", SOON, || {
        parts.write(&parts.topic, 0, 1);
        parts.count("SELECT count(*) FROM outbox_old") == 0
    });
    assert!(parts.exists("outbox_old"));
}

#[test]
fn a_half_detached_partition_is_finished_by_the_next_relay() {
    let mut parts = Parts::new("parts_killed", "SELECT 1");
    parts.write_old(30);
    // The table is in use: detaching has to wait until it no longer is.
    let mut other = parts.fixture.client();
    let mut using = other.transaction().unwrap();
    using.execute("SELECT FROM outbox", &[]).unwrap();
    parts.fixture.start_relay().wait_ready(SOON);
    wait_until("the partition to be half detached", SOON, || {
        parts.write(&parts.topic, 0, 1);
        parts.count("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 1
    });
    parts.fixture.relay().kill9();
    using.rollback().unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrider cleaner'
        AND datname = current_database()";
    wait_until("the killed relay's statement to end", SOON, || parts.count(sql) == 0);
    parts.fixture.start_relay().wait_ready(SOON);
    parts.wait_dropped("outbox_old");
    parts.fixture.consumer().read_n(30, SOON);
}

#[test]
fn a_detached_partition_is_dropped_by_the_next_relay() {
    let mut parts = Parts::new("parts_detached", "SELECT 1");
    parts.write_old(30);
    let sql = "INSERT INTO postrider.detached (leaf, outbox, name, floor)
            SELECT oid, 'public.outbox', relname, '-infinity' FROM pg_class WHERE relname = 'outbox_old';
        ALTER TABLE outbox DETACH PARTITION outbox_old";
    parts.fixture.client().batch_execute(sql).unwrap();
    parts.fixture.start_relay().wait_ready(SOON);
    parts.wait_dropped("outbox_old");
    parts.fixture.consumer().read_n(30, SOON);
}

#[test]
fn a_partition_with_rows_published_late_is_kept_for_the_retention_after_their_publication() {
    let mut parts = Parts::new("parts_late", "SELECT 1");
    parts.fixture.set("POSTRIDER_CLEANER_RETENTION", "8s");
    parts.write_old(30);
    // Longer than the delay that still counts as prompt.
    let sql = "SELECT count(*) FROM pg_class WHERE relname = 'outbox_old' AND clock_timestamp() >
        (SELECT noted_at + interval '2 seconds' FROM postrider.coverage)";
    wait_until("the rows to be late", SOON, || parts.count(sql) == 1);
    let before = Instant::now();
    parts.fixture.start_relay().wait_ready(SOON);
    parts.wait_dropped("outbox_old");
    let kept = before.elapsed();
    assert!(kept.as_secs() >= 8, "dropped after {kept:?}");
    parts.fixture.consumer().read_n(30, SOON);
}

/// Notes as in a restored database: the number now belongs to another table.
#[test]
fn a_note_never_drops_a_table_that_was_not_a_partition_in_this_database() {
    let more = "CREATE TABLE bystander (id bigint, created_at timestamptz);
        CREATE TABLE renamed (id bigint, created_at timestamptz);
        CREATE TABLE other_server (id bigint, created_at timestamptz);
        CREATE TABLE other_database (id bigint, created_at timestamptz)";
    let mut parts = Parts::new("parts_unrelated", more);
    let sql = "INSERT INTO postrider.detached (leaf, outbox, name, floor)
            SELECT oid, 'public.outbox', 'public.' || relname, '-infinity' FROM pg_class
             WHERE relname IN ('bystander', 'renamed', 'other_server', 'other_database');
        UPDATE postrider.detached SET partition_name = 'public.outbox_older'
         WHERE leaf = 'renamed'::regclass;
        UPDATE postrider.detached SET partition_name = 'public.other_server', system_identifier = '1'
         WHERE leaf = 'other_server'::regclass;
        UPDATE postrider.detached SET partition_name = 'public.other_database', database = 1
         WHERE leaf = 'other_database'::regclass";
    parts.fixture.client().batch_execute(sql).unwrap();
    parts.write_old(3);
    parts.fixture.start_relay().wait_ready(SOON);
    // A partition that was dropped shows that the notes were processed; none is left.
    parts.wait_dropped("outbox_old");
    for table in ["bystander", "renamed", "other_server", "other_database"] {
        assert!(parts.exists(table), "{table}");
        let name = format!("public.{table}");
        assert!(parts.fixture.relay().log().contains(&name), "{}", parts.fixture.relay().log());
    }
}
