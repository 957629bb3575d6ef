//! Configurations for programs that embed relays.

use super::*;

const NO_BROKERS: &str = "[postgres]\nurl = 'postgres://app@db:5433/shop'\nslot = 's'";

#[test]
fn a_text_is_a_configuration() {
    let config = Config::from_toml(NO_BROKERS, Needs::Postgres).unwrap();
    assert_eq!(config.postgres.slot, "s");
    assert_eq!(config.postgres.connection.name(), "db:5433/shop");
    let text = format!("{NO_BROKERS}\n[kafka]\nbrokers = 'k1:9092'");
    let config = Config::from_toml(&text, Needs::PostgresAndKafka).unwrap();
    assert_eq!(config.kafka.brokers, "k1:9092");
}

#[test]
fn all_that_is_wrong_is_reported_with_its_line() {
    let text = format!("{NO_BROKERS}\nslott = 't'\n[limits]\nin_flight_bytes = 'many'");
    let error = Config::from_toml(&text, Needs::PostgresAndKafka).unwrap_err();
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    for place in [
        "TOML:4: unknown key postgres.slott",
        "TOML:6: limits.in_flight_bytes",
        "kafka.brokers: not set",
    ] {
        let is_there = problems.iter().any(|problem| problem.starts_with(place));
        assert!(is_there, "{place} is not in {problems:?}");
    }
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn a_file_is_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.toml");
    let missing = Config::from_file(&path, Needs::Postgres).unwrap_err().to_string();
    assert!(missing.contains("can't read the configuration file "), "{missing}");
    assert!(missing.contains("orders.toml"), "{missing}");
    std::fs::write(&path, NO_BROKERS).unwrap();
    assert_eq!(Config::from_file(&path, Needs::Postgres).unwrap().postgres.slot, "s");
    std::fs::write(&path, "slott = 's'").unwrap();
    let wrong = Config::from_file(&path, Needs::Postgres).unwrap_err().to_string();
    assert!(wrong.contains("orders.toml:1: unknown key slott"), "{wrong}");
}
