//! The namespace `garden` of a seed: what its Deployments run. The operator's run as processes;
//! Gardener's tool is played, as far as others can tell: by its Leases.

use super::install::{PROBER, WEEDER, deployed, pod_of, template};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog_e2e::{
    Operator, Request, Seed,
    wait::{self, seen},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Pod, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{cell::RefCell, collections::BTreeMap, convert::Infallible, time::Duration};
use tokio::time::{MissedTickBehavior, interval};

/// How often a kubelet would look what is to run here.
const LOOK: Duration = Duration::from_millis(200);
/// Looks from one try of the tool to get or to renew its Leases to the next: two seconds, client-go's default.
const LOOKS_PER_TRY: usize = 10;
/// The default of the tool, and of client-go.
const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(15);

/// The parts of the tool: the names of the Deployment and of the Lease.
const PARTS: [(&str, &str); 2] = [
    ("dependency-watchdog-prober", "dwd-prober-leader-election"),
    ("dependency-watchdog-weeder", "dwd-weeder-leader-election"),
];

/// What runs in the namespace.
pub(super) struct Garden<'a> {
    seed: &'a Seed,
    deployments: Api<Deployment>,
    pods: Api<Pod>,
    leases: Api<Lease>,
    operators: RefCell<BTreeMap<&'static str, Operator>>,
    /// Who held each Lease, one after the other.
    holders: RefCell<BTreeMap<&'static str, Vec<String>>>,
}

impl<'a> Garden<'a> {
    /// Nothing runs yet.
    pub(super) fn new(seed: &'a Seed) -> Result<Self> {
        let client: Client = seed.client()?;
        Ok(Self {
            seed,
            deployments: Api::namespaced(client.clone(), "garden"),
            pods: Api::namespaced(client.clone(), "garden"),
            leases: Api::namespaced(client, "garden"),
            operators: RefCell::default(),
            holders: RefCell::default(),
        })
    }

    /// Runs what is to run, for ever.
    pub(super) async fn run(&self) -> Result<Infallible> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_usize.. {
            looks.tick().await;
            for deployment in [PROBER, WEEDER] {
                self.follow(deployment).await?;
            }
            for (deployment, lease) in PARTS {
                let found = self.deployments.get_opt(deployment).await?;
                if look.is_multiple_of(LOOKS_PER_TRY) && found.as_ref().is_some_and(is_to_run) {
                    self.elect(deployment, lease).await?;
                }
                self.note_holder(lease).await?;
            }
        }
        bail!("it looks no more")
    }

    /// Starts and ends the operator as the Deployment says. Of one that is deleted in the foreground,
    /// the garbage collector takes the finalizer off once its pods are gone.
    async fn follow(&self, deployment: &'static str) -> Result<()> {
        let found = self.deployments.get_opt(deployment).await?;
        let wanted = found.as_ref().is_some_and(is_to_run);
        let runs = self.operators.borrow().contains_key(deployment);
        if wanted && !runs {
            self.create_pod(deployment).await?;
            let operator = deployed(self.seed, deployment).await?;
            self.operators.borrow_mut().insert(deployment, operator);
        }
        if wanted {
            return Ok(());
        }
        let ending = self.operators.borrow_mut().remove(deployment);
        if let Some(operator) = ending {
            let exit = operator.process.terminate(wait::LIMIT).await?;
            ensure!(exit.success(), "{deployment}: {exit}");
            let now = DeleteParams::default().grace_period(0);
            self.pods.delete(&pod_of(deployment), &now).await?;
        }
        if found.is_some_and(|it| it.metadata.deletion_timestamp.is_some()) {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let params = PatchParams::default();
            self.deployments.patch(deployment, &params, &patch).await?;
        }
        Ok(())
    }

    /// The object by which others know that it runs.
    async fn create_pod(&self, deployment: &str) -> Result<()> {
        let template = template(self.seed, deployment).await?;
        let pod = Pod {
            metadata: ObjectMeta {
                name: Some(pod_of(deployment)),
                ..template.metadata.unwrap_or_default()
            },
            spec: template.spec,
            status: None,
        };
        self.pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    /// One try of a part of the tool to get or to renew its Lease. When it ends it does not give it back.
    async fn elect(&self, deployment: &str, lease: &str) -> Result<()> {
        let found = self.leases.get_opt(lease).await?;
        let identity = format!("{deployment}-6d9f_{lease}");
        let spec = found.as_ref().and_then(|it| it.spec.clone());
        let LeaseSpec {
            holder_identity,
            renew_time,
            ..
        } = spec.unwrap_or_default();
        let is_others = holder_identity.is_some_and(|it| !it.is_empty() && it != identity);
        let is_old = |it: MicroTime| Timestamp::now().duration_since(it.0) > LEASE_DURATION;
        if is_others && !renew_time.is_some_and(is_old) {
            return Ok(());
        }
        let now = MicroTime(Timestamp::now());
        let held = Lease {
            metadata: ObjectMeta {
                name: Some(lease.to_owned()),
                resource_version: found.as_ref().and_then(ResourceExt::resource_version),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(identity),
                lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        let written = match found {
            None => self.leases.create(&params, &held).await,
            Some(_) => self.leases.replace(lease, &params, &held).await,
        };
        match written {
            // Somebody else was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop).context("the tool cannot write its Lease"),
        }
    }

    async fn note_holder(&self, lease: &'static str) -> Result<()> {
        let found = self.leases.get_opt(lease).await?;
        let holder = found.and_then(|it| it.spec?.holder_identity);
        // Given back, it is nobody's.
        let Some(holder) = holder.filter(|it| !it.is_empty()) else {
            return Ok(());
        };
        let mut holders = self.holders.borrow_mut();
        let holders = holders.entry(lease).or_default();
        if holders.last() != Some(&holder) {
            holders.push(holder);
        }
        Ok(())
    }

    /// Waits until the Leases of both parts were held by these Deployments, one after the other, and
    /// by nobody else: those of the tool where it says `dependency-watchdog`, else the operator's.
    pub(super) async fn were_held_by(&self, deployments: &[&str]) -> Result<()> {
        for (_, lease) in PARTS {
            self.was_held_by(lease, deployments).await?;
        }
        Ok(())
    }

    /// The same, of the Lease of this name.
    pub(super) async fn was_held_by(&self, lease: &str, deployments: &[&str]) -> Result<()> {
        let what = format!("{lease} to have been held by {deployments:?}");
        wait::until(&what, async || {
            let holders = self.holders.borrow();
            let holders = holders.get(lease).map_or(&[][..], Vec::as_slice);
            let as_said = holders.len() == deployments.len()
                && holders
                    .iter()
                    .zip(deployments)
                    .all(|(holder, deployment)| holder.starts_with(deployment));
            seen(as_said, format!("{holders:?}"))
        })
        .await
    }

    /// What the operator has asked of the seed as this ServiceAccount, since that time.
    pub(super) async fn requests(&self, account: &str, since: Timestamp) -> Result<Vec<Request>> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.seed.client()?, "garden");
        let uid = accounts.get(account).await?.metadata.uid;
        let mut requests = self.seed.server().requests_of(&uid.context("no UID")?)?;
        requests.retain(|request| request.received >= since);
        Ok(requests)
    }
}

fn is_to_run(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    deployment.metadata.deletion_timestamp.is_none() && replicas.unwrap_or(1) > 0
}
