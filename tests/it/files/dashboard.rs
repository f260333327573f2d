//! The dashboard asks for what there is, and says what it shows. That its queries are well formed
//! is tested by promtool: `make check-dashboard`.

use std::collections::BTreeSet;

use super::monitoring::{MONITORING, named, read, series, yaml};
use regex::Regex;
use serde_json::Value;

const FILE: &str = "dashboard.json";
const RUNBOOKS: &str = "docs/alerts.md";
/// Panels that one screen after the other can show in an outage: judgement.
const MOST: usize = 26;
/// The units that fit a query with this part; the first part that it has counts. All histograms are
/// of seconds.
const UNITS: [(&str, &[&str]); 5] = [
    ("histogram_quantile(", &["s"]),
    ("time()", &["s"]),
    ("_bytes{", &["bytes"]),
    ("rate(", &["ops", "reqps", "wps"]),
    ("", &["short"]),
];
/// What Prometheus adds to every series.
const ADDED: [&str; 2] = ["job", "instance"];
/// Panels of both Grafana and Gardener's Plutono, which branched off from Grafana 7.5.
const TYPES: [&str; 4] = ["row", "stat", "table", "timeseries"];
/// The form of Grafana 7.5; later ones bring it up to theirs when they load it.
const SCHEMA: u64 = 27;

fn text() -> String {
    read(&format!("{MONITORING}/{FILE}"))
}

fn dashboard() -> Value {
    serde_json::from_str(&text()).unwrap()
}

/// Rows and panels in the order in which they are shown.
fn all(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"].as_array().unwrap().iter().collect()
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let mut panels = all(dashboard);
    panels.retain(|panel| panel["type"] != "row");
    assert!((1..=MOST).contains(&panels.len()), "{}", panels.len());
    panels
}

fn title(panel: &Value) -> &str {
    panel["title"].as_str().unwrap()
}

/// Each query: the title of its panel, what it asks for, and its legend.
fn queries(dashboard: &Value) -> Vec<(&str, &str, &str)> {
    let mut queries = Vec::new();
    for panel in panels(dashboard) {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{}", title(panel));
        for target in targets {
            let [query, legend] = ["expr", "legendFormat"].map(|it| target[it].as_str().unwrap());
            queries.push((title(panel), query, legend));
        }
    }
    for marks in dashboard["annotations"]["list"].as_array().unwrap() {
        let [name, query] = ["name", "expr"].map(|it| marks[it].as_str().unwrap());
        queries.push((name, query, ""));
    }
    queries
}

/// The words of this list, which commas part.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|it| !it.is_empty())
}

#[test]
fn queries_name_series_and_labels_that_there_are() {
    let (series, named) = (series(), named());
    let selected = Regex::new(r"\b([a-z_]+)\{([^}]*)\}(\[[^\]]*\])?").unwrap();
    let matcher = Regex::new(r#"(\w+)(?:=~|!~|!=|=)"([^"]*)""#).unwrap();
    let grouped = Regex::new(r"\bby \(([^)]*)\)").unwrap();
    let legends = Regex::new(r"\{\{(\w+)\}\}").unwrap();
    let dashboard = dashboard();
    for (title, query, legend) in queries(&dashboard) {
        // A series that Prometheus makes of the alert rules.
        if query.starts_with("ALERTS{alertname=~\"DependencyWatchdog.*\"") {
            continue;
        }
        let mut labels: BTreeSet<&str> = ADDED.into();
        let mut of_job = 0;
        for it in selected.captures_iter(query) {
            let mut its: BTreeSet<&str> = ADDED.into();
            let mut help = String::new();
            if &it[1] != "up" {
                let Some(series) = series.get(&it[1]) else {
                    panic!("{title}: {}", &it[1]);
                };
                its.extend(&series.labels);
                help = series.help.to_lowercase();
                // What only rises is shown by how fast it does, and nothing else has a rate.
                assert_eq!(series.cumulative, it.get(3).is_some(), "{title}: {query}");
            }
            for it in matcher.captures_iter(&it[2]) {
                assert!(its.contains(&it[1]), "{title}: {}", &it[0]);
                match &it[1] {
                    "job" => {
                        assert_eq!(&it[2], "$job", "{title}");
                        of_job += 1;
                    }
                    // Verdicts and reasons are named where they are made, and in docs/status.md.
                    "verdict" | "reason" => assert_eq!(it[2].to_lowercase(), "healthy", "{title}"),
                    _ => {
                        for value in it[2].split('|') {
                            assert!(help.contains(value), "{title}: {value}: {help}");
                        }
                    }
                }
            }
            labels.extend(its);
        }
        // Each of these has its selector.
        assert!(of_job > 0, "{title}: {query}");
        let names = named.find_iter(query).count() + query.matches("up{").count();
        assert_eq!(of_job, names, "{title}: {query}");

        let mut left = labels.clone();
        for it in grouped.captures_iter(query) {
            left = words(it.get(1).unwrap().as_str()).collect();
            assert!(left.is_subset(&labels), "{title}: {query}");
            let buckets = query.contains("_bucket");
            assert_eq!(left.remove("le"), buckets, "{title}: {query}");
        }
        if query.contains("sum(") {
            left.clear();
        }
        for it in legends.captures_iter(legend) {
            assert!(left.contains(&it[1]), "{title}: {legend}: {query}");
        }
    }
}

#[test]
fn panels_say_what_they_show_and_in_what() {
    let dashboard = dashboard();
    let mut titles = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = title(panel);
        assert!(titles.insert(title), "{title} is there twice");
        let said = panel["description"].as_str().unwrap_or_default();
        assert!(said.ends_with('.') && said.len() > 20, "{title}: {said}");
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let asks = |(part, _): &&(&str, &[&str])| query.contains(part);
            let (_, fit) = UNITS.iter().find(asks).unwrap();
            assert!(
                unit.is_some_and(|it| fit.contains(&it)),
                "{title}: {unit:?}"
            );
        }
    }
}

/// In each runbook, and before the first `*Alerts that fire*`.
#[test]
fn panels_are_those_that_runbooks_name() {
    let runbooks = read(RUNBOOKS);
    let (intro, sections) = runbooks.split_once("\n## DependencyWatchdog").unwrap();
    assert!(intro.contains("*Alerts that fire*"));
    let mut named: BTreeSet<String> = ["Alerts that fire".to_owned()].into();
    let title_of = Regex::new(r"\*([^*]+)\*").unwrap();
    for section in sections.split("\n## DependencyWatchdog") {
        let panels = section.split_once("Panels:").map(|(_, it)| it);
        let panels = panels.and_then(|it| it.split("\n\n").next());
        let panels = panels.unwrap_or_default();
        assert!(title_of.is_match(panels), "{section}");
        let titles = title_of.captures_iter(panels);
        named.extend(titles.map(|it| it[1].replace('\n', " ")));
    }
    let dashboard = dashboard();
    let shown: BTreeSet<String> = panels(&dashboard)
        .into_iter()
        .map(|it| title(it).to_owned())
        .collect();
    assert_eq!(shown, named);
}

#[test]
fn the_datasource_is_for_the_reader_to_choose() {
    let dashboard = dashboard();
    // No object, which came with Grafana 8.3, and without braces: Flux would take `${...}` for a variable of its own.
    let chosen = "$datasource";
    for panel in panels(&dashboard) {
        assert_eq!(panel["datasource"], chosen, "{}", title(panel));
    }
    assert!(!text().contains("${"));
}

#[test]
fn plutono_can_load_it() {
    let dashboard = dashboard();
    assert_eq!(dashboard["schemaVersion"], SCHEMA);
    for panel in all(&dashboard) {
        let kind = panel["type"].as_str().unwrap();
        assert!(TYPES.contains(&kind), "{}: {kind}", title(panel));
    }
}

/// What kube-state-metrics is to show of each cluster is in its status.
#[test]
fn kube_state_metrics_is_asked_for_fields_that_there_are() {
    let config = read(&format!("{MONITORING}/kube-state-metrics.yaml"));
    let crd = yaml("crds/dependency-watchdog.gardener.cloud_clusterhealths.yaml");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = Regex::new(r"\[status, (\w+)\]").unwrap();
    let fields: Vec<&str> = fields
        .captures_iter(&config)
        .map(|it| it.get(1).unwrap().as_str())
        .collect();
    assert!(fields.len() > 4, "{fields:?}");
    for field in fields {
        let there = schema["properties"]["status"]["properties"].get(field);
        assert!(there.is_some(), "{field}");
    }
}

/// A ConfigMap in which the sidecar of Grafana's chart finds it, and that of Gardener's Plutono.
#[test]
fn a_config_map_brings_the_dashboard_to_grafana_and_plutono() {
    let kustomization = yaml(&format!("{MONITORING}/kustomization.yaml"));
    let generated = &kustomization["configMapGenerator"][0];
    let labels = &generated["options"]["labels"];
    assert_eq!(labels["grafana_dashboard"], "1");
    assert_eq!(labels["dashboard.monitoring.gardener.cloud/seed"], "true");
    let file = generated["files"][0].as_str().unwrap();
    let (_, path) = file.split_once('=').unwrap();
    assert_eq!(path, FILE);
    let uid = dashboard()["uid"].as_str().unwrap().to_owned();
    // Grafana takes no longer one.
    assert!(uid.len() <= 40, "{uid}");
    assert_eq!(file, format!("{uid}.json={FILE}"));
}

/// `hack/check-dashboard.sh` finds the queries by their lines.
#[test]
fn each_query_has_a_line_of_its_own() {
    let line = Regex::new(r#"(?m)^ *"expr": ".*",?$"#).unwrap();
    let dashboard = dashboard();
    assert_eq!(line.find_iter(&text()).count(), queries(&dashboard).len());
    let script = read("hack/check-dashboard.sh");
    assert!(script.contains(&format!("{MONITORING}/{FILE}")));
}
