//! All errors are reported together, each with its origin and the fix.

use super::*;
use crate::config::keys;

#[test]
fn everything_wrong_is_said_at_once_with_its_place() {
    let file = "\
[postgres]
url = 'postgres://db/x'
slot = 'Bad-Slot'
slto = 'x'

[limits]
in_flight_events = 0
shutdown_timeout = '1s'
[relay]
shutdown_timeout = 30
[kafak]
x = 1
[kafka.properties]
acks = 1
";
    let problems = Given {
        files: &[("postrider.toml", file)],
        variables: &[
            ("POSTRIDER_LIMITS_IN_FLIGHT_BYTES", "lots"),
            ("POSTRIDER_LIMTS_IN_FLIGHT_EVENTS", "1"),
            ("POSTRIDER_HTTP_LISTEN", "localhost"),
            ("POSTRIDER_KAFKA_DELIVERY", "exactly-once"),
            ("PATH", "/bin"),
        ],
        flags: &[(&keys::POSTGRES_TABLES, "a.b.c"), (&keys::LOG, "inof")],
        ..Given::default()
    }
    .problems();
    let expect = [
        "postrider.toml:4: unknown key postgres.slto; did you mean postgres.slot?",
        "postrider.toml:8: unknown key limits.shutdown_timeout; did you mean relay.shutdown_timeout?",
        "postrider.toml:11: unknown key kafak; did you mean kafka?",
        "POSTRIDER_KAFKA_DELIVERY: unknown variable",
        "POSTRIDER_LIMTS_IN_FLIGHT_EVENTS: unknown variable; did you mean \
         POSTRIDER_LIMITS_IN_FLIGHT_EVENTS?",
        "postrider.toml:3: postgres.slot = \"Bad-Slot\": a slot's name has 1 to 63 lower case",
        "--table: postgres.tables = \"a.b.c\": too many dots",
        "kafka.brokers: not set; set it in the file, in POSTRIDER_BROKERS or with --brokers",
        "postrider.toml:10: relay.shutdown_timeout = \"30\": not a duration",
        "postrider.toml:7: limits.in_flight_events = \"0\": choose a number from 1",
        "POSTRIDER_LIMITS_IN_FLIGHT_BYTES: limits.in_flight_bytes = \"lots\": not a size",
        "POSTRIDER_HTTP_LISTEN: http.listen = \"localhost\": write an IP address and a port",
        "--log: log = \"inof\": choose error",
        "postrider.toml:14: kafka.properties.acks can't be set",
    ];
    for part in expect {
        assert!(problems.iter().any(|p| p.starts_with(part)), "{part}\nnot in {problems:#?}");
    }
    assert_eq!(problems.len(), expect.len(), "{problems:#?}");
}

#[test]
fn a_file_that_is_not_toml_is_all_that_is_said_of_it() {
    let file = "[postgres]\nurl = 'postgres://app:hunter2@db/x\nslot = = 3\n";
    let problems = Given { files: &[("postrider.toml", file)], ..Given::default() }.problems();
    assert!(problems.iter().all(|problem| problem.contains("not TOML")), "{problems:?}");
    assert!(problems[0].starts_with("postrider.toml:2: "), "{problems:?}");
    assert!(!format!("{problems:?}").contains("hunter2"));
}

#[test]
fn wrong_shapes_are_named() {
    #[track_caller]
    fn check(file: &str, expect: &str) {
        let given = Given {
            files: &[("postrider.toml", file)],
            variables: &[URL, BROKERS],
            ..Given::default()
        };
        assert_eq!(given.problems(), [format!("postrider.toml:1: {expect}")]);
    }
    check("postgres = 1", "postgres is a section: write it as [postgres]");
    check("postgres.slot = ['a']", "postgres.slot takes one value, as in slot = \"postrider\"");
    check("log.level = 1", "log takes one value, as in log = \"info\"");
    check(
        "kafka.properties = 'a=b'",
        "kafka.properties is a section: write [kafka.properties], then \"linger.ms\" = 5",
    );
    check("kafka.properties.a.b = [1]", "kafka.properties.a.b takes one value, not a list");
}

#[test]
fn what_looks_like_a_secret_is_not_repeated() {
    let files = [("postrider.toml", "[tables.'public.outbox']\npreset = 'p://u:hunter2@h'\n")];
    let properties = ["LINGER_MS", "SECURITY_PROTOCOL", "SSL_CA_LOCATION"];
    let properties = properties.map(|name| format!("POSTRIDER_KAFKA_PROPERTIES_{name}"));
    let known = keys::ALL.iter().flat_map(|key| key.variables()).chain(properties);
    let names: Vec<String> = known
        .flat_map(|name| [format!("{name}_FILE"), name])
        .chain(["PGPASSFILE".into()])
        .collect();
    for secret in [
        "postgres://u:hunter2@h/d",
        "postgres://u:12,hunter2@h,/d",
        "postgres://u:12,hunter=hunter2,hunter=@h/d",
        "postgres://u:12,hunter2,hunter2@h/d",
        "host=h user=u password=hunter2",
        "12hunter2@h",
    ] {
        for name in &names {
            let variables = [URL, (name.as_str(), secret)];
            let given = Given { files: &files, variables: &variables, ..Given::default() };
            let problems = given.problems().join("\n");
            assert!(!problems.contains("hunter"), "{name}={secret}: {problems}");
        }
    }
}

#[test]
fn a_value_that_is_withheld_is_named_with_what_is_wrong() {
    #[track_caller]
    fn check(name: &str, value: &str, expect: &str) {
        let variables = [(name, value)];
        let problems = Given { variables: &variables, ..Given::default() }.problems();
        let withheld = "(value withheld: it looks like it contains a secret): ";
        let expect = expect.replace("WITHHELD: ", withheld);
        assert!(problems.iter().any(|problem| problem.starts_with(&expect)), "{problems:?}");
    }
    let url = "postgres://u:hunter2@h/d";
    check(
        "POSTRIDER_SLOT",
        url,
        "POSTRIDER_SLOT: postgres.slot WITHHELD: a slot's name has 1 to 63 lower",
    );
    let expect =
        "POSTRIDER_BROKERS: kafka.brokers WITHHELD: a part of it is not a broker; write host";
    check("POSTRIDER_BROKERS", url, expect);
    // It ends with a valid port: if it were accepted, the log would show it as the brokers.
    check("POSTRIDER_BROKERS", "u:hunter2@h:9092", expect);
    let expect = "POSTRIDER_HTTP_LISTEN: http.listen = \"localhost\": write an IP address";
    check("POSTRIDER_HTTP_LISTEN", "localhost", expect);
    let expect = "POSTRIDER_DATABASE_URL_FILE: can't read the file that it names: ";
    check("POSTRIDER_DATABASE_URL_FILE", url, expect);
}

#[test]
fn variables_that_contradict_or_lead_nowhere_are_errors() {
    #[track_caller]
    fn check(variables: &[(&str, &str)], expect: &str) {
        let variables = [variables, &[BROKERS]].concat();
        let files = [("postrider.toml", "postgres.url = 'postgres://db/x'")];
        let problems =
            Given { files: &files, variables: &variables, ..Given::default() }.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with(expect), "{problems:?}");
    }
    check(
        &[("POSTRIDER_SLOT", "a"), ("POSTRIDER_POSTGRES_SLOT", "b")],
        "POSTRIDER_SLOT: sets the same thing as POSTRIDER_POSTGRES_SLOT; keep one",
    );
    check(
        &[("POSTRIDER_SLOT", "a"), ("POSTRIDER_SLOT_FILE", "/b")],
        "POSTRIDER_SLOT: sets the same thing as POSTRIDER_SLOT_FILE; keep one",
    );
    check(&[("POSTRIDER_SLOT_FILE", "/no")], "POSTRIDER_SLOT_FILE: can't read the file ");
    let per_property = "kafka.properties has one variable per property";
    let name = "POSTRIDER_KAFKA_PROPERTIES";
    check(&[(name, "x")], &format!("{name}: {per_property}"));
    let name = "POSTRIDER_KAFKA_PROPERTIES_linger_ms";
    check(&[(name, "x")], &format!("{name}: {per_property}"));
}
