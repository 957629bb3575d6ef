//! `[undelivered]`: what happens to events that can't be published.

use std::time::Duration;

use super::checked::Values;
use super::keys;
use super::parse;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// `poll_interval` fits into `lease` at least this often, so that an expired lease is noticed soon.
const POLLS_PER_LEASE: u32 = 3;

/// Events that can't be published.
#[derive(Clone, Debug, PartialEq)]
pub struct UndeliveredConfig {
    /// What later events of a parked event's key do.
    pub order: Order,
    /// Attempts before a parked event becomes dead.
    pub max_attempts: u32,
    /// The pause after the first attempt.
    pub backoff_base: Duration,
    /// The longest pause; not shorter than the first.
    pub backoff_max: Duration,
    /// How long a claim on an event lasts.
    pub lease: Duration,
    /// How often events that are due are searched for; at most a third of the lease.
    pub poll_interval: Duration,
    /// Events claimed at a time.
    pub batch: usize,
    /// Parked events within the window that open the breaker, if `breaker_share` is exceeded too.
    pub breaker_events: usize,
    /// The time over which parked events are counted.
    pub breaker_window: Duration,
    /// The fraction of all events that opens the breaker, from 0 to 1.
    pub breaker_share: f64,
    /// Bytes of parked events that open the breaker.
    pub breaker_bytes: u64,
    /// How long finished events stay in the side table.
    pub retention: Duration,
}

impl UndeliveredConfig {
    /// Whether events that can't be published are parked; otherwise they halt the relay.
    pub fn parks(&self) -> bool {
        self.order != Order::Halt
    }
}

/// What later events of a parked event's key do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those of its topic and ordering key wait for it; if it has no key, those of its partition.
    ParkKey,
    /// All of its topic wait for it.
    ParkTopic,
    /// They overtake it.
    Continue,
    /// No event follows: the relay stops.
    Halt,
}

/// `None` if something is wrong, which is then among the problems.
pub(super) fn check(values: &mut Values<'_>) -> Option<UndeliveredConfig> {
    let order = values.read(&keys::UNDELIVERED_ORDER, order);
    let max_attempts = values.read(&keys::UNDELIVERED_MAX_ATTEMPTS, max_attempts);
    let backoff_base = values.read(&keys::UNDELIVERED_BACKOFF_BASE, pause);
    let backoff_max = values.read(&keys::UNDELIVERED_BACKOFF_MAX, pause);
    let lease = values.read(&keys::UNDELIVERED_LEASE, lease);
    let poll_interval = values.read(&keys::UNDELIVERED_POLL_INTERVAL, poll_interval);
    let batch = values.read(&keys::UNDELIVERED_BATCH, batch);
    let breaker_events = values.read(&keys::UNDELIVERED_BREAKER_EVENTS, breaker_events);
    let breaker_window = values.read(&keys::UNDELIVERED_BREAKER_WINDOW, breaker_window);
    let breaker_share = values.read(&keys::UNDELIVERED_BREAKER_SHARE, share);
    let breaker_bytes = values.read(&keys::UNDELIVERED_BREAKER_BYTES, breaker_bytes);
    let retention = values.read(&keys::UNDELIVERED_RETENTION, retention);
    let config = UndeliveredConfig {
        order: order?,
        max_attempts: max_attempts?,
        backoff_base: backoff_base?,
        backoff_max: backoff_max?,
        lease: lease?,
        poll_interval: poll_interval?,
        batch: batch?,
        breaker_events: breaker_events?,
        breaker_window: breaker_window?,
        breaker_share: breaker_share?,
        breaker_bytes: breaker_bytes?,
        retention: retention?,
    };
    check_together(&config, values);
    Some(config)
}

/// Checks values that are valid on their own, but not together.
fn check_together(config: &UndeliveredConfig, values: &mut Values<'_>) {
    let text = |duration: Duration| humantime::format_duration(duration).to_string();
    if config.poll_interval > config.lease / POLLS_PER_LEASE {
        let keys = [&keys::UNDELIVERED_POLL_INTERVAL, &keys::UNDELIVERED_LEASE];
        let [interval, lease] = keys.map(|key| key.path());
        let message = format!(
            "{interval} is {} and {lease} {}: the interval can be at most a third of the lease; \
             choose {} or less, or a longer lease",
            text(config.poll_interval),
            text(config.lease),
            text(config.lease / POLLS_PER_LEASE),
        );
        values.contradict(keys, message);
    }
    if config.backoff_base > config.backoff_max {
        let keys = [&keys::UNDELIVERED_BACKOFF_BASE, &keys::UNDELIVERED_BACKOFF_MAX];
        let [base, max] = keys.map(|key| key.path());
        let message = format!(
            "{base} is {} and {max} {}: the first pause can't be longer than the longest; choose \
             a shorter {base} or a longer {max}",
            text(config.backoff_base),
            text(config.backoff_max),
        );
        values.contradict(keys, message);
    }
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "park-key" => Ok(Order::ParkKey),
        "park-topic" => Ok(Order::ParkTopic),
        "continue" => Ok(Order::Continue),
        "halt" => Ok(Order::Halt),
        _ => Err("choose park-key, park-topic, continue or halt".to_owned()),
    }
}

fn max_attempts(text: &str) -> Result<u32, String> {
    let number = parse::number_within(text, 1..=1_000_000)?;
    u32::try_from(number).map_err(|error| error.to_string())
}

fn batch(text: &str) -> Result<usize, String> {
    parse::number_within(text, 1..=10_000)
}

fn breaker_events(text: &str) -> Result<usize, String> {
    parse::number_within(text, 1..=100_000_000)
}

fn pause(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_millis(1), DAY)
}

/// A shorter one would expire while the broker is merely slow.
fn lease(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_secs(3), DAY)
}

fn poll_interval(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_millis(10), DAY / POLLS_PER_LEASE)
}

fn breaker_window(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_secs(1), 60 * MINUTE)
}

fn retention(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::ZERO, 36_500 * DAY)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "choose a fraction from 0 to 1, as in 0.5".to_owned())
}

fn breaker_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse::bytes(text)?;
    if (bytesize::MIB..=bytesize::PIB).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("choose a size from 1MiB to 1PiB".to_owned())
    }
}
