//! One Postgres and one broker for all tests of a run, started when the first test needs them.
//!
//! Statics are never dropped: the servers' guardians stop them when this process ends.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

use super::broker::Broker;
use super::kafka::{KafkaOptions, KafkaServer};
use super::mock::MockBroker;
use super::postgres::{PostgresOptions, PostgresServer};
use super::wait::wait_until;

static POSTGRES: OnceLock<PostgresServer> = OnceLock::new();
static POSTGRES_17: OnceLock<PostgresServer> = OnceLock::new();
static BROKER: OnceLock<SharedBroker> = OnceLock::new();

enum SharedBroker {
    Given(Broker),
    Kafka(KafkaServer),
    Mock(MockBroker),
}

/// The shared Postgres. A test that has to stop a server starts its own.
pub fn postgres() -> &'static PostgresServer {
    POSTGRES.get_or_init(|| PostgresServer::start(PostgresOptions::default()))
}

/// Another shared one, of the newest version that `scripts/setup` fetches.
pub fn postgres_17() -> &'static PostgresServer {
    POSTGRES_17.get_or_init(|| {
        let options = PostgresOptions { major_version: Some(17), ..PostgresOptions::default() };
        PostgresServer::start(options)
    })
}

/// Whether the shared Postgres is older than a feature, which the output then names: what can't be
/// created there needs no test there.
pub fn postgres_is_without(feature: &str, since: u32) -> bool {
    let version = postgres().address().major_version();
    if version < since {
        tell(&format!("Postgres {version} has no {feature}: nothing to test"));
    }
    version < since
}

/// The shared broker: the one of `TEST_BROKERS`, the embedded one if `KAFKA=mock`, else our own.
pub fn broker() -> Broker {
    match BROKER.get_or_init(start_broker) {
        SharedBroker::Given(broker) => broker.clone(),
        SharedBroker::Kafka(server) => server.broker(),
        SharedBroker::Mock(mock) => mock.broker(),
    }
}

/// Both, started at the same time: each takes seconds.
pub fn pair() -> (&'static PostgresServer, Broker) {
    std::thread::scope(|scope| {
        scope.spawn(postgres);
        broker();
    });
    (postgres(), broker())
}

fn start_broker() -> SharedBroker {
    if std::env::var("KAFKA").is_ok_and(|value| value == "mock") {
        tell(
            "KAFKA=mock: only tests for which librdkafka's embedded broker is enough are run; \
             tests in modules named real_kafka need `make test`",
        );
        return SharedBroker::Mock(MockBroker::start(1));
    }
    match std::env::var("TEST_BROKERS") {
        Ok(brokers) if !brokers.is_empty() => {
            let broker = Broker::at(&brokers);
            let what = format!("an answer of the Kafka at TEST_BROKERS={brokers}");
            wait_until(&what, Duration::from_secs(10), || broker.answers());
            SharedBroker::Given(broker)
        }
        _ => SharedBroker::Kafka(KafkaServer::start(KafkaOptions::default())),
    }
}

// Not through libtest, which shows what a test prints only if the test fails.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
