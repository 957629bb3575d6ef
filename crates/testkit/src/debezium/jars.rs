//! Where `scripts/setup compare` has put what it has downloaded. It reads the same files.

use std::path::PathBuf;
use std::process::Command;

use openssl::sha::sha256;

use crate::cache::cache_folder;
use crate::java::newest_java;

const VERSION: &str = include_str!("version").trim_ascii();
const CONNECT_POM: &[u8] = include_bytes!("pom.xml");
/// What Debezium Server's classes are compiled for.
const JAVA_VERSION_MIN: u32 = 21;

/// For JVMs that share two cores with what is tested.
pub(super) const JVM_OPTIONS: &[&str] =
    &["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

#[track_caller]
pub(super) fn java() -> Command {
    newest_java(JAVA_VERSION_MIN)
}

/// The folder with the jars of Debezium Server.
#[track_caller]
pub(super) fn server() -> PathBuf {
    existing(format!("debezium-server-{VERSION}"))
}

/// The file to start it with.
#[track_caller]
pub(super) fn server_runner() -> PathBuf {
    server().join(format!("debezium-server-dist-{VERSION}-runner.jar"))
}

/// The folder of Connect's plugins.
#[track_caller]
pub(super) fn plugins() -> PathBuf {
    existing(format!("debezium-plugins-{VERSION}"))
}

#[track_caller]
pub(super) fn connect() -> PathBuf {
    let checksum: String =
        sha256(CONNECT_POM).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    existing(format!("connect-{checksum}"))
}

#[track_caller]
fn existing(name: String) -> PathBuf {
    let folder = cache_folder().join(name);
    assert!(folder.is_dir(), "there is no {}: run `scripts/setup compare`", folder.display());
    folder
}
