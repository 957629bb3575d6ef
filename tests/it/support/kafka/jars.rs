//! Where Apache Kafka's jars are, and the Java that runs them.

use std::path::PathBuf;
use std::process::Command;

use super::super::cache::cache_folder;

/// The version that `scripts/setup` fetches: it reads the same file.
pub const VERSION: &str = include_str!("version").trim_ascii();

const WAY_OUT: &str = "run `make setup` (or `make test`, which does), \
     or set KAFKA_HOME to an unpacked Apache Kafka; \
     tests that need no broker of their own also run on one given by TEST_BROKERS";

/// `java` with the class path set.
pub(super) fn java() -> Command {
    let program = match std::env::var_os("JAVA_HOME") {
        Some(home) => PathBuf::from(home).join("bin/java"),
        None => PathBuf::from("java"),
    };
    let mut class_path = jar_folder().into_os_string();
    class_path.push("/*");
    let mut command = Command::new(program);
    command.arg("-cp").arg(class_path);
    command
}

fn jar_folder() -> PathBuf {
    if let Some(home) = std::env::var_os("KAFKA_HOME") {
        let libs = PathBuf::from(home).join("libs");
        assert!(libs.is_dir(), "KAFKA_HOME has no folder {}: {WAY_OUT}", libs.display());
        return libs;
    }
    let folder = cache_folder().join(format!("kafka-{VERSION}"));
    assert!(folder.is_dir(), "Apache Kafka is not in {}: {WAY_OUT}", folder.display());
    folder
}
