//! Which events a command is about. No I/O; the clock is an argument.

use std::time::{Duration, SystemTime};

/// All given conditions must hold. Times are those at which events were parked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The topic.
    pub topic: Option<String>,
    /// The outbox table, as [`crate::config::TableName`] writes it.
    pub source_table: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// The reason's name.
    pub reason: Option<String>,
    /// Parked then or later.
    pub since: Option<SystemTime>,
    /// Parked then or earlier.
    pub until: Option<SystemTime>,
    /// These, by their ids in the side table; none: any.
    pub ids: Option<Vec<i64>>,
    /// At most this many, the first ones.
    pub limit: Option<u64>,
}

impl Filter {
    /// Whether it leaves anything out, apart from being limited.
    pub(crate) fn is_selective(&self) -> bool {
        let Filter {
            topic,
            source_table,
            tenant,
            ordering_key,
            reason,
            since,
            until,
            ids,
            limit: _,
        } = self;
        let texts = [topic, source_table, tenant, ordering_key, reason];
        texts.iter().any(|text| text.is_some())
            || since.is_some()
            || until.is_some()
            || ids.is_some()
    }
}

/// A time in RFC 3339, or how long ago it was, as in `2h`.
pub(crate) fn parse_time(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    const HOW: &str = "write a time as in 2030-01-31T08:00:00Z, or how long ago, as in 2h";
    if let Ok(ago) = humantime::parse_duration(text) {
        return now.checked_sub(ago).ok_or_else(|| format!("that is too long ago; {HOW}"));
    }
    rfc_3339(text).ok_or_else(|| HOW.to_owned())
}

fn rfc_3339(text: &str) -> Option<SystemTime> {
    let text = text.to_ascii_uppercase();
    if text.ends_with('Z') {
        return humantime::parse_rfc3339(&text).ok();
    }
    // humantime knows no other zone than UTC.
    let (local, zone) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (two_digits(hours, 23)?, two_digits(minutes, 59)?);
    let offset = Duration::from_secs(hours * 3600 + minutes * 60);
    let time = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    match zone.chars().next()? {
        '+' => time.checked_sub(offset),
        '-' => time.checked_add(offset),
        _ => None,
    }
}

fn two_digits(text: &str, max: u64) -> Option<u64> {
    let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_900_000_000;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let expect = expect.map(|it| SystemTime::UNIX_EPOCH + Duration::from_secs(it));
        assert_eq!(parse_time(text, now).ok(), expect, "{text}");
    }

    #[test]
    fn a_time_is_rfc_3339_or_a_duration_ago() {
        check("2h", Some(NOW - 7200));
        check("1d 30m", Some(NOW - 88_200));
        check("0s", Some(NOW));
        check("2030-01-31T08:00:00Z", Some(1_896_076_800));
        check("2030-01-31t08:00:00z", Some(1_896_076_800));
        check("2030-01-31T10:30:00+02:30", Some(1_896_076_800));
        check("2030-01-31T00:00:00-08:00", Some(1_896_076_800));
        for wrong in ["", "2", "yesterday", "2030-01-31", "2030-01-31T08:00:00", "-2h", "é"] {
            check(wrong, None);
        }
        for wrong in ["2030-01-31T08:00:00+24:00", "2030-01-31T08:00:00+1:000", "99999999999999y"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_limit_alone_selects_nothing() {
        assert!(!Filter { limit: Some(1), ..Filter::default() }.is_selective());
        assert!(Filter { ids: Some(vec![1]), ..Filter::default() }.is_selective());
        assert!(Filter { topic: Some("t".to_owned()), ..Filter::default() }.is_selective());
        assert!(Filter { since: Some(SystemTime::UNIX_EPOCH), ..Filter::default() }.is_selective());
    }
}
