//! Dates and times: read as Postgres writes them in its ISO style, written as Java writes them.

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;
const DAYS_PER_MONTH: f64 = 365.25 / 12.0;
/// More digits than any year of Postgres has.
const YEAR_DIGITS_MAX: usize = 7;

/// What Debezium makes of `infinity` and `-infinity`: the last milliseconds of Postgres's driver, some
/// as days and with an overflow.
const LAST_DAY: i64 = -2_147_472_692;
const FIRST_DAY: i64 = -2_147_472_691;
const LAST_MOMENT: Moment = Moment { seconds: 9_223_372_036_825, micros: 200_000 };
const FIRST_MOMENT: Moment = Moment { seconds: -9_223_372_036_833, micros: 600_000 };

/// A point in time. Microseconds alone would overflow in the last years of Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970.
    pub(crate) seconds: i64,
    /// Within the second.
    pub(crate) micros: i64,
}

impl Moment {
    fn of(days: i64, micros_of_day: i64) -> Option<Self> {
        let seconds = days.checked_mul(SECONDS_PER_DAY)?;
        let seconds = seconds.checked_add(micros_of_day.div_euclid(MICROS_PER_SECOND))?;
        Some(Moment { seconds, micros: micros_of_day.rem_euclid(MICROS_PER_SECOND) })
    }

    /// In thousandths of a second.
    pub(crate) fn millis(self) -> i64 {
        self.seconds.saturating_mul(1_000).wrapping_add(self.micros / 1_000)
    }

    /// In millionths of a second; the overflow is Java's.
    pub(crate) fn unix_micros(self) -> i64 {
        self.seconds.saturating_mul(MICROS_PER_SECOND).wrapping_add(self.micros)
    }

    /// The same in thousandths of these; none if they are too many.
    pub(crate) fn nanos(self) -> Option<i64> {
        self.seconds.checked_mul(1_000_000_000)?.checked_add(self.micros * 1_000)
    }
}

/// `2026-01-31` as days since 1970.
pub(crate) fn days(text: &str) -> Option<i64> {
    match text {
        "infinity" => return Some(LAST_DAY),
        "-infinity" => return Some(FIRST_DAY),
        _ => {}
    }
    let (date, is_before_christ) = era(text);
    days_of(date, is_before_christ)
}

/// Without the suffix for years before the year 1.
fn era(text: &str) -> (&str, bool) {
    text.strip_suffix(" BC").map_or((text, false), |rest| (rest, true))
}

fn days_of(date: &str, is_before_christ: bool) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let year = parts.next().filter(|it| (4..=YEAR_DIGITS_MAX).contains(&it.len()))?;
    let year = number(year, year.len())?;
    let mut part = || number(parts.next()?, 2);
    let (month, day) = (part()?, part()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year == 0 {
        return None;
    }
    let year = if is_before_christ { 1 - year } else { year };
    // Years begin in March here, so that a leap day is a year's last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(365 * year + leap_days + day_of_year - 719_468)
}

/// `12:34:56.789` as microseconds since midnight.
pub(crate) fn micros_of_day(text: &str) -> Option<i64> {
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

/// `2026-01-31 12:34:56.789`.
pub(crate) fn moment(text: &str) -> Option<Moment> {
    match text {
        "infinity" => return Some(LAST_MOMENT),
        "-infinity" => return Some(FIRST_MOMENT),
        _ => {}
    }
    let (text, is_before_christ) = era(text);
    let (date, time) = text.split_once(' ')?;
    Moment::of(days_of(date, is_before_christ)?, micros_of_day(time)?)
}

/// The same with a zone, `…+02` or `…-03:30`.
pub(crate) fn moment_with_zone(text: &str) -> Option<Moment> {
    let (text, is_before_christ) = era(text);
    let (date, time) = text.split_once(' ')?;
    let (time, ahead) = split_zone(time)?;
    Moment::of(days_of(date, is_before_christ)?, micros_of_day(time)? - ahead)
}

/// `12:34:56+02` as microseconds since midnight in UTC.
pub(crate) fn micros_of_day_with_zone(text: &str) -> Option<i64> {
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
pub(crate) fn interval_micros(text: &str) -> Option<i64> {
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
pub(crate) fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    match year {
        ..0 => format!("-{:04}-{month:02}-{day:02}", -year),
        0..=9_999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("+{year}-{month:02}-{day:02}"),
    }
}

/// A `java.util.Date` as Kafka Connect writes it in headers, by what it could be: what is less than a
/// day after the epoch is a time of day.
pub(crate) fn header(millis: i64) -> String {
    const DAY: i64 = 1_000 * SECONDS_PER_DAY;
    let (day, of_day) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
    let time = format!("{}.{:03}Z", clock(of_day / 1_000), of_day % 1_000);
    if millis < DAY {
        time
    } else if of_day == 0 {
        date(day)
    } else {
        format!("{}T{time}", date(day))
    }
}

/// As `2026-01-31T12:34:56.789Z`.
pub(crate) fn zoned_moment(moment: Moment, fraction: Fraction) -> String {
    let date = date(moment.seconds.div_euclid(SECONDS_PER_DAY));
    let seconds = moment.seconds.rem_euclid(SECONDS_PER_DAY);
    format!("{date}T{}", zoned_time(seconds * MICROS_PER_SECOND + moment.micros, fraction))
}

/// Microseconds since midnight as `12:34:56.789Z`.
pub(crate) fn zoned_time(micros: i64, fraction: Fraction) -> String {
    let micros = micros.rem_euclid(MICROS_PER_DAY);
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
pub(crate) enum Fraction {
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
        for (text, expect, written) in [
            ("1970-01-01", 0, "1970-01-01"),
            ("1969-12-31", -1, "1969-12-31"),
            ("2000-02-29", 11_016, "2000-02-29"),
            ("2000-03-01", 11_017, "2000-03-01"),
            ("2026-11-19", 20_776, "2026-11-19"),
            ("0001-01-01", -719_162, "0001-01-01"),
            ("0044-03-15 BC", -735_160, "-0043-03-15"),
            ("9999-12-31", 2_932_896, "9999-12-31"),
            ("10000-01-01", 2_932_897, "+10000-01-01"),
            ("infinity", LAST_DAY, "-5877611-06-21"),
            ("-infinity", FIRST_DAY, "-5877611-06-22"),
        ] {
            assert_eq!(days(text), Some(expect), "{text}");
            assert_eq!(date(expect), written);
        }
        for text in ["", "2026-13-01", "2026-1-1", "26-01-01", "0000-01-01", "2026-01-01 AD"] {
            assert_eq!(days(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        let at = "2026-11-19 12:34:56.789";
        let expect = Moment { seconds: 1_795_091_696, micros: 789_000 };
        assert_eq!(moment(at), Some(expect));
        assert_eq!(moment_with_zone(&format!("{at}+00")), Some(expect));
        let later = Moment { seconds: expect.seconds + 12_600, ..expect };
        assert_eq!(moment_with_zone(&format!("{at}-03:30")), Some(later));
        assert_eq!(zoned_moment(expect, Fraction::Digits(6)), "2026-11-19T12:34:56.789000Z");
        assert_eq!(zoned_moment(expect, Fraction::Shortest), "2026-11-19T12:34:56.789Z");
        assert_eq!(micros_of_day_with_zone("01:00:00+02"), Some(23 * 3600 * MICROS_PER_SECOND));
        assert_eq!(zoned_time(3_600_000_000, Fraction::Shortest), "01:00:00Z");
        assert_eq!(zoned_time(MICROS_PER_DAY, Fraction::Shortest), "00:00:00Z");
        assert_eq!(header(expect.millis()), "2026-11-19T12:34:56.789Z");
        assert_eq!([header(-1), header(0)], ["23:59:59.999Z", "00:00:00.000Z"]);
        assert_eq!(header(86_400_000), "1970-01-02");
    }

    #[test]
    fn what_overflows_in_java_is_what_java_makes_of_it() {
        let last = moment("infinity").unwrap();
        assert_eq!(last.unix_micros(), 9_223_372_036_825_200_000);
        assert_eq!(zoned_moment(last, Fraction::Shortest), "+294247-01-10T04:00:25.2Z");
        let first = moment("-infinity").unwrap();
        assert_eq!(first.unix_micros(), -9_223_372_036_832_400_000);
        let late = moment("294276-12-31 23:59:59.999999").unwrap();
        assert_eq!(late.unix_micros(), -9_223_372_036_853_775_810);
        assert_eq!(late.millis(), 9_224_318_015_999_999);
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
