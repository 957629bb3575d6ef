//! What a test owns: a database, a slot, topics and a relay, all with unique names.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use postgres::Client;

use super::broker::Broker;
use super::consumer::Consumer;
use super::port::free_port;
use super::postgres::PostgresAddress;
use super::relay::{Relay, postrider};
use super::shared;

pub struct Fixture {
    /// Also the slot's name: slots belong to the whole server, so it must be unique.
    name: String,
    binary: PathBuf,
    postgres: PostgresAddress,
    broker: Broker,
    env: Vec<(String, String)>,
    topics: Vec<String>,
    relay: Option<Relay>,
}

impl Fixture {
    /// A migrated database on the shared servers. `name` is a short snake_case hint.
    #[track_caller]
    pub fn new(binary: impl AsRef<Path>, name: &str) -> Fixture {
        let (postgres, broker) = shared::pair();
        Fixture::on(binary, name, &postgres.address(), &broker)
    }

    /// A migrated database on given servers, which the test can stop and start.
    #[track_caller]
    pub fn on(
        binary: impl AsRef<Path>,
        name: &str,
        postgres: &PostgresAddress,
        broker: &Broker,
    ) -> Fixture {
        let fixture = Fixture::unmigrated(binary, name, postgres, broker);
        fixture.migrate();
        fixture
    }

    /// An empty database: no table, no publication, no slot.
    #[track_caller]
    pub fn unmigrated(
        binary: impl AsRef<Path>,
        name: &str,
        postgres: &PostgresAddress,
        broker: &Broker,
    ) -> Fixture {
        let mut fixture = Fixture {
            name: postgres.create_database(name),
            binary: binary.as_ref().to_owned(),
            postgres: postgres.clone(),
            broker: broker.clone(),
            env: Vec::new(),
            topics: Vec::new(),
            relay: None,
        };
        fixture.set("POSTRIDER_DATABASE_URL", &postgres.url(&fixture.name));
        fixture.set("POSTRIDER_BROKERS", broker.brokers());
        fixture.set("POSTRIDER_SLOT", &fixture.name.clone());
        fixture.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{}", free_port()));
        fixture.set("POSTRIDER_LOG", "info");
        fixture
    }

    /// The relay stops at events that it can't publish, instead of parking them.
    pub fn halting(mut self) -> Fixture {
        self.set("POSTRIDER_UNDELIVERED_ORDER", "halt");
        self
    }

    /// Sets a variable of the relay's configuration, for processes that are started from now on.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.unset(name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn unset(&mut self, name: &str) -> &mut Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    pub fn database(&self) -> &str {
        &self.name
    }

    pub fn slot(&self) -> &str {
        &self.name
    }

    pub fn postgres(&self) -> &PostgresAddress {
        &self.postgres
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        self.postgres.client(&self.name)
    }

    /// The full name of one of this fixture's topics.
    pub fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }

    /// Creates a topic and returns its full name.
    #[track_caller]
    pub fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> String {
        let topic = self.topic(name);
        self.broker.create_topic(&topic, partitions, settings);
        self.topics.push(topic.clone());
        topic
    }

    /// A consumer of the topics created so far.
    #[track_caller]
    pub fn consumer(&self) -> Consumer {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        Consumer::new(&self.broker, &topics)
    }

    /// A command of the relay's binary with this fixture's configuration.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = postrider(&self.binary, &self.env);
        command.args(arguments);
        command
    }

    /// Runs a command of the relay's binary to its end.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output();
        output.unwrap_or_else(|error| panic!("cannot run {}: {error}", self.binary.display()))
    }

    #[track_caller]
    pub fn migrate(&self) {
        let output = self.run(&["migrate"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "migrate failed ({}): {errors}", output.status);
    }

    /// Drops the slot with its progress, as if there had never been one.
    #[track_caller]
    pub fn forget_slot(&self) {
        self.postgres.drop_slot(&self.name).unwrap();
        let sql = "DELETE FROM postrider.progress WHERE slot = $1";
        self.client().execute(sql, &[&self.name]).unwrap();
    }

    /// The database is on another server from now on. The relay uses it from its next start.
    pub fn move_to(&mut self, postgres: &PostgresAddress) {
        self.postgres = postgres.clone();
        let url = postgres.url(&self.name);
        self.set("POSTRIDER_DATABASE_URL", &url);
    }

    /// Starts `postrider run`; the one before must have ended.
    #[track_caller]
    pub fn start_relay(&mut self) -> &mut Relay {
        self.start_relay_with(&[])
    }

    /// The same with flags.
    #[track_caller]
    pub fn start_relay_with(&mut self, flags: &[&str]) -> &mut Relay {
        let running = self.relay.as_mut().is_some_and(Relay::is_running);
        assert!(!running, "the relay of {} is already running", self.name);
        self.relay.insert(Relay::start_with(&self.binary, &self.env, flags))
    }

    #[track_caller]
    pub fn relay(&mut self) -> &mut Relay {
        self.relay.as_mut().expect("no relay was started")
    }

    /// Takes the relay out, for a test that has several.
    #[track_caller]
    pub fn take_relay(&mut self) -> Relay {
        self.relay.take().expect("no relay was started")
    }

    /// Puts a relay back.
    pub fn give_relay(&mut self, relay: Relay) {
        self.relay = Some(relay);
    }

    /// Bytes of WAL that the slot's consumer has not confirmed; `None` without a slot.
    #[track_caller]
    pub fn unconfirmed_bytes(&self) -> Option<u64> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
            FROM pg_replication_slots WHERE slot_name = $1";
        let row = self.client().query_opt(sql, &[&self.name]).expect("cannot read the slot");
        row.map(|row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }

    /// The backend that holds the slot, if any.
    #[track_caller]
    pub fn slot_holder(&self) -> Option<i32> {
        let sql = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1";
        let row = self.client().query_opt(sql, &[&self.name]).expect("cannot read the slot");
        row.and_then(|row| row.get(0))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.relay.take());
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        // A private server may be down by now; then nothing is left to tidy up.
        if self.postgres.drop_database(&self.name).is_ok() {
            self.broker.delete_topics(&topics);
        }
    }
}
