//! docker-compose.yml without containers: its settings and commands on the tests' own servers.

pub(crate) mod file;
mod real_kafka;

use std::collections::BTreeMap;

use self::file::{ComposeFile, image_environment, readme_command};

#[test]
fn the_kafka_version_is_the_tested_one() {
    let version = testkit::kafka::Release::Current.version();
    assert_eq!(ComposeFile::read().image("kafka"), format!("apache/kafka:{version}"));
}

// Without a healthy Postgres there is nothing to migrate, without the slot nothing to run.
#[test]
fn each_service_waits_for_what_it_needs() {
    let compose = ComposeFile::read();
    let pair = |name: &str, condition: &str| (name.to_owned(), condition.to_owned());
    let healthy = |name| pair(name, "service_healthy");
    assert_eq!(compose.depends_on("migrate"), [healthy("postgres")]);
    let migrated = pair("migrate", "service_completed_successfully");
    assert_eq!(compose.depends_on("postrider"), [migrated, healthy("kafka")]);
    for service in ["postgres", "kafka"] {
        assert!(!compose.health_check(service).is_empty(), "{service} can't become healthy");
    }
}

// Well-known passwords must not be reachable from the network.
#[test]
fn ports_are_bound_to_localhost_and_match_the_readme() {
    let compose = ComposeFile::read();
    let port = |service: &str| {
        let ports = compose.ports(service);
        let [port] = &ports[..] else { panic!("not one port of {service}: {ports:?}") };
        let mut parts = port.split(':');
        assert_eq!(parts.next(), Some("127.0.0.1"), "{service} is open to others");
        let [outside, inside] = [parts.next().unwrap(), parts.next().unwrap()];
        assert_eq!(outside, inside, "{service} advertises another port than is published");
        inside.to_owned()
    };
    let url = &readme_command("psql")[1];
    assert!(url.contains(&format!("@127.0.0.1:{}/", port("postgres"))), "{url}");
    let broker = &readme_command("kcat")[2];
    assert_eq!(*broker, format!("127.0.0.1:{}", port("kafka")));
    let image: BTreeMap<_, _> = image_environment().into_iter().collect();
    assert_eq!(image["POSTRIDER_HTTP_LISTEN"], format!("0.0.0.0:{}", port("postrider")));
}

// Without a volume, events and the slot's position are lost with the container.
#[test]
fn data_is_on_volumes() {
    let compose = ComposeFile::read();
    let (name, folder) = compose.volume("postgres");
    // Where the images of Postgres up to 17 keep the data; later ones use the parent folder.
    assert_eq!(folder, "/var/lib/postgresql/data");
    let version: u32 =
        compose.image("postgres").strip_prefix("postgres:").unwrap().parse().unwrap();
    assert!((14..=17).contains(&version));
    assert!(compose.volumes().contains(&name));
    let (name, folder) = compose.volume("kafka");
    let settings: BTreeMap<_, _> = compose.environment("kafka").into_iter().collect();
    assert_eq!(settings["KAFKA_LOG_DIRS"], folder);
    assert!(compose.volumes().contains(&name));
}
