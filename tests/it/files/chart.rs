//! What the chart says by itself is true: its links, its version, its settings, its table of values.
//! What it renders is compared with the manifests in e2e/tests/scenarios/install/chart.rs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use clap::CommandFactory as _;
use dependency_watchdog::{
    api::{crd_file_name, crds},
    cli::Cli,
};
use serde_json::Value;

use super::{is_generated, path, read, yaml};

const CHART: &str = "charts/dependency-watchdog";
const BEGIN: &str = "<!-- values: begin -->\n";
const END: &str = "<!-- values: end -->";
/// What the templates set themselves, or what has no meaning in a pod.
const NO_SETTINGS: [&str; 5] = [
    "enable-leader-election",
    "health-bind-addr",
    "kubeconfig",
    "leader-election-namespace",
    "metrics-bind-addr",
];

/// The schema, with what it refers to in its place.
fn schema() -> Value {
    fn resolve(part: &mut Value, all: &Value) {
        let target = part
            .get("$ref")
            .and_then(|it| it.as_str()?.strip_prefix('#'));
        if let Some(target) = target {
            let mut there = all.pointer(target).unwrap().clone();
            // What is said here counts more than what is said there.
            there
                .as_object_mut()
                .unwrap()
                .extend(part.as_object().unwrap().clone());
            there.as_object_mut().unwrap().remove("$ref");
            *part = there;
        }
        match part {
            Value::Object(members) => members.values_mut().for_each(|it| resolve(it, all)),
            Value::Array(items) => items.iter_mut().for_each(|it| resolve(it, all)),
            _ => {}
        }
    }
    let all: Value = serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap();
    let mut resolved = all.clone();
    resolve(&mut resolved, &all);
    resolved
}

fn values() -> Value {
    yaml(&format!("{CHART}/values.yaml"))
}

/// Of each kind, so that a new one is not forgotten. Helm ends with an error at a link that leads nowhere.
#[test]
fn its_definitions_are_links_to_those_of_the_kinds() {
    let folder = path(&format!("{CHART}/files/crds"));
    let names: Vec<String> = crds().iter().map(crd_file_name).collect();
    for name in &names {
        let target = Path::new("../../../../crds").join(name);
        assert_eq!(fs::read_link(folder.join(name)).unwrap(), target);
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), names.len());
}

#[test]
fn its_version_is_that_of_the_operator() {
    let chart = yaml(&format!("{CHART}/Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

/// The chart's default is its appVersion. A kubelet pulls `latest` even where the image is there.
#[test]
fn the_image_has_the_version_of_the_operator() {
    assert_eq!(values()["image"]["tag"], "");
    assert_eq!(
        values()["prometheusRule"]["runbookUrl"],
        "https://dependency-watchdog.example.com/alerts.html"
    );
    for file in ["base", "monitoring"] {
        let text = read(&format!("manifests/{file}/kustomization.yaml"));
        let version = format!("app.kubernetes.io/version: {}\n", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&version), "{file}");
    }
    for file in [
        "manifests/base/kustomization.yaml",
        "manifests/examples/gitops/argocd/application.yaml",
        "manifests/examples/gitops/flux/operator.yaml",
        "manifests/examples/gitops/flux/release.yaml",
        "docs/install.md",
    ] {
        let text = read(file);
        let words: Vec<&str> = text.split_whitespace().collect();
        let named = words
            .windows(2)
            .filter(|it| ["tag:", "newTag:"].contains(&it[0]));
        let tags: BTreeSet<&str> = named.map(|it| it[1]).collect();
        assert_eq!(tags, [env!("CARGO_PKG_VERSION")].into(), "{file}");
    }
}

/// `--kube-api-qps` is the setting kubeApiQps, which the template makes DWD_KUBE_API_QPS again.
fn setting(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(1);
        name + &initial.to_uppercase() + rest
    })
}

#[test]
fn each_flag_is_a_setting_and_has_the_same_name_in_its_description() {
    let (command, schema) = (Cli::command(), schema());
    for component in ["prober", "weeder"] {
        let flags = command.find_subcommand(component).unwrap().get_arguments();
        let flags = flags.filter(|flag| !flag.is_hide_set());
        let flags = flags.map(|flag| flag.get_long().unwrap());
        let wanted: BTreeMap<String, &str> = flags
            .filter(|flag| !NO_SETTINGS.contains(flag))
            .map(|flag| (setting(flag), flag))
            .collect();
        assert!(wanted.len() > 5, "{wanted:?}");
        let settings = &schema["properties"][component]["properties"]["settings"]["properties"];
        let settings = settings.as_object().unwrap();
        let there: BTreeSet<&String> = settings.keys().collect();
        assert_eq!(there, wanted.keys().collect(), "{component}");
        for (name, flag) in wanted {
            let description = settings[&name]["description"].as_str().unwrap();
            assert!(description.starts_with(&format!("`--{flag}`")), "{name}");
        }
    }
}

/// A row for each value that may be set, by name.
fn rows(prefix: &str, schema: &Value, default: Option<&Value>, rows: &mut Vec<String>) {
    for (name, part) in schema["properties"].as_object().unwrap() {
        // Those of a parent chart, and of gardenlet.
        if prefix.is_empty() && ["enabled", "gardener", "global"].contains(&&**name) {
            continue;
        }
        let full = format!("{prefix}{name}");
        let default = default.and_then(|default| default.get(name));
        match part.get("description") {
            None => self::rows(&format!("{full}."), part, default, rows),
            Some(description) => {
                let description = description.as_str().unwrap();
                let default = default.map(|it| format!("`{it}`")).unwrap_or_default();
                rows.push(format!("| `{full}` | {default} | {description} |\n"));
            }
        }
    }
}

/// The table in the chart's README; `make chart` writes it.
#[test]
fn every_value_is_described() {
    let mut table = vec!["| value | default | |\n|---|---|---|\n".to_owned()];
    rows("", &schema(), Some(&values()), &mut table);
    let file = format!("{CHART}/README.md");
    is_generated(&file, BEGIN, END, &table.concat());
}
