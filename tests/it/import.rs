//! `postrider import debezium` as it is typed: what it prints where, and with which exit code.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use testkit::relay::postrider;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import");
/// Part of every secret in the samples.
const SECRET: &str = "hunter2";

/// Runs it with a file, or with a text on standard input. No setting of postrider's matters to it,
/// not even a wrong one.
#[track_caller]
fn import(file: &str, stdin: &str) -> Output {
    let env = [("POSTRIDER_SLOT".to_owned(), "Not-a-slot".to_owned())];
    let mut command = postrider(Path::new(BINARY), &env);
    command.args(["import", "debezium", file]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn assert_silent(output: &Output) {
    assert!(!text(&output.stdout).contains(SECRET) && !text(&output.stderr).contains(SECRET));
}

#[track_caller]
fn check(output: &Output, name: &str, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{name}");
    assert_eq!(text(&output.stdout), sample(&format!("{name}.toml")));
    assert_eq!(text(&output.stderr), sample(&format!("{name}.report")));
    assert_silent(output);
}

#[test]
fn the_configuration_and_the_differences_are_separate() {
    for (name, code) in [
        ("connect.json", 0),
        ("connect_everything.json", 1),
        ("standalone.properties", 0),
        ("application.properties", 0),
        ("server.env", 0),
        ("strimzi.yaml", 0),
    ] {
        check(&import(&format!("{FOLDER}/{name}"), ""), name, code);
    }
}

#[test]
fn standard_input_is_read_too() {
    check(&import("-", &sample("connect.json")), "connect.json", 0);
}

#[test]
fn what_cannot_be_imported_is_bad_usage() {
    let no_such = format!("{FOLDER}/no-such.json");
    let two_wrong_lines = "database.password=\\uhunter2\nconnector.class=x\na=\\u\n";
    for (file, stdin, expect) in [
        (no_such.as_str(), "", &["can't read", "no-such.json", "name a readable file"][..]),
        ("-", "{\"password\": \"hunter2", &["standard input:1: not JSON"]),
        ("-", two_wrong_lines, &["2 errors", "standard input:1: ", "standard input:3: "]),
        ("-", "hunter2", &["standard input: there is no connector in it"]),
    ] {
        let output = import(file, stdin);
        assert_eq!(output.status.code(), Some(2), "{stdin}");
        assert_eq!(text(&output.stdout), "");
        for part in expect {
            assert!(
                text(&output.stderr).contains(part),
                "{part} is not in {}",
                text(&output.stderr)
            );
        }
        assert_silent(&output);
    }
}
