//! Durations as Go prints them (`1m30s`), with checked arithmetic and their limits.
//!
//! One malformed duration in one object must not end the process, so that parsing refuses what it
//! cannot represent instead of panicking, and the schema makes the API server refuse the same.

use super::forms::Form;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, json};
use std::{borrow::Cow, fmt, str::FromStr, time::Duration as Span};

/// Form of a duration: each unit at most once, the greatest first, or a bare 0. Go prints no other form of a whole
/// number of microseconds. The limits on digits keep the sum far from overflow.
static FORM: Form = Form::new(
    r"^(0|([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}(\.[0-9]{1,9})?s)?([0-9]{1,5}(\.[0-9]{1,6})?ms)?)$",
    "a duration",
);
/// Most bytes that the form allows.
const MAX_LENGTH: usize = 42;
/// Units: their group in the pattern, their name, and their length in seconds.
const UNITS: [(usize, &str, f64); 4] = [
    (2, "h", 3600.0),
    (3, "m", 60.0),
    (4, "s", 1.0),
    (6, "ms", 0.001),
];

/// A duration in the form in which it was written.
///
/// Two durations are equal when they are written alike: `60s` is not `1m`. Compare [`get`] for the
/// length of time.
///
/// [`get`]: Duration::get
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(
    with = "String",
    extend("minLength" = 1, "maxLength" = MAX_LENGTH, "pattern" = FORM.to_string())
)]
pub struct Duration {
    written: String,
    value: Span,
}

/// Most milliseconds that the form can express in seconds.
const LONGEST: u32 = 99_999_000;

/// The least and the greatest duration that a field takes.
#[derive(Clone, Copy)]
pub(super) struct Bounds(pub(super) &'static str, pub(super) &'static str);

impl Duration {
    /// A duration of whole seconds.
    pub fn from_secs(seconds: u16) -> Self {
        Span::from_secs(seconds.into()).into()
    }

    /// A duration of whole minutes.
    pub fn from_mins(minutes: u16) -> Self {
        Self {
            written: format!("{minutes}m"),
            value: Span::from_secs(u64::from(minutes) * 60),
        }
    }

    /// The length of time.
    pub fn get(&self) -> Span {
        self.value
    }
}

/// Keeps whole milliseconds, up to the longest time that the form can express in seconds.
impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        let millis = u32::try_from(span.as_millis())
            .unwrap_or(u32::MAX)
            .min(LONGEST);
        Self {
            written: format!("{}s", f64::from(millis) / 1000.0),
            value: Span::from_millis(millis.into()),
        }
    }
}

impl Bounds {
    /// Returns the rule by which the API server refuses what is out of bounds.
    pub(super) fn rule(self) -> Value {
        let Self(min, max) = self;
        json!({
            "rule": format!("duration(self) >= duration('{min}') && duration(self) <= duration('{max}')"),
            "message": self.to_string(),
        })
    }

    /// Returns the same rule as a garde validator.
    pub(super) fn check(self) -> impl Fn(&Duration, &()) -> garde::Result {
        move |duration, _| {
            let allowed = parse(self.0).zip(parse(self.1)).map(|(min, max)| min..=max);
            match allowed.is_some_and(|allowed| allowed.contains(&duration.value)) {
                true => Ok(()),
                false => Err(garde::Error::new(format_args!("{self}, not {duration}"))),
            }
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(min, max) = self;
        write!(f, "must be a duration of at least {min} and at most {max}")
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = parse(text).ok_or_else(|| {
            let beginning: String = text.chars().take(40).collect();
            format!(
                "{beginning:?} is not a duration: write numbers of h, m, s and ms, in this order and each at most \
                 once, such as 1m30s, 0.5s or 500ms"
            )
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

fn parse(text: &str) -> Option<Span> {
    let groups = FORM.captures(text).filter(|_| !text.is_empty())?;
    UNITS
        .iter()
        .try_fold(Span::ZERO, |sum, (group, unit, length)| {
            let Some(part) = groups.get(*group) else {
                return Some(sum);
            };
            let count: f64 = part.as_str().strip_suffix(unit)?.parse().ok()?;
            sum.checked_add(Span::try_from_secs_f64(count * length).ok()?)
        })
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
        assert!(error.contains("is not a duration"), "{error}");
        assert!(serde_json::from_value::<Duration>(text.into()).is_err());
    }

    #[test]
    fn an_error_does_not_repeat_a_long_text() {
        let error = "x".repeat(10_000).parse::<Duration>().unwrap_err();
        assert!(error.len() < 250);
    }

    #[test]
    fn what_is_computed_reads_back() {
        for (millis, text) in [
            (0, "0s"),
            (1, "0.001s"),
            (90_500, "90.5s"),
            (u64::MAX, "99999s"),
        ] {
            let duration = Duration::from(Span::from_millis(millis));
            assert_eq!(duration.to_string(), text);
            assert_eq!(text.parse(), Ok(duration));
        }
        for duration in [Duration::from_secs(u16::MAX), Duration::from_mins(u16::MAX)] {
            assert_eq!(duration.to_string().parse(), Ok(duration.clone()));
        }
    }
}
