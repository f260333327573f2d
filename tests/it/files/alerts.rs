//! The alert rules name metrics that there are, lead to a runbook, and are tested both ways. What
//! they do is tested by promtool: `make check-alerts`.

use std::{collections::BTreeSet, fs, path::Path};

use super::monitoring::{MONITORING, named, read, series, yaml};
use regex::Regex;
use serde_json::Value;

const RUNBOOKS: &str = "docs/alerts.md";
/// Where the book has them, on a host that is a placeholder until it is published.
const PUBLISHED: &str = "https://dependency-watchdog.example.com/alerts.html";
/// What promtool runs: `hack/check-alerts.sh`.
const TESTS: [&str; 2] = ["prober.yaml", "weeder.yaml"];

fn rules() -> Vec<Value> {
    let rule = yaml(&format!("{MONITORING}/prometheusrule.yaml"));
    let groups = rule["spec"]["groups"].as_array().unwrap().iter();
    groups
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

fn alert(rule: &Value) -> &str {
    rule["alert"].as_str().unwrap()
}

#[test]
fn rules_name_metrics_that_there_are() {
    let (series, named) = (series(), named());
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        let found: Vec<&str> = named.find_iter(expression).map(|it| it.as_str()).collect();
        for name in &found {
            assert!(series.contains_key(*name), "{}: {name}", alert(&rule));
        }
        assert!(
            !found.is_empty() || expression.contains("up{"),
            "{}",
            alert(&rule)
        );
    }
}

#[test]
fn runbooks_name_metrics_that_there_are() {
    let (series, named) = (series(), named());
    let runbooks = read(RUNBOOKS);
    let found: Vec<&str> = named.find_iter(&runbooks).map(|it| it.as_str()).collect();
    assert!(found.len() > 5, "{found:?}");
    for name in found {
        let histogram = series.contains_key(&format!("{name}_bucket"));
        assert!(histogram || series.contains_key(name), "{RUNBOOKS}: {name}");
    }
}

/// Whoever is woken by an alert finds the same three answers at the same place.
#[test]
fn each_runbook_says_what_an_alert_means_what_it_costs_and_what_to_do() {
    let runbooks = read(RUNBOOKS);
    let sections: Vec<&str> = runbooks.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), rules().len());
    let part = Regex::new(r"(?m)^\*\*(.+?)\.\*\*").unwrap();
    for section in sections {
        let parts: Vec<&str> = part
            .captures_iter(section)
            .filter_map(|it| it.get(1))
            .map(|it| it.as_str())
            .collect();
        let name = section.lines().next();
        assert_eq!(parts, ["Meaning", "Impact", "What to do"], "{name:?}");
    }
}

#[test]
fn the_prometheus_of_a_gardener_seed_takes_what_is_installed() {
    for file in ["servicemonitor", "prometheusrule"] {
        let object = yaml(&format!("{MONITORING}/{file}.yaml"));
        assert_eq!(object["metadata"]["labels"]["prometheus"], "seed", "{file}");
    }
}

#[test]
fn each_alert_has_a_severity_a_duration_and_a_runbook() {
    let runbooks = read(RUNBOOKS);
    let headings: BTreeSet<&str> = runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let mut named = BTreeSet::new();
    let rules = rules();
    for rule in &rules {
        let name = alert(rule);
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        // By these Gardener's Alertmanager of the seed groups it, and passes it on.
        for (label, value) in [
            ("service", "dependency-watchdog"),
            ("type", "seed"),
            ("visibility", "operator"),
        ] {
            assert_eq!(rule["labels"][label], *value, "{name} {label}");
        }
        assert!(rule["for"].is_string(), "{name}");
        for annotation in ["summary", "description"] {
            assert!(
                rule["annotations"][annotation].is_string(),
                "{name} {annotation}"
            );
        }
        let anchor = name.to_lowercase();
        let runbook = format!("{PUBLISHED}#{anchor}");
        assert_eq!(rule["annotations"]["runbook_url"], *runbook, "{name}");
        assert!(headings.contains(name), "{RUNBOOKS} has no heading {name}");
        assert!(named.insert(name), "{name} is there twice");
    }
    assert_eq!(headings, named, "{RUNBOOKS}");
}

#[test]
fn each_alert_is_tested_to_fire_and_to_be_silent() {
    let series = series();
    let named = Regex::new(r"series: '(\w+)").unwrap();
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for file in TESTS {
        let path = format!("{MONITORING}/tests/{file}");
        for test in yaml(&path)["tests"].as_array().unwrap() {
            assert!(!test["input_series"].as_array().unwrap().is_empty());
            for expected in test["alert_rule_test"].as_array().unwrap() {
                let name = expected["alertname"].as_str().unwrap().to_owned();
                let alerts = expected["exp_alerts"].as_array().unwrap();
                if alerts.is_empty() {
                    &mut silent
                } else {
                    &mut fires
                }
                .insert(name);
            }
        }
        // Nor do the tests make series up.
        for name in named.captures_iter(&read(&path)) {
            let name = &name[1];
            assert!(name == "up" || series.contains_key(name), "{path}: {name}");
        }
    }
    let names: BTreeSet<String> = rules().iter().map(|rule| alert(rule).to_owned()).collect();
    assert_eq!(fires, names);
    assert_eq!(silent, names);
    // Each of these is run.
    let files = fs::read_dir(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(MONITORING)
            .join("tests"),
    );
    let files: BTreeSet<String> = files
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, TESTS.map(str::to_owned).into());
    let script = read("hack/check-alerts.sh");
    for file in TESTS {
        assert!(script.contains(&format!("\"$scratch\"/{file}")), "{file}");
    }
}
