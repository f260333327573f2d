//! Short texts: durations, annotations, feature gates.

use std::collections::BTreeMap;

use dependency_watchdog::{
    api::{Duration, LabelSelector},
    checks::FeatureGates,
    prober::plan::Record,
    util::text::parse_bool,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    fuzz::fuzzed,
    mutate::{changed, text},
};

fn texts(seeds: &[&str]) -> Vec<String> {
    seeds.iter().map(|it| (*it).to_owned()).collect()
}

const DURATIONS: &[&str] = &[
    "", "0", "9", "99999", "h", "m", "s", "ms", ".", "-", "+", " ", "µs", "e9",
];

fuzzed!(
    a_duration_keeps_what_is_written_or_is_refused,
    500,
    text(
        texts(&["1h30m", "0s", "99999h", "1.5s", "500ms", "1h1m1s1ms"]),
        DURATIONS
    ),
    |text| {
        match text.parse::<Duration>() {
            Ok(duration) => {
                prop_assert_eq!(duration.as_str(), &text);
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

fuzzed!(
    annotations_are_read_as_go_reads_them,
    500,
    text(
        texts(&["true", "T", "1", "0", "false", "3", "2147483647", ""]),
        &[
            "",
            "t",
            "TRUE",
            "0",
            "1",
            "-",
            "+",
            " ",
            "\n",
            "2147483648",
            "e1",
            "٣",
            "\u{202e}"
        ]
    ),
    |text| {
        let truths = ["1", "t", "T", "TRUE", "true", "True"];
        let lies = ["0", "f", "F", "FALSE", "false", "False"];
        let expected = match text.as_str() {
            text if truths.contains(&text) => Some(true),
            text if lies.contains(&text) => Some(false),
            _ => None,
        };
        prop_assert_eq!(parse_bool(&text), expected);
        match Record::parse(Some(&text)) {
            Record::Replicas(replicas) => {
                prop_assert!(replicas > 0);
                prop_assert_eq!(
                    text.trim_start_matches('+').trim_start_matches('0'),
                    replicas.to_string()
                );
            }
            Record::Unreadable(shown) => prop_assert!(shown.chars().count() <= 100),
            Record::Absent => prop_assert!(false, "it is there"),
        }
        Ok(())
    }
);

fuzzed!(
    feature_gates_are_known_or_refused,
    300,
    text(
        texts(&[
            "ExecProbeTimeout=false",
            "ExecProbeTimeout=true,ExecProbeTimeout=f",
            ""
        ]),
        &["", ",", "=", " ", "T", "0", "Exec", "\u{0}", "x"]
    ),
    |text| {
        let on = text
            .parse::<FeatureGates>()
            .map(|gates| gates.exec_probe_timeout);
        // It is off only if the last word on it says so.
        let last = text.rsplit(',').map(str::trim).find(|it| !it.is_empty());
        let last = last.and_then(|it| it.split_once('=')).map(|it| it.1.trim());
        if on == Ok(false) {
            prop_assert_eq!(last.and_then(parse_bool), Some(false));
        }
        Ok(())
    }
);

fn selectors() -> Vec<Value> {
    vec![json!({
        "matchLabels": {"stage": "live"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "skip", "operator": "DoesNotExist"},
            {"key": "x", "operator": "NotIn", "values": ["y"]},
        ],
    })]
}

fuzzed!(
    any_selector_matches_or_not,
    300,
    changed(selectors(), 4),
    |selector| {
        let Ok(selector) = serde_json::from_str::<LabelSelector>(&selector.text) else {
            return Ok(());
        };
        let labels = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        // One that is empty matches all; what it asks for by name alone is asked for.
        let all = labels(&[("stage", "live"), ("tier", "a")]);
        prop_assert!(!selector.is_empty() || selector.matches(&all));
        selector.matches(&labels(&[("skip", ""), ("x", "y")]));
        Ok(())
    }
);
