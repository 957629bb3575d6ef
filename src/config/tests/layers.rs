//! Which value takes precedence: defaults, file, variables, flags.

use std::time::Duration;

use super::*;
use crate::config::keys::{self, Key, ValueKind};
use postrider_core::format::ValueFormat;
use postrider_core::row::ColumnNames;

const COMPLETE: &str = "[postgres]\nurl = 'postgres://db/x'\n[kafka]\nbrokers = 'k:9092'\n";

fn names(config: &Config) -> Vec<String> {
    config.postgres.tables.iter().map(|table| table.name.to_string()).collect()
}

#[test]
fn defaults_hold_where_nothing_is_set() {
    let config = Given { variables: &[URL, BROKERS], ..Given::default() }.load().unwrap();
    assert_eq!(config.postgres.slot, "postrider");
    assert_eq!(config.postgres.publication, "postrider");
    assert_eq!(names(&config), ["public.outbox"]);
    assert_eq!(config.postgres.tables[0].columns, ColumnNames::default());
    assert_eq!(config.kafka.brokers, "k1:9092,k2:9092");
    assert!(config.kafka.properties.is_empty());
    assert_eq!(config.postgres.tables[0].format.value, ValueFormat::Raw);
    assert_eq!(config.relay.shutdown_timeout, Duration::from_secs(30));
    assert_eq!(config.limits.in_flight_events, InFlightEvents::Auto);
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
    let config = Given { files: &[("postrider.toml", text)], ..Given::default() }.load().unwrap();
    assert_eq!(config.postgres.connection.name(), "/run/postgresql:5432/shop");
    assert_eq!(config.postgres.slot, "s1");
    assert_eq!(config.postgres.publication, "Orders Out");
    let tables = names(&config);
    assert_eq!(tables, ["orders.outbox", "\"Odd\".t"]);
    assert_eq!(config.kafka.brokers, "k1:9092,k2");
    let property = |name: &str| config.kafka.properties.get(name).map(String::as_str);
    assert_eq!(property("linger.ms"), Some("5"));
    assert_eq!(property("compression.type"), Some("zstd"));
    assert_eq!(config.postgres.tables[0].format.value, ValueFormat::Protobuf);
    assert_eq!(config.relay.shutdown_timeout, Duration::from_secs(90));
    assert_eq!(config.limits.in_flight_events, InFlightEvents::Fixed(16));
    assert_eq!(config.limits.in_flight_bytes, 1_000_000);
    assert_eq!(config.http.listen, None);
    assert_eq!(config.log.filter, "postrider=debug,warn");
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn flags_win_over_variables_over_the_file() {
    #[track_caller]
    fn check(file: &str, variables: &[(&str, &str)], flags: &[(&'static Key, &str)], expect: &str) {
        let files = [("postrider.toml", COMPLETE.replace("[kafka]", &format!("{file}\n[kafka]")))];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let given = Given { files: &files, variables, flags, ..Given::default() };
        let config = given.load().unwrap();
        let tables = names(&config);
        assert_eq!(format!("{} {}", config.postgres.slot, tables.join(" ")), expect);
    }
    let file = "slot = 'file'\ntables = 'f.t'";
    let variables = [("POSTRIDER_SLOT", "variable"), ("POSTRIDER_POSTGRES_TABLES", "v.t,v.u")];
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
fn properties_win_one_by_one() {
    let file = format!("{COMPLETE}[kafka.properties]\nlinger.ms = 5\n'client.id' = 'file'\n");
    let given = Given {
        files: &[("postrider.toml", &file)],
        variables: &[("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "7")],
        ..Given::default()
    };
    let properties = given.load().unwrap().kafka.properties;
    let properties: Vec<(&str, &str)> =
        properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(properties, [("client.id", "file"), ("linger.ms", "7")]);
}

/// A value that is not the default, as it would be typed. A new key has to get one here.
fn sample(key: &Key) -> &'static str {
    match key.path() {
        "postgres.url" => "postgres://u@sample:5499/db",
        "postgres.slot" => "sample",
        "postgres.publication" => "Sample",
        "postgres.tables" => "a.sample,b.sample",
        "postgres.snapshot" => "initial",
        "postgres.messages" => "true",
        "postgres.columns" => "topic=sample",
        "postgres.preset" => "debezium",
        "kafka.brokers" => "sample:9092,other:9092",
        "route.topic" => "sample.{topic}",
        "route.key" => "id",
        "route.partition_by" => "tenant",
        "route.headers" => "sample={type}",
        "route.default_headers" => "false",
        "format.value" => "protobuf",
        "format.source" => "/sample",
        "format.type" => "sample.{type}",
        "format.schema_id" => "7",
        "format.schema_ids" => "sample=7",
        "format.registry" => "http://sample:8081",
        "format.registry_ca" => "/sample/ca.pem",
        "format.subject" => "off",
        "format.message_index" => "7",
        "format.schema_in" => "header",
        "undelivered.order" => "continue",
        "undelivered.max_attempts" => "7",
        "undelivered.backoff_base" => "7s",
        "undelivered.backoff_max" => "7m",
        "undelivered.lease" => "77s",
        "undelivered.poll_interval" => "7s",
        "undelivered.batch" => "77",
        "undelivered.breaker_events" => "777",
        "undelivered.breaker_window" => "7m",
        "undelivered.breaker_share" => "0.7",
        "undelivered.breaker_bytes" => "7MiB",
        "undelivered.retention" => "7h",
        "cleaner.enabled" => "false",
        "cleaner.retention" => "7h",
        "cleaner.interval" => "7m",
        "cleaner.batch" => "77",
        "inbox.retention" => "7h",
        "relay.enabled" => "false",
        "relay.shutdown_timeout" => "7s",
        "relay.environment" => "sample",
        "limits.in_flight_events" => "77",
        "limits.in_flight_bytes" => "7MiB",
        "http.listen" => "127.0.0.1:7777",
        "log" => "debug",
        "log_format" => "json",
        other => panic!("no sample of {other}"),
    }
}

#[test]
fn every_setting_has_its_variables_and_their_files() {
    let shown = |file: &str, files: &[(&str, &str)], variables: &[(&str, &str)]| {
        let files = [&[("postrider.toml", file)], files].concat();
        let given = Given { files: &files, variables, ..Given::default() };
        format!("{:?}", given.load().unwrap())
    };
    let by_variable = |key: &&&Key| !key.is(ValueKind::Map) && !key.is(ValueKind::Sections);
    let keys: Vec<&Key> = keys::ALL.iter().filter(by_variable).copied().collect();
    assert_eq!(keys.len(), keys::ALL.len() - 3);
    for key in keys {
        let (path, value) = (key.path(), sample(key));
        // What else the file must contain, without what is to be set.
        let rest: String = [
            "postgres.url = 'postgres://db/x'\n",
            "kafka.brokers = 'k:9092'\n",
            // Other settings of schemas say something only about those that are looked up.
            "format.registry = 'http://r'\n",
        ]
        .into_iter()
        .filter(|line| !line.starts_with(&format!("{path} ")))
        .collect();
        let line = match value.split_once('=') {
            Some((name, value)) if key.is(ValueKind::Pairs) => {
                format!("{path}.{name} = '{value}'\n")
            }
            _ => format!("{path} = '{value}'\n"),
        };
        let expect = shown(&format!("{line}{rest}"), &[], &[]);
        let with_defaults = format!("{COMPLETE}[format]\nregistry = 'http://r'\n");
        assert_ne!(expect, shown(&with_defaults, &[], &[]), "{path}: the sample is the default");
        for variable in key.variables() {
            assert_eq!(shown(&rest, &[], &[(&variable, value)]), expect, "{variable}");
            let (name, text) = (format!("{variable}_FILE"), format!("{value}\n"));
            let files = [("/run/value", text.as_str())];
            assert_eq!(shown(&rest, &files, &[(&name, "/run/value")]), expect, "{name}");
        }
    }
}

#[test]
fn the_file_is_found_by_flag_then_variable_then_place() {
    let at = |url| format!("[postgres]\nurl = 'postgres://{url}/x'\n[kafka]\nbrokers = 'k'\n");
    let texts = [at("here"), at("variable"), at("flag")];
    let [here, variable, flag] = texts.each_ref().map(String::as_str);
    let files = [("postrider.toml", here), ("v.toml", variable), ("f.toml", flag)];
    let host = |given: Given<'_>| given.load().unwrap().postgres.connection.name();
    let named = |name: &str| format!("{name}:5432/x");
    let variables = [("POSTRIDER_CONFIG", "v.toml")];
    assert_eq!(host(Given { files: &files, ..Given::default() }), named("here"));
    let given = Given { files: &files, variables: &variables, ..Given::default() };
    assert_eq!(host(given), named("variable"));
    let config_flag = Some("f.toml");
    let given = Given { files: &files, variables: &variables, config_flag, ..Given::default() };
    assert_eq!(host(given), named("flag"));
    let problems = Given { variables: &variables, ..Given::default() }.problems();
    assert!(problems[0].starts_with("POSTRIDER_CONFIG: can't read"), "{problems:?}");
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn a_value_can_come_from_a_file_that_a_variable_names() {
    let files = [("/run/url", "postgres://app:hunter2@db/x\n"), ("/run/pw", "s3cret\r\n")];
    let variables = [
        ("POSTRIDER_DATABASE_URL_FILE", "/run/url"),
        BROKERS,
        ("POSTRIDER_KAFKA_PROPERTIES_SECURITY_PROTOCOL", "sasl_ssl"),
        ("POSTRIDER_KAFKA_PROPERTIES_SASL_MECHANISM", "PLAIN"),
        ("POSTRIDER_KAFKA_PROPERTIES_SASL_USERNAME", "app"),
        ("POSTRIDER_KAFKA_PROPERTIES_SASL_PASSWORD_FILE", "/run/pw"),
        ("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "7"),
    ];
    let config = Given { files: &files, variables: &variables, ..Given::default() }.load().unwrap();
    let host = config.postgres.connection.hosts.first().unwrap();
    assert_eq!(host.get_password(), Some("hunter2".as_bytes()));
    let property = |name: &str| config.kafka.properties.get(name).map(String::as_str);
    assert_eq!(property("linger.ms"), Some("7"));
    assert_eq!(property("sasl.password"), Some("s3cret"));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn migrate_needs_no_broker() {
    let given = Given { variables: &[URL], ..Given::default() };
    assert_eq!(given.load_for(Needs::Postgres).unwrap().kafka.brokers, "");
    assert_eq!(given.problems().len(), 1);
}

#[test]
fn printing_needs_no_server_at_all() {
    let config = Given::default().load_for(Needs::Nothing).unwrap();
    assert!(config.postgres.connection.hosts.is_empty());
    assert_eq!(config.postgres.slot, "postrider");
}

#[test]
fn a_paused_relay_is_configured_by_a_boolean() {
    #[track_caller]
    fn check(file: &str, expect: Option<bool>) {
        let files = [("postrider.toml", file)];
        let variables = [URL, BROKERS];
        let given = Given { files: &files, variables: &variables, ..Given::default() };
        assert_eq!(given.load().ok().map(|config| config.relay.enabled), expect, "{file}");
    }
    check("", Some(true));
    check("relay.enabled = false", Some(false));
    check("relay.enabled = \"false\"", Some(false));
    check("relay.enabled = 0", None);
}

#[test]
fn logs_are_filtered_for_people() {
    #[track_caller]
    fn check(log: &str, expect: Option<&str>) {
        let flags = [(&keys::LOG, log)];
        let given = Given { variables: &[URL, BROKERS], flags: &flags, ..Given::default() };
        assert_eq!(given.load().ok().map(|config| config.log.filter).as_deref(), expect, "{log}");
    }
    check("info", Some("warn,postrider=info"));
    check("DEBUG", Some("warn,postrider=debug"));
    check("error", Some("error,postrider=error"));
    check("off", Some("off,postrider=off"));
    check("info,tokio_postgres=debug", Some("info,tokio_postgres=debug"));
    check("", None);
    check("chatty", None);
    check("postrider=chatty", None);
    check("postrider=debug,wran", None);
}
