//! Each right of the shipped roles is taken away in turn: what stops is told, with the right that is
//! missing.

mod exec;
mod weeder;

use super::{Scenario, prober::all_are_restored, steps::staffed};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{ClusterHealth, ClusterHealthStatus, Protection};
use dependency_watchdog_e2e::{
    Env, Operator, Seed, Shoot, apply,
    wait::{self, Look, seen},
};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    coordination::v1::{Lease, LeaseSpec},
    rbac::v1::PolicyRule,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

use Given::{Deselected, Elected, Nothing, Outage, Outages, Unrecorded};
use Told::{Ahead, Degraded, InLog, Undetermined};

const ON_SEED: &str = include_str!("../../../manifests/prober/rbac.yaml");
const IN_SHOOT: &str = include_str!("../../../manifests/shoot/rbac.yaml");
const REPLICAS_ONLY: &str =
    include_str!("../../../manifests/examples/replicas-only/admissionpolicy.yaml");
const GUIDE: &str = include_str!("../../../docs/security.md");
const LEASE: &str = "dwd-prober-leader-election";

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = super::scenarios![
        e2e_each_right_is_needed_and_missed_aloud,
        e2e_rights_are_those_that_are_tried_and_documented: 0,
    ];
    all.extend(exec::all());
    all.extend(weeder::all());
    all
}

/// In which the right would be used by an operator that starts.
enum Given {
    /// A healthy shoot, and a policy for it.
    Nothing,
    /// It has no ClusterHealth, and its policy has just been changed.
    Unrecorded,
    /// No policy selects it any more.
    Deselected,
    /// Its nodes are silent.
    Outage,
    /// They are silent twice while it runs, so that what is told is told again.
    Outages,
    /// The operator stands for election. The Lease is there, and free, if so it says.
    Elected { free: bool },
}

/// Where it is told that the right is missing.
enum Told {
    /// In a line of the log.
    InLog,
    /// In the ClusterHealth: the shoot cannot be judged, for this reason.
    Undetermined(&'static str),
    /// In the ClusterHealth: this is amiss with a dependent.
    Degraded(&'static str),
    /// On the policy, while nothing is amiss yet.
    Ahead,
}

struct Row(&'static str, &'static str, Given, Told);

/// By resource and verb, in the order of the roles.
const SEED: [Row; 24] = [
    Row("secrets", "list", Nothing, Undetermined("SeedUnreadable")),
    Row("secrets", "watch", Nothing, InLog),
    Row("deployments", "get", Nothing, Degraded("ScalingForbidden")),
    Row("deployments", "patch", Nothing, Ahead),
    Row("deployments", "patch", Outage, Degraded("ScalingForbidden")),
    Row("clusterhealths", "create", Unrecorded, InLog),
    Row("clusterhealths", "delete", Deselected, InLog),
    Row("clusterhealths", "list", Nothing, InLog),
    Row("clusterhealths", "patch", Unrecorded, InLog),
    Row("clusterhealths", "watch", Nothing, InLog),
    Row("clusterhealths/status", "patch", Unrecorded, InLog),
    Row("probepolicies", "list", Nothing, InLog),
    Row("probepolicies", "patch", Nothing, Ahead),
    Row("probepolicies", "patch", Outage, InLog),
    Row("probepolicies", "watch", Nothing, InLog),
    Row("probepolicies/status", "patch", Unrecorded, InLog),
    Row("events", "create", Outage, InLog),
    Row("events", "patch", Outages, InLog),
    Row("clusters", "list", Nothing, InLog),
    Row("clusters", "watch", Nothing, InLog),
    Row("machines", "list", Nothing, Undetermined("SeedUnreadable")),
    Row("leases", "create", Elected { free: false }, InLog),
    Row("leases", "get", Elected { free: true }, InLog),
    Row("leases", "update", Elected { free: true }, InLog),
];

const SHOOT: [Row; 2] = [
    Row("nodes", "list", Nothing, Undetermined("Forbidden")),
    Row("leases", "list", Nothing, Undetermined("Forbidden")),
];

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

/// Each right that the roles grant: resource and verb.
fn rights(yaml: &str) -> Result<BTreeSet<(String, String)>> {
    let mut rights = BTreeSet::new();
    for rule in rules(yaml)? {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                ensure!(
                    rights.insert((resource.clone(), verb.clone())),
                    "{verb} {resource} is granted twice"
                );
            }
        }
    }
    Ok(rights)
}

/// The roles without this right.
fn without(yaml: &str, resource: &str, verb: &str) -> Result<String> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    let rules = objects
        .iter_mut()
        .filter_map(|object| object.get_mut("rules")?.as_array_mut())
        .flatten();
    for rule in rules {
        if rule.pointer("/resources/0").and_then(Value::as_str) != Some(resource) {
            continue;
        }
        let verbs = rule.get_mut("verbs").and_then(Value::as_array_mut);
        verbs
            .context("a rule without verbs")?
            .retain(|it| it != verb);
    }
    // A rule without verbs is refused.
    for object in &mut objects {
        if let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) {
            rules.retain(|rule| rule["verbs"] != json!([]));
        }
    }
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    Ok(documents.join("\n---\n"))
}

/// Of rows: resource and verb of each.
fn tried(rows: &[Row]) -> BTreeSet<(&'static str, &'static str)> {
    rows.iter().map(|row| (row.0, row.1)).collect()
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

async fn e2e_rights_are_those_that_are_tried_and_documented(_: Env) -> Result<()> {
    for (yaml, tried, heading) in [
        (ON_SEED, tried(&SEED), "### The prober"),
        (weeder::ROLES, weeder::tried(), "### The weeder"),
        (exec::ROLE, exec::tried(), "### Checks that run commands"),
        (IN_SHOOT, tried(&SHOOT), "## In a shoot"),
    ] {
        let rows = section(heading)?;
        let documented = |(resource, verb): (&str, &str)| {
            let line = format!("| `{verb}` `{resource}` |");
            rows.lines().any(|it| it.starts_with(&line))
        };
        for &right in &tried {
            ensure!(
                documented(right),
                "docs/security.md does not say below {heading} what {right:?} is for"
            );
        }
        let granted = rights(yaml)?;
        let granted = granted
            .iter()
            .map(|(resource, verb)| (&**resource, &**verb));
        let granted: BTreeSet<_> = granted.collect();
        ensure!(granted == tried, "granted: {granted:?}, tried: {tried:?}");
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

async fn e2e_each_right_is_needed_and_missed_aloud(env: Env) -> Result<()> {
    let seed = env.own_seed("withdrawn").await?;
    let shoot = staffed(env.shoot("withdrawn").on(&seed)).await?;
    let bed = Bed { seed, shoot };
    bed.shoot.policy()?.apply().await?;
    bed.is_well("first").await?;
    for (place, row) in SEED.iter().enumerate() {
        let Row(resource, verb, ..) = row;
        let what = || format!("without {verb} {resource}");
        bed.misses(row, place).await.with_context(what)?;
    }
    for (place, row) in SHOOT.iter().enumerate() {
        let Row(resource, verb, ..) = row;
        let what = || format!("without {verb} {resource} in the shoot");
        bed.misses_in_shoot(row, &format!("prober-shoot-{place}"))
            .await
            .with_context(what)?;
    }
    bed.may_be_granted_by_namespace().await?;
    bed.is_well("last").await?;
    all_are_restored(&bed.shoot).await
}

/// A seed of its own, and a shoot with its policy.
struct Bed {
    seed: Arc<Seed>,
    shoot: Shoot,
}

impl Bed {
    /// Waits until an operator with all its rights finds the shoot healthy and unprotected.
    async fn is_well(&self, name: &str) -> Result<()> {
        let _operator = Operator::start(&self.seed, name, "prober", &[])?;
        self.shoot.is_found("Healthy").await?;
        self.shoot.is_protected(Protection::None).await?;
        self.shoot.policy()?.says("Degraded", "AsExpected").await?;
        Ok(())
    }

    async fn misses(&self, Row(resource, verb, given, told): &Row, place: usize) -> Result<()> {
        self.prepare(given, place).await?;
        let name = &format!("prober-{place}");
        let lost = without(ON_SEED, resource, verb)?;
        let client = self.seed.client()?;
        apply(&client, &lost).await?;
        is_granted(&client, PROBER, (ON_SEED, resource, verb), false).await?;

        let operator = match given {
            Elected { .. } => {
                let kubeconfig = self.seed.operator_kubeconfig()?;
                Operator::replica(&self.seed, name, "prober", &kubeconfig, &[])?
            }
            _ => Operator::start(&self.seed, name, "prober", &[])?,
        };
        if let Outages = given {
            for _ in 0..2 {
                self.shoot.cut_all();
                self.shoot.is_protected(Protection::Active).await?;
                self.shoot.restore_all();
                self.shoot.is_protected(Protection::None).await?;
            }
        }
        let lacks = match told {
            Ahead => format!("{verb} {resource}."),
            _ => format!("cannot {verb} resource \"{resource}\""),
        };
        let words = [&*lacks, "grant"];
        self.is_told(told, &words, &operator).await?;
        // The same process goes on when it has the right, or the next that is started.
        apply(&client, ON_SEED).await?;
        is_granted(&client, PROBER, (ON_SEED, resource, verb), true).await?;
        match given {
            Outage => {
                self.shoot.is_protected(Protection::Active).await?;
                self.shoot.restore_all();
                self.shoot.is_protected(Protection::None).await?;
            }
            Deselected => self.shoot.policy()?.apply().await?,
            Elected { .. } => delete_lease(&self.seed, LEASE).await?,
            Unrecorded => {
                self.shoot.is_found("Healthy").await?;
            }
            Nothing | Outages => {}
        }
        Ok(())
    }

    async fn misses_in_shoot(&self, Row(resource, verb, _, told): &Row, name: &str) -> Result<()> {
        let client = self.shoot.client()?;
        apply(&client, &without(IN_SHOOT, resource, verb)?).await?;
        is_granted(&client, PROBE, (IN_SHOOT, resource, verb), false).await?;
        let operator = Operator::start(&self.seed, name, "prober", &[])?;
        let words = [&*format!("may not {verb} {resource}"), "grant"];
        self.is_told(told, &words, &operator).await?;
        apply(&client, IN_SHOOT).await?;
        is_granted(&client, PROBE, (IN_SHOOT, resource, verb), true).await?;
        self.shoot.is_found("Healthy").await?;
        Ok(())
    }

    /// What is not granted in all namespaces is granted in that of the shoot, and the policy changed.
    async fn may_be_granted_by_namespace(&self) -> Result<()> {
        let client = self.seed.client()?;
        let right = (ON_SEED, "deployments", "patch");
        apply(&client, &without(ON_SEED, right.1, right.2)?).await?;
        is_granted(&client, PROBER, right, false).await?;
        let _operator = Operator::start(&self.seed, "by-namespace", "prober", &[])?;
        let (policy, namespace) = (self.shoot.policy()?, self.shoot.namespace());
        let told = policy.says("Degraded", "RightsMissing").await?;
        let lacks = format!("patch deployments.apps/kube-controller-manager in {namespace}");
        ensure!(told.contains(&lacks), "{told}");

        let kubectl = self.seed.kubectl();
        let role = "create role own --verb=patch --resource=deployments.apps -n";
        let binding = "create rolebinding own --role=own --serviceaccount=garden:dwd-prober -n";
        for command in [role, binding] {
            let command: Vec<&str> = command.split(' ').chain([namespace]).collect();
            kubectl.run(&command).await?;
        }
        let question =
            format!("auth can-i patch deployments.apps/any --as {PROBER} -n {namespace}");
        let question: Vec<&str> = question.split(' ').collect();
        wait::until("the right to be granted", async || {
            kubectl.run(&question).await.map(Look::Met)
        })
        .await?;
        let interval = json!({"probeInterval": "1.5s"});
        policy.with(&interval).apply().await?;
        self.shoot.policy()?.says("Degraded", "AsExpected").await?;
        apply(&client, ON_SEED).await?;
        is_granted(&client, PROBER, right, true).await
    }

    async fn prepare(&self, given: &Given, place: usize) -> Result<()> {
        match given {
            Nothing | Outages => {}
            Unrecorded => {
                let healths: Api<ClusterHealth> = Api::all(self.seed.client()?);
                healths
                    .delete(self.shoot.namespace(), &DeleteParams::default())
                    .await?;
                // Another spec for each row, so that there is something new to say of it.
                let interval = json!({"probeInterval": format!("1.{place:03}s")});
                self.shoot.policy()?.with(&interval).apply().await?;
            }
            Deselected => self.shoot.policy()?.delete().await?,
            Outage => self.shoot.cut_all(),
            Elected { free } => {
                if *free {
                    create_lease(&self.seed, LEASE).await?;
                }
            }
        }
        Ok(())
    }

    async fn is_told(&self, told: &Told, words: &[&str], operator: &Operator) -> Result<()> {
        let reported = async |what: &str, met: &dyn Fn(&ClusterHealthStatus) -> bool| {
            let all = |status: &ClusterHealthStatus| {
                let message = status.message.as_deref().unwrap_or_default();
                met(status) && words.iter().all(|word| message.contains(word))
            };
            self.shoot.reports(&format!("{what}: {words:?}"), all).await
        };
        match told {
            InLog => is_logged(operator, words).await?,
            Undetermined(reason) => {
                reported(reason, &|status| status.reason.as_deref() == Some(reason)).await?;
            }
            Degraded(reason) => {
                let degraded = |status: &ClusterHealthStatus| {
                    let mut conditions = status.conditions.iter();
                    conditions.any(|it| it.type_ == "Degraded" && it.reason == *reason)
                };
                reported(reason, &degraded).await?;
            }
            Ahead => {
                let policy = self.shoot.policy()?;
                wait::until(&format!("the policy to tell: {words:?}"), async || {
                    let message = policy.says("Degraded", "RightsMissing").await?;
                    let told = words.iter().all(|word| message.contains(word));
                    seen(told, message)
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// Waits until a line of the log has all of these words.
async fn is_logged(operator: &Operator, words: &[&str]) -> Result<()> {
    let what = format!("the log to tell: {words:?}");
    wait::until(&what, async || {
        let log = operator.process.log()?.replace("\\\"", "\"");
        let told = log
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)));
        seen(told, log)
    })
    .await
}

fn leases(seed: &Seed) -> Result<Api<Lease>> {
    Ok(Api::namespaced(seed.client()?, "garden"))
}

/// Creates the Lease of this name, which nobody holds.
async fn create_lease(seed: &Seed, name: &str) -> Result<()> {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    lease.spec = Some(LeaseSpec::default());
    leases(seed)?.create(&PostParams::default(), &lease).await?;
    Ok(())
}

async fn delete_lease(seed: &Seed, name: &str) -> Result<()> {
    let leases = leases(seed)?;
    if leases.get_opt(name).await?.is_some() {
        leases.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The ServiceAccounts: on the seed, and in the shoot.
const PROBER: &str = "system:serviceaccount:garden:dwd-prober";
const PROBE: &str = "system:serviceaccount:kube-system:dependency-watchdog-probe";

/// Waits until the API server grants a right of these roles, or does not any more.
async fn is_granted(
    client: &Client,
    user: &str,
    (roles, resource, verb): (&str, &str, &str),
    granted: bool,
) -> Result<()> {
    let mut rules = rules(roles)?.into_iter();
    let rule = rules.find(|rule| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|it| it == resource) && rule.verbs.iter().any(|it| it == verb)
    });
    let rule = rule.context("no such rule")?;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let namespace = match (resource, user) {
        ("leases", PROBE) => Some("kube-node-lease"),
        ("leases", _) => Some("garden"),
        _ => None,
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let first = |list: Option<Vec<String>>| list.into_iter().flatten().next();
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: some(user),
            resource_attributes: Some(ResourceAttributes {
                group: first(rule.api_groups),
                resource: some(resource),
                subresource: some(subresource),
                name: first(rule.resource_names),
                namespace: namespace.and_then(some),
                verb: some(verb),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let what = format!("{verb} {resource} to be granted: {granted}");
    wait::until(&what, async || {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let allowed = answer.status.context("no answer")?.allowed;
        seen(allowed == granted, allowed)
    })
    .await
}
