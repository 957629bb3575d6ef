//! The command line and the configuration, before any server is contacted.

use std::path::Path;
use std::process::Output;

use postrider::internals::keys;

use super::BINARY;
use testkit::relay::postrider;

#[track_caller]
fn run(env: &[(&str, &str)], arguments: &[&str]) -> Output {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let env: Vec<(String, String)> = env.iter().map(owned).collect();
    let mut command = postrider(Path::new(BINARY), &env);
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Must succeed and print these parts on standard output.
#[track_caller]
fn check_says(arguments: &[&str], expect: &[&str]) {
    let output = run(&[], arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    let stdout = text(&output.stdout);
    for part in expect {
        assert!(stdout.contains(part), "{part:?} is not in\n{stdout}");
    }
}

#[test]
fn help_names_commands_settings_and_their_variables() {
    check_says(&["--help"], &["run", "migrate", "teardown", "--config", "--version"]);
    check_says(&["migrate", "--help"], &["--print"]);
    check_says(&["teardown", "--help"], &["--yes", "--tables"]);
    for command in ["run", "migrate", "teardown"] {
        let expect = [
            "--database-url",
            "POSTRIDER_DATABASE_URL",
            "--brokers",
            "--slot",
            "--publication",
            "--table",
            "public.outbox",
            "--http-listen",
            "127.0.0.1:7678",
            "--log-format",
        ];
        check_says(&[command, "--help"], &expect);
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("postrider ", env!("CARGO_PKG_VERSION"), "\n");
    check_says(&["--version"], &[version]);
}

#[test]
fn an_unknown_command_or_flag_is_bad_usage() {
    for arguments in [&["run", "--no-such-flag"][..], &["no-such-command"], &["run", "--slot"], &[]]
    {
        let output = run(&[], arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_connection_string_in_the_wrong_place_is_not_repeated() {
    let url = "postgres://app:hunter2@db/shop";
    let flag = format!("--databse-url={url}");
    let yes = format!("--yes={url}");
    for arguments in [
        &["run", url][..],
        &[url],
        &["run", "host=db password=hunter2"],
        &["run", "--", "app:hunter2@db"],
        &["teardown", &yes],
        &["run", &flag],
    ] {
        let output = run(&[], arguments);
        let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(!printed.contains("hunter"), "a secret in the output:\n{printed}");
        assert!(printed.contains("--database-url"), "{printed}");
    }
}

#[test]
fn every_flag_sets_its_setting() {
    // A value that no setting accepts: too long for a name, and neither an address nor a keyword.
    let bad = format!("{}:", "~".repeat(80));
    let keys = keys::ALL.iter().filter_map(|key| Some((key.path(), key.flag()?)));
    let keys: Vec<(&str, &str)> = keys.collect();
    assert_eq!(keys.len(), 8);
    let flags = keys.iter().flat_map(|(_, flag)| [*flag, bad.as_str()]);
    let arguments: Vec<&str> = ["run"].into_iter().chain(flags).collect();
    let output = run(&[], &arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for (path, flag) in keys {
        // A database's URL may contain a password, so it is not echoed.
        let shown = if path == "postgres.url" {
            " can't be read".to_owned()
        } else {
            format!(" = {bad:?}")
        };
        let expect = format!("{flag}: {path}{shown}");
        assert!(errors.contains(&expect), "{expect} is not in\n{errors}");
    }
}

#[test]
fn all_configuration_errors_are_reported_at_once_and_without_secrets() {
    let env = [
        ("POSTRIDER_DATABASE_URL", "postgres://app:hunter2@x@db/shop"),
        ("POSTRIDER_SLOT", "Bad-Slot"),
        ("POSTRIDER_TABLES", "a.b.c"),
        ("POSTRIDER_LIMITS_IN_FLIGHT_BYTES", "lots"),
        ("POSTRIDER_LIMTS_IN_FLIGHT_EVENTS", "1"),
        ("POSTRIDER_KAFKA_PROPERTIES_ACKS", "1"),
        ("POSTRIDER_KAFKA_PROPERTIES_SASL_PASSWORD", "hunter3"),
    ];
    let output = run(&env, &["run", "--http-listen", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    let expect = [
        "the configuration has 9 errors:",
        "POSTRIDER_DATABASE_URL: postgres.url has more than one @",
        "POSTRIDER_SLOT: postgres.slot = \"Bad-Slot\"",
        "POSTRIDER_TABLES: postgres.tables = \"a.b.c\"",
        "POSTRIDER_LIMITS_IN_FLIGHT_BYTES: limits.in_flight_bytes = \"lots\"",
        "did you mean POSTRIDER_LIMITS_IN_FLIGHT_EVENTS?",
        "kafka.properties.acks can't be set",
        "kafka.properties.sasl.password has no effect with security.protocol=plaintext",
        "kafka.brokers: not set",
        "--http-listen: http.listen = \"nowhere\"",
    ];
    for part in expect {
        assert!(errors.contains(part), "{part:?} is not in\n{errors}");
    }
    let all = format!("{errors}{}", text(&output.stdout));
    assert!(!all.contains("hunter"), "a secret in the output:\n{all}");
}

#[test]
fn missing_files_of_both_connections_are_reported_together() {
    let env = [
        ("POSTRIDER_DATABASE_URL", "host=h sslmode=verify-full sslrootcert=/no/such/pg.pem"),
        ("POSTRIDER_BROKERS", "k:9092"),
        ("POSTRIDER_KAFKA_PROPERTIES_SECURITY_PROTOCOL", "ssl"),
        ("POSTRIDER_KAFKA_PROPERTIES_SSL_CA_LOCATION", "/no/such/kafka.pem"),
        ("POSTRIDER_KAFKA_PROPERTIES_SSL_KEY_LOCATION", "/no/such/kafka.key"),
    ];
    let output = run(&env, &["run"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("the configuration has 3 errors:"), "{errors}");
    for file in ["pg.pem", "kafka.pem", "kafka.key"] {
        assert!(errors.contains(&format!("/no/such/{file}")), "{file} is not in\n{errors}");
    }
}

#[test]
fn a_configuration_file_that_is_named_must_exist() {
    let output = run(&[], &["migrate", "--config", "/no/such/file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/file.toml"));
}
