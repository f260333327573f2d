//! What is taken for granted of a real API server: it dates renewals by its own clock.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    Env, Shoot,
    wait::{self, seen},
};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use k8s_openapi::{List, api::coordination::v1::Lease};
use kube::client::Body;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_an_api_server_dates_renewals_by_its_own_clock,]
}

async fn e2e_an_api_server_dates_renewals_by_its_own_clock(env: Env) -> Result<()> {
    let shoot = env.shoot("clocks").nodes(1).await?;
    let behind = shoot.kubelet(0)?;
    let offset = SignedDuration::from_secs(-90);
    behind.skew(offset);
    wait::until("a renewal with a clock that is behind", async || {
        let last = behind.last_renewal()?;
        let off = last.renew_time.duration_since(last.sent);
        seen(off < SignedDuration::from_secs(-80), format!("{off:?}"))
    })
    .await?;

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
