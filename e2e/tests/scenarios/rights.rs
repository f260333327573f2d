//! The rights of the shipped roles. Whatever a scenario shows is done with these and no others; a run of all scenarios
//! shows that each of them is used.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{Env, PROBE, PROBER, User, WEEDER};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const IN_PODS: &str = include_str!("../../../manifests/examples/exec-checks/rbac.yaml");
const REPLICAS_ONLY: &str =
    include_str!("../../../manifests/examples/replicas-only/admissionpolicy.yaml");
const GUIDE: &str = include_str!("../../../docs/security.md");

/// Roles, whose they are, and where they are documented.
const ROLES: [(&str, User, &str); 3] = [
    (
        include_str!("../../../manifests/prober/rbac.yaml"),
        PROBER,
        "### The prober",
    ),
    (
        include_str!("../../../manifests/weeder/rbac.yaml"),
        WEEDER,
        "### The weeder",
    ),
    (
        include_str!("../../../manifests/shoot/rbac.yaml"),
        PROBE,
        "## In a shoot",
    ),
];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_rights_are_documented_and_limited_by_name: 0]
}

/// The rules of all roles in a file.
fn rules(yaml: &str) -> Result<Vec<PolicyRule>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    let rules = objects.into_iter().filter_map(|mut object| {
        let rules = object.get_mut("rules")?.take();
        Some(serde_json::from_value::<Vec<PolicyRule>>(rules))
    });
    let rules: Result<Vec<_>, _> = rules.collect();
    Ok(rules?.concat())
}

/// Each right that the roles grant: verb and resource.
fn rights(yaml: &str) -> Result<BTreeSet<(String, String)>> {
    let mut rights = BTreeSet::new();
    for rule in rules(yaml)? {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                ensure!(
                    rights.insert((verb.clone(), resource.clone())),
                    "{verb} {resource} is granted twice"
                );
            }
        }
    }
    Ok(rights)
}

/// What the roles grant and nobody has asked for, on any API server of this run.
pub(crate) fn unused(env: &Env) -> Result<Vec<String>> {
    let mut unused = Vec::new();
    for (yaml, user, _) in ROLES {
        let used = env.used_rights(&user)?;
        for (verb, resource) in rights(yaml)?.difference(&used) {
            unused.push(format!("{verb} {resource} of {}", user.name));
        }
    }
    Ok(unused)
}

/// What the guide says below this heading.
fn section(heading: &str) -> Result<&'static str> {
    let (_, below) = GUIDE
        .split_once(&format!("\n{heading}\n"))
        .with_context(|| format!("docs/security.md has no heading {heading}"))?;
    Ok(below
        .split_once("\n#")
        .map_or(below, |(section, _)| section))
}

async fn e2e_rights_are_documented_and_limited_by_name(_: Env) -> Result<()> {
    let in_pods = (IN_PODS, PROBER, "### Checks that run commands");
    for (yaml, _, heading) in ROLES.into_iter().chain([in_pods]) {
        let rows = section(heading)?;
        let granted = rights(yaml)?;
        for (verb, resource) in &granted {
            let row = format!("| `{verb}` `{resource}` |");
            ensure!(
                rows.lines().any(|it| it.starts_with(&row)),
                "docs/security.md does not say below {heading} what {verb} {resource} is for"
            );
        }
        let documented = rows.lines().filter(|it| it.starts_with("| `")).count();
        ensure!(
            documented == granted.len(),
            "{documented} rights are documented below {heading}, granted are {granted:?}"
        );
        for rule in rules(yaml)? {
            let all = rule.api_groups.iter().chain(&rule.resources).flatten();
            ensure!(
                all.chain(&rule.verbs).all(|word| !word.contains('*')),
                "a wildcard: {rule:?}"
            );
            let resources = rule.resources.clone().unwrap_or_default();
            let sensitive = ["secrets", "deployments"];
            ensure!(
                !resources.iter().any(|it| sensitive.contains(&&**it))
                    || rule.resource_names.is_some_and(|names| !names.is_empty()),
                "not limited by name: {resources:?}"
            );
        }
    }
    // Whatever of apps/v1 can be granted, since each has a pod template.
    let objects: Vec<Value> = serde_saphyr::from_multiple(REPLICAS_ONLY)?;
    let guarded = objects
        .iter()
        .find_map(|it| it.pointer("/spec/matchConstraints/resourceRules/0/resources"));
    ensure!(
        guarded == Some(&json!(["deployments", "replicasets", "statefulsets"])),
        "{guarded:?}"
    );
    Ok(())
}
