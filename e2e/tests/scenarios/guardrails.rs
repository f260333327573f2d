//! What who writes a policy must be allowed to do himself: each row of the table in docs/security.md.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::FINALIZER;
use dependency_watchdog_e2e::{
    Env, Seed,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::fs;

const GUIDE: &str = include_str!("../../../docs/security.md");
const OTHER_DEPENDENTS: &str =
    include_str!("../../../manifests/examples/other-dependents/rbac.yaml");

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_who_writes_a_policy_must_be_allowed_what_it_does: 0]
}

/// Arguments for kubectl by which somebody asks.
type Author = &'static [&'static str];

/// Who only writes policies, an account that syncs from Git with all rights, an administrator.
const AUTHORS: [Author; 3] = [
    &["--as=guardrails-author"],
    &["--as=system:serviceaccount:flux-system:policies"],
    &["--as=guardrails-administrator", "--as-group=system:masters"],
];
const PROBER: Author = &["--as=system:serviceaccount:garden:dwd-prober"];

/// The rights of the first two. The second has the role of the example as well.
fn rights() -> [Value; 6] {
    let ours = "dependency-watchdog.gardener.cloud";
    let role = |name: &str, rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules})
    };
    let binding = |role: &str, subject: &Value| {
        let name = format!("{role}-{}", subject["name"].as_str().unwrap_or_default());
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let author = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "guardrails-author"});
    let account = json!({"kind": "ServiceAccount", "namespace": "flux-system", "name": "policies"});
    let write = ["get", "create", "patch", "update"];
    [
        role(
            "guardrails-write",
            json!([{"apiGroups": [ours], "resources": ["probepolicies", "weedpolicies"], "verbs": write}]),
        ),
        role(
            "guardrails-act",
            json!([
                {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
            ]),
        ),
        binding("guardrails-write", &author),
        binding("guardrails-write", &account),
        binding("guardrails-act", &account),
        binding("dependency-watchdog-other-dependents", &account),
    ]
}

/// The first dependent, and others.
fn dependents(others: &[Value]) -> Value {
    let first = json!({
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kube-controller-manager"},
    });
    [&[first], others].concat().into()
}

/// A policy for no cluster, with these dependents beside the first and these checks.
fn probe_policy(name: &str, others: &[Value], checks: &[Value]) -> Value {
    json!({"apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "ProbePolicy",
    "metadata": {"name": name}, "spec": {
        "mode": "DryRun",
        "kubeConfigSecretName": "shoot-access-dependency-watchdog-probe",
        "kcmNodeMonitorGraceDuration": "40s",
        "clusterSelector": {"matchLabels": {"scenario": "guardrails"}},
        "dependentResourceInfos": dependents(others),
        "checks": checks,
    }})
}

fn etcd(timeout: &str) -> Value {
    json!({"ref": {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "name": "etcd-main"},
        "scaleUp": {"timeout": timeout}})
}

fn etcdctl(subcommand: &str) -> Value {
    json!({"name": "etcd", "exec": {"podSelector": {"matchLabels": {"app": "etcd"}},
        "command": ["etcdctl", "endpoint", subcommand]}})
}

fn weed_policy(name: &str) -> Value {
    json!({"apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": name}, "spec": {"mode": "DryRun",
            "namespaceSelector": {"matchLabels": {"scenario": "guardrails"}},
            "servicesAndDependantSelectors": {"etcd-main-client": {"podSelectors": [
                {"matchLabels": {"app": "kube-apiserver"}}]}}}})
}

/// What somebody asks for.
enum Ask {
    Create(Value),
    /// To apply this, which needs no right to read the object.
    Apply(String),
    /// To merge this into an object that an administrator has made.
    Change(&'static str, Value),
}

/// Each row of the guide's table: what is asked for, and whether each author may.
fn rows() -> [(&'static str, Ask, [bool; 3]); 12] {
    let change = |spec: Value| Ask::Change("probepol/guarded", json!({"spec": spec}));
    let create = |others: &[_], checks: &[_]| Ask::Create(probe_policy("new", others, checks));
    let (etcd_main, health) = ([etcd("1m")], [etcdctl("health")]);
    let (all, guarded) = ([true; 3], [false, true, true]);
    [
        (
            "a ProbePolicy of the three Deployments",
            create(&[], &[]),
            all,
        ),
        (
            "one with a check that runs a command",
            create(&[], &health),
            guarded,
        ),
        (
            "one with another dependent",
            create(&etcd_main, &[]),
            guarded,
        ),
        (
            "another interval, with such a check and such a dependent",
            change(json!({"probeInterval": "20s"})),
            all,
        ),
        (
            "`mode: Enforce` for every cluster, with these two",
            change(json!({"mode": "Enforce", "clusterSelector": null, "priority": 9})),
            all,
        ),
        (
            "another command of that check",
            change(json!({"checks": [etcdctl("status")]})),
            guarded,
        ),
        (
            "another timeout of that dependent",
            change(json!({"dependentResourceInfos": dependents(&[etcd("2m")])})),
            guarded,
        ),
        (
            "both taken out",
            Ask::Change("probepol/guarded", probe_policy("guarded", &[], &[])),
            all,
        ),
        (
            "a finalizer",
            Ask::Change(
                "probepol/guarded",
                json!({"metadata": {"finalizers": ["example.com/held"]}}),
            ),
            all,
        ),
        ("a WeedPolicy", Ask::Create(weed_policy("new")), guarded),
        (
            "another duration of a WeedPolicy",
            Ask::Change("weedpol/guarded", json!({"spec": {"watchDuration": "3m"}})),
            guarded,
        ),
        (
            "a label of a WeedPolicy",
            Ask::Change(
                "weedpol/guarded",
                json!({"metadata": {"labels": {"team": "one"}}}),
            ),
            all,
        ),
    ]
}

async fn e2e_who_writes_a_policy_must_be_allowed_what_it_does(env: Env) -> Result<()> {
    let seed = env.seed().await?;
    let role = OTHER_DEPENDENTS.split("---").last().context("no role")?;
    seed.apply(role).await?;
    let objects = [
        probe_policy("guarded", &[etcd("1m")], &[etcdctl("health")]),
        weed_policy("guarded"),
    ];
    let objects = rights().into_iter().chain(objects);
    let objects: Vec<String> = objects.map(|it| it.to_string()).collect();
    seed.apply(&objects.join("\n---\n")).await?;
    // An API server takes a while to hear of roles.
    for author in &AUTHORS[..2] {
        wait::until("the authors to have their rights", async || {
            let answer = answer(&seed, author, &rows()[0].1).await?;
            seen(answer.is_none(), format!("{answer:?}"))
        })
        .await?;
    }

    let mut table = String::new();
    for (what, ask, allowed) in rows() {
        table += &format!("| {what} |");
        for (author, allowed) in AUTHORS.iter().zip(allowed) {
            let refusal = answer(&seed, author, &ask).await?;
            let right = refusal.is_none() == allowed;
            ensure!(right, "{what}, {author:?}: {refusal:?}");
            if let Some(refusal) = refusal {
                ensure!(refusal.contains("must be allowed to"), "{what}: {refusal}");
            }
            table += if allowed { " yes |" } else { " no |" };
        }
        table += "\n";
    }
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "garden", "name": "another-leader-election"}});
    let policy = |metadata: &str, spec: &str| {
        Ask::Apply(format!(
            "{{apiVersion: dependency-watchdog.gardener.cloud/v1alpha1, kind: ProbePolicy, \
             metadata: {{name: guarded, {metadata}}}, spec: {{{spec}}}}}"
        ))
    };
    let held = format!("finalizers: [{FINALIZER}]");
    let alone = "but its own finalizer";
    for (ask, refused) in [
        (Ask::Create(lease), "dependency-watchdog-leases"),
        (policy(&held, ""), ""),
        (policy("finalizers: [example.com/held]", ""), alone),
        (policy("labels: {team: one}", ""), alone),
        (policy(&held, "suspend: true"), alone),
    ] {
        let refusal = answer(&seed, PROBER, &ask).await?.unwrap_or_default();
        let right = refusal.is_empty() == refused.is_empty() && refusal.contains(refused);
        ensure!(right, "of the prober, {refused:?}: {refusal}");
    }
    ensure!(
        GUIDE.contains(&table),
        "docs/security.md does not have this table:\n{table}"
    );
    Ok(())
}

/// Asks the API server to do so, and to change nothing. Returns its refusal, if it refuses.
async fn answer(seed: &Seed, author: Author, ask: &Ask) -> Result<Option<String>> {
    let file = tempfile::NamedTempFile::new()?;
    let path = file.path().display().to_string();
    let patch;
    let request = match ask {
        Ask::Create(object) => {
            fs::write(file.path(), object.to_string())?;
            vec!["create", "-f", &path]
        }
        Ask::Apply(object) => {
            fs::write(file.path(), object)?;
            vec!["apply", "--server-side", "--force-conflicts", "-f", &path]
        }
        Ask::Change(object, change) => {
            patch = change.to_string();
            vec!["patch", object, "--type=merge", "-p", &patch]
        }
    };
    let output = seed
        .kubectl()
        .try_run(&[author, &["--dry-run=server"], &request].concat())
        .await?;
    Ok((!output.success).then_some(output.stderr))
}
