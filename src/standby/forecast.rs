//! Describes what will become of a slot that nobody reads. No I/O.

use std::time::Duration;

use bytesize::ByteSize;

use crate::ops::SlotPosition;

/// How much WAL the slot retains now, how fast that grows, and when it ends. `before` is an earlier
/// position, and how long ago it was read.
pub(crate) fn forecast(now: SlotPosition, before: Option<(SlotPosition, Duration)>) -> String {
    let held = format!("the slot retains {} of WAL", size(now.retained_bytes));
    let Some((before, elapsed)) = before.filter(|(_, elapsed)| !elapsed.is_zero()) else {
        return format!("{held}; {}", end(now.safe_bytes, None));
    };
    let grown = now.retained_bytes.saturating_sub(before.retained_bytes);
    let milliseconds = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX).max(1);
    let per_second = grown.saturating_mul(1000) / milliseconds;
    match per_second {
        ..=0 => format!("{held}, which is not growing; {}", end(now.safe_bytes, None)),
        rate => {
            format!(
                "{held}, growing by {} per second; {}",
                size(rate),
                end(now.safe_bytes, Some(rate))
            )
        }
    }
}

fn end(safe_bytes: Option<i64>, bytes_per_second: Option<i64>) -> String {
    let Some(safe) = safe_bytes else {
        return "no limit is set (max_slot_wal_keep_size), so it can fill the disk".to_owned();
    };
    let lost = "before the server may remove it and invalidate the slot (max_slot_wal_keep_size)";
    match bytes_per_second {
        _ if safe <= 0 => format!("no more WAL can be written {lost}"),
        None => format!("{} more can be written {lost}", size(safe)),
        Some(rate) => {
            let left = in_round_figures((safe / rate.max(1)).unsigned_abs());
            format!("{} more can be written {lost}: about {left} at this rate", size(safe))
        }
    }
}

/// Minutes out of days, or hours out of a year, would only pretend to be exact.
fn in_round_figures(seconds: u64) -> humantime::FormattedDuration {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let unit = match seconds {
        ..MINUTE => 1,
        MINUTE..HOUR => MINUTE,
        HOUR..DAY => HOUR / 4,
        _ => DAY,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit))
}

fn size(bytes: i64) -> ByteSize {
    ByteSize(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(retained_bytes: i64, safe_bytes: Option<i64>) -> SlotPosition {
        SlotPosition { retained_bytes, unconfirmed_bytes: 0, safe_bytes }
    }

    #[test]
    fn a_forecast_says_how_much_how_fast_and_how_long() {
        #[track_caller]
        fn check(now: SlotPosition, before: Option<(i64, u64)>, expect: &[&str]) {
            let before = before.map(|(retained, seconds)| {
                (position(retained, now.safe_bytes), Duration::from_secs(seconds))
            });
            let text = forecast(now, before);
            for part in expect {
                assert!(text.contains(part), "{part:?} is not in {text:?}");
            }
        }
        const MIB: i64 = 1024 * 1024;
        let disk = "it can fill the disk";
        check(position(5 * MIB, None), None, &["retains 5.0 MiB", disk]);
        let grows = position(65 * MIB, None);
        check(
            grows,
            Some((5 * MIB, 60)),
            &["65.0 MiB of WAL, growing by 1.0 MiB per second", disk],
        );
        check(grows, Some((65 * MIB, 60)), &["which is not growing"]);
        check(grows, Some((70 * MIB, 60)), &["which is not growing"]);
        check(grows, Some((5 * MIB, 0)), &["retains 65.0 MiB of WAL; no limit"]);
        let limited = position(65 * MIB, Some(7200 * MIB));
        check(
            limited,
            Some((5 * MIB, 60)),
            &["7.0 GiB more can be written", "about 2h at this rate"],
        );
        let later = position(65 * MIB, Some(100_000 * MIB));
        check(later, Some((5 * MIB, 60)), &["about 1day at this rate"]);
        check(limited, None, &["7.0 GiB more can be written", "max_slot_wal_keep_size"]);
        check(position(65 * MIB, Some(0)), Some((5 * MIB, 60)), &["no more WAL can be written"]);
    }
}
