//! Loading as a whole: given files, variables and flags, the configuration or all that is wrong.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::Host;

use super::keys::{self, Key};
use super::*;

/// Files by name, variables, flags.
#[derive(Default)]
struct Given<'a> {
    files: &'a [(&'a str, &'a str)],
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [(&'static Key, &'a str)],
    config_flag: Option<&'a str>,
}

impl Given<'_> {
    fn load_for(&self, needs: Needs) -> Result<Config, ConfigError> {
        let read = |path: &Path| {
            let file = self.files.iter().find(|(name, _)| Path::new(name) == path);
            let not_found = || io::Error::from(io::ErrorKind::NotFound);
            file.map(|(_, text)| (*text).to_owned())
                .ok_or_else(not_found)
        };
        let mut flags = Flags {
            config: self.config_flag.map(Into::into),
            ..Flags::default()
        };
        for (key, value) in self.flags {
            flags.set(key, [(*value).to_owned()]);
        }
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: BTreeMap<_, _> = self.variables.iter().map(owned).collect();
        Config::load(
            &Inputs {
                flags,
                variables,
                read: &read,
                os_user: Some("me".into()),
            },
            needs,
        )
    }

    fn load(&self) -> Result<Config, ConfigError> {
        self.load_for(Needs::PostgresAndKafka)
    }

    #[track_caller]
    fn problems(&self) -> Vec<String> {
        let error = self.load().expect_err("a configuration with errors");
        error.problems.iter().map(ToString::to_string).collect()
    }
}

const COMPLETE: &str = "[postgres]\nurl = 'postgres://db/x'\n[kafka]\nbrokers = 'k:9092'\n";
const URL: (&str, &str) = ("POSTRIDER_DATABASE_URL", "postgres://app:pw@db:5433/shop");
const BROKERS: (&str, &str) = ("POSTRIDER_BROKERS", "k1:9092, k2:9092");

#[test]
fn defaults_hold_where_nothing_is_set() {
    let config = Given {
        variables: &[URL, BROKERS],
        ..Given::default()
    }
    .load()
    .unwrap();
    assert_eq!(config.postgres.slot, "postrider");
    assert_eq!(config.postgres.publication, "postrider");
    assert_eq!(config.postgres.tables, ["public.outbox".parse().unwrap()]);
    assert_eq!(config.kafka.brokers, "k1:9092,k2:9092");
    assert!(config.kafka.properties.is_empty());
    assert_eq!(config.format.value, Format::Raw);
    assert_eq!(config.relay.shutdown_timeout, Duration::from_secs(30));
    assert_eq!(config.limits.in_flight_events, 4000);
    assert_eq!(config.limits.in_flight_bytes, 16 << 20);
    assert_eq!(config.http.listen, Some("127.0.0.1:7678".parse().unwrap()));
    assert_eq!(config.log.filter, "warn,postrider=info");
    assert_eq!(config.log.format, LogFormat::Text);
}

#[test]
fn every_setting_can_be_written_in_the_file() {
    let text = r#"
        log = "postrider=debug,warn"
        log_format = "json"
        [postgres]
        url = "host=/run/postgresql dbname=shop user=app"
        slot = "s1"
        publication = "Orders Out"
        tables = ["orders.outbox", '"Odd".t']
        [kafka]
        brokers = ["k1:9092", "k2"]
        [kafka.properties]
        linger.ms = 5
        "compression.type" = "zstd"
        [format]
        value = "protobuf"
        [relay]
        shutdown_timeout = "1m 30s"
        [limits]
        in_flight_events = 0x10
        in_flight_bytes = 1_000_000
        [http]
        listen = "off"
    "#;
    let config = Given {
        files: &[("postrider.toml", text)],
        ..Given::default()
    }
    .load()
    .unwrap();
    assert_eq!(
        config.postgres.connection.get_hosts(),
        [Host::Unix("/run/postgresql".into())]
    );
    assert_eq!(config.postgres.slot, "s1");
    assert_eq!(config.postgres.publication, "Orders Out");
    let tables: Vec<_> = config
        .postgres
        .tables
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(tables, ["orders.outbox", "\"Odd\".t"]);
    assert_eq!(config.kafka.brokers, "k1:9092,k2");
    let property = |name: &str| config.kafka.properties.get(name).map(String::as_str);
    assert_eq!(property("linger.ms"), Some("5"));
    assert_eq!(property("compression.type"), Some("zstd"));
    assert_eq!(config.format.value, Format::Protobuf);
    assert_eq!(config.relay.shutdown_timeout, Duration::from_secs(90));
    assert_eq!(config.limits.in_flight_events, 16);
    assert_eq!(config.limits.in_flight_bytes, 1_000_000);
    assert_eq!(config.http.listen, None);
    assert_eq!(config.log.filter, "postrider=debug,warn");
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn flags_win_over_variables_over_the_file() {
    #[track_caller]
    fn check(file: &str, variables: &[(&str, &str)], flags: &[(&'static Key, &str)], expect: &str) {
        let files = [(
            "postrider.toml",
            COMPLETE.replace("[kafka]", &format!("{file}\n[kafka]")),
        )];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let given = Given {
            files: &files,
            variables,
            flags,
            ..Given::default()
        };
        let config = given.load().unwrap();
        let tables: Vec<_> = config
            .postgres
            .tables
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            format!("{} {}", config.postgres.slot, tables.join(" ")),
            expect
        );
    }
    let file = "slot = 'file'\ntables = 'f.t'";
    let variables = [
        ("POSTRIDER_SLOT", "variable"),
        ("POSTRIDER_POSTGRES_TABLES", "v.t,v.u"),
    ];
    let flags = [
        (&keys::POSTGRES_SLOT, "flag"),
        (&keys::POSTGRES_TABLES, "a.t"),
        (&keys::POSTGRES_TABLES, "b.t,c.t"),
    ];
    check("", &[], &[], "postrider public.outbox");
    check(file, &[], &[], "file f.t");
    check(file, &variables, &[], "variable v.t v.u");
    check(file, &variables, &flags, "flag a.t b.t c.t");
    check(file, &[("POSTRIDER_SLOT", "")], &[], "file f.t");
}

#[test]
fn the_file_is_found_by_flag_then_variable_then_place() {
    let at = |url| format!("[postgres]\nurl = 'postgres://{url}/x'\n[kafka]\nbrokers = 'k'\n");
    let texts = [at("here"), at("variable"), at("flag")];
    let [here, variable, flag] = texts.each_ref().map(String::as_str);
    let files = [
        ("postrider.toml", here),
        ("v.toml", variable),
        ("f.toml", flag),
    ];
    let host = |given: Given<'_>| {
        given
            .load()
            .unwrap()
            .postgres
            .connection
            .get_hosts()
            .to_vec()
    };
    let named = |name: &str| vec![Host::Tcp(name.to_owned())];
    let variables = [("POSTRIDER_CONFIG", "v.toml")];
    assert_eq!(
        host(Given {
            files: &files,
            ..Given::default()
        }),
        named("here")
    );
    let given = Given {
        files: &files,
        variables: &variables,
        ..Given::default()
    };
    assert_eq!(host(given), named("variable"));
    let config_flag = Some("f.toml");
    let given = Given {
        files: &files,
        variables: &variables,
        config_flag,
        ..Given::default()
    };
    assert_eq!(host(given), named("flag"));
    let problems = Given {
        variables: &variables,
        ..Given::default()
    }
    .problems();
    assert!(
        problems[0].starts_with("POSTRIDER_CONFIG: can't read"),
        "{problems:?}"
    );
    assert_eq!(problems.len(), 1, "{problems:?}");
}

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
        "postrider.toml:3: postgres.slot = \"Bad-Slot\": a slot's name is lower case",
        "--table: postgres.tables = \"a.b.c\": \"a.b.c\": too many dots",
        "kafka.brokers: not set; set it in the file, in POSTRIDER_BROKERS or with --brokers",
        "postrider.toml:10: relay.shutdown_timeout = \"30\": not a duration",
        "postrider.toml:7: limits.in_flight_events = \"0\": choose a number from 1",
        "POSTRIDER_LIMITS_IN_FLIGHT_BYTES: limits.in_flight_bytes = \"lots\": not a size",
        "POSTRIDER_HTTP_LISTEN: http.listen = \"localhost\": write an IP address and a port",
        "--log: log = \"inof\": choose error",
        "postrider.toml:14: kafka.properties.acks can't be set",
    ];
    for part in expect {
        assert!(
            problems.iter().any(|p| p.starts_with(part)),
            "{part}\nnot in {problems:#?}"
        );
    }
    assert_eq!(problems.len(), expect.len(), "{problems:#?}");
}

#[test]
fn a_file_that_is_not_toml_is_all_that_is_said_of_it() {
    let file = "[postgres]\nurl = 'postgres://app:hunter2@db/x\nslot = = 3\n";
    let problems = Given {
        files: &[("postrider.toml", file)],
        ..Given::default()
    }
    .problems();
    assert!(
        problems.iter().all(|problem| problem.contains("not TOML")),
        "{problems:?}"
    );
    assert!(
        problems[0].starts_with("postrider.toml:2: "),
        "{problems:?}"
    );
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
    check(
        "postgres = 1",
        "postgres is a section: write it as [postgres]",
    );
    check(
        "postgres.slot = ['a']",
        "postgres.slot takes one value, as in slot = \"postrider\"",
    );
    check("log.level = 1", "log takes one value, as in log = \"info\"");
    check(
        "kafka.properties = 'a=b'",
        "kafka.properties is a section: write [kafka.properties], then \"linger.ms\" = 5",
    );
    check(
        "kafka.properties.a.b = [1]",
        "kafka.properties.a.b takes one value, not a list",
    );
}

#[test]
fn a_value_can_come_from_a_file_that_a_variable_names() {
    let files = [
        ("/run/url", "postgres://app:hunter2@db/x\n"),
        ("/run/pw", "s3cret\r\n"),
    ];
    let variables = [
        ("POSTRIDER_DATABASE_URL_FILE", "/run/url"),
        BROKERS,
        ("POSTRIDER_KAFKA_PROPERTIES_SASL_PASSWORD_FILE", "/run/pw"),
        ("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "7"),
    ];
    let config = Given {
        files: &files,
        variables: &variables,
        ..Given::default()
    }
    .load()
    .unwrap();
    assert_eq!(
        config.postgres.connection.get_password(),
        Some("hunter2".as_bytes())
    );
    let properties: Vec<_> = config
        .kafka
        .properties
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        properties,
        [("linger.ms", "7"), ("sasl.password", "s3cret")]
    );
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[test]
fn variables_that_contradict_or_lead_nowhere_are_errors() {
    #[track_caller]
    fn check(variables: &[(&str, &str)], expect: &str) {
        let variables = [variables, &[BROKERS]].concat();
        let files = [("postrider.toml", "postgres.url = 'postgres://db/x'")];
        let problems = Given {
            files: &files,
            variables: &variables,
            ..Given::default()
        }
        .problems();
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
    check(
        &[("POSTRIDER_SLOT_FILE", "/no")],
        "POSTRIDER_SLOT_FILE: can't read /no: ",
    );
    let per_property = "kafka.properties has a variable per property";
    let name = "POSTRIDER_KAFKA_PROPERTIES";
    check(&[(name, "x")], &format!("{name}: {per_property}"));
    let name = "POSTRIDER_KAFKA_PROPERTIES_linger_ms";
    check(&[(name, "x")], &format!("{name}: {per_property}"));
}

#[test]
fn migrate_needs_no_broker() {
    let given = Given {
        variables: &[URL],
        ..Given::default()
    };
    assert_eq!(given.load_for(Needs::Postgres).unwrap().kafka.brokers, "");
    assert_eq!(given.problems().len(), 1);
}

#[test]
fn logs_are_filtered_for_people() {
    #[track_caller]
    fn check(log: &str, expect: Option<&str>) {
        let flags = [(&keys::LOG, log)];
        let given = Given {
            variables: &[URL, BROKERS],
            flags: &flags,
            ..Given::default()
        };
        assert_eq!(
            given.load().ok().map(|config| config.log.filter).as_deref(),
            expect,
            "{log}"
        );
    }
    check("info", Some("warn,postrider=info"));
    check("DEBUG", Some("warn,postrider=debug"));
    check("error", Some("error,postrider=error"));
    check("off", Some("off,postrider=off"));
    check(
        "info,tokio_postgres=debug",
        Some("info,tokio_postgres=debug"),
    );
    check("", None);
    check("chatty", None);
    check("postrider=chatty", None);
    check("postrider=debug,wran", None);
}
