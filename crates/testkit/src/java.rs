//! The Java that runs servers and programs of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn java() -> Command {
    match std::env::var_os("JAVA_HOME") {
        Some(home) => Command::new(PathBuf::from(home).join("bin/java")),
        None => Command::new("java"),
    }
}

/// With all jars of a folder.
pub fn java_with(jars: &Path) -> Command {
    let mut command = java();
    command.arg("-cp").arg(jars.join("*"));
    command
}
