//! How old a record's timestamp may be, by the settings of its topic (ADR 23).

use std::time::Duration;

use rdkafka::admin::ConfigResource;

/// How old a timestamp may be where the topic allows more.
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How old a timestamp may be where the settings are unknown.
const AGE_UNKNOWN: Duration = Duration::from_secs(5 * 60);
/// Nothing helps a topic that keeps records for less than this: whatever is written there is
/// deleted within seconds. Sessions don't end because of it.
const TINY: Duration = Duration::from_secs(10);
/// Below this, records get the current time, so that they can wait for half of what the topic
/// allows.
const SHORT: Duration = Duration::from_secs(40);

/// What a topic allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimestampLimits {
    /// How old a timestamp may be when the record is sent.
    pub(super) age_max: Duration,
    /// How long the record may wait for its acknowledgement after that.
    pub(super) unacknowledged_max: Duration,
}

impl TimestampLimits {
    /// The brokers don't report the settings.
    pub(super) const UNKNOWN: TimestampLimits =
        TimestampLimits { age_max: AGE_UNKNOWN, unacknowledged_max: Duration::from_secs(150) };

    /// The limits that follow from a topic's settings.
    pub(super) fn from_settings(topic: &ConfigResource) -> Self {
        let value = |name| topic.get(name).and_then(|entry| entry.value.as_deref());
        // -1 (forever) does not parse as a duration: then only the general limit applies.
        let millis = |name| value(name).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        let deletes = value("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
        let kept = millis("retention.ms").filter(|_| deletes);
        let taken = millis("message.timestamp.before.max.ms");
        // Brokers before 4.0 have this instead, or in addition.
        let near = millis("message.timestamp.difference.max.ms");
        TimestampLimits::within([kept, taken, near].into_iter().flatten().min())
    }

    /// Age and waiting together use up at most three quarters of what is allowed, tiny values
    /// apart.
    fn within(allowed: Option<Duration>) -> Self {
        let (age_max, unacknowledged_max) = match allowed.unwrap_or(Duration::MAX) {
            tiny if tiny < TINY => (Duration::ZERO, AGE_MAX / 2),
            short if short < SHORT => (Duration::ZERO, short / 2),
            allowed => (AGE_MAX.min(allowed / 2), (AGE_MAX / 2).min(allowed / 4)),
        };
        TimestampLimits { age_max, unacknowledged_max }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::admin::{ConfigEntry, ConfigSource, OwnedResourceSpecifier};

    use super::*;

    #[test]
    fn a_record_is_never_older_than_its_topic_allows() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let check = |allowed: Option<Duration>, age_max, unacknowledged_max| {
            assert_eq!(
                TimestampLimits::within(allowed),
                TimestampLimits { age_max, unacknowledged_max }
            );
        };
        check(None, hours(24), hours(12));
        check(Some(hours(7 * 24)), hours(24), hours(12));
        check(Some(hours(8)), hours(4), hours(2));
        check(Some(Duration::from_secs(40)), Duration::from_secs(20), Duration::from_secs(10));
        check(Some(Duration::from_secs(39)), Duration::ZERO, Duration::from_millis(19_500));
        check(Some(Duration::from_secs(10)), Duration::ZERO, Duration::from_secs(5));
        check(Some(Duration::from_millis(1)), Duration::ZERO, hours(12));
        check(Some(Duration::ZERO), Duration::ZERO, hours(12));
    }

    fn topic(settings: &[(&str, &str)]) -> ConfigResource {
        let entries = settings.iter().map(|(name, value)| ConfigEntry {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            source: ConfigSource::DynamicTopic,
            is_read_only: false,
            is_default: false,
            is_sensitive: false,
        });
        let specifier = OwnedResourceSpecifier::Topic("t".to_owned());
        ConfigResource { specifier, entries: entries.collect() }
    }

    #[test]
    fn the_strictest_setting_counts() {
        const MAX: &str = "9223372036854775807";
        let hour = Duration::from_secs(3600);
        let check = |settings: &[(&str, &str)], allowed: Option<Duration>| {
            assert_eq!(
                TimestampLimits::from_settings(&topic(settings)),
                TimestampLimits::within(allowed),
                "{settings:?}"
            );
        };
        let (before, near) =
            ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms");
        check(&[], None);
        check(&[("retention.ms", "-1"), (before, MAX), (near, MAX)], None);
        check(&[("retention.ms", "604800000"), (before, MAX), (near, "3600000")], Some(hour));
        check(&[("retention.ms", "604800000"), (before, "3600000"), (near, MAX)], Some(hour));
        check(&[("retention.ms", "3600000"), (near, MAX)], Some(hour));
        check(&[("retention.ms", "60000"), ("cleanup.policy", "compact")], None);
        check(&[("retention.ms", "3600000"), ("cleanup.policy", "compact,delete")], Some(hour));
    }

    #[test]
    fn sessions_are_not_ended_every_moment() {
        for allowed in 0..120 {
            let limits = TimestampLimits::within(Some(Duration::from_secs(allowed)));
            assert!(limits.unacknowledged_max >= Duration::from_secs(5), "{allowed} s: {limits:?}");
        }
    }
}
