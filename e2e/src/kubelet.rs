//! A kubelet, as far as a control plane can tell: a node, its status and its lease.
//!
//! It keeps the habits of the real one that matter here: it renews its lease at a quarter of the
//! lease's duration with at most 4 % of jitter and a phase of its own, by an update of the object
//! it saw last, with the time of its own clock.

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// The namespace of the leases of nodes.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// As in the real one: a lease is renewed this many times in its duration, …
const RENEWALS_PER_LEASE: u32 = 4;
/// … each period is up to this much longer, …
const JITTER: f64 = 0.04;
/// … and the node's status is looked after this often.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// How long it waits for an answer: the real one's, for leases of 40 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const MANAGER: &str = "kubelet";

/// A renewal that the API server confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// What the lease says: the kubelet's own clock.
    pub renew_time: Timestamp,
    /// When it was sent, by this machine's clock, which is the API server's too.
    pub sent: Timestamp,
    /// When the answer was there.
    pub confirmed: Timestamp,
}

/// A played kubelet. It ends with this value.
#[derive(Debug)]
pub struct Kubelet {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

/// What a kubelet registers with.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) node: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) lease_duration: Duration,
}

#[derive(Debug)]
struct Shared {
    registration: Registration,
    nodes: Api<Node>,
    leases: Api<Lease>,
    /// Whether it reaches its API server.
    link: watch::Sender<bool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock_offset: SignedDuration,
    conditions: BTreeMap<String, Value>,
    renewals: Vec<Renewal>,
}

impl Kubelet {
    /// Starts one, which registers its node and lease at once.
    pub(crate) fn start(client: &Client, registration: Registration) -> Self {
        let shared = Arc::new(Shared {
            registration,
            nodes: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), LEASE_NAMESPACE),
            link: watch::Sender::new(true),
            state: Mutex::default(),
        });
        shared.conditions_at_start();
        let task = tokio::spawn(run(Arc::clone(&shared)));
        Self {
            shared,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// The name of its node.
    pub fn name(&self) -> &str {
        &self.shared.registration.node
    }

    /// Cuts it off its API server: from now on nothing is sent. A renewal on its way may arrive
    /// without being [recorded](Self::renewals), as on a real network.
    pub fn cut(&self) {
        self.shared.link.send_replace(false);
    }

    /// Lets it reach its API server again; it renews at its next turn, within a period.
    pub fn restore(&self) {
        self.shared.link.send_replace(true);
    }

    /// Sets its clock off this machine's by so much: ahead if positive. Takes effect at the next
    /// renewal; a change is a clock that steps.
    pub fn skew(&self, offset: SignedDuration) {
        self.shared.lock().clock_offset = offset;
    }

    /// Every renewal confirmed so far, in order.
    pub fn renewals(&self) -> Vec<Renewal> {
        self.shared.lock().renewals.clone()
    }

    /// The last renewal confirmed. Its `sent` is when the silence of a cut kubelet began.
    pub fn last_renewal(&self) -> Result<Renewal> {
        let last = self.shared.lock().renewals.last().copied();
        last.with_context(|| format!("{} has not renewed its lease yet", self.name()))
    }

    /// Sets a condition of its node, now and in every later heartbeat. It gets through even when
    /// the kubelet is cut: others report conditions too.
    pub async fn set_condition(&self, condition: &str, status: &str, reason: &str) -> Result<()> {
        self.shared.remember_condition(condition, status, reason);
        self.shared.post_status().await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewal_period(&self) -> Duration {
        self.registration.lease_duration / RENEWALS_PER_LEASE
    }

    /// Its own clock.
    fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::now().checked_add(self.lock().clock_offset)?)
    }

    fn conditions_at_start(&self) {
        for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            self.remember_condition(pressure, "False", "KubeletHasSufficientResources");
        }
        self.remember_condition("Ready", "True", "KubeletReady");
    }

    fn remember_condition(&self, condition: &str, status: &str, reason: &str) {
        let value = json!({
            "type": condition,
            "status": status,
            "reason": reason,
            "lastTransitionTime": Timestamp::now().to_string(),
        });
        self.lock().conditions.insert(condition.to_owned(), value);
    }

    /// Posts the status, of a node that is registered first if need be.
    async fn report(&self) -> Result<()> {
        if self
            .nodes
            .get_metadata_opt(&self.registration.node)
            .await?
            .is_none()
        {
            self.register().await?;
        }
        self.post_status().await
    }

    async fn register(&self) -> Result<()> {
        let node = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.registration.node, "labels": self.registration.labels},
        }))?;
        self.nodes.create(&PostParams::default(), &node).await?;
        Ok(())
    }

    async fn post_status(&self) -> Result<()> {
        let heartbeat = self.now()?.to_string();
        let mut conditions: Vec<Value> = self.lock().conditions.values().cloned().collect();
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.insert("lastHeartbeatTime".into(), json!(heartbeat));
        }
        // A strategic merge keeps the conditions that others have set.
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        let name = &self.registration.node;
        self.nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Renews the lease as it was seen last, or as it is if it is not known, or a new one.
    async fn renew(&self, known: Option<Lease>) -> Result<Lease> {
        let name = &self.registration.node;
        let known = match known {
            Some(lease) => Some(lease),
            None => self.leases.get_opt(name).await?,
        };
        let exists = known.is_some();
        let renew_time = self.now()?;
        let mut lease = known.unwrap_or_default();
        lease.metadata.name = Some(name.clone());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(name.clone());
        let seconds = self.registration.lease_duration.as_secs();
        spec.lease_duration_seconds = Some(i32::try_from(seconds)?);
        spec.renew_time = Some(MicroTime(renew_time));

        let params = PostParams {
            field_manager: Some(MANAGER.into()),
            ..PostParams::default()
        };
        let sent = Timestamp::now();
        let lease = if exists {
            self.leases.replace(name, &params, &lease).await?
        } else {
            self.leases.create(&params, &lease).await?
        };
        let renewal = Renewal {
            renew_time,
            sent,
            confirmed: Timestamp::now(),
        };
        self.lock().renewals.push(renewal);
        Ok(lease)
    }
}

async fn run(shared: Arc<Shared>) {
    let period = shared.renewal_period();
    let mut link = shared.link.subscribe();
    let mut first = true;
    let mut lease = None;
    let mut status_due = Instant::now();
    loop {
        if *link.borrow_and_update() {
            let turn = async {
                if Instant::now() >= status_due {
                    shared.report().await?;
                }
                shared.renew(lease.take()).await
            };
            let turn = timeout(REQUEST_TIMEOUT, turn);
            tokio::select! {
                biased;
                // What is on its way when the link is cut is lost.
                _ = link.wait_for(|up| !up) => status_due = Instant::now(),
                turned = turn => match turned.map_err(anyhow::Error::from).flatten() {
                    Ok(renewed) => {
                        lease = Some(renewed);
                        if Instant::now() >= status_due {
                            status_due = Instant::now() + STATUS_PERIOD;
                        }
                    }
                    Err(error) => {
                        let node = &shared.registration.node;
                        tracing::debug!(%node, "lease not renewed: {error:#}");
                        status_due = Instant::now();
                    }
                },
            }
        } else {
            status_due = Instant::now();
        }
        // The first wait gives each kubelet a phase of its own, which it keeps while it is cut.
        let wait = if first {
            fastrand::f64()
        } else {
            1.0 + JITTER * fastrand::f64()
        };
        first = false;
        sleep(period.mul_f64(wait)).await;
    }
}
