//! The Java that runs servers and programs of the tests.

use std::fs::read_dir;
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

/// The newest Java of this machine, for servers that need a newer one than `java` may mean.
/// `scripts/setup` searches the same places.
#[track_caller]
pub fn newest_java(version_min: u32) -> Command {
    let installed = read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let homes = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter();
    let versions = homes
        .chain(installed.map(|entry| entry.path()))
        .filter_map(|home| Some((major_version(&home)?, home)));
    match versions.max() {
        Some((version, home)) if version >= version_min => Command::new(home.join("bin/java")),
        newest => panic!(
            "Java {version_min} or newer is needed, and the newest in JAVA_HOME and /usr/lib/jvm is \
             {newest:?}: run `scripts/setup compare`, or install one and set JAVA_HOME"
        ),
    }
}

/// 25, of a file with the line `JAVA_VERSION="25.0.3"`.
fn major_version(home: &Path) -> Option<u32> {
    let release = std::fs::read_to_string(home.join("release")).ok()?;
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    home.join("bin/java").exists().then_some(())?;
    line.split(['.', '"']).next()?.parse().ok()
}
