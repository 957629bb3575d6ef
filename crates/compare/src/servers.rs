//! What all cases share.

use testkit::broker::Broker;
use testkit::debezium::PARTITIONS;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::postgres::{PostgresAddress, PostgresOptions, PostgresServer};

pub(crate) struct Servers {
    postgres: PostgresServer,
    kafka: KafkaServer,
}

impl Servers {
    pub(crate) fn start() -> Servers {
        // Debezium creates its topics, as most installations let it.
        let options = KafkaOptions { auto_create_topics: true, ..KafkaOptions::default() };
        let options = options.setting("num.partitions", &PARTITIONS.to_string());
        // Some records have old times.
        let options = options.setting("log.retention.ms", "-1");
        let postgres = std::thread::spawn(|| PostgresServer::start(PostgresOptions::default()));
        let kafka = KafkaServer::start(options);
        Servers { postgres: postgres.join().expect("Postgres does not start"), kafka }
    }

    pub(crate) fn postgres(&self) -> PostgresAddress {
        self.postgres.address()
    }

    pub(crate) fn broker(&self) -> Broker {
        self.kafka.broker()
    }
}
