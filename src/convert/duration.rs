//! Durations as Go writes them, which our grammar takes but for a few.

use crate::api::Duration;

/// Longer texts are none that anybody wrote by hand.
const MAX_LENGTH: usize = 64;
/// Digits after the point beyond which Go reads nothing that matters.
const MAX_DECIMALS: u32 = 15;
const NANOS_PER_MICRO: u128 = 1_000;

/// Why a text of Go is no duration of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DurationError {
    #[error("{0:?} is no duration: write numbers with a unit of h, m, s or ms, such as 1m30s")]
    Form(String),
    #[error("{0:?} is negative: write 0s or more")]
    Negative(String),
    #[error("{0:?} is finer than a microsecond: round it to whole milliseconds")]
    Fine(String),
    #[error("{0:?} is too long: write at most 99999h")]
    Long(String),
}

/// The same duration in our grammar: as it was written if that will do.
pub(super) fn convert(text: &str) -> Result<String, DurationError> {
    if text.parse::<Duration>().is_ok() {
        return Ok(text.to_owned());
    }
    let quoted = || text.chars().take(MAX_LENGTH).collect();
    if text.len() > MAX_LENGTH {
        return Err(DurationError::Form(quoted()));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let nanos = match unsigned {
        "0" => Some(Some(0)),
        _ => nanos(unsigned),
    };
    let nanos = nanos.ok_or_else(|| DurationError::Form(quoted()))?;
    if text.starts_with('-') && nanos != Some(0) {
        return Err(DurationError::Negative(quoted()));
    }
    let nanos = nanos.ok_or_else(|| DurationError::Fine(quoted()))?;
    if nanos % NANOS_PER_MICRO != 0 {
        return Err(DurationError::Fine(quoted()));
    }
    let written = written(nanos / NANOS_PER_MICRO);
    match written.parse::<Duration>() {
        Ok(_) => Ok(written),
        Err(_) => Err(DurationError::Long(quoted())),
    }
}

/// The nanoseconds that a text of Go says; `None` if it says none, and `Some(None)` if they are no
/// whole number.
fn nanos(text: &str) -> Option<Option<u128>> {
    let mut rest = text;
    let mut total = Some(0u128);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at_checked(number)?;
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(end)?;
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && decimals.is_empty() || decimals.contains('.') {
            return None;
        }
        let read = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<u128>().ok(),
        };
        let whole = read(whole)?.checked_mul(scale)?;
        let decimals = decimals.trim_end_matches('0');
        let fraction = match u32::try_from(decimals.len()) {
            Ok(count) if count <= MAX_DECIMALS => {
                let all = read(decimals)?.checked_mul(scale)?;
                let unit = 10u128.checked_pow(count)?;
                (all % unit == 0).then_some(all / unit)
            }
            _ => None,
        };
        total = total
            .zip(fraction)
            .and_then(|(total, fraction)| total.checked_add(whole)?.checked_add(fraction));
        rest = tail;
    }
    Some(total)
}

/// Microseconds in our grammar.
fn written(micros: u128) -> String {
    const UNITS: [(&str, u128); 3] = [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)];
    let mut text = String::new();
    let mut rest = micros;
    for (unit, scale) in UNITS {
        if rest >= scale {
            text += &format!("{}{unit}", rest / scale);
            rest %= scale;
        }
    }
    match (rest / 1_000, rest % 1_000) {
        (0, 0) if text.is_empty() => "0s".to_owned(),
        (0, 0) => text,
        (millis, 0) => format!("{text}{millis}ms"),
        (millis, micros) => format!("{text}{millis}.{micros:03}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::as_it_was("1h30m", "1h30m")]
    #[case::with_a_point("1.5h", "1h30m")]
    #[case::many_millis("90000ms", "90000ms")]
    #[case::zero("0", "0")]
    #[case::five_groups("1h1m1s1ms1000us", "1h1m1s2ms")]
    #[case::micros("100us", "0.100ms")]
    #[case::greek_micros("1500µs", "1.500ms")]
    #[case::nanos("1000000000ns", "1s")]
    #[case::signed("+30s", "30s")]
    #[case::negative_zero("-0s", "0s")]
    #[case::no_whole(".5s", "500ms")]
    #[case::no_decimals("1.s", "1s")]
    #[case::many_decimals("1.0005s", "1.0005s")]
    #[case::zeros("1.000000000000000000s", "1s")]
    #[case::many_digits("100000s", "27h46m40s")]
    #[case::many_hundred_thousand_millis("600000ms", "10m")]
    fn converts(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(convert(text).as_deref(), Ok(expected));
        assert!(expected.parse::<Duration>().is_ok(), "{expected}");
    }

    #[rstest]
    #[case::number("30", "is no duration")]
    #[case::empty("", "is no duration")]
    #[case::days("1d", "is no duration")]
    #[case::point(".s", "is no duration")]
    #[case::points("1.2.3s", "is no duration")]
    #[case::words("half an hour", "is no duration")]
    #[case::negative("-30s", "is negative")]
    #[case::nano("1ns", "finer than a microsecond")]
    #[case::fraction_of_a_nano("1.0000000000000000001s", "finer than a microsecond")]
    #[case::eternity("9999999h", "is too long")]
    fn refuses(#[case] text: &str, #[case] reason: &str) {
        let error = convert(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_a_duration(text in "[-+]?[0-9.hmsnuµ]{0,40}|\\PC*") {
            if let Ok(written) = convert(&text) {
                prop_assert!(written.parse::<Duration>().is_ok());
            }
        }

        #[test]
        fn nothing_is_lost(
            groups in proptest::collection::vec((0..1_000_000u64, 0..5usize), 1..7)
        ) {
            let units = [("h", 3_600_000_000u64), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];
            let mut text = String::new();
            let mut micros = 0;
            for (number, unit) in groups {
                let (name, scale) = units[unit];
                text += &format!("{number}{name}");
                micros += number * scale;
            }
            match convert(&text) {
                Ok(written) => {
                    let duration: Duration = written.parse().unwrap();
                    prop_assert_eq!(duration.get(), std::time::Duration::from_micros(micros));
                }
                Err(error) => prop_assert!(
                    text.len() > MAX_LENGTH || micros >= 100_000 * 3_600_000_000, "{}", error
                ),
            }
        }
    }
}
