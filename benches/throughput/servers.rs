//! The servers: as a careful production would run them, as far as one machine goes.

use crate::support::broker::Broker;
use crate::support::kafka::{KafkaOptions, KafkaServer};
use crate::support::postgres::{PostgresOptions, PostgresServer};

const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    // A checkpoint or a vacuum in the middle would hit one contestant and not the other.
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30min"),
    ("autovacuum", "off"),
];

/// Shown with the results, besides the above.
const SHOWN: &[&str] = &["server_version", "fsync", "synchronous_commit", "full_page_writes"];

pub(crate) struct Servers {
    pub(crate) postgres: PostgresServer,
    pub(crate) broker: Broker,
    // Only kept alive: it ends when dropped.
    _kafka: Option<KafkaServer>,
}

impl Servers {
    /// Both at the same time: each takes seconds.
    pub(crate) fn start() -> Servers {
        let mut options = PostgresOptions::default();
        for (name, value) in SETTINGS {
            options = options.setting(name, value);
        }
        std::thread::scope(|scope| {
            let postgres = scope.spawn(|| PostgresServer::start(options));
            let (broker, kafka) = start_kafka();
            Servers {
                postgres: postgres.join().expect("no Postgres, no benchmark"),
                broker,
                _kafka: kafka,
            }
        })
    }

    /// Names and values of the Postgres settings that matter here.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut client = self.postgres.client("postgres");
        let names = SHOWN.iter().copied().chain(SETTINGS.iter().map(|(name, _)| *name));
        names
            .map(|name| {
                let row = client.query_one("SELECT current_setting($1)", &[&name]).unwrap();
                (name.to_owned(), row.get(0))
            })
            .collect()
    }
}

fn start_kafka() -> (Broker, Option<KafkaServer>) {
    match std::env::var("TEST_BROKERS") {
        Ok(brokers) if !brokers.is_empty() => (Broker::at(&brokers), None),
        _ => {
            let kafka = KafkaServer::start(KafkaOptions::default());
            (kafka.broker(), Some(kafka))
        }
    }
}
