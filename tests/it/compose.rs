//! docker-compose.yml, without containers: its settings and commands on servers of our own.

mod file;
mod real_kafka;

use self::file::ComposeFile;

#[test]
fn its_kafka_is_the_version_that_is_tested() {
    let version = include_str!("support/kafka/version").trim();
    assert_eq!(ComposeFile::read().image("kafka"), format!("apache/kafka:{version}"));
}
