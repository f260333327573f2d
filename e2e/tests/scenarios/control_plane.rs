//! The test bed itself: what the other scenarios take for granted.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    Env, Kubelet, Shoot,
    wait::{self, Look, seen},
};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use k8s_openapi::{List, api::coordination::v1::Lease};
use kube::client::Body;
use serde_json::json;
use std::time::Duration;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_kubelets_renew_and_nodes_are_ready,
        e2e_a_silent_node_turns_unknown_and_comes_back,
        e2e_an_api_server_dates_renewals_by_its_own_clock,
        e2e_an_api_server_comes_back_with_its_data,
        e2e_an_etcd_comes_back_with_its_data,
        e2e_the_probe_may_read_leases_and_nodes_alone,
        e2e_pods_come_and_go_as_told,
        e2e_two_shoots_stand_side_by_side: 2,
        e2e_a_frozen_api_server_answers_nothing_until_it_goes_on,
    ]
}

async fn e2e_kubelets_renew_and_nodes_are_ready(env: Env) -> Result<()> {
    let shoot = env.shoot("renewals").nodes(3).await?;
    shoot.all_renew().await?;
    shoot.all_renew().await?;
    for kubelet in &shoot.kubelets {
        ensure!(
            kubelet.condition("Ready").await? == "True",
            "{} is not ready",
            kubelet.name()
        );
        let lease = kubelet
            .lease()
            .await?
            .spec
            .context("a lease without spec")?;
        ensure!(
            lease.holder_identity.as_deref() == Some(kubelet.name()),
            "{lease:?}"
        );
        ensure!(lease.lease_duration_seconds == Some(4), "{lease:?}");
        let renewals = kubelet.renewals();
        for (earlier, later) in renewals.iter().zip(renewals.iter().skip(1)).skip(1) {
            let gap = later.renew_time.duration_since(earlier.renew_time);
            let period = SignedDuration::try_from(kubelet.renewal_period())?;
            ensure!(
                gap >= period,
                "{} renewed after {gap:?} already",
                kubelet.name()
            );
        }
    }
    Ok(())
}

async fn e2e_a_silent_node_turns_unknown_and_comes_back(env: Env) -> Result<()> {
    let grace = Duration::from_secs(8);
    let shoot = env
        .shoot("silence")
        .nodes(3)
        .controller_manager(grace)
        .await?;
    let (silent, other) = (shoot.kubelet(0)?, shoot.kubelet(1)?);
    silent.cut();
    is(silent, "Unknown").await?;
    let silence = Timestamp::now().duration_since(silent.last_renewal()?.sent);
    ensure!(
        silence >= SignedDuration::try_from(grace)?,
        "Unknown after {silence:?} already"
    );
    ensure!(
        other.condition("Ready").await? == "True",
        "{} suffers too",
        other.name()
    );
    silent.restore();
    is(silent, "True").await
}

async fn is(kubelet: &Kubelet, ready: &str) -> Result<()> {
    wait::until(
        &format!("the condition Ready of {} to be {ready}", kubelet.name()),
        async || {
            let found = kubelet.condition("Ready").await?;
            seen(found == ready, found)
        },
    )
    .await
}

async fn e2e_an_api_server_dates_renewals_by_its_own_clock(env: Env) -> Result<()> {
    let shoot = env.shoot("clocks").nodes(2).await?;
    let (behind, bare) = (shoot.kubelet(0)?, shoot.kubelet(1)?);
    let offset = SignedDuration::from_secs(-90);
    behind.skew(offset);
    wait::until("a renewal with a clock that is behind", async || {
        let last = behind.last_renewal()?;
        let off = last.renew_time.duration_since(last.sent);
        seen(off < SignedDuration::from_secs(-80), format!("{off:?}"))
    })
    .await?;
    bare.cut();
    bare.forget_renew_time().await?;

    let (leases, date) = leases_with_date(&shoot).await?;
    let renewals = behind.renewals();
    let lease = leases
        .iter()
        .find(|lease| lease.metadata.name.as_deref() == Some(behind.name()))
        .context("its lease is not in the list")?;
    let stamp = renew_time_stamp(lease)?;
    let renew_time = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let renew_time = renew_time.context("no renewTime")?.0;
    let renewal = renewals
        .iter()
        .find(|renewal| micros(renewal.renew_time) == micros(renew_time));
    let renewal = renewal.context("a renewTime that the kubelet never wrote")?;

    // Whole seconds: the server's clock, cut off.
    let second = SignedDuration::from_secs(1);
    let late = stamp.duration_since(renewal.sent);
    ensure!(
        late > -second && stamp <= renewal.confirmed,
        "{stamp} for {renewal:?}"
    );
    ensure!(
        stamp.subsec_nanosecond() == 0,
        "{stamp} is not in whole seconds"
    );
    let age = date.duration_since(stamp);
    ensure!(
        age >= SignedDuration::ZERO && age < SignedDuration::from_secs(5),
        "aged {age:?}"
    );
    ensure!(
        Timestamp::now().duration_since(date) >= SignedDuration::ZERO,
        "Date is {date}"
    );

    let lease = bare.lease().await?;
    ensure!(
        lease.spec.context("no spec")?.renew_time.is_none(),
        "renewTime is still there"
    );
    Ok(())
}

/// renewTime goes over the wire in microseconds.
fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// A list of the leases as the probe reads it, with the Date of the same answer.
async fn leases_with_date(shoot: &Shoot) -> Result<(Vec<Lease>, Timestamp)> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let request = http::Request::get(path).body(Body::empty())?;
    let answer = shoot.probe_client().await?.send(request).await?;
    ensure!(
        answer.status().is_success(),
        "the list was answered with {}",
        answer.status()
    );
    let date = answer
        .headers()
        .get(http::header::DATE)
        .context("no Date")?
        .to_str()?
        .to_owned();
    let date = DateTimeParser::new().parse_timestamp(&date)?;
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((serde_json::from_slice::<List<Lease>>(&body)?.items, date))
}

/// The time of the managedFields entry that owns renewTime.
fn renew_time_stamp(lease: &Lease) -> Result<Timestamp> {
    let entries = lease.metadata.managed_fields.as_deref().unwrap_or_default();
    let owner = entries.iter().find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:renewTime").is_some())
    });
    let owner = owner.context("nobody owns renewTime")?;
    Ok(owner.time.as_ref().context("an entry without time")?.0)
}

async fn e2e_an_api_server_comes_back_with_its_data(env: Env) -> Result<()> {
    let shoot = env.shoot("comeback").nodes(1).await?;
    let kubelet = shoot.kubelet(0)?;
    let uid = kubelet.node().await?.metadata.uid;
    let address = shoot.api_server().url();
    shoot.stop_api_server();
    ensure!(
        kubelet.node().await.is_err(),
        "a stopped API server answers"
    );
    shoot.start_api_server().await?;
    ensure!(
        shoot.api_server().url() == address,
        "it came back elsewhere"
    );
    ensure!(
        kubelet.node().await?.metadata.uid == uid,
        "the node is another one"
    );
    shoot.all_renew().await
}

async fn e2e_an_etcd_comes_back_with_its_data(env: Env) -> Result<()> {
    let shoot = env.shoot("storage").nodes(1).own_etcd().await?;
    let kubelet = shoot.kubelet(0)?;
    let uid = kubelet.node().await?.metadata.uid;
    shoot.etcd()?.stop();
    shoot.etcd()?.start_again().await?;
    wait::until("the node to be readable again", async || {
        let found = kubelet.node().await?.metadata.uid;
        ensure!(found == uid, "the node is another one");
        Ok(Look::Met(()))
    })
    .await?;
    shoot.all_renew().await
}

async fn e2e_the_probe_may_read_leases_and_nodes_alone(env: Env) -> Result<()> {
    let start = Timestamp::now();
    let shoot = env.shoot("rights").nodes(1).await?;
    let probe = shoot.probe_client().await?;
    for (path, code) in [
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            200,
        ),
        ("/api/v1/nodes", 200),
        ("/version", 200),
        ("/api/v1/namespaces/default/secrets", 403),
        ("/api/v1/pods", 403),
    ] {
        let answer = probe
            .send(http::Request::get(path).body(Body::empty())?)
            .await?;
        ensure!(
            answer.status() == code,
            "{path} was answered with {}",
            answer.status()
        );
        let requests = shoot.probe_requests()?;
        let recorded = requests.iter().rfind(|request| request.received > start);
        let recorded = recorded.with_context(|| format!("{path} is not in the audit log"))?;
        ensure!(
            recorded.uri == path && recorded.code == code,
            "recorded as {recorded:?}"
        );
    }
    Ok(())
}

async fn e2e_pods_come_and_go_as_told(env: Env) -> Result<()> {
    let shoot = env
        .shoot("pods")
        .nodes(0)
        .dependents(["kube-controller-manager"])
        .await?;
    let dependent = shoot.dependent("kube-controller-manager");
    shoot.control_plane.pause_pods();
    dependent.scale(0).await?;
    wait::holds(Duration::from_secs(1), "a pod that stays", async || {
        let status = dependent.get().await?.status.unwrap_or_default();
        seen(status.ready_replicas == Some(1), format!("{status:?}"))
    })
    .await?;
    shoot.control_plane.resume_pods();
    dependent.is_ready(0).await?;
    shoot.control_plane.delay_pods(Duration::from_secs(1));
    let start = Timestamp::now();
    dependent.scale(2).await?;
    dependent.is_ready(2).await?;
    let took = Timestamp::now().duration_since(start);
    ensure!(
        took >= SignedDuration::from_secs(1),
        "pods came after {took:?} already"
    );

    let kubectl = shoot.control_plane.seed().kubectl();
    let table = kubectl
        .run(&["get", "deployments", "-n", shoot.namespace()])
        .await?;
    ensure!(table.contains("2/2"), "{table}");
    let clusters = kubectl
        .run(&["get", "clusters.extensions.gardener.cloud"])
        .await?;
    ensure!(clusters.contains(shoot.namespace()), "{clusters}");
    Ok(())
}

async fn e2e_two_shoots_stand_side_by_side(env: Env) -> Result<()> {
    let (one, other) = tokio::try_join!(env.shoot("one").nodes(2), env.shoot("other").nodes(2))?;
    one.cut_all();
    let silent = one.kubelet(0)?.renewals();
    other.all_renew().await?;
    other.all_renew().await?;
    ensure!(
        one.kubelet(0)?.renewals() == silent,
        "a cut kubelet renews its lease"
    );
    one.restore_all();
    one.all_renew().await?;

    one.control_plane
        .set_machine_phase(one.kubelet(0)?.name(), "Failed")
        .await?;
    one.control_plane
        .delete_machine(one.kubelet(1)?.name())
        .await?;
    let hibernated = json!({"spec": {"shoot": {"spec": {"hibernation": {"enabled": true}}}}});
    one.control_plane.patch_cluster(hibernated).await?;
    one.kubelet(0)?
        .set_condition("KernelDeadlock", "True", "TaskHung")
        .await?;
    ensure!(
        one.kubelet(0)?.condition("KernelDeadlock").await? == "True",
        "condition not set"
    );
    ensure!(
        one.kubelet(0)?.condition("Ready").await? == "True",
        "another condition was lost"
    );
    Ok(())
}

async fn e2e_a_frozen_api_server_answers_nothing_until_it_goes_on(env: Env) -> Result<()> {
    let shoot = env.shoot("frost").nodes(1).await?;
    let kubelet = shoot.kubelet(0)?;
    shoot.pause_api_server()?;
    // On a busy machine a thread of it may still run for a moment after the signal.
    wait::until("a frozen API server to answer nothing", async || {
        let answer = tokio::time::timeout(Duration::from_secs(2), kubelet.node()).await;
        seen(answer.is_err(), "it answers")
    })
    .await?;
    shoot.resume_api_server()?;
    kubelet.node().await?;
    shoot.all_renew().await
}
