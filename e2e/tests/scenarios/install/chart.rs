//! The chart: it renders what the manifests have, refuses what makes no sense, and installs, upgrades and
//! uninstalls as its README says.

use super::{OURS, PROBER, WEEDER, deployed, documented, installed, leads};
use crate::scenarios::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{Env, Helm, Seed, wait};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

const CHART: &str = "charts/dependency-watchdog";
const README: &str = include_str!("../../../../charts/dependency-watchdog/README.md");
/// Labels that say who installs: Helm, of which release, or kustomize.
const HELMS: [&str; 3] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];
/// The other labels that Kubernetes recommends for every object, but for that of the component.
const RECOMMENDED: [&str; 3] = [
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
];
/// With which the chart also has what `manifests/monitoring` has.
const MONITORED: [&str; 2] = [
    "--set",
    "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true",
];
const KEEP: &str = "helm.sh/resource-policy";

pub(super) fn all() -> Vec<Scenario> {
    crate::scenarios::scenarios![
        e2e_the_chart_installs_what_the_manifests_install: 0,
        e2e_the_chart_is_installed_upgraded_and_uninstalled_as_documented,
    ]
}

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(yaml: &str) -> Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    let mut objects = Objects::new();
    for object in documents.into_iter().filter(|it| !it.is_null()) {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let name = format!(
            "{}/{}/{}",
            text("/kind").context("no kind")?,
            text("/metadata/namespace").unwrap_or_default(),
            text("/metadata/name").context("no name")?
        );
        ensure!(!objects.contains_key(&name), "{name} is there twice");
        objects.insert(name, object);
    }
    Ok(objects)
}

/// Objects that this chart renders in the namespace garden.
async fn render(helm: &Helm, chart: &str, values: &[&str]) -> Result<Objects> {
    let template = ["template", "release", chart, "--namespace", "garden"];
    objects(&helm.run(&[&template, values].concat()).await?)
}

/// Objects that the chart renders, which have the labels of Helm and of Kubernetes.
async fn rendered(helm: &Helm, values: &[&str]) -> Result<Objects> {
    let rendered = render(helm, CHART, values).await?;
    for (name, object) in &rendered {
        for label in HELMS.iter().chain(&RECOMMENDED) {
            let label = label.replace('/', "~1");
            let there = object.pointer(&format!("/metadata/labels/{label}"));
            ensure!(there.is_some(), "{name} has no {label}");
        }
    }
    Ok(rendered)
}

/// Takes away what may differ: labels that say who installs, the order of a container's variables, and
/// that Helm keeps definitions.
fn settled(objects: &mut Objects) {
    for object in objects.values_mut() {
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = object.pointer_mut(labels).and_then(Value::as_object_mut) {
                labels.retain(|label, _| !HELMS.contains(&&**label));
            }
        }
        let env = object.pointer_mut("/spec/template/spec/containers/0/env");
        if let Some(env) = env.and_then(Value::as_array_mut) {
            env.sort_by_key(|variable| variable.to_string());
        }
        if object.pointer("/metadata/annotations") == Some(&json!({KEEP: "keep"}))
            && let Some(metadata) = object.pointer_mut("/metadata")
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
}

fn are_the_same(mut ours: Objects, mut theirs: Objects) -> Result<()> {
    settled(&mut ours);
    settled(&mut theirs);
    ensure!(
        ours.keys().eq(theirs.keys()),
        "the chart: {:?}\nthe manifests: {:?}",
        ours.keys(),
        theirs.keys()
    );
    for ((name, ours), theirs) in ours.iter().zip(theirs.values()) {
        ensure!(
            ours == theirs,
            "{name}\nthe chart: {ours}\nthe manifests: {theirs}"
        );
    }
    Ok(())
}

async fn e2e_the_chart_installs_what_the_manifests_install(env: Env) -> Result<()> {
    let seed = env.seed().await?;
    let helm = Helm::of(&seed)?;
    helm.run(&["lint", "--strict", CHART]).await?;

    let manifests = objects(&seed.kubectl().run(&["kustomize", "manifests"]).await?)?;
    ensure!(manifests.len() > 20, "{:?}", manifests.keys());
    let ours = rendered(&helm, &[]).await?;
    for object in ours.values() {
        let kept = object.pointer("/metadata/annotations") == Some(&json!({KEEP: "keep"}));
        let definition = object.get("kind") == Some(&json!("CustomResourceDefinition"));
        ensure!(kept == definition, "{object}");
    }
    are_the_same(ours, manifests.clone())?;

    let kustomize = ["kustomize", "manifests/monitoring"];
    let mut monitored = objects(&seed.kubectl().run(&kustomize).await?)?;
    monitored.extend(manifests);
    are_the_same(rendered(&helm, &MONITORED).await?, monitored)?;

    let gardener = ["kustomize", "manifests/gardener"];
    let gardener = objects(&seed.kubectl().run(&gardener).await?)?;
    let values = format!("{CHART}/values-gardener.yaml");
    are_the_same(rendered(&helm, &["--values", &values]).await?, gardener)?;

    // A package has what the links lead to. Where they were dropped, as Flux drops them, nothing is
    // installed without its definitions.
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().context("no UTF-8")?;
    helm.run(&["package", CHART, "--destination", folder])
        .await?;
    let package = format!(
        "{folder}/dependency-watchdog-{}.tgz",
        env!("CARGO_PKG_VERSION")
    );
    let linked = render(&helm, CHART, &MONITORED).await?;
    ensure!(
        render(&helm, &package, &MONITORED).await? == linked,
        "the package differs"
    );
    // Links that lead nowhere, as in a copy of the folder alone.
    let dropped = format!("{folder}/dropped");
    let find = "cp -R charts/dependency-watchdog \"$TO\" && find \"$TO\" -type l -delete";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let to = [("TO", &*dropped)];
    seed.kubectl().script_in(&root, find, &to).await?;
    is_refused(&helm, &dropped, &[], "Flux drops").await?;

    let rehearsal = ["kustomize", "manifests/examples/rehearsal"];
    let rehearsal = objects(&seed.kubectl().run(&rehearsal).await?)?;
    are_the_same(
        rendered(&helm, &["--set", "rehearsal=true"]).await?,
        rehearsal,
    )?;

    // The example of further rights grants what these values grant, also to users.
    let examples = ["kustomize", "manifests/examples/other-dependents"];
    let example = objects(&seed.kubectl().run(&examples).await?)?;
    let dependents = r#"prober.dependents=[
        {"apiGroup": "apps", "resource": "statefulsets", "names": ["my-controller"]},
        {"apiGroup": "druid.gardener.cloud", "resource": "etcds", "names": ["etcd-main"]}]"#;
    let secrets = "prober.kubeConfigSecretNames={my-kubeconfig}";
    let ours = rendered(&helm, &["--set-json", dependents, "--set", secrets]).await?;
    let rules = |objects: &Objects, role: &str| {
        let role = objects.get(&format!("ClusterRole//{role}"));
        let rules = role.and_then(|role| role.get("rules")?.as_array().cloned());
        rules.unwrap_or_default()
    };
    let prober = "dwd-prober-other-dependents";
    let users = "dependency-watchdog-other-dependents";
    for (role, in_example) in [("dwd-prober", prober), (users, users)] {
        let granted = rules(&example, in_example);
        let same = !granted.is_empty() && rules(&ours, role).starts_with(&granted);
        ensure!(same, "{role}: {ours:?}");
    }

    commands_in_pods_are_granted(&helm, &seed).await?;
    nonsense_is_refused(&helm).await?;
    values_do_what_they_say(&helm).await?;
    what_is_off_is_left_out(&helm).await
}

/// Commands in pods are granted only where that is asked for, as the example grants them.
async fn commands_in_pods_are_granted(helm: &Helm, seed: &Seed) -> Result<()> {
    let examples = ["kustomize", "manifests/examples/exec-checks"];
    let examples = objects(&seed.kubectl().run(&examples).await?)?;
    ensure!(examples.len() == 2, "{:?}", examples.keys());
    let by_itself = rendered(helm, &[]).await?;
    let ours = rendered(helm, &["--set", "prober.execChecks.enabled=true"]).await?;
    for (name, example) in &examples {
        ensure!(!by_itself.contains_key(name), "{name}");
        for part in ["rules", "roleRef", "subjects"] {
            let ours = ours.get(name).and_then(|it| it.get(part));
            ensure!(ours == example.get(part), "{name}: {ours:?}");
        }
    }
    ensure!(ours.len() == by_itself.len() + 2, "{:?}", ours.keys());
    Ok(())
}

async fn nonsense_is_refused(helm: &Helm) -> Result<()> {
    for (values, said) in [
        (&["--set", "imagge.tag=x"][..], "'imagge' not allowed"),
        (&["--set", "prober.settings.logFormat=xml"], "/logFormat"),
        // Without ports, each could be reached.
        (
            &["--set-json", "weeder.apiServerPorts=[]"],
            "/weeder/apiServerPorts",
        ),
        // Nor are rights without names given to whom the schema is in the way.
        (
            &[
                "--skip-schema-validation",
                "--set-json",
                "prober.kubeConfigSecretNames=[]",
            ],
            "kubeConfigSecretNames is empty",
        ),
    ] {
        is_refused(helm, CHART, values, said).await?;
    }
    Ok(())
}

async fn is_refused(helm: &Helm, chart: &str, values: &[&str], said: &str) -> Result<()> {
    let template = [&["template", "release", chart], values].concat();
    let answer = helm.try_run(&template).await?;
    let refused = !answer.success && answer.stderr.contains(said);
    ensure!(refused, "{values:?}: {answer:?}");
    Ok(())
}

/// Of each kind of value one: strings that are put together, names that look like numbers, numbers that are large,
/// values that are null, lists.
async fn values_do_what_they_say(helm: &Helm) -> Result<()> {
    const PROBER: &str = "Deployment/garden/dwd-prober";
    for (values, object, pointer, wanted) in [
        (
            "{global: {imageRegistry: r.example.com}, image: {digest: 'sha256:@'}}",
            PROBER,
            "/spec/template/spec/containers/0/image",
            json!(format!(
                "r.example.com/dependency-watchdog@sha256:{}",
                "a".repeat(64)
            )),
        ),
        (
            "namespaceOverride: '1e3'",
            "ClusterRoleBinding//dwd-weeder",
            "/subjects/0/namespace",
            json!("1e3"),
        ),
        (
            "prober: {settings: {kubeApiQps: null, kubeApiBurst: 10000000}}",
            PROBER,
            "/spec/template/spec/containers/0/env/0",
            json!({"name": "DWD_KUBE_API_BURST", "value": "10000000"}),
        ),
        (
            "prober: {extraArgs: [--dry-run]}",
            PROBER,
            "/spec/template/spec/containers/0/args/2",
            json!("--dry-run"),
        ),
        (
            "networkPolicy: {dnsPorts: [5353]}",
            "NetworkPolicy/garden/dwd-weeder",
            "/spec/egress/0/ports",
            json!([{"port": 5353, "protocol": "UDP"}, {"port": 5353, "protocol": "TCP"}]),
        ),
        (
            "verticalPodAutoscaler: {enabled: true}",
            "VerticalPodAutoscaler/garden/dwd-prober",
            "/spec/updatePolicy/updateMode",
            json!("Initial"),
        ),
    ] {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), values.replace('@', &"a".repeat(64)))?;
        let path = file.path().display().to_string();
        let rendered = rendered(helm, &["--values", &path]).await?;
        let found = rendered.get(object).and_then(|it| it.pointer(pointer));
        ensure!(found == Some(&wanted), "{values}: {found:?}, not {wanted}");
    }

    // What is told afterwards is about what is installed.
    for (values, said) in [
        ("rehearsal=true", "This is a rehearsal"),
        ("prober.enabled=false,crds.keep=false", "restore --all"),
    ] {
        let install = ["install", "release", CHART, "--namespace", "garden"];
        let dry_run = ["--dry-run=client", "--set", values];
        let answer = helm.run(&[&install[..], &dry_run].concat()).await?;
        let (_, notes) = answer.split_once("\nNOTES:\n").context("no notes")?;
        ensure!(notes.contains(said), "{values}: {notes}");
    }
    Ok(())
}

/// What is switched off leaves nothing behind.
async fn what_is_off_is_left_out(helm: &Helm) -> Result<()> {
    let all = rendered(helm, &[]).await?;
    for (value, left_out) in [
        ("prober.enabled", "dwd-prober"),
        ("weeder.enabled", "dwd-weeder"),
        ("crds.install", "CustomResourceDefinition"),
        ("networkPolicy.enabled", "NetworkPolicy"),
        ("flowSchema.enabled", "FlowSchema"),
    ] {
        let less = rendered(helm, &["--set", &format!("{value}=false")]).await?;
        let wanted = all.keys().filter(|name| !name.contains(left_out));
        ensure!(less.keys().eq(wanted), "{value}: {:?}", less.keys());
        ensure!(less.len() < all.len(), "{value}: {:?}", less.keys());
    }
    Ok(())
}

/// Runs a command of the chart's README, word by word.
async fn readme(seed: &Seed, helm: &Helm, command: &str) -> Result<String> {
    ensure!(
        README.lines().any(|line| line == command),
        "the chart's README does not have: {command}"
    );
    let mut words = command.split(' ');
    let program = words.next();
    let words: Vec<&str> = words.collect();
    match program {
        Some("helm") => helm.run(&words).await,
        _ => seed.kubectl().run(&words).await,
    }
}

const REHEARSE: &str = "helm install dependency-watchdog charts/dependency-watchdog --namespace garden \
     --wait --set rehearsal=true";
const END_OF_REHEARSAL: &str = "helm upgrade dependency-watchdog charts/dependency-watchdog \
     --namespace garden --wait --set rehearsal=false";
const INSTALL: &str =
    "helm install dependency-watchdog charts/dependency-watchdog --namespace garden --wait";
const UPGRADE: &str =
    "helm upgrade dependency-watchdog charts/dependency-watchdog --namespace garden --wait";
const TAKE_OVER: &str = "helm install dependency-watchdog charts/dependency-watchdog \
     --namespace garden --take-ownership --force-conflicts";
const UNINSTALL: &str = "helm uninstall dependency-watchdog --namespace garden --wait";

async fn e2e_the_chart_is_installed_upgraded_and_uninstalled_as_documented(env: Env) -> Result<()> {
    let seed = env.bare_seed("chart").await?;
    let helm = Helm::of(&seed)?;
    let kubectl = seed.kubectl();
    kubectl.run(&["create", "namespace", "garden"]).await?;
    readme(&seed, &helm, REHEARSE).await?;
    let prober = deployed(&seed, PROBER).await?;
    documented(&seed, "kubectl apply -f docs/examples/probe-policy.yaml").await?;
    let rehearses = [
        "wait",
        "--for=condition=Ready",
        "probepol/shoots",
        "--timeout=180s",
    ];
    kubectl.run(&rehearses).await?;
    let held = ["-n", "garden", "get", "leases", "-o", "name"];
    let held = kubectl.run(&held).await?;
    ensure!(held.is_empty(), "a rehearsal holds {held}");
    let exit = prober.process.terminate(wait::LIMIT).await?;
    ensure!(exit.success(), "{exit}");
    let notes = readme(&seed, &helm, END_OF_REHEARSAL).await?;
    ensure!(notes.contains("kubectl delete probepol --all"), "{notes}");

    // It runs as it is rendered, with the rights that are rendered.
    let prober = deployed(&seed, PROBER).await?;
    let weeder = deployed(&seed, WEEDER).await?;
    leads(&seed, PROBER).await?;
    leads(&seed, WEEDER).await?;
    documented(&seed, "kubectl apply -f docs/examples/weed-policy.yaml").await?;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "probepol/shoots",
        "weedpol/shoots",
        "--timeout=180s",
    ];
    kubectl.run(&ready).await?;

    let before = installed(&seed).await?;
    readme(&seed, &helm, UPGRADE).await?;
    let after = installed(&seed).await?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");

    // Another version keeps the definitions and what they define.
    let kept = definitions_and_policies(&seed).await?;
    let mut upgrade: Vec<&str> = UPGRADE.split(' ').skip(1).collect();
    upgrade.extend(["--set", "prober.replicas=3,image.tag=v2"]);
    helm.run(&upgrade).await?;
    let replicas = ["-n", "garden", "get", "deployment", PROBER, "-o"];
    let replicas = [&replicas[..], &["jsonpath={.spec.replicas}"]].concat();
    let replicas = kubectl.run(&replicas).await?;
    ensure!(replicas == "3", "{replicas}");
    ensure!(definitions_and_policies(&seed).await? == kept, "not kept");

    readme(&seed, &helm, "kubectl delete probepol --all").await?;
    readme(&seed, &helm, UNINSTALL).await?;
    for operator in [prober, weeder] {
        let exit = operator.process.terminate(wait::LIMIT).await?;
        ensure!(exit.success(), "{exit}");
    }
    let left = ["get", super::KINDS, "-A", "-l", OURS, "-o", "name"];
    let left = kubectl.run(&left).await?;
    let definition = |line: &str| line.starts_with("customresourcedefinition");
    ensure!(left.lines().all(definition), "{left}");
    ensure!(left.lines().count() == 3, "{left}");
    kubectl.run(&["get", "weedpol", "shoots"]).await?;

    // A second time it finds its definitions. Then they go, too.
    readme(&seed, &helm, INSTALL).await?;
    readme(&seed, &helm, UNINSTALL).await?;
    let crds = "kubectl delete crd -l app.kubernetes.io/name=dependency-watchdog";
    readme(&seed, &helm, crds).await?;
    let leases = "kubectl -n garden delete lease dwd-prober-leader-election \
         dwd-weeder-leader-election --ignore-not-found";
    readme(&seed, &helm, leases).await?;
    super::nothing_is_left(&seed).await?;

    // What kubectl has applied is taken over, and may be changed.
    documented(&seed, "kubectl apply --server-side -k manifests").await?;
    let uids = uids(&seed).await?;
    readme(&seed, &helm, TAKE_OVER).await?;
    upgrade.push("--force-conflicts");
    helm.run(&upgrade).await?;
    ensure!(self::uids(&seed).await? == uids, "something was made anew");

    // And the way back: Helm has forgotten it, and all of it is there.
    let apply = "kubectl apply --server-side --force-conflicts -k manifests";
    readme(&seed, &helm, apply).await?;
    let forget = "kubectl -n garden delete secret -l owner=helm,name=dependency-watchdog";
    readme(&seed, &helm, forget).await?;
    let releases = helm.run(&["list", "--all-namespaces", "--short"]).await?;
    ensure!(releases.trim().is_empty(), "{releases}");
    ensure!(self::uids(&seed).await? == uids, "something was made anew");
    Ok(())
}

/// The UIDs of definitions and policies.
async fn definitions_and_policies(seed: &Seed) -> Result<String> {
    let get = ["get", "crds,probepol,weedpol", "-o"];
    let uids = "jsonpath={.items[*].metadata.uid}";
    seed.kubectl().run(&[&get[..], &[uids]].concat()).await
}

/// The UIDs of all that is installed.
async fn uids(seed: &Seed) -> Result<String> {
    let get = ["get", super::KINDS, "-A", "-l", OURS, "-o"];
    let uids = "jsonpath={.items[*].metadata.uid}";
    seed.kubectl().run(&[&get[..], &[uids]].concat()).await
}
