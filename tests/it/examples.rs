//! The programs in the folder examples, which newcomers copy, run as they are.

mod embedded;
mod orders;

use std::path::PathBuf;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

/// `cargo test --test it` builds no examples; if the example is already built, this takes a moment.
#[track_caller]
pub fn build(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--example", name, "--manifest-path"]);
    cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    // target/PROFILE/postrider
    let profile = PathBuf::from(BINARY).parent().unwrap().to_owned();
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    profile.join("examples").join(name)
}
