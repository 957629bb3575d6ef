//! A relay under load on servers of the test's choice, and the verdict at the end.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::message::Headers;

use super::load::{Commit, LARGEST_TRANSACTION, Load, Pace, Written};
use testkit::broker::Broker;
use testkit::check::{Check, Expected, Verdict};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresAddress;
use testkit::wait::poll_for;

pub const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
pub const SOON: Duration = Duration::from_secs(60);
/// Longer than any pause of the relay between two attempts, on a busy machine.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(180);

/// How many events may be repeated after an end of the relay or its session: everything in flight,
/// everything since the last status update, and the transaction that the stream was in.
pub const REPEATED_BY_RESTART_MAX: usize = 3_000 + 1_000 + LARGEST_TRANSACTION;

/// One relay, one topic, one load.
pub struct Rig {
    pub fixture: Fixture,
    pub load: Load,
    topic: String,
    name: String,
    begun: Instant,
}

/// A fixture with its topic, ready to be configured further.
pub struct Prepared {
    pub fixture: Fixture,
    topic: String,
    name: String,
    begun: Instant,
}

/// Prepares a fixture on the shared servers.
#[track_caller]
pub fn prepare(name: &str) -> Prepared {
    let begun = Instant::now();
    Prepared::of(Fixture::new(BINARY, name), name, begun)
}

/// Prepares a fixture on given servers.
#[track_caller]
pub fn prepare_on(name: &str, postgres: &PostgresAddress, broker: &Broker) -> Prepared {
    let begun = Instant::now();
    Prepared::of(Fixture::on(BINARY, name, postgres, broker), name, begun)
}

impl Prepared {
    #[track_caller]
    fn of(mut fixture: Fixture, name: &str, begun: Instant) -> Prepared {
        let topic = fixture.create_topic("events", 3, &[]);
        Prepared { fixture, topic, name: name.to_owned(), begun }
    }

    /// The relay reaches Postgres through this port, and soon gives up on a silent connection.
    #[must_use]
    pub fn postgres_via(mut self, port: u16) -> Self {
        let database = self.fixture.database().to_owned();
        let url = self.fixture.postgres().url_via(port, &database);
        let url = format!("{url}?connect_timeout=2");
        self.fixture.set("POSTRIDER_DATABASE_URL", &url);
        self.shorten_server_timeout();
        self
    }

    /// The server soon gives up on a silent relay.
    pub fn shorten_server_timeout(&mut self) {
        let database = self.fixture.database();
        let sql = format!("alter database \"{database}\" set wal_sender_timeout = '5s'");
        self.fixture.client().batch_execute(&sql).unwrap();
    }

    /// The relay reaches the broker through this address, and soon gives up on a silent connection.
    #[must_use]
    pub fn brokers_via(mut self, brokers: &str) -> Self {
        let properties = "POSTRIDER_KAFKA_PROPERTIES";
        self.fixture.set("POSTRIDER_BROKERS", brokers);
        self.fixture.set(&format!("{properties}_SOCKET_TIMEOUT_MS"), "10000");
        self.fixture.set(&format!("{properties}_REQUEST_TIMEOUT_MS"), "8000");
        self
    }

    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.fixture.set(name, value);
        self
    }

    /// Starts the relay and the writers; their first events have arrived.
    #[track_caller]
    pub fn start(mut self, pace: Pace) -> Rig {
        self.fixture.start_relay().wait_ready(SOON);
        let mut rig = self.start_load(pace);
        rig.load.wait_for_more(100);
        rig.wait_caught_up();
        rig
    }

    /// Starts the writers only.
    #[track_caller]
    pub fn start_load(self, pace: Pace) -> Rig {
        Rig {
            load: Load::start(&self.fixture, &self.topic, pace),
            fixture: self.fixture,
            topic: self.topic,
            name: self.name,
            begun: self.begun,
        }
    }
}

/// The positions of the slot and the log when a relay had ended: what it may have published without
/// the server knowing is between the two.
pub struct Unconfirmed {
    confirmed_lsn: u64,
    wal_end_lsn: u64,
}

impl Unconfirmed {
    /// How many events the next relay may repeat.
    fn repeated_max(&self, commits: &[Commit]) -> usize {
        let between = |commit: &&Commit| {
            commit.before_lsn > self.confirmed_lsn && commit.after_lsn < self.wal_end_lsn
        };
        let rows: usize = commits.iter().filter(between).map(|commit| commit.rows).sum();
        rows.min(REPEATED_BY_RESTART_MAX)
    }
}

impl Rig {
    /// SIGKILL for the relay. The positions are read after it: a report that was on its way then
    /// reduces the number of repeated events, it never increases it.
    #[track_caller]
    pub fn kill_relay(&mut self) -> Unconfirmed {
        self.fixture.relay().kill9();
        let sql = "select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint,
                pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
            from pg_replication_slots where slot_name = $1";
        let row = self.fixture.client().query_one(sql, &[&self.fixture.slot()]).unwrap();
        let lsn = |column| u64::try_from(row.get::<_, i64>(column)).unwrap();
        Unconfirmed { confirmed_lsn: lsn(0), wal_end_lsn: lsn(1) }
    }

    /// Lets a fault last: this is not a wait for a condition, but what the test is about.
    #[track_caller]
    pub fn endure(&self, time: Duration) {
        let before = self.load.committed();
        std::thread::sleep(time);
        assert!(self.load.committed() > before, "nothing was committed while the fault lasted");
    }

    /// Waits until the relay has confirmed what is committed by now.
    #[track_caller]
    pub fn wait_caught_up(&mut self) {
        wait_caught_up(&mut self.fixture);
    }

    /// Ends the load, waits until the relay catches up, and checks that every event is published in
    /// order.
    #[track_caller]
    pub fn judge(self, duplicates_max: usize) -> Verdict {
        self.judge_by(|_| duplicates_max)
    }

    /// The same; only what was not confirmed at these ends of the relay may be repeated.
    #[track_caller]
    pub fn judge_after(self, ends: &[Unconfirmed]) -> Verdict {
        self.judge_by(|commits| ends.iter().map(|end| end.repeated_max(commits)).sum())
    }

    #[track_caller]
    fn judge_by(self, duplicates_max: impl FnOnce(&[Commit]) -> usize) -> Verdict {
        let Rig { mut fixture, load, .. } = self;
        let Written { expected, commits } = load.finish(&fixture);
        let duplicates_max = duplicates_max(&commits);
        assert!(!expected.is_empty(), "the load wrote nothing");
        wait_caught_up(&mut fixture);
        let verdict = read(fixture.broker(), &self.topic, expected);
        let (seconds, name) = (self.begun.elapsed().as_secs(), &self.name);
        print_line(&format!(
            "{name}: {} events, {} duplicates (at most {duplicates_max}), {seconds} s",
            verdict.expected, verdict.duplicates.count
        ));
        verdict.assert_at_least_once(Some(duplicates_max));
        assert!(
            fixture.relay().is_running(),
            "the relay has ended:\n{}",
            fixture.relay().log_tail(20)
        );
        verdict
    }
}

/// Waits until the slot's position is after everything committed so far: from then on every event
/// must be in Kafka.
#[track_caller]
pub fn wait_caught_up(fixture: &mut Fixture) {
    let mut client = fixture.client();
    let target: String =
        client.query_one("select pg_current_wal_insert_lsn()::text", &[]).unwrap().get(0);
    let sql = "select confirmed_flush_lsn >= $1::text::pg_lsn
        from pg_replication_slots where slot_name = $2";
    let slot = fixture.slot().to_owned();
    let confirmed = poll_for(CAUGHT_UP_WITHIN, || {
        let row = client.query_one(sql, &[&target, &slot]).unwrap();
        row.get::<_, bool>(0).then_some(())
    });
    if confirmed.is_none() {
        let relay = fixture.relay();
        let state = relay.http_get("/readyz");
        let log = relay.log_tail(30);
        panic!("the relay does not catch up within {CAUGHT_UP_WITHIN:?}: {state:?}\n{log}");
    }
}

/// Reads everything the topic has by now.
#[track_caller]
pub fn read(broker: &Broker, topic: &str, expected: Expected) -> Verdict {
    let consumer = Consumer::new(broker, &[topic]);
    let end: i64 = consumer.end_offsets(topic).iter().sum();
    let mut left = usize::try_from(end).unwrap();
    let mut check = Check::new(expected);
    let read = left == 0
        || consumer.for_each(SOON, |message| {
            let header = |name| {
                let mut headers = message.headers()?.iter();
                let value = headers.find(|header| header.key == name)?.value?;
                std::str::from_utf8(value).ok()
            };
            let key = message.key().and_then(|key| std::str::from_utf8(key).ok());
            check.see(
                message.topic(),
                message.partition(),
                key.unwrap_or(""),
                header("id").unwrap_or("(no id)"),
            );
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
    assert!(read, "{left} records of {topic} could not be read");
    check.verdict()
}

// Bypasses libtest, which shows output only for failed tests: the number of duplicates is worth
// knowing for passed tests too.
pub fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
