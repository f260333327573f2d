//! Durations as Go prints them (`1m30s`), with checked arithmetic and their limits.
//!
//! One malformed duration in one object must not end the process, so that parsing refuses what it
//! cannot represent instead of panicking, and the schema makes the API server refuse the same.

use kube::core::Rule;
use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{borrow::Cow, fmt, str::FromStr, sync::LazyLock, time::Duration as Span};

/// The form of a duration: each unit at most once, the greatest first, or a bare 0. Go prints no other
/// form of a whole number of microseconds. The limits on digits keep the sum far from overflow.
pub(super) const PATTERN: &str = r"^(0|([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}(\.[0-9]{1,9})?s)?([0-9]{1,5}(\.[0-9]{1,6})?ms)?)$";
/// The most bytes that the pattern matches.
const MAX_LENGTH: usize = 42;
/// The units: their group in the pattern, their name, and their length in nanoseconds.
const UNITS: [(usize, &str, u64); 4] = [
    (2, "h", 3_600_000_000_000),
    (3, "m", 60_000_000_000),
    (4, "s", 1_000_000_000),
    (6, "ms", 1_000_000),
];

static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());

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
    "{text:?} is not a duration: write numbers of h, m, s and ms, in this order and each at most \
     once, such as 1m30s, 0.5s or 500ms"
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
        json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "pattern": PATTERN})
    }
}

fn parse(text: &str) -> Option<Span> {
    let form = FORM.as_ref().filter(|_| !text.is_empty())?;
    let groups = form.captures(text)?;
    let nanos = UNITS.iter().try_fold(0u64, |sum, (group, unit, length)| {
        match groups.get(*group) {
            Some(part) => sum.checked_add(nanos(part.as_str().strip_suffix(unit)?, *length)?),
            None => Some(sum),
        }
    })?;
    Some(Span::from_nanos(nanos))
}

/// The nanoseconds of a number of units that are so long.
fn nanos(number: &str, length: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let fraction = decimals
        .parse::<u64>()
        .ok()?
        .checked_mul(length)?
        .checked_div(scale)?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(length)?
        .checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::bare_zero("0", 0)]
    #[case::zero("0s", 0)]
    #[case::seconds("30s", 30_000_000)]
    #[case::minutes_as_go_prints_them("2m0s", 120_000_000)]
    #[case::hours_as_go_prints_them("1h0m0s", 3_600_000_000)]
    #[case::a_fraction_after_minutes("1m0.5s", 60_500_000)]
    #[case::a_fraction("1.5s", 1_500_000)]
    #[case::below_a_second("500ms", 500_000)]
    #[case::below_a_millisecond("1.5ms", 1_500)]
    #[case::as_people_write("90m", 5_400_000_000)]
    #[case::two_units("1m30s", 90_000_000)]
    #[case::more_than_a_minute_of_seconds("3600s", 3_600_000_000)]
    #[case::all_units("1h2m3s4ms", 3_723_004_000)]
    #[case::nanoseconds("1.000001000s", 1_000_001)]
    #[case::leading_zeros("00001s", 1_000_000)]
    #[case::greatest("99999h99999m99999.999999999s99999.999999ms", 366_096_439_999_999)]
    fn takes(#[case] text: &str, #[case] micros: u128) {
        let duration: Duration = text.parse().unwrap();
        assert_eq!(duration.get().as_micros(), micros);
        assert_eq!(duration.to_string(), text);
        assert_eq!(serde_json::to_value(&duration).unwrap(), text);
        assert!(text.len() <= MAX_LENGTH);
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_unit("30")]
    #[case::no_number("s")]
    #[case::two_zeros("00")]
    #[case::negative("-1s")]
    #[case::negative_inside("1h-5m")]
    #[case::huge("9999999999999999h")]
    #[case::signed("+1s")]
    #[case::unknown_unit("1d")]
    #[case::micros("1us")]
    #[case::greek_micros("1µs")]
    #[case::nanos("1ns")]
    #[case::upper_case("1S")]
    #[case::another_order("30s1m")]
    #[case::a_unit_twice("1s1s")]
    #[case::a_fraction_of_an_hour("1.5h")]
    #[case::a_fraction_of_a_minute("0.5m")]
    #[case::no_digit_before_the_point(".5s")]
    #[case::no_digit_after_the_point("1.s")]
    #[case::two_points("1.2.3s")]
    #[case::below_a_nanosecond("1.0000000001s")]
    #[case::six_digits("100000s")]
    #[case::space("1 s")]
    #[case::trailing_newline("1s\n")]
    #[case::other_digits("١s")]
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
    fn what_is_computed_reads_back() {
        for millis in [0, 1, 999, 1_000, 1_001, 90_500, u64::MAX] {
            let duration = Duration::from_millis(millis);
            assert_eq!(duration.as_str().parse(), Ok(duration.clone()));
        }
        for count in [0, 1, 30, u16::MAX] {
            for duration in [Duration::from_secs(count), Duration::from_mins(count)] {
                assert_eq!(duration.as_str().parse(), Ok(duration.clone()));
            }
        }
    }
}
