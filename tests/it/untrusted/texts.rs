//! Short texts: durations.

use dependency_watchdog::api::Duration;
use proptest::prelude::*;

use super::{fuzz::fuzzed, mutate::text};

fuzzed!(
    a_duration_keeps_what_is_written_or_is_refused,
    500,
    text(
        ["1h30m", "0s", "99999h", "1.5s", "500ms", "1h1m1s1ms"]
            .map(str::to_owned)
            .to_vec(),
        &[
            "", "0", "9", "99999", "h", "m", "s", "ms", ".", "-", "+", " ", "µs", "e9"
        ]
    ),
    |text| {
        match text.parse::<Duration>() {
            Ok(duration) => {
                prop_assert_eq!(duration.to_string(), text);
                // Four groups of less than 100,000 hours.
                prop_assert!(duration.get().as_secs() < 4 * 100_000 * 3_600);
                let json = serde_json::to_string(&duration).unwrap();
                prop_assert_eq!(serde_json::from_str::<Duration>(&json).unwrap(), duration);
            }
            Err(error) => prop_assert!(error.to_string().chars().count() <= 250),
        }
        Ok(())
    }
);
