//! The weeder: pods that crash-loop are deleted when the service they need is back, so that they
//! restart at once.

use super::{Scenario, steps::shown};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::WeedPolicyStatus;
use dependency_watchdog_e2e::{
    API_SERVER, App, BACK_OFF, ETCD, Env, KCM, Operator, Request, SCHEDULER, Stack, is_looping,
    wait::{self, Look, seen},
};
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// Needs the API server as these do, but no policy names it.
const MONITORING: App<'_> = App {
    name: "kube-state-metrics",
    labels: &[("gardener.cloud/role", "monitoring")],
    ..KCM
};

/// Long enough for a weeder to delete what it should not: it takes a fraction of that.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// In front of etcd.
const ETCD_SERVICE: &str = "etcd-main-client";
/// When a slice last changed, by kube-controller-manager.
const CHANGED_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_control_plane_is_weeded_minutes_before_its_back_off_ends,]
}

/// The services of Gardener's example, and the pods that need them.
fn chain() -> [(&'static str, Value); 2] {
    let role = |operator: &str, values: &[&str]| {
        json!([{"matchExpressions": [
            {"key": "gardener.cloud/role", "operator": "In", "values": ["controlplane"]},
            {"key": "role", "operator": operator, "values": values},
        ]}])
    };
    [
        ("etcd-main-client", role("In", &["apiserver"])),
        ("kube-apiserver", role("NotIn", &["main", "apiserver"])),
    ]
}

/// The UIDs of the pods of which the deletion was asked and granted, in order. Fails if anything else
/// was deleted, or one without both preconditions, or with a grace period other than the pod's own.
fn deleted(requests: Vec<Request>, namespace: &str) -> Result<Vec<String>> {
    let ours = requests.into_iter().filter(|it| it.namespace == namespace);
    let writes = ours.filter(|it| it.is_write() && !it.resource.starts_with("events"));
    let mut uids = Vec::new();
    for request in writes {
        let what = (request.verb.as_str(), request.resource.as_str());
        ensure!(what == ("delete", "pods"), "{request:?}");
        let options = &request.options;
        let conditions = options.get("preconditions").context("no preconditions")?;
        let given = |key: &str| conditions.get(key).and_then(Value::as_str);
        let uid = given("uid").context("no UID")?;
        ensure!(given("resourceVersion").is_some(), "{request:?}");
        ensure!(options.get("gracePeriodSeconds").is_none(), "{request:?}");
        if request.code == 200 {
            uids.push(uid.to_owned());
        }
    }
    Ok(uids)
}

/// Waits until the weeder has deleted the pods of these UIDs since it had deleted so many, each once,
/// and no others.
async fn are_weeded(stack: &Stack, before: usize, uids: &BTreeSet<String>) -> Result<()> {
    let what = format!("the pods {uids:?} of {} to be deleted", stack.namespace());
    wait::until(&what, async || {
        let deleted = deleted(stack.seed().weeder_requests()?, stack.namespace())?;
        let deleted = deleted.get(before..).unwrap_or_default();
        let set: BTreeSet<String> = deleted.iter().cloned().collect();
        if !set.is_subset(uids) || set.len() < deleted.len() {
            return Ok(Look::Never(format!("deleted were {deleted:?}")));
        }
        seen(&set == uids, format!("{set:?}"))
    })
    .await
}

/// How many pods the weeder has deleted in this namespace.
fn count(stack: &Stack) -> Result<usize> {
    Ok(deleted(stack.seed().weeder_requests()?, stack.namespace())?.len())
}

/// Fails if one of its pods is replaced, or starts again, in a while.
async fn keeps_looping(stack: &Stack, app: &App<'_>, uids: &BTreeSet<String>) -> Result<()> {
    wait::holds(LONG_ENOUGH, &format!("{} looping", app.name), async || {
        let pods = stack.pods(app).await?;
        let looping = pods.iter().all(is_looping);
        let same = stack.uids(app).await? == *uids;
        seen(looping && same, format!("{pods:?}"))
    })
    .await
}

async fn e2e_a_control_plane_is_weeded_minutes_before_its_back_off_ends(env: Env) -> Result<()> {
    let seed = env.own_seed("weeding").await?;
    let workloads = env.workloads(&seed).await?;
    let _weeder = Operator::start(&seed, "weeder", "weeder", &[])?;
    let stack = workloads.stack("shoot--e2e--chain").await?;
    let dependants = [API_SERVER, KCM, SCHEDULER, MONITORING];
    stack.run(&ETCD).await?;
    for app in &dependants {
        stack.run(app).await?;
    }
    let etcd = stack.uids(&ETCD).await?;

    // Without a policy they sit out their back-off, though etcd is back.
    let crashed = Timestamp::now();
    stack.down(&ETCD);
    let mut looping = BTreeSet::new();
    for app in &dependants {
        looping.extend(stack.is_looping(app).await?);
    }
    recovers(&stack).await?;
    for app in &dependants {
        let uids = stack.uids(app).await?;
        ensure!(uids.is_subset(&looping), "{} was restarted", app.name);
    }
    let monitoring = stack.uids(&MONITORING).await?;
    let api_servers = stack.uids(&API_SERVER).await?;
    keeps_looping(&stack, &API_SERVER, &api_servers).await?;

    // The policy finds etcd ready. The API servers come back, and with their service the others.
    let policy = stack.policy(&chain())?;
    policy.apply().await?;
    are_back(&stack, &looping, &monitoring, 0).await?;
    let whole = policy
        .reports("all to be weeded", |it| it.weeded == 4)
        .await?;
    ensure!(
        (whole.services.watched, whole.services.ready) == (2, 2),
        "{whole:?}"
    );
    let since = Timestamp::now().duration_since(crashed).unsigned_abs();
    ensure!(since < BACK_OFF / 2, "the back-off may be over");

    // Another time with the policy in force.
    stack.down(&ETCD);
    stack.serves("kube-apiserver", false).await?;
    let mut looping = BTreeSet::new();
    for app in &dependants {
        looping.extend(stack.is_looping(app).await?);
    }
    let none = |it: &WeedPolicyStatus| (it.open_windows, it.services.ready) == (0, 0);
    policy.reports("no service to be ready", none).await?;
    let before = count(&stack)?;
    stack.up(&ETCD);
    are_back(&stack, &looping, &monitoring, before).await?;
    ensure!(stack.uids(&ETCD).await? == etcd, "etcd was restarted");

    let columns = "NAME READY MODE SERVICES READY SERVICES WINDOWS WEEDED LAST WEED AGE";
    let columns: Vec<&str> = columns.split(' ').collect();
    let counts = ["shoot--e2e--chain", "True", "Enforce", " 2 ", " 8 "];
    shown(stack.seed(), &["get", "weedpolicies"], &[&columns, &counts]).await?;
    let events = ["get", "events", "-n", stack.namespace()];
    let told = |app: &'static str| ["PodWeeded", app];
    shown(
        stack.seed(),
        &events,
        &[
            &told("replicaset/kube-apiserver"),
            &told("replicaset/kube-controller-manager"),
            &told("replicaset/kube-scheduler"),
        ],
    )
    .await
}

/// Waits until all that a policy names is ready again: of what was looping just that was deleted.
async fn are_back(
    stack: &Stack,
    looping: &BTreeSet<String>,
    monitoring: &BTreeSet<String>,
    before: usize,
) -> Result<()> {
    let named = looping.difference(monitoring).cloned().collect();
    are_weeded(stack, before, &named).await?;
    for app in [API_SERVER, KCM, SCHEDULER] {
        let uids = stack.is_ready(&app).await?;
        ensure!(uids.is_disjoint(looping), "{} was not replaced", app.name);
    }
    keeps_looping(stack, &MONITORING, monitoring).await
}

/// Has etcd be away and come back, until its slice says since when it is ready, and tells that.
///
/// kube-controller-manager does not say it of a pod that is ready in the second in which it was created or was not
/// ready, nor when it has to write a slice a second time.
async fn recovers(stack: &Stack) -> Result<Timestamp> {
    let slices: Api<EndpointSlice> = Api::namespaced(stack.seed().client()?, stack.namespace());
    let of_etcd =
        ListParams::default().labels(&format!("kubernetes.io/service-name={ETCD_SERVICE}"));
    for _ in 0..5 {
        stack.down(&ETCD);
        stack.serves(ETCD_SERVICE, false).await?;
        passes(Timestamp::now()).await?;
        stack.up(&ETCD);
        stack.is_ready(&ETCD).await?;
        let slices = slices.list(&of_etcd).await?.items;
        let slice = slices.first().context("no slice")?;
        if let Some(changed) = slice.annotations().get(CHANGED_ANNOTATION) {
            return Ok(changed.parse()?);
        }
    }
    bail!("the slice never tells when it changed")
}

/// Waits until the second of this time, and the next, are over.
async fn passes(time: Timestamp) -> Result<()> {
    let over = Timestamp::from_second(time.as_second() + 2)?;
    wait::until("a second to pass", async || {
        let now = Timestamp::now();
        seen(now > over, now.to_string())
    })
    .await
}
