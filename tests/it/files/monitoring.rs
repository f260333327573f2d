//! Alert rules, their tests and runbooks, and the dashboard name what there is. What they do is tested by promtool:
//! `make check-alerts check-dashboard`.

use std::collections::BTreeSet;

use crate::support::Exposition;
use dependency_watchdog::{prober, weeder};
use regex::Regex;
use serde_json::Value;

use super::{read, yaml};

const RULES: &str = "manifests/monitoring/prometheusrule.yaml";
const TESTS: [&str; 2] = [
    "manifests/monitoring/tests/prober.yaml",
    "manifests/monitoring/tests/weeder.yaml",
];
const DASHBOARD: &str = "manifests/monitoring/dashboard.json";
const RUNBOOKS: &str = "docs/alerts.md";
/// Where the book has them, on a host that is a placeholder until it is published.
const PUBLISHED: &str = "https://dependency-watchdog.example.com/alerts.html";

/// What a pattern's group matches in a text.
fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    let all = pattern.captures_iter(text);
    all.map(|it| it[1].replace('\n', " ")).collect()
}

#[test]
fn series_and_labels_that_are_named_are_there() {
    let (_, prober) = prober::instruments::Instruments::new();
    let (_, weeder) = weeder::instruments::Instruments::new();
    let mut series = BTreeSet::new();
    let mut labels: BTreeSet<String> = ["alertname", "instance", "job", "le"]
        .map(str::to_owned)
        .into();
    for shown in [prober, weeder].map(|it| Exposition::of(&it)) {
        series.extend(shown.series());
        labels.extend(shown.0.keys().flat_map(|it| shown.labels(it)));
    }
    for path in [RULES, TESTS[0], TESTS[1], DASHBOARD, RUNBOOKS] {
        // Names of jobs have hyphens, so they are no match.
        let named = found(r"\b((?:dependency_watchdog|process)_\w+)", &read(path));
        assert!(named.len() > 3, "{path}: {named:?}");
        let unknown: Vec<_> = named.difference(&series).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    for grouped in found(r"\bby \(([^)]*)\)", &read(DASHBOARD)) {
        let mut words = grouped.split(", ").filter(|it| !it.is_empty());
        assert!(words.all(|it| labels.contains(it)), "{grouped}");
    }
}

#[test]
fn each_alert_has_a_severity_a_duration_and_a_runbook_and_is_tested_both_ways() {
    let rules = yaml(RULES);
    let groups = rules["spec"]["groups"].as_array().unwrap().iter();
    let mut alerts = BTreeSet::new();
    for rule in groups.flat_map(|it| it["rules"].as_array().unwrap()) {
        let name = rule["alert"].as_str().unwrap();
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        assert!(rule["for"].is_string(), "{name}");
        let runbook = format!("{PUBLISHED}#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], *runbook, "{name}");
        assert!(alerts.insert(name.to_owned()), "{name} is there twice");
    }
    assert_eq!(found(r"(?m)^## (.*)$", &read(RUNBOOKS)), alerts);
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for file in TESTS.map(yaml) {
        let tests = file["tests"].as_array().unwrap().iter();
        for expected in tests.flat_map(|it| it["alert_rule_test"].as_array().unwrap()) {
            let is_silent = expected["exp_alerts"].as_array().unwrap().is_empty();
            let names = if is_silent { &mut silent } else { &mut fires };
            names.insert(expected["alertname"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!((&fires, &silent), (&alerts, &alerts));
}

/// Of a dashboard whose queries have a line each, by which `hack/check-dashboard.sh` finds them.
#[test]
fn panels_are_those_that_runbooks_name() {
    let text = read(DASHBOARD);
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let panels: Vec<&Value> = panels.filter(|it| it["type"] != "row").collect();
    let shown = panels
        .iter()
        .map(|it| it["title"].as_str().unwrap().to_owned());
    let runbooks = read(RUNBOOKS);
    let lists = found(r"(?s)Panels:(.*?)\n\n", &runbooks).into_iter();
    let mut named: BTreeSet<String> = lists.flat_map(|it| found(r"\*([^*]+)\*", &it)).collect();
    // Which the page begins with.
    named.insert("Alerts that fire".to_owned());
    assert_eq!(shown.collect::<BTreeSet<_>>(), named);
    let queries = panels
        .iter()
        .map(|it| it["targets"].as_array().unwrap().len());
    let marks = dashboard["annotations"]["list"].as_array().unwrap().len();
    let lines = Regex::new(r#"(?m)^ *"expr": ".*",?$"#).unwrap();
    assert_eq!(
        lines.find_iter(&text).count(),
        queries.sum::<usize>() + marks
    );
}

/// What kube-state-metrics is to show of each cluster is in its status.
#[test]
fn kube_state_metrics_is_asked_for_fields_that_there_are() {
    let config = read("manifests/monitoring/kube-state-metrics.yaml");
    let crd = yaml("crds/dependency-watchdog.gardener.cloud_clusterhealths.yaml");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = found(r"\[status, (\w+)\]", &config);
    assert!(fields.len() > 4, "{fields:?}");
    for field in fields {
        let there = schema["properties"]["status"]["properties"].get(&field);
        assert!(there.is_some(), "{field}");
    }
}
