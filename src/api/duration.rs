//! Durations as Kubernetes writes them (`1m30s`), with checked arithmetic and their limits.
//!
//! One malformed duration in one object must not end the process, so that parsing refuses what it
//! cannot represent instead of panicking, and the schema makes the API server refuse the same.

use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{borrow::Cow, fmt, str::FromStr, time::Duration as Span};

/// What a duration looks like: up to four numbers of at most five digits and three decimals, each
/// with a unit, or a bare 0. The limits keep every sum far from overflow.
pub(super) const PATTERN: &str = r"^(0|([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4})$";
/// Bytes, as in the schema.
const MAX_LENGTH: usize = 32;
const MAX_GROUPS: usize = 4;
const MAX_DIGITS: usize = 5;
const MAX_DECIMALS: usize = 3;

/// A duration in the form in which it was written.
///
/// Two durations are equal when they are written alike: `60s` is not `1m`. Compare [`get`] for the
/// length of time.
///
/// [`get`]: Duration::get
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration {
    written: String,
    value: Span,
}

/// The most seconds that one number of the grammar can say.
const LONGEST_SECONDS: u64 = 99_999;

/// The least and the greatest duration that a field takes, in whole seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    min: u64,
    max: u64,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a duration: write at most four numbers, each followed by h, m, s or ms, \
     such as 1m30s, 0.5s or 500ms"
)]
pub struct DurationError {
    /// The beginning of the refused text.
    text: String,
}

impl Duration {
    /// A duration of whole seconds.
    pub fn from_secs(seconds: u16) -> Self {
        Self {
            written: format!("{seconds}s"),
            value: Span::from_secs(seconds.into()),
        }
    }

    /// A duration of whole minutes.
    pub fn from_mins(minutes: u16) -> Self {
        Self {
            written: format!("{minutes}m"),
            value: Span::from_secs(u64::from(minutes) * 60),
        }
    }

    /// A duration of whole milliseconds; more than the grammar can write is cut to 99999 s.
    pub fn from_millis(millis: u64) -> Self {
        let millis = millis.min(LONGEST_SECONDS * 1_000);
        let written = match (millis / 1_000, millis % 1_000) {
            (seconds, 0) => format!("{seconds}s"),
            (0, rest) => format!("{rest}ms"),
            (seconds, rest) => format!("{seconds}s{rest}ms"),
        };
        Self {
            written,
            value: Span::from_millis(millis),
        }
    }

    /// The length of time.
    pub fn get(&self) -> Span {
        self.value
    }

    /// The duration as it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

/// Of whole milliseconds.
impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Bounds {
    pub(super) const fn from_secs(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    /// The rule by which the API server refuses what is out of bounds.
    ///
    /// A text that does not match the pattern is left to the pattern, whose message says what is
    /// wrong, where the evaluation of `duration` would only fail.
    pub(super) fn rule(self) -> Rule {
        let Self { min, max } = self;
        Rule::new(format!(
            "duration(self) >= duration('{min}s') && duration(self) <= duration('{max}s')"
        ))
        .message(self.to_string().as_str())
    }

    /// The same rule for a value that is already here, as a garde validator.
    pub(super) fn check(self) -> impl Fn(&Duration, &()) -> garde::Result {
        move |duration, _| {
            let allowed = Span::from_secs(self.min)..=Span::from_secs(self.max);
            if allowed.contains(&duration.value) {
                Ok(())
            } else {
                Err(garde::Error::new(format_args!("{self}, not {duration}")))
            }
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readable = |seconds: u64| match seconds {
            0 => "0s".to_owned(),
            _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
            _ => format!("{seconds}s"),
        };
        write!(
            f,
            "must be a duration of at least {} and at most {}",
            readable(self.min),
            readable(self.max)
        )
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = parse(text).ok_or_else(|| DurationError {
            text: text.chars().take(40).collect(),
        })?;
        Ok(Self {
            written: text.to_owned(),
            value,
        })
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.written)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN})
    }
}

fn parse(text: &str) -> Option<Span> {
    if text.is_empty() || text.len() > MAX_LENGTH {
        return None;
    }
    if text == "0" {
        return Some(Span::ZERO);
    }
    let mut rest = text;
    let mut micros = 0u64;
    let mut groups = 0;
    while !rest.is_empty() {
        groups += 1;
        let (number, tail) =
            rest.split_at_checked(rest.find(|c: char| !matches!(c, '0'..='9' | '.'))?)?;
        let unit_end = tail
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end)?;
        micros =
            micros.checked_add(thousandths(number)?.checked_mul(micros_per_thousandth(unit)?)?)?;
        rest = tail;
    }
    (groups <= MAX_GROUPS).then(|| Span::from_micros(micros))
}

/// The number, times a thousand.
fn thousandths(number: &str) -> Option<u64> {
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (number, None),
    };
    let digits = |text: &str, max: usize| {
        (1..=max)
            .contains(&text.len())
            .then(|| text.parse::<u64>().ok())
            .flatten()
    };
    let whole = digits(whole, MAX_DIGITS)?.checked_mul(1000)?;
    let decimals = match decimals {
        Some(text) => {
            let missing = MAX_DECIMALS.checked_sub(text.len())?;
            digits(text, MAX_DECIMALS)?.checked_mul([1, 10, 100].get(missing).copied()?)?
        }
        None => 0,
    };
    whole.checked_add(decimals)
}

fn micros_per_thousandth(unit: &str) -> Option<u64> {
    match unit {
        "h" => Some(3_600_000),
        "m" => Some(60_000),
        "s" => Some(1_000),
        "ms" => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;
    use rstest::rstest;

    #[rstest]
    #[case("0", 0)]
    #[case("0s", 0)]
    #[case("10s", 10_000)]
    #[case("1m30s", 90_000)]
    #[case("1.5h", 5_400_000)]
    #[case("0.05s", 50)]
    #[case("500ms", 500)]
    #[case("1s1s", 2_000)]
    #[case("5m0s", 300_000)]
    #[case("99999.999h", 359_999_996_400)]
    fn parses(#[case] text: &str, #[case] millis: u64) {
        let duration: Duration = text.parse().unwrap();
        assert_eq!(duration.get(), Span::from_millis(millis));
        assert_eq!(duration.to_string(), text);
        assert_eq!(serde_json::to_value(&duration).unwrap(), text);
    }

    #[test]
    fn keeps_microseconds() {
        assert_eq!(
            "0.001ms".parse::<Duration>().unwrap().get(),
            Span::from_micros(1)
        );
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_unit("30")]
    #[case::no_number("s")]
    #[case::negative("-1s")]
    #[case::negative_inside("1h-5m")]
    #[case::huge("9999999999999999h")]
    #[case::signed("+1s")]
    #[case::unknown_unit("1d")]
    #[case::micros("1us")]
    #[case::upper_case("1S")]
    #[case::no_digit_before_the_point(".5s")]
    #[case::no_digit_after_the_point("1.s")]
    #[case::two_points("1.2.3s")]
    #[case::four_decimals("1.0001s")]
    #[case::six_digits("100000s")]
    #[case::five_groups("1h1m1s1ms1s")]
    #[case::space("1 s")]
    #[case::trailing_newline("1s\n")]
    #[case::other_digits("١s")]
    #[case::too_long("00001.001h00001.001h00001.001h1.1h")]
    fn refuses(#[case] text: &str) {
        let error = text.parse::<Duration>().unwrap_err();
        assert!(error.to_string().contains("is not a duration"), "{error}");
        assert!(serde_json::from_value::<Duration>(text.into()).is_err());
    }

    #[test]
    fn an_error_does_not_repeat_a_long_text() {
        let error = "x".repeat(10_000).parse::<Duration>().unwrap_err();
        assert!(error.to_string().len() < 250);
    }

    #[test]
    fn whole_seconds_and_minutes_read_back() {
        for count in [0, 1, 30, u16::MAX] {
            for duration in [Duration::from_secs(count), Duration::from_mins(count)] {
                assert_eq!(duration.as_str().parse(), Ok(duration.clone()));
            }
        }
    }

    fn group() -> impl Strategy<Value = (u64, Option<u64>, usize)> {
        (0..100_000u64, proptest::option::of(0..1_000u64), 0..4usize)
    }

    proptest! {
        #[test]
        fn accepted_iff_the_pattern_matches(text in "[0-9hms. -]{0,36}|\\PC*") {
            let pattern = Regex::new(PATTERN).unwrap();
            let expected = text.len() <= MAX_LENGTH && pattern.is_match(&text);
            prop_assert_eq!(text.parse::<Duration>().is_ok(), expected);
        }

        #[test]
        fn equals_the_sum_of_its_groups(groups in proptest::collection::vec(group(), 1..=4)) {
            let units = [("h", 3_600_000u64), ("m", 60_000), ("s", 1_000), ("ms", 1)];
            let mut text = String::new();
            let mut micros = 0;
            for (whole, decimals, unit) in groups {
                let (name, scale) = units[unit];
                text += &match decimals {
                    Some(decimals) => format!("{whole}.{decimals:03}{name}"),
                    None => format!("{whole}{name}"),
                };
                micros += (whole * 1000 + decimals.unwrap_or(0)) * scale;
            }
            match text.parse::<Duration>() {
                Ok(duration) => prop_assert_eq!(duration.get(), Span::from_micros(micros)),
                Err(_) => prop_assert!(text.len() > MAX_LENGTH),
            }
        }
    }
}
