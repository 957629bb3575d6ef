//! From files to configurations.

mod docs;
mod faults;
mod rules;
mod samples;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::*;
use crate::config::{Config, Flags, Inputs, Needs};

/// Part of every secret, and of nothing else.
const SECRET: &str = "hunter2";

/// What was imported, as people see it: the configuration, and the lines on standard error.
fn imported(text: &str, name: &str) -> (String, String) {
    let import = import(text, Path::new(name)).unwrap();
    let findings: String = import.findings.iter().map(|finding| format!("{finding}\n")).collect();
    assert!(
        !import.toml.contains(SECRET) && !findings.contains(SECRET),
        "{findings}{}",
        import.toml
    );
    assert_accepted(&import.toml);
    (import.toml, findings)
}

/// postrider's own reader accepts everything but what is to be filled in.
#[track_caller]
fn assert_accepted(toml: &str) {
    let path = Path::new("postrider.toml");
    let read = |asked: &Path| {
        if asked == path {
            Ok(toml.to_owned())
        } else {
            Err(io::Error::from(io::ErrorKind::NotFound))
        }
    };
    let secrets = ["SASL_PASSWORD", "SASL_OAUTHBEARER_CLIENT_SECRET", "SSL_KEY_PASSWORD"];
    let secrets =
        secrets.map(|name| (format!("POSTRIDER_KAFKA_PROPERTIES_{name}"), "x".to_owned()));
    let needed = secrets.into_iter().filter(|(name, _)| toml.contains(name.as_str()));
    let variables: BTreeMap<String, String> =
        needed.chain([("PGHOST".to_owned(), "db".to_owned())]).collect();
    let mut flags = Flags::default();
    flags.config = Some(path.to_owned());
    let inputs =
        Inputs { flags, variables, read: &read, os_user: Some("me".to_owned()), home: None };
    let Err(error) = Config::load(&inputs, Needs::Postgres) else { return };
    let empty = empty(toml);
    for problem in error.problems {
        let is_to_be_filled_in = empty.iter().any(|(section, key)| {
            let names = [format!("{section}.{key} "), format!(": {key} is not set")];
            names.iter().any(|name| problem.message.contains(name))
        });
        assert!(is_to_be_filled_in, "{problem}\n{toml}");
    }
}

/// Section and key of the values that are to be filled in.
fn empty(toml: &str) -> Vec<(&str, &str)> {
    let mut empty = Vec::new();
    let mut section = "";
    for line in toml.lines() {
        section = line.strip_prefix('[').map_or(section, |name| name.trim_end_matches(']'));
        if let Some((key, _)) = line.split_once(" = []") {
            empty.push((section, key.trim_matches('"')));
        }
    }
    empty
}
