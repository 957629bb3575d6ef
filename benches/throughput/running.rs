//! The relay at work, watched from outside.

use std::time::{Duration, Instant};

use rdkafka::message::{BorrowedMessage, Headers, Message};

use testkit::relay::Relay;

/// Rare enough not to affect the measurement.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
pub(crate) const WITHIN: Duration = Duration::from_secs(600);
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// Waits until the relay has counted this many events as acknowledged since it started.
pub(crate) fn wait_published(relay: &mut Relay, count: usize) {
    let begun = Instant::now();
    loop {
        // Nothing can be counted before it listens.
        let published =
            relay.http_get("/metrics").map_or(0, |(_, text)| published_besides(&text, None));
        if published >= count {
            return;
        }
        let ended = !relay.is_running();
        assert!(
            !ended && begun.elapsed() < WITHIN,
            "only {published} of {count} events published, ended: {ended}\n{}",
            relay.log_tail(20)
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Events counted as acknowledged, without those of one topic.
pub(crate) fn published_besides(metrics: &str, topic: Option<&str>) -> usize {
    const NAME: &str = "outbox_published_total";
    let topic = topic.map(|topic| format!("topic=\"{topic}\""));
    let left_out =
        metrics.lines().filter(|line| topic.as_ref().is_some_and(|it| line.contains(it)));
    sum(metrics, NAME) - left_out.map(|line| sum(line, NAME)).sum::<usize>()
}

/// The sum of a metric's series.
pub(crate) fn sum(metrics: &str, name: &str) -> usize {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    series.filter_map(|series| series.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

/// Sends SIGTERM, and requires exit code 0.
pub(crate) fn stop(relay: &mut Relay) {
    relay.terminate();
    let status = relay.wait_exit(STOP_WITHIN);
    assert!(status.success(), "the relay stopped with {status}:\n{}", relay.log_tail(20));
}

/// The outbox row's id.
pub(crate) fn record_id(message: &BorrowedMessage<'_>) -> i64 {
    let mut headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let id = headers.find(|header| header.key == "id").and_then(|header| header.value);
    let id = id.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    id.expect("a record without the row's id")
}
