//! What is installed: by the commands of docs/install.md, and run as it is deployed.

mod chart;
mod gitops;
mod weeder;

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored},
    steps::{KCM, are, staffed, taken},
};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{ProbePolicy, Protection};
use dependency_watchdog_e2e::{
    Env, Kubeconfig, Operator, Seed, Shoot, scripts,
    wait::{self, seen},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Pod, PodTemplateSpec},
    rbac::v1::ClusterRole,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const GUIDE: &str = include_str!("../../../docs/install.md");
const FIRST_POLICY: &str = include_str!("../../../docs/first-policy.md");
const RUNBOOKS: &str = include_str!("../../../docs/alerts.md");
pub(super) const PROBER: &str = "dwd-prober";
pub(super) const WEEDER: &str = "dwd-weeder";
/// All that is installed has this label.
const OURS: &str = "app.kubernetes.io/name=dependency-watchdog";
/// The kinds that are installed.
const KINDS: &str = "clusterrolebindings,clusterroles,customresourcedefinitions,deployments,\
    flowschemas,networkpolicies,poddisruptionbudgets,priorityclasses,rolebindings,roles,serviceaccounts,services,\
    validatingadmissionpolicies,validatingadmissionpolicybindings";

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = super::scenarios![
        e2e_what_is_installed_as_documented_protects_and_is_uninstalled,
        e2e_what_is_installed_is_accepted_wherever_and_as_often_as_it_is_applied: 0,
    ];
    all.extend(chart::all());
    all.extend(gitops::all());
    all.extend(weeder::all());
    all
}

/// A pod of a Deployment, as the downward API names it.
pub(super) fn pod_of(deployment: &str) -> String {
    format!("{deployment}-0")
}

/// Runs a command of the guides, word by word.
async fn documented(seed: &Seed, command: &str) -> Result<String> {
    let mut lines = GUIDE.lines().chain(FIRST_POLICY.lines()).map(str::trim);
    ensure!(
        lines.any(|line| line == command),
        "neither docs/install.md nor docs/first-policy.md has: {command}"
    );
    let mut words = command.split(' ').map(|word| word.trim_matches('\''));
    ensure!(words.next() == Some("kubectl"), "{command}");
    seed.kubectl().run(&words.collect::<Vec<_>>()).await
}

/// The commands of the guide in which this word occurs, as they stand together.
pub(super) fn script(word: &str) -> Result<&'static str> {
    scripts(GUIDE)
        .find(|script| script.contains(word))
        .with_context(|| format!("docs/install.md has no commands with {word}"))
}

async fn e2e_what_is_installed_as_documented_protects_and_is_uninstalled(env: Env) -> Result<()> {
    let seed = env.bare_seed("install").await?;
    let shoot = staffed(env.shoot("install").on(&seed)).await?;
    // Of the Shoot itself, so that the policy of the guide need not be changed.
    let grace = json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "8s"}});
    let patch = json!({"spec": {"shoot": {"spec": {"kubernetes": grace}}}});
    shoot.control_plane.patch_cluster(patch).await?;

    let namespace = shoot.namespace();
    let secret = shoot.control_plane.kubeconfig_secret();
    let delete = ["-n", namespace, "delete", "secret", secret];
    seed.kubectl().run(&delete).await?;
    let administrator = shoot.api_server().kubeconfig_file_of("admin")?;
    let administrator = administrator.display().to_string();
    let variables = [("SHOOT", &*administrator), ("NAMESPACE", namespace)];
    let create = script("create token")?;
    seed.kubectl().script(create, &variables).await?;

    seed.kubectl()
        .run(&["create", "namespace", "garden"])
        .await?;
    documented(&seed, "kubectl apply --server-side -f crds").await?;
    documented(&seed, "kubectl apply --server-side -k manifests").await?;
    documented(
        &seed,
        "kubectl -n garden rollout status deployment dwd-prober",
    )
    .await?;
    let operator = deployed(&seed, PROBER).await?;
    leads(&seed, PROBER).await?;
    documented(&seed, "kubectl apply -f docs/examples/probe-policy.yaml").await?;
    shoot.is_found("Healthy").await?;
    let shown = documented(&seed, "kubectl get probepol").await?;
    ensure!(shown.contains("DryRun"), "{shown}");
    let shown = documented(&seed, "kubectl get chealth").await?;
    ensure!(shown.contains(shoot.namespace()), "{shown}");
    documented(
        &seed,
        r#"kubectl patch probepol shoots --type merge -p '{"spec":{"mode":"Enforce"}}'"#,
    )
    .await?;

    seed.kubectl()
        .apply("manifests/examples/replicas-only")
        .await?;
    replicas_are_all_that_changes(&seed, &shoot).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(&shoot, COUNTS.map(taken)).await?;
    // The policy stays until all is given back, and the command with it.
    let delete = async || {
        documented(&seed, "kubectl delete probepol --all").await?;
        all_are_restored(&shoot).await
    };
    let recover = async || {
        is_being_deleted(&seed).await?;
        are(&shoot, COUNTS.map(taken)).await?;
        shoot.restore_all();
        Ok(())
    };
    tokio::try_join!(delete(), recover())?;
    documented(&seed, "kubectl delete -k manifests").await?;
    let exit = operator.process.terminate(wait::LIMIT).await?;
    ensure!(exit.success(), "{exit}");
    documented(
        &seed,
        "kubectl -n garden delete lease dwd-prober-leader-election",
    )
    .await?;
    nothing_is_left(&seed).await?;
    all_are_restored(&shoot).await
}

async fn e2e_what_is_installed_is_accepted_wherever_and_as_often_as_it_is_applied(
    env: Env,
) -> Result<()> {
    let seed = env.own_seed("applied").await?;
    for deployment in [PROBER, WEEDER] {
        let status = format!("kubectl -n garden rollout status deployment {deployment}");
        documented(&seed, &status).await?;
    }
    let before = installed(&seed).await?;
    for deployment in [PROBER, WEEDER] {
        let name = format!("deployment.apps/{deployment}");
        ensure!(before.contains(&name), "{before}");
    }
    documented(&seed, "kubectl apply --server-side -k manifests").await?;
    let after = installed(&seed).await?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");

    pod_security_is_satisfied(&seed).await?;
    roles_are_right(&seed).await?;
    the_runbooks_find_the_rights(&seed).await?;

    monitoring_is_for_this_namespace(&seed, "manifests/monitoring", "garden").await?;
    let standalone = "manifests/standalone/monitoring";
    monitoring_is_for_this_namespace(&seed, standalone, "dependency-watchdog").await?;

    documented(&seed, "kubectl apply --server-side -k manifests/standalone").await?;
    for name in [PROBER, WEEDER] {
        let namespace = ["-n", "dependency-watchdog", "get", "deployment", name];
        seed.kubectl().run(&namespace).await?;
        let binding = [
            "get",
            "clusterrolebinding",
            name,
            "-o",
            "jsonpath={.subjects[*].namespace}",
        ];
        let namespaces = seed.kubectl().run(&binding).await?;
        ensure!(namespaces == "dependency-watchdog", "{name}: {namespaces}");
    }
    Ok(())
}

/// Starts the operator as this Deployment does: with this command line, these variables, and a token
/// of its ServiceAccount.
pub(super) async fn deployed(seed: &Seed, deployment: &str) -> Result<Operator> {
    let pod = template(seed, deployment).await?;
    let pod = pod.spec.context("no pod")?;
    let account = pod.service_account_name.context("no ServiceAccount")?;
    let token = ["-n", "garden", "create", "token", &account];
    let token = seed.kubectl().run(&token).await?;
    let kubeconfig = Kubeconfig {
        token: token.trim().to_owned(),
        ..seed.operator_kubeconfig()?
    };
    let container = pod.containers.into_iter().next().context("no container")?;
    let command = container.command.clone().unwrap_or_default();
    ensure!(
        matches!(&*command, [binary] if binary.ends_with("/dependency-watchdog")),
        "{command:?}"
    );
    let env = variables(&container, deployment)?;
    let args = container.args.unwrap_or_default();
    Operator::exactly(seed, deployment, &kubeconfig, &args, env)
}

/// The container's variables, those of the downward API resolved.
fn variables(container: &Container, deployment: &str) -> Result<Vec<(String, String)>> {
    let resolve = |name: &str, path: &str| match path {
        "metadata.name" => Ok(pod_of(deployment)),
        "metadata.namespace" => Ok("garden".to_owned()),
        path => bail!("{name} is from {path}"),
    };
    let variables = container.env.iter().flatten().map(|variable| {
        let name = variable.name.clone();
        let from = variable.value_from.as_ref();
        let value = match from.and_then(|from| from.field_ref.as_ref()) {
            Some(field) => resolve(&name, &field.field_path)?,
            None => variable.value.clone().context("no value")?,
        };
        Ok((name, value))
    });
    variables.collect()
}

pub(super) async fn template(seed: &Seed, deployment: &str) -> Result<PodTemplateSpec> {
    let deployments: Api<Deployment> = Api::namespaced(seed.client()?, "garden");
    let deployment = deployments.get(deployment).await?;
    Ok(deployment.spec.context("no spec")?.template)
}

/// Waits until the pod of this Deployment holds its Lease in the namespace in which it runs.
async fn leads(seed: &Seed, deployment: &str) -> Result<()> {
    seed.is_led_by(deployment, &pod_of(deployment)).await
}

/// Waits until the API server refuses the operator's user another image, though it may scale.
/// Whatever would have more changed than replicas is refused.
async fn replicas_are_all_that_changes(seed: &Seed, shoot: &Shoot) -> Result<()> {
    let client = seed.operator_kubeconfig()?.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client, shoot.namespace());
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
    for patch in [
        json!({"spec": {"template": {"spec": {"containers": [{"name": KCM, "image": "another"}]}}}}),
        json!({"spec": {"paused": true}}),
        json!({"spec": {"replicas": 1001}}),
        json!({"metadata": {"ownerReferences": [owner]}}),
        json!({"metadata": {"finalizers": ["example.com/held"]}}),
        json!({"metadata": {"labels": {"app": "another"}}}),
        json!({"metadata": {"annotations": {"resources.gardener.cloud/ignore": "true"}}}),
    ] {
        wait::until("another change to be refused", async || {
            let params = PatchParams {
                dry_run: true,
                ..PatchParams::default()
            };
            let merge = Patch::Strategic(&patch);
            let answer = deployments.patch(KCM, &params, &merge).await;
            let refused = matches!(&answer, Err(kube::Error::Api(status))
                if status.message.contains("dependency-watchdog-replicas-only"));
            seen(refused, format!("{patch}: {answer:?}"))
        })
        .await?;
    }
    Ok(())
}

async fn is_being_deleted(seed: &Seed) -> Result<()> {
    let policies: Api<ProbePolicy> = Api::all(seed.client()?);
    wait::until("the policy to be held by what it protects", async || {
        let policy = policies.get("shoots").await?;
        let deleted = policy.metadata.deletion_timestamp.is_some();
        seen(deleted, "its deletion was not asked for")
    })
    .await
}

/// Each object that is installed, with its version.
async fn installed(seed: &Seed) -> Result<String> {
    let columns = r#"jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}"#;
    let get = ["get", KINDS, "-A", "-l", OURS, "-o"];
    let names = seed.kubectl().run(&[&get[..], &["name"]].concat()).await?;
    let versions = seed.kubectl().run(&[&get[..], &[columns]].concat()).await?;
    Ok(names + &versions)
}

pub(super) async fn nothing_is_left(seed: &Seed) -> Result<()> {
    wait::until("nothing to be left", async || {
        let left = ["get", KINDS, "-A", "-l", OURS, "-o", "name"];
        let left = seed.kubectl().run(&left).await?;
        let leases = seed
            .kubectl()
            .run(&["-n", "garden", "get", "leases", "-o", "name"]);
        let leases = leases.await?;
        seen(
            left.is_empty() && leases.is_empty(),
            format!("{left}{leases}"),
        )
    })
    .await
}

/// Fails unless a pod of each Deployment may run where Pod Security is restricted.
async fn pod_security_is_satisfied(seed: &Seed) -> Result<()> {
    seed.apply(
        "{apiVersion: v1, kind: Namespace, metadata: {name: restricted, \
         labels: {pod-security.kubernetes.io/enforce: restricted}}}",
    )
    .await?;
    let pods: Api<Pod> = Api::namespaced(seed.client()?, "restricted");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pod = |spec| Pod {
        metadata: ObjectMeta {
            name: Some("tried".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    for deployment in [PROBER, WEEDER] {
        let template = template(seed, deployment).await?;
        let shipped = template.spec.context("no pod")?;
        let mut root = shipped.clone();
        root.security_context = None;
        pods.create(&dry_run, &pod(shipped)).await?;
        // Another is refused, so that was asked.
        match pods.create(&dry_run, &pod(root)).await {
            Err(kube::Error::Api(status)) if status.message.contains("violates PodSecurity") => {}
            other => bail!("{other:?}"),
        }
    }
    Ok(())
}

/// Fails unless what the runbooks ask about the operator's rights is answered with yes.
async fn the_runbooks_find_the_rights(seed: &Seed) -> Result<()> {
    let asked = RUNBOOKS.lines().filter(|line| line.contains("auth can-i"));
    let asked: Vec<&str> = asked.collect();
    ensure!(!asked.is_empty(), "docs/alerts.md asks for no right");
    for question in asked {
        let words = question.strip_prefix("kubectl ").context("no command")?;
        // It ends with an error where the answer is no.
        let words: Vec<&str> = words.split(' ').collect();
        seed.kubectl().run(&words).await?;
    }
    Ok(())
}

/// Fails unless what is scraped, the alerts and the dashboard are in the namespace of the Service, and
/// have the label by which the Prometheus of a Gardener seed takes them. Its kinds are not served here.
async fn monitoring_is_for_this_namespace(
    seed: &Seed,
    folder: &str,
    namespace: &str,
) -> Result<()> {
    let rendered = seed.kubectl().run(&["kustomize", folder]).await?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered)?;
    ensure!(objects.len() == 3, "{rendered}");
    for object in objects {
        let has = |pointer: &str, text: &str| {
            let found = object.pointer(pointer).and_then(Value::as_str);
            found == Some(text)
        };
        ensure!(has("/metadata/namespace", namespace), "{object}");
        // Gardener's Prometheus looks for it, and its Plutono for another one on the dashboard.
        let plutono = "/metadata/labels/dashboard.monitoring.gardener.cloud~1seed";
        let is_found = has("/metadata/labels/prometheus", "seed") || has(plutono, "true");
        ensure!(is_found, "{object}");
    }
    Ok(())
}

/// What those may do to whom the roles view, edit and admin are given cluster-wide.
const MAY: [(&str, &str, &str, [bool; 3]); 11] = [
    ("get", "probepolicies", "", [true, true, true]),
    ("list", "clusterhealths", "", [true, true, true]),
    ("create", "probepolicies", "", [false, true, true]),
    ("patch", "probepolicies", "", [false, true, true]),
    ("patch", "probepolicies", "status", [false, false, false]),
    ("get", "weedpolicies", "", [true, true, true]),
    ("create", "weedpolicies", "", [false, true, true]),
    ("patch", "weedpolicies", "status", [false, false, false]),
    ("delete", "clusterhealths", "", [false, false, true]),
    ("patch", "clusterhealths", "", [false, false, false]),
    ("patch", "clusterhealths", "status", [false, false, false]),
];

async fn roles_are_right(seed: &Seed) -> Result<()> {
    let roles = ["view", "edit", "admin"];
    for role in roles {
        is_granted(seed, role).await?;
    }
    for (verb, resource, subresource, allowed) in MAY {
        for (role, allowed) in roles.into_iter().zip(allowed) {
            let what = format!("{role} to {verb} {resource}/{subresource}: {allowed}");
            wait::until(&what, async || {
                let answer = may(seed, role, verb, resource, subresource).await?;
                seen(answer == allowed, answer)
            })
            .await?;
        }
    }
    Ok(())
}

/// Gives a user of the name of a role all that is aggregated into the role, as the controller for
/// that would, which does not run here.
async fn is_granted(seed: &Seed, role: &str) -> Result<()> {
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}=true,{OURS}");
    let roles: Api<ClusterRole> = Api::all(seed.client()?);
    let roles = roles.list(&ListParams::default().labels(&label)).await?;
    ensure!(!roles.items.is_empty(), "nothing is aggregated to {role}");
    for part in roles {
        let part = part.name_any();
        let name = format!("{role}-{part}");
        let user = format!("--user={role}");
        let part = format!("--clusterrole={part}");
        let create = ["create", "clusterrolebinding", &name, &part, &user];
        seed.kubectl().run(&create).await?;
    }
    Ok(())
}

async fn may(
    seed: &Seed,
    user: &str,
    verb: &str,
    resource: &str,
    subresource: &str,
) -> Result<bool> {
    let resource = format!("{resource}.dependency-watchdog.gardener.cloud");
    let (user, subresource) = (
        format!("--as={user}"),
        format!("--subresource={subresource}"),
    );
    let ask = ["auth", "can-i", verb, &resource, &subresource, &user];
    Ok(seed.kubectl().try_run(&ask).await?.success)
}
