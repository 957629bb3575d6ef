//! `[cleaner]`.

use std::time::Duration;

use super::*;

fn given(file: &str) -> Result<CleanerConfig, Vec<String>> {
    let files = [("postrider.toml", file)];
    let variables = [URL, BROKERS];
    let given = Given { files: &files, variables: &variables, ..Given::default() };
    let told = |error: ConfigError| error.problems.iter().map(ToString::to_string).collect();
    given.load().map(|config| config.cleaner).map_err(told)
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let expect = CleanerConfig {
        enabled: true,
        retention: Duration::from_secs(7 * 86_400),
        interval: Duration::from_secs(60),
        batch: 1000,
    };
    assert_eq!(given(""), Ok(expect));
}

#[test]
fn every_value_can_be_set() {
    let file = "[cleaner]\nenabled = false\nretention = '1s'\ninterval = '100ms'\nbatch = 7\n";
    let expect = CleanerConfig {
        enabled: false,
        retention: Duration::from_secs(1),
        interval: Duration::from_millis(100),
        batch: 7,
    };
    assert_eq!(given(file), Ok(expect));
    let variables =
        [URL, BROKERS, ("POSTRIDER_CLEANER_BATCH", "8"), ("POSTRIDER_CLEANER_RETENTION_FILE", "f")];
    let files = [("f", "30d\n")];
    let given = Given { files: &files, variables: &variables, ..Given::default() };
    let cleaner = given.load().map(|config| config.cleaner).unwrap();
    assert_eq!((cleaner.batch, cleaner.retention), (8, Duration::from_secs(30 * 86_400)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    #[track_caller]
    fn check(name: &str, value: &str, expect: &str) {
        let problems = given(&format!("cleaner.{name} = '{value}'")).unwrap_err();
        let expect = format!("postrider.toml:1: cleaner.{name} = \"{value}\": {expect}");
        assert_eq!(problems, [expect]);
    }
    check("enabled", "sometimes", "choose true or false");
    check("retention", "0s", "choose 1ms to 100years");
    check("interval", "10ms", "choose 100ms to 1day");
    check("batch", "0", "choose a number from 1 to 100000");
    check("batch", "100001", "choose a number from 1 to 100000");
}
