//! A Postgres and a broker that run as long as the demo.

use testkit::broker::Broker;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::mock::MockBroker;
use testkit::postgres::{PostgresAddress, PostgresOptions, PostgresServer};

/// An answer of the embedded broker contains one batch of each partition. Brokers are asked at the
/// same time, so with several of them a consumer keeps up with many small batches.
const MOCK_BROKER_COUNT: i32 = 3;

pub(crate) struct Servers {
    postgres: PostgresServer,
    broker: Broker,
    // Only kept alive: they end when dropped.
    _kafka: Option<KafkaServer>,
    _mock: Option<MockBroker>,
}

impl Servers {
    /// Starts both at the same time, because each takes seconds.
    pub(crate) fn start() -> Servers {
        std::thread::scope(|scope| {
            let postgres = scope.spawn(|| PostgresServer::start(PostgresOptions::default()));
            let (broker, kafka, mock) = start_broker();
            Servers {
                postgres: postgres.join().expect("no Postgres, no demo"),
                broker,
                _kafka: kafka,
                _mock: mock,
            }
        })
    }

    pub(crate) fn postgres(&self) -> PostgresAddress {
        self.postgres.address()
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }
}

fn start_broker() -> (Broker, Option<KafkaServer>, Option<MockBroker>) {
    if !wants_kafka() {
        let mock = MockBroker::start(MOCK_BROKER_COUNT);
        return (mock.broker(), None, Some(mock));
    }
    if let Some(brokers) = given_brokers() {
        return (Broker::at(&brokers), None, None);
    }
    let kafka = KafkaServer::start(KafkaOptions::default());
    (kafka.broker(), Some(kafka), None)
}

pub(crate) fn broker_name() -> String {
    match given_brokers() {
        _ if !wants_kafka() => "librdkafka's embedded broker (KAFKA=real: Apache Kafka)".to_owned(),
        Some(brokers) => format!("use the Kafka at {brokers}"),
        None => "an Apache Kafka".to_owned(),
    }
}

fn wants_kafka() -> bool {
    match std::env::var("KAFKA").as_deref() {
        Ok("real") => true,
        Ok("" | "mock") | Err(_) => false,
        Ok(other) => panic!("KAFKA={other} is not known; use KAFKA=real or KAFKA=mock"),
    }
}

fn given_brokers() -> Option<String> {
    std::env::var("TEST_BROKERS").ok().filter(|brokers| !brokers.is_empty())
}
