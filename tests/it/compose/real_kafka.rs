//! The README's lines on the compose file's settings: real servers, other hosts and ports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use super::file::{ComposeFile, image_environment, readme_command};
use testkit::broker::Broker;
use testkit::consumer::Consumer;
use testkit::kafka::KafkaServer;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer, TcpAuth};
use testkit::relay::{Relay, postrider};
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);

/// The addresses on this machine for the containers' names and ports.
struct LocalAddresses(Vec<(&'static str, String)>);

impl LocalAddresses {
    fn new() -> LocalAddresses {
        let ports = ["9092", "9093", "9094", "7678"].map(|port| (port, free_port().to_string()));
        LocalAddresses(ports.into())
    }

    fn port(&self, port: &str) -> u16 {
        let (_, local) = self.0.iter().find(|(known, _)| *known == port).unwrap();
        local.parse().unwrap()
    }

    fn localize(&self, text: &str) -> String {
        let mut text = text.replace("kafka:", "127.0.0.1:").replace("@postgres:", "@127.0.0.1:");
        for (port, local) in &self.0 {
            for before in [':', '/'] {
                text = text.replace(&format!("{before}{port}"), &format!("{before}{local}"));
            }
        }
        text
    }
}

/// With the flags of the compose file, and a configuration file without these settings.
fn start_postgres(compose: &ComposeFile) -> PostgresServer {
    let command = compose.command("postgres");
    assert_eq!(command[0], "postgres");
    let options = PostgresOptions {
        auth: TcpAuth::ScramSha256,
        arguments: command[1..].to_vec(),
        ..PostgresOptions::default()
    };
    let server = PostgresServer::start(options.setting("wal_level", "replica"));
    let environment: BTreeMap<_, _> = compose.environment("postgres").into_iter().collect();
    let sql = format!("ALTER ROLE postgres PASSWORD '{}'", environment["POSTGRES_PASSWORD"]);
    server.client("postgres").batch_execute(&sql).unwrap();
    server
}

/// The settings as the image derives them from its variables.
fn kafka_settings(compose: &ComposeFile, addresses: &LocalAddresses) -> BTreeMap<String, String> {
    let environment = compose.environment("kafka");
    let settings = environment.iter().map(|(name, value)| {
        let name = name.strip_prefix("KAFKA_").expect("not a setting of the broker");
        (name.to_lowercase().replace('_', "."), addresses.localize(value))
    });
    settings.collect()
}

/// A broker ignores unknown names, so its effective settings are read back.
#[track_caller]
fn assert_knows(broker: &Broker, settings: &BTreeMap<String, String>) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", broker.brokers()).create().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let asked = [&ResourceSpecifier::Broker(1)];
    let answer = runtime.block_on(admin.describe_configs(asked, &AdminOptions::new()));
    let taken = answer.unwrap().pop().unwrap().unwrap();
    for (name, value) in settings.iter().filter(|(name, _)| *name != "log.dirs") {
        let found = taken.get(name).and_then(|entry| entry.value.as_ref());
        assert_eq!(found, Some(value), "{name}");
    }
}

fn succeeds(words: &[String]) -> bool {
    Command::new(&words[0]).args(&words[1..]).output().unwrap().status.success()
}

#[test]
fn the_readmes_commands_write_an_event_and_read_it_back() {
    let compose = ComposeFile::read();
    let mut addresses = LocalAddresses::new();
    let settings = kafka_settings(&compose, &addresses);
    let (postgres, kafka) = std::thread::scope(|scope| {
        let postgres = scope.spawn(|| start_postgres(&compose));
        let kafka = KafkaServer::start_with_only(settings.clone(), addresses.port("9092"));
        (postgres.join().unwrap(), kafka)
    });
    addresses.0.push(("5432", postgres.port().to_string()));
    assert_knows(&kafka.broker(), &settings);

    let environment = |service: &str| -> Vec<(String, String)> {
        let variables = image_environment().into_iter().chain(compose.environment(service));
        variables.map(|(name, value)| (name, addresses.localize(&value))).collect()
    };
    let mut migrate = postrider(Path::new(BINARY), &environment("migrate"));
    let output = migrate.args(compose.command("migrate")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let health_check = compose.health_check("postrider");
    let health_check: Vec<String> =
        health_check.iter().map(|word| addresses.localize(word)).collect();
    assert!(!succeeds(&health_check), "healthy without a relay");
    assert_eq!(compose.command("postrider"), ["run"]);
    let mut relay = Relay::start(Path::new(BINARY), &environment("postrider"));
    relay.wait_ready(SOON);
    wait_until("the health check to succeed", SOON, || succeeds(&health_check));

    let words = readme_command("psql");
    let mut psql = postgres.tool(&words[0]);
    // Only what the line itself contains: no variables from which tools read the server's address.
    psql.env_clear().args(words[1..].iter().map(|word| addresses.localize(word)));
    let output = psql.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stdout.trim(), "INSERT 0 1", "{errors}");

    let words = readme_command("kcat");
    let option = |name: &str| &words[words.iter().position(|it| it == name).unwrap() + 1];
    let broker = Broker::at(&addresses.localize(option("-b")));
    let record = &Consumer::new(&broker, &[option("-t")]).read_n(1, SOON)[0];
    assert_eq!(record.value_text(), Some(r#"{"hello" : "world"}"#));
}
