//! The folder of Apache Kafka's jars.

use std::path::PathBuf;
use std::process::Command;

use crate::cache::cache_folder;
use crate::java::java_with;

/// The versions that `scripts/setup` fetches: it reads the same files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    #[default]
    Current,
    /// The last version before 4.0, which dropped some settings of topics.
    Three,
}

impl Release {
    pub fn version(self) -> &'static str {
        match self {
            Release::Current => include_str!("version").trim_ascii(),
            Release::Three => include_str!("version_3").trim_ascii(),
        }
    }

    /// The variable that names an unpacked Kafka to use instead.
    fn home_variable(self) -> &'static str {
        match self {
            Release::Current => "KAFKA_HOME",
            Release::Three => "KAFKA_3_HOME",
        }
    }

    /// `java` with the class path set.
    pub(super) fn java(self) -> Command {
        java_with(&self.jar_folder())
    }

    fn jar_folder(self) -> PathBuf {
        let (version, variable) = (self.version(), self.home_variable());
        let way_out = format!(
            "run `make setup` (or `make test`, which does), \
             or set {variable} to an unpacked Apache Kafka {version}; \
             tests that need no broker of their own also run on the one in TEST_BROKERS"
        );
        if let Some(home) = std::env::var_os(variable) {
            let libs = PathBuf::from(home).join("libs");
            assert!(libs.is_dir(), "{variable} has no folder {}: {way_out}", libs.display());
            return libs;
        }
        let folder = cache_folder().join(format!("kafka-{version}"));
        assert!(
            folder.is_dir(),
            "Apache Kafka {version} is not in {}: {way_out}",
            folder.display()
        );
        folder
    }
}
