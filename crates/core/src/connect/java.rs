//! Numbers as Java writes them.

use num_bigint::BigInt;

/// Digits after which `Double.toString` changes to scientific notation.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -3..7;
/// The smallest exponent that `BigDecimal.toString` writes without scientific notation.
const DECIMAL_EXPONENT_MIN: i64 = -6;

/// `Double.toString` of Java 19 and newer: the shortest digits that mean this number.
pub(crate) fn double(value: f64) -> String {
    let text = || digits(&shortest(format!("{value:e}"), format!("{value:.1e}")));
    special(value).map_or_else(text, ToOwned::to_owned)
}

/// `Float.toString`, likewise.
pub(crate) fn float(value: f32) -> String {
    let text = || digits(&shortest(format!("{value:e}"), format!("{value:.1e}")));
    special(f64::from(value)).map_or_else(text, ToOwned::to_owned)
}

/// If one digit is enough, Java takes the nearest number with two.
fn shortest(shortest: String, two_digits: String) -> String {
    let is_one_digit = !shortest.contains('.');
    let is_better = !two_digits.contains(".0e");
    if is_one_digit && is_better { two_digits } else { shortest }
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

/// Rust's `-1.25e-7` as Java has it: `-1.25E-7`.
fn digits(scientific: &str) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    if !PLAIN_EXPONENTS.contains(&exponent) {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    if whole == 0 {
        return format!("{sign}0.{digits}");
    }
    let padded = format!("{digits:0<whole$}");
    let (whole, rest) = padded.split_at_checked(whole).unwrap_or((&padded, ""));
    format!("{sign}{whole}.{}", if rest.is_empty() { "0" } else { rest })
}

/// `BigDecimal.toPlainString`.
pub(crate) fn plain_decimal(unscaled: &BigInt, scale: u32) -> String {
    let text = unscaled.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let scale = scale as usize;
    if scale == 0 {
        return text;
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at_checked(padded.len() - scale).unwrap_or((&padded, ""));
    format!("{sign}{whole}.{fraction}")
}

/// `BigDecimal.toString`.
pub(crate) fn decimal(unscaled: &BigInt, scale: u32) -> String {
    let text = unscaled.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let exponent = count - 1 - i64::from(scale);
    if scale == 0 || exponent >= DECIMAL_EXPONENT_MIN {
        return plain_decimal(unscaled, scale);
    }
    let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}E{exponent}")
}

/// `String.trim().isEmpty()`.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char <= ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are Java's (25).
    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (value, expect) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (39.98, "39.98"),
            (-1.5, "-1.5"),
            (0.001, "0.001"),
            (0.00123, "0.00123"),
            (0.0001, "1.0E-4"),
            (100.0, "100.0"),
            (1_234_567.0, "1234567.0"),
            (9_999_999.5, "9999999.5"),
            (10_000_000.0, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (1e10, "1.0E10"),
            (1e23, "1.0E23"),
            (2e-323, "2.0E-323"),
            (5e-324, "4.9E-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), expect);
        }
        assert_eq!(float(0.1), "0.1");
        assert_eq!(float(1e-45), "1.4E-45");
        assert_eq!(float(16_777_216.0), "1.6777216E7");
        assert_eq!(float(3.402_823_5e38), "3.4028235E38");
    }

    #[test]
    fn decimals_are_written_as_java_writes_them() {
        for (unscaled, scale, text, plain) in [
            (1230, 2, "12.30", "12.30"),
            (-5, 1, "-0.5", "-0.5"),
            (0, 2, "0.00", "0.00"),
            (1, 6, "0.000001", "0.000001"),
            (1, 7, "1E-7", "0.0000001"),
            (-123, 10, "-1.23E-8", "-0.0000000123"),
            (0, 7, "0E-7", "0.0000000"),
            (42, 0, "42", "42"),
        ] {
            let unscaled = BigInt::from(unscaled);
            assert_eq!(decimal(&unscaled, scale), text);
            assert_eq!(plain_decimal(&unscaled, scale), plain);
        }
    }

    #[test]
    fn blank_is_what_java_trims() {
        assert!(is_blank("") && is_blank(" \t\n\u{1}"));
        assert!(!is_blank("\u{a0}") && !is_blank(" x"));
    }
}
