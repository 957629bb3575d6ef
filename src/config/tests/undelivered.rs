//! `[undelivered]`.

use std::time::Duration;

use super::*;

fn given(file: &str) -> Result<UndeliveredConfig, Vec<String>> {
    let files = [("postrider.toml", file)];
    let variables = [URL, BROKERS];
    let given = Given { files: &files, variables: &variables, ..Given::default() };
    let told = |error: ConfigError| error.problems.iter().map(ToString::to_string).collect();
    given.load().map(|config| config.undelivered).map_err(told)
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let expect = UndeliveredConfig {
        order: Order::ParkKey,
        max_attempts: 25,
        backoff_base: Duration::from_secs(1),
        backoff_max: Duration::from_secs(300),
        lease: Duration::from_secs(60),
        poll_interval: Duration::from_secs(1),
        batch: 100,
        breaker_events: 1000,
        breaker_window: Duration::from_secs(60),
        breaker_share: 0.5,
        breaker_bytes: 1 << 30,
        retention: Duration::from_secs(7 * 86_400),
    };
    assert_eq!(given(""), Ok(expect));
}

#[test]
fn every_value_can_be_set() {
    let file = "[undelivered]\norder = 'continue'\nmax_attempts = 3\nbackoff_base = '10ms'\n\
        backoff_max = '10ms'\nlease = '3s'\npoll_interval = '1s'\nbatch = 1\nbreaker_events = 7\n\
        breaker_window = '5s'\nbreaker_share = 1\nbreaker_bytes = '2MiB'\nretention = '0s'\n";
    let expect = UndeliveredConfig {
        order: Order::Continue,
        max_attempts: 3,
        backoff_base: Duration::from_millis(10),
        backoff_max: Duration::from_millis(10),
        lease: Duration::from_secs(3),
        poll_interval: Duration::from_secs(1),
        batch: 1,
        breaker_events: 7,
        breaker_window: Duration::from_secs(5),
        breaker_share: 1.0,
        breaker_bytes: 2 << 20,
        retention: Duration::ZERO,
    };
    assert_eq!(given(file), Ok(expect));
    assert_eq!(given("undelivered.order = 'halt'").map(|it| it.order), Ok(Order::Halt));
    assert_eq!(given("undelivered.order = 'park-topic'").map(|it| it.order), Ok(Order::ParkTopic));
}

#[test]
fn what_makes_no_sense_is_refused() {
    #[track_caller]
    fn check(name: &str, value: &str, expect: &str) {
        let problems = given(&format!("undelivered.{name} = '{value}'")).unwrap_err();
        let expect = format!("postrider.toml:1: undelivered.{name} = \"{value}\": {expect}");
        assert_eq!(problems, [expect]);
    }
    check("order", "skip", "choose park-key, park-topic, continue or halt");
    check("max_attempts", "0", "choose a number from 1 to 1000000");
    check("batch", "10001", "choose a number from 1 to 10000");
    check("backoff_base", "0s", "choose 1ms to 1day");
    check("backoff_max", "2d", "choose 1ms to 1day");
    check("lease", "1s", "choose 3s to 1day");
    check("poll_interval", "1ms", "choose 10ms to 8h");
    check("breaker_window", "2h", "choose 1s to 1h");
    check("breaker_share", "1.5", "choose a fraction from 0 to 1, as in 0.5");
    check("breaker_share", "NaN", "choose a fraction from 0 to 1, as in 0.5");
    check("breaker_bytes", "1KiB", "choose a size from 1MiB to 1PiB");
    check("breaker_events", "-1", "choose a number from 1 to 100000000");
}

#[test]
fn values_that_contradict_each_other_are_named_both() {
    let problems = given("[undelivered]\nlease = '6s'\npoll_interval = '2001ms'").unwrap_err();
    let expect = "postrider.toml:3: undelivered.poll_interval is 2s 1ms and undelivered.lease 6s: \
        the interval can be at most a third of the lease; choose 2s or less, or a longer lease";
    assert_eq!(problems, [expect]);
    assert!(given("[undelivered]\nlease = '6s'\npoll_interval = '2s'").is_ok());

    let problems = given("undelivered.backoff_max = '500ms'").unwrap_err();
    let expect = "postrider.toml:1: undelivered.backoff_base is 1s and undelivered.backoff_max \
        500ms: the first pause can't be longer than the longest; choose a shorter \
        undelivered.backoff_base or a longer undelivered.backoff_max";
    assert_eq!(problems, [expect]);
}
