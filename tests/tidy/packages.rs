//! The packages keep to themselves.

use std::path::Path;

use crate::scan::{Kind, scan, without_tests};
use crate::{exceptions, files};

/// The packages that are published, with what they may use of ours.
const PUBLISHED: [(&str, &[&str]); 3] =
    [("crates/core", &[]), ("crates/outbox", &[]), (".", &["postrider-core", "postrider-outbox"])];

/// What would be I/O, or a clock, in postrider-core.
const INPUT_OUTPUT: [&str; 6] =
    ["std::net", "std::fs", "std::thread", "std::env", "Instant::now", "SystemTime::now"];

fn manifest(folder: &str) -> toml::Table {
    let path = files::root().join(folder).join("Cargo.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn one_version() {
    let root = manifest(".");
    let version = root["workspace"]["package"]["version"].as_str().unwrap();
    for (folder, uses) in PUBLISHED {
        let manifest = manifest(folder);
        let package = manifest["package"].as_table().unwrap();
        assert_eq!(package["version"]["workspace"].as_bool(), Some(true), "{folder}");
        let dependencies = manifest["dependencies"].as_table().unwrap();
        let ours: Vec<_> =
            dependencies.keys().filter(|name| name.starts_with("postrider")).collect();
        assert_eq!(ours, uses, "{folder}");
    }
    for name in ["postrider-core", "postrider-outbox"] {
        let required = root["workspace"]["dependencies"][name]["version"].as_str();
        assert_eq!(required, Some(format!("={version}").as_str()), "{name}");
    }
    let changelog = std::fs::read_to_string(files::root().join("CHANGELOG.md")).unwrap();
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!(newest.contains(version) || newest == "Unreleased", "{newest}");
}

#[test]
fn packages_stay_in_their_folders() {
    let mut findings = Vec::new();
    for file in files::rust().into_iter().filter(|file| !file.path.starts_with("tests/tidy/")) {
        let package = package(&file.path);
        for (at, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("#[path") {
                findings.push(format!("{}:{}: {}", file.path, at + 1, line.trim()));
            }
            let folder = Path::new(&file.path).parent().unwrap();
            for included in included(line) {
                let depth = included.matches("../").count();
                let place: Vec<_> = folder.components().collect();
                let to = place.len().checked_sub(depth).map(|kept| {
                    let mut path: std::path::PathBuf = place[..kept].iter().collect();
                    path.push(included.trim_start_matches("../"));
                    path
                });
                let is_own = to.is_some_and(|to| self::package(to.to_str().unwrap()) == package);
                if !is_own {
                    findings.push(format!("{}:{}: {included}", file.path, at + 1));
                }
            }
        }
    }
    assert!(findings.is_empty(), "files of another package:\n{}", findings.join("\n"));
}

fn package(path: &str) -> &str {
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split('/').next().unwrap(),
        None => "",
    }
}

/// The paths that a line includes, from the folder of its file.
fn included(line: &str) -> impl Iterator<Item = &str> {
    let macros = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    macros
        .into_iter()
        .filter_map(move |name| line.split_once(name)?.1.split_once('"').map(|(p, _)| p))
}

#[test]
fn kafka_is_one_sink_of_several() {
    let mut findings = Vec::new();
    for file in files::below(&["src", "crates/core/src", "crates/outbox/src"], &[".rs"]) {
        for piece in scan(without_tests(&file.text)) {
            let is_named = piece.text.contains("rdkafka") || piece.text.contains("Kafka");
            if piece.kind == Kind::Code && is_named {
                let line = piece.text.lines().find(|line| line.contains("afka")).unwrap();
                findings.push((format!("{}:{}", file.path, piece.line), line.trim().to_owned()));
            }
        }
    }
    exceptions::check("names Kafka", findings, exceptions::KAFKA);
}

#[test]
fn core_does_no_input_or_output() {
    let mut findings = Vec::new();
    let is_code = |file: &files::File| !file.path.ends_with("/tests.rs");
    for file in files::below(&["crates/core/src"], &[".rs"]).into_iter().filter(is_code) {
        for piece in scan(without_tests(&file.text)).iter().filter(|piece| piece.kind == Kind::Code)
        {
            let used = INPUT_OUTPUT.iter().filter(|name| piece.text.contains(**name));
            findings.extend(used.map(|name| format!("{}:{}: {name}", file.path, piece.line)));
        }
    }
    assert!(findings.is_empty(), "postrider-core does I/O:\n{}", findings.join("\n"));
}
