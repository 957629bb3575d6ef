//! Dates and times: read as Postgres writes them in its ISO style, written as Java writes them.
//!
//! Years before 1 and after 9999 are not read: their form depends on too much.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
const DAYS_PER_MONTH: f64 = 365.25 / 12.0;

/// `2026-01-31` as days since 1970.
pub(super) fn days(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let mut part = |digits: usize| number(parts.next()?, digits);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year == 0 {
        return None;
    }
    // Years begin in March here, so that a leap day is a year's last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(days - 719_468)
}

/// `12:34:56.789` as microseconds since midnight.
pub(super) fn micros_of_day(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.splitn(3, ':');
    let mut part = || number(parts.next()?, 2);
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let micros = number(&format!("{fraction:0<6}"), 6)?;
    Some(((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND + micros)
}

/// `2026-01-31 12:34:56.789` as microseconds since 1970.
pub(super) fn micros(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    Some(days(date)? * MICROS_PER_DAY + micros_of_day(time)?)
}

/// The same with a zone, `…+02` or `…-03:30`.
pub(super) fn micros_with_zone(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let (time, ahead) = split_zone(time)?;
    Some(days(date)? * MICROS_PER_DAY + micros_of_day(time)? - ahead)
}

/// `12:34:56+02` as microseconds since midnight in UTC.
pub(super) fn micros_of_day_with_zone(text: &str) -> Option<i64> {
    let (time, ahead) = split_zone(text)?;
    Some((micros_of_day(time)? - ahead).rem_euclid(MICROS_PER_DAY))
}

fn split_zone(text: &str) -> Option<(&str, i64)> {
    let at = text.rfind(['+', '-'])?;
    let (time, zone) = text.split_at_checked(at)?;
    let is_behind = zone.starts_with('-');
    let mut parts = zone.get(1..)?.split(':');
    let mut seconds = 0;
    for unit in [3600, 60, 1] {
        seconds += unit * parts.next().map_or(Some(0), |part| number(part, 2))?;
    }
    let micros = seconds * MICROS_PER_SECOND;
    Some((time, if is_behind { -micros } else { micros }))
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// `1 year 2 mons -3 days 04:05:06.7` as microseconds, with months of average length.
pub(super) fn interval_micros(text: &str) -> Option<i64> {
    let (mut months, mut days, mut seconds) = (0.0, 0.0, 0.0);
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (sign, time) = word.strip_prefix('-').map_or((1.0, word), |rest| (-1.0, rest));
            let time = time.strip_prefix('+').unwrap_or(time);
            let mut parts = time.splitn(3, ':');
            for unit in [3600.0, 60.0, 1.0] {
                seconds += sign * unit * parts.next()?.parse::<f64>().ok()?;
            }
            continue;
        }
        let count: f64 = word.parse().ok()?;
        match words.next()?.trim_end_matches('s') {
            "year" => months += 12.0 * count,
            "mon" => months += count,
            "day" => days += count,
            _ => return None,
        }
    }
    let seconds = (months * DAYS_PER_MONTH + days) * 86_400.0 + seconds;
    // Java's conversion also cuts off what does not fit.
    Some((seconds * 1e6) as i64)
}

/// Days since 1970 as `2026-01-31`.
pub(super) fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Milliseconds since midnight as Kafka Connect writes times in headers.
pub(super) fn time_of_day(millis: i64) -> String {
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    format!("{}.{millis:03}Z", clock(seconds))
}

/// Milliseconds since 1970 as Kafka Connect writes moments in headers.
pub(super) fn moment(millis: i64) -> String {
    const DAY: i64 = 86_400_000;
    format!("{}T{}", date(millis.div_euclid(DAY)), time_of_day(millis.rem_euclid(DAY)))
}

/// Microseconds since 1970 as `2026-01-31T12:34:56.789Z`.
pub(super) fn zoned_moment(micros: i64, fraction: Fraction) -> String {
    let date = date(micros.div_euclid(MICROS_PER_DAY));
    format!("{date}T{}", zoned_time(micros.rem_euclid(MICROS_PER_DAY), fraction))
}

/// Microseconds since midnight as `12:34:56.789Z`.
pub(super) fn zoned_time(micros: i64, fraction: Fraction) -> String {
    let (seconds, rest) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    let digits = format!("{rest:06}");
    let shown = match fraction {
        Fraction::Digits(count) => digits.get(..count).unwrap_or(&digits),
        Fraction::Shortest => digits.trim_end_matches('0'),
    };
    let point = if shown.is_empty() { "" } else { "." };
    format!("{}{point}{shown}Z", clock(seconds))
}

/// How many digits follow a second's decimal point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fraction {
    Digits(usize),
    /// None that could be left out.
    Shortest,
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a day since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year_of_era + i64::from(is_next_year), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, expect) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-11-19", 20_776),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(days(text), Some(expect), "{text}");
            assert_eq!(date(expect), text);
        }
        for text in ["", "infinity", "0044-03-15 BC", "10000-01-01", "2026-13-01", "2026-1-1"] {
            assert_eq!(days(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        let at = "2026-11-19 12:34:56.789";
        let expect = 1_795_091_696_789_000;
        assert_eq!(micros(at), Some(expect));
        assert_eq!(micros_with_zone(&format!("{at}+00")), Some(expect));
        assert_eq!(micros_with_zone(&format!("{at}-03:30")), Some(expect + 12_600_000_000));
        assert_eq!(zoned_moment(expect, Fraction::Digits(6)), "2026-11-19T12:34:56.789000Z");
        assert_eq!(zoned_moment(expect, Fraction::Shortest), "2026-11-19T12:34:56.789Z");
        assert_eq!(moment(expect / 1000), "2026-11-19T12:34:56.789Z");
        assert_eq!(micros_of_day_with_zone("01:00:00+02"), Some(23 * 3600 * MICROS_PER_SECOND));
        assert_eq!(zoned_time(3_600_000_000, Fraction::Shortest), "01:00:00Z");
        assert_eq!(micros("infinity"), None);
    }

    #[test]
    fn intervals_are_read_with_months_of_average_length() {
        for (text, expect) in [
            ("00:00:00", 0),
            ("04:05:06.7", 14_706_700_000),
            ("-00:00:01", -1_000_000),
            ("1 day", 86_400_000_000),
            ("1 mon", 2_629_800_000_000),
            ("1 year 2 mons -3 days +04:05:06", 36_572_706_000_000),
        ] {
            assert_eq!(interval_micros(text), Some(expect), "{text}");
        }
        assert_eq!(interval_micros("P1D"), None);
    }
}
