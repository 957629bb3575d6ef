//! The servers, configured as in a careful production, as far as one machine allows.

use testkit::broker::Broker;
use testkit::certificates::{Authority, Wanted};
use testkit::kafka::{COMPILE_WELL, KafkaOptions, KafkaServer};
use testkit::postgres::{PostgresOptions, PostgresServer};

const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    // A checkpoint or a vacuum in the middle would affect one contestant and not the other.
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30min"),
    ("autovacuum", "off"),
];

/// Shown with the results, in addition to the above.
const SHOWN: &[&str] =
    &["server_version", "ssl", "fsync", "synchronous_commit", "full_page_writes"];

pub(crate) struct Servers {
    pub(crate) postgres: PostgresServer,
    pub(crate) broker: Broker,
    // Only kept alive: it ends when dropped.
    _kafka: Option<KafkaServer>,
}

impl Servers {
    /// Starts both at the same time, because each takes seconds.
    pub(crate) fn start(tls: bool) -> Servers {
        let mut options = PostgresOptions::default();
        for (name, value) in SETTINGS {
            options = options.setting(name, value);
        }
        if tls {
            options = with_tls(options);
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

fn with_tls(options: PostgresOptions) -> PostgresOptions {
    let wanted = Wanted { name: "postgres", hosts: &["127.0.0.1"], days_left: 2 };
    let issued = Authority::new("benchmark").issue(wanted);
    options
        .setting("ssl", "on")
        .setting("ssl_cert_file", "bench.crt")
        .setting("ssl_key_file", "bench.key")
        .file("bench.crt", &issued.certificate)
        .file("bench.key", &issued.key)
}

fn start_kafka() -> (Broker, Option<KafkaServer>) {
    match std::env::var("TEST_BROKERS") {
        Ok(brokers) if !brokers.is_empty() => (Broker::at(&brokers), None),
        _ => {
            let kafka = KafkaServer::start(KafkaOptions {
                jvm_flags: vec![COMPILE_WELL.to_owned()],
                ..KafkaOptions::default()
            });
            (kafka.broker(), Some(kafka))
        }
    }
}
