//! Readers of `/metrics` and `/status`.

use testkit::relay::Relay;

/// The value of a series, written as `name{label="value"}`. `None` if there is no such series.
#[track_caller]
pub fn metric(relay: &Relay, series: &str) -> Option<f64> {
    let metrics = get(relay, "/metrics");
    let value = metrics.lines().find_map(|line| {
        let value = line.strip_prefix(series)?;
        value.strip_prefix(' ')
    });
    value.map(|value| value.parse().expect("a metric that is not a number"))
}

/// The sum over all series of a name.
#[track_caller]
pub fn metric_sum(relay: &Relay, name: &str) -> f64 {
    let metrics = get(relay, "/metrics");
    let series = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The `state` of `/status`.
#[track_caller]
pub fn state(relay: &Relay) -> String {
    let status: serde_json::Value =
        serde_json::from_str(&get(relay, "/status")).expect("/status is not JSON");
    let state = status["state"].as_str();
    state.expect("/status has no state").to_owned()
}

#[track_caller]
fn get(relay: &Relay, path: &str) -> String {
    let (status, body) = relay.http_get(path).expect("the relay does not answer");
    assert_eq!(status, 200, "{path}");
    body
}
