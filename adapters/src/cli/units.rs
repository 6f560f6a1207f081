//! The units that options are given in: durations and sizes.

use std::time::Duration;

/// Parses `90s`, `1h30m`, `500ms`, or `0`.
///
/// # Errors
///
/// What is wrong, to be shown behind the option's name.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const EXAMPLES: &str = "expected a duration such as 500ms, 30s, 5m, 1h30m or 0";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(EXAMPLES.into());
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let (count, unit, after) = number_and_unit(rest).ok_or(EXAMPLES)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "" => return Err(format!("{text:?} has no unit: {EXAMPLES}")),
            _ => return Err(EXAMPLES.into()),
        };
        total = count
            .checked_mul(millis)
            .map(Duration::from_millis)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= LONGEST)
            .ok_or("longer than 100 years")?;
        rest = after;
    }
    Ok(total)
}

const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// As [`duration`], but zero is refused.
///
/// # Errors
///
/// What is wrong.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| if time.is_zero() { Err(NOT_POSITIVE.into()) } else { Ok(time) })
}

/// Parses `4MiB`, `512KiB`, `10MB` or a number of bytes; zero is refused.
///
/// # Errors
///
/// What is wrong.
pub(super) fn size(text: &str) -> Result<usize, String> {
    const EXAMPLES: &str = "expected a size such as 65536, 512KiB or 4MiB";
    let (count, unit, after) = number_and_unit(text).ok_or(EXAMPLES)?;
    let bytes: u64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return Err(EXAMPLES.into()),
    };
    if !after.is_empty() {
        return Err(EXAMPLES.into());
    }
    let size = count.checked_mul(bytes).and_then(|size| usize::try_from(size).ok()).ok_or("too large")?;
    if size == 0 { Err(NOT_POSITIVE.into()) } else { Ok(size) }
}

/// Parses a number of things; zero is refused.
///
/// # Errors
///
/// What is wrong.
pub(super) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err(NOT_POSITIVE.into()),
        Ok(count) => Ok(count),
        Err(_) => Err("expected a number".into()),
    }
}

const NOT_POSITIVE: &str = "must be greater than zero";

/// Splits off a number and the letters behind it.
fn number_and_unit(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(letters);
    Some((number.parse().ok()?, unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("30m", Some(1_800_000)),
            ("1h30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("36500d", Some(36_500 * 86_400_000)),
            ("36501d", None),
            ("", None),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("1 s", None),
            ("1w", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text:?}");
        }
        assert_eq!(positive_duration("0"), Err("must be greater than zero".to_owned()));
        assert!(duration("30").unwrap_err().contains("no unit"));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", Some(1)),
            ("65536", Some(65_536)),
            ("10B", Some(10)),
            ("1kB", Some(1_000)),
            ("512KiB", Some(524_288)),
            ("4MiB", Some(4 << 20)),
            ("10MB", Some(10_000_000)),
            ("1GiB", Some(1 << 30)),
            ("0", None),
            ("4M", None),
            ("4 MiB", None),
            ("4MiB2", None),
            ("MiB", None),
            ("-1", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text:?}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(count("10000"), Ok(10_000));
        for text in ["0", "-1", "many", "", "1k"] {
            assert!(count(text).is_err(), "{text:?}");
        }
    }
}
