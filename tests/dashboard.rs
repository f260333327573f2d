//! The dashboard asks for what there is, and says what it shows. That its queries are well formed
//! is tested by promtool: `make check-dashboard`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod monitoring;

use std::collections::BTreeSet;

use monitoring::{MONITORING, named, read, series, yaml};
use regex::Regex;
use serde_json::Value;

const FILE: &str = "dashboard.json";
/// The units that fit a query with this part; the first part that it has counts. All histograms are
/// of seconds.
const UNITS: [(&str, &[&str]); 9] = [
    ("histogram_quantile(", &["s"]),
    ("_seconds_sum{", &["s"]),
    ("_protected_seconds_total{", &["s"]),
    ("time()", &["s"]),
    ("_bytes{", &["bytes"]),
    ("rate(process_cpu", &["short"]),
    ("rate(", &["ops", "reqps", "wps"]),
    (" / ", &["percentunit"]),
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

/// Rows and panels in the order in which they are shown, those in folded rows among them.
fn all(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels
        .flat_map(|panel| {
            let folded = panel["panels"].as_array().into_iter().flatten();
            [panel].into_iter().chain(folded)
        })
        .collect()
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let mut panels = all(dashboard);
    panels.retain(|panel| panel["type"] != "row");
    assert!(panels.len() > 40, "{}", panels.len());
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
    let (series, named) = (series(true), named());
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

/// In a panel, or as a mark on all of them.
#[test]
fn each_metric_has_a_panel() {
    let dashboard = dashboard();
    let shown: BTreeSet<String> = queries(&dashboard)
        .iter()
        .flat_map(|(_, query, _)| {
            named()
                .find_iter(query)
                .map(|it| it.as_str().to_owned())
                .collect::<Vec<_>>()
        })
        .map(|series| whole(&series).to_owned())
        .collect();
    let missing: BTreeSet<String> = series(true)
        .into_keys()
        .map(|series| whole(&series).to_owned())
        .filter(|metric| !shown.contains(metric))
        .collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

/// The metric of a series: of a histogram, without what tells its series apart.
fn whole(series: &str) -> &str {
    let suffixes = ["_bucket", "_sum", "_count"];
    let suffix = suffixes.iter().find_map(|it| series.strip_suffix(it));
    suffix.unwrap_or(series)
}

/// By nothing, as where no protection has ended, would be shown as a number that is none.
#[test]
fn nothing_is_divided_by_nothing() {
    let dashboard = dashboard();
    let mut ratios = 0;
    for (title, query, _) in queries(&dashboard) {
        let Some((_, divisor)) = query.split_once(" / ") else {
            continue;
        };
        ratios += 1;
        let limit = divisor.starts_with("process_max_fds{");
        assert!(limit || divisor.contains(" > 0"), "{title}: {query}");
    }
    assert!(ratios > 2, "{ratios}");
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
            if panel["type"] == "table" && query.starts_with("ALERTS") {
                continue;
            }
            let asks = |(part, _): &&(&str, &[&str])| query.contains(part);
            let (_, fit) = UNITS.iter().find(asks).unwrap();
            assert!(
                unit.is_some_and(|it| fit.contains(&it)),
                "{title}: {unit:?}"
            );
        }
    }
}

#[test]
fn the_datasource_and_the_job_are_for_the_reader_to_choose() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("datasource"), Some("job")]);
    // Without braces: Flux would take `${...}` for a variable of its own.
    let chosen = "$datasource";
    assert_eq!(variables[1]["datasource"], chosen);
    let asked = variables[1]["query"].as_str().unwrap();
    let name = named().find(asked).unwrap().as_str();
    assert!(series(false).contains_key(name), "{asked}");
    for panel in panels(&dashboard) {
        assert_eq!(panel["datasource"], chosen, "{}", title(panel));
    }
    assert!(!text().contains("${"));
}

/// `make picture` draws it anew.
#[test]
fn the_picture_shows_the_panels_of_the_first_row() {
    let picture = read("docs/pictures/dashboard.svg");
    let dashboard = dashboard();
    let panels = all(&dashboard);
    let rows = panels
        .iter()
        .enumerate()
        .filter(|(_, it)| it["type"] == "row");
    let [first, second] = [0, 1].map(|row| rows.clone().nth(row).unwrap().0);
    let shown: Vec<&str> = panels[first..second].iter().map(|it| title(it)).collect();
    assert!(shown.len() > 10, "{shown:?}");
    let missing = shown
        .iter()
        .filter(|it| !picture.contains(&format!(">{it}</text>")));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn plutono_can_load_it() {
    let dashboard = dashboard();
    assert_eq!(dashboard["schemaVersion"], SCHEMA);
    for panel in all(&dashboard) {
        let kind = panel["type"].as_str().unwrap();
        assert!(TYPES.contains(&kind), "{}: {kind}", title(panel));
        // Objects that name a data source came with Grafana 8.3.
        let of = &panel["datasource"];
        assert!(of.is_null() || of.is_string(), "{}", title(panel));
    }
}

#[test]
fn panels_are_laid_out_without_overlap() {
    let dashboard = dashboard();
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in all(&dashboard) {
        let title = title(panel);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title}: {cell:?}");
        }
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
