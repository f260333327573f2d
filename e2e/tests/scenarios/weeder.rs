//! The weeder: pods that crash-loop are deleted when the service they need is back, so that they
//! restart at once.

use super::{
    Scenario,
    steps::{ELECTION, shown},
};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{WeedPolicy, WeedPolicyStatus};
use dependency_watchdog_e2e::{
    API_SERVER, App, BACK_OFF, ETCD, Env, KCM, Kubeconfig, Operator, Policy, Request, SCHEDULER,
    Stack, is_looping,
    wait::{self, Look, seen},
};
use futures::future::try_join_all;
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

/// How many namespaces with open windows have a watch of their own; with more, one serves all.
const APART: usize = 20;
/// More than these.
const MANY: usize = 25;

/// In front of etcd.
const ETCD_SERVICE: &str = "etcd-main-client";
/// When a slice last changed, by kube-controller-manager.
const CHANGED_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// For the end of a weeder that was asked for; Kubernetes grants 30.
const SECONDS: Duration = Duration::from_secs(5);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_control_plane_is_weeded_minutes_before_its_back_off_ends,
        e2e_weeding_goes_on_with_another_leader_and_another_api_server,
        e2e_many_namespaces_are_weeded_at_the_cost_of_a_few_watches,
    ]
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

/// A namespace with etcd, API servers, and a policy for these, whose window is open.
async fn open(stack: &Stack) -> Result<Policy<WeedPolicy>> {
    stack.run(&ETCD).await?;
    recovers(stack).await?;
    stack.run(&API_SERVER).await?;
    let [etcd, _] = chain();
    let policy = stack.policy(&[etcd])?;
    policy.apply().await?;
    has_windows(stack, 1).await?;
    Ok(policy)
}

/// Waits until so many windows with selectors of their own have opened in a namespace: each has begun
/// a watch of its pods, which is seen sooner than a status is written.
async fn has_windows(stack: &Stack, windows: usize) -> Result<()> {
    wait::until("pods to be watched", async || {
        let seed = stack.seed();
        let watches = [seed.weeder_requests()?, seed.other_weeder_requests()?].concat();
        let mut watches = looks_at_pods(watches);
        watches.retain(|request| request.namespace == stack.namespace());
        seen(watches.len() == windows, format!("{watches:?}"))
    })
    .await
}

/// What of these began to watch pods.
fn looks_at_pods(mut requests: Vec<Request>) -> Vec<Request> {
    requests.retain(|request| request.resource == "pods" && request.verb == "watch");
    requests
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

async fn e2e_weeding_goes_on_with_another_leader_and_another_api_server(env: Env) -> Result<()> {
    let seed = env.own_seed("weeders").await?;
    let workloads = env.workloads(&seed).await?;
    let replica = |name: &str, kubeconfig: &Kubeconfig| {
        Operator::replica(&seed, name, "weeder", kubeconfig, &ELECTION)
    };
    let first = replica("weeder-first", &seed.weeder_kubeconfig()?)?;
    seed.is_led_by("dwd-weeder", "weeder-first").await?;
    let second = replica("weeder-second", &seed.other_weeder_kubeconfig()?)?;
    let stack = workloads.stack("shoot--e2e--weeders").await?;
    open(&stack).await?;

    // The first is killed in the middle of a window.
    let looping = stack.uids(&API_SERVER).await?;
    first.process.kill();
    stack.crash(&API_SERVER);
    stack.is_looping(&API_SERVER).await?;
    seed.is_led_by("dwd-weeder", "weeder-second").await?;
    let restarted = stack.is_ready(&API_SERVER).await?;
    ensure!(restarted.is_disjoint(&looping), "not replaced");
    let weeded = deleted(seed.other_weeder_requests()?, stack.namespace())?;
    ensure!(
        weeded.into_iter().collect::<BTreeSet<_>>() == looping,
        "others were deleted"
    );
    ensure!(count(&stack)? == 0, "the first has deleted too");

    // The second is stopped while it leads; one that is not elected finds etcd ready.
    let exit = second.process.terminate(SECONDS).await?;
    ensure!(exit.success(), "{exit}");
    let third = Operator::start(&seed, "weeder-third", "weeder", &[])?;
    let before = restarted;
    stack.crash(&API_SERVER);
    are_weeded(&stack, 0, &before).await?;

    // The API server is restarted in the middle of a window.
    let before = stack.is_ready(&API_SERVER).await?;
    let weeded = count(&stack)?;
    seed.server().stop();
    seed.server().start_again().await?;
    stack.crash(&API_SERVER);
    are_weeded(&stack, weeded, &before).await?;
    stack.is_ready(&API_SERVER).await?;
    let exit = third.process.terminate(SECONDS).await?;
    ensure!(exit.success(), "{exit}");
    Ok(())
}

async fn e2e_many_namespaces_are_weeded_at_the_cost_of_a_few_watches(env: Env) -> Result<()> {
    let seed = env.own_seed("many").await?;
    let workloads = env.workloads(&seed).await?;
    let [etcd, api_server] = [ETCD, API_SERVER].map(|app| App { replicas: 1, ..app });
    let begin = async |number: usize| {
        let stack = workloads
            .stack(&format!("shoot--e2e--many-{number}"))
            .await?;
        stack.run(&etcd).await?;
        stack.run(&api_server).await?;
        stack.down(&etcd);
        let looping = stack.is_looping(&api_server).await?;
        anyhow::Ok((stack, looping))
    };
    let stacks = try_join_all((0..MANY).map(begin)).await?;
    let (any, _) = stacks.first().context("none")?;

    // With its own limits on requests. While nothing recovers it watches no pods.
    let _weeder = Operator::start(&seed, "weeder", "weeder", &[])?;
    let [needs_etcd, _] = chain();
    let everywhere = json!({"namespaceSelector": null});
    let policy = any
        .policy(&[needs_etcd])?
        .named("everywhere")
        .with(&everywhere);
    policy.apply().await?;
    let down = |it: &WeedPolicyStatus| usize::try_from(it.services.watched) == Ok(MANY);
    let status = policy.reports("all to be watched", down).await?;
    ensure!(
        (status.services.ready, status.open_windows) == (0, 0),
        "{status:?}"
    );
    let watches = looks_at_pods(seed.weeder_requests()?);
    ensure!(watches.is_empty(), "{watches:?}");

    for (stack, _) in &stacks {
        stack.up(&etcd);
    }
    for (stack, looping) in &stacks {
        are_weeded(stack, 0, looping).await?;
        stack.is_ready(&api_server).await?;
    }
    let all = |it: &WeedPolicyStatus| usize::try_from(it.weeded) == Ok(MANY);
    policy.reports("all to be weeded", all).await?;
    let watches = looks_at_pods(seed.weeder_requests()?);
    let (everywhere, own): (Vec<_>, Vec<_>) = watches
        .iter()
        .partition(|request| request.namespace.is_empty());
    ensure!(everywhere.len() == 1 && own.len() <= APART, "{watches:?}");
    Ok(())
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
