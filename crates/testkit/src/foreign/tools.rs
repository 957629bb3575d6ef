//! The programs, and what `scripts/setup` has fetched for them.

use std::path::PathBuf;
use std::process::Command;

use openssl::sha::sha256;

use crate::cache::cache_folder;
use crate::java::java_with;

pub(super) const PYTHON_READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/foreign/read.py");
pub(super) const JAVA_READER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/foreign/ReadCloudEvents.java");

/// Python with the packages, which ignores the developer's own.
pub(super) fn python() -> Command {
    let folder = fetched("python-readers", include_bytes!("requirements.txt"));
    let mut command = Command::new(folder.join("bin/python"));
    command.arg("-I");
    command
}

/// Java with the jars. Given the source of a program, it compiles and runs it.
pub(super) fn java_readers() -> Command {
    let mut command = java_with(&fetched("java-readers", include_bytes!("pom.xml")));
    // Most of the time goes into starting.
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command
}

/// The name of the folder has a checksum of what was asked for, as in `scripts/setup`: another list
/// of versions is another folder.
fn fetched(name: &str, list: &[u8]) -> PathBuf {
    let checksum: String = sha256(list).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache_folder().join(format!("{name}-{checksum}"));
    assert!(
        folder.is_dir(),
        "{} does not exist: run `make setup` (or `make test`, which does)",
        folder.display()
    );
    folder
}
