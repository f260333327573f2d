//! What a run works with: a seed, a farm, the operator; and what can be seen of them.

use crate::bench::{Settings, delay::Rules};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy},
    prober::step::MARK,
};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Process, Seed,
    farm::{self, Control, Description, Kubelets, Micros},
    hosted, wait,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// The documented one, which enforces here.
const POLICY: &str = include_str!("../../../../../docs/examples/probe-policy.yaml");

/// The parts of a run; all processes end with it.
pub(crate) struct World {
    pub(crate) seed: Arc<Seed>,
    pub(crate) client: Client,
    /// Ends with the run.
    pub(crate) _farm: Process,
    pub(crate) control: Control,
    pub(crate) description: Description,
    pub(crate) rules: Rules,
    pub(crate) shoots: usize,
    pub(crate) nodes: usize,
}

impl World {
    /// Starts a seed and a farm, and creates all that the seed has of its shoots.
    pub(crate) async fn start(
        env: &Env,
        root: &Path,
        settings: &Settings,
        shoots: usize,
        nodes: usize,
    ) -> Result<Self> {
        let name = format!("farm-{shoots}x{nodes}");
        let (farm, control, description) =
            farm::start(root, &name, shoots, nodes, settings.lease()).await?;
        let seed = env.own_seed(&format!("bench-{shoots}x{nodes}")).await?;
        let client = seed.client()?;
        hosted::create(&client, &description, nodes).await?;
        let rules = apply_policy(&client, settings).await?;
        let world = Self {
            seed,
            client,
            _farm: farm,
            control,
            description,
            rules,
            shoots,
            nodes,
        };
        let all = world.shoots * DEPENDENTS.len();
        let limit = settings.limit(shoots);
        wait::seldom(limit, "the pods of all dependents", async || {
            let ready = world.ready_dependents().await?;
            wait::seen(ready == all, format!("{ready} of {all}"))
        })
        .await?;
        Ok(world)
    }

    /// The kubelets of a shoot, which the farm plays alike.
    pub(crate) fn kubelets(&self, shoot: usize) -> Kubelets {
        let Self { rules, nodes, .. } = self;
        Kubelets::new(shoot, *nodes, rules.period, self.description.started)
    }

    /// The statuses of all ClusterHealths, by name.
    pub(crate) async fn healths(&self) -> Result<BTreeMap<String, ClusterHealthStatus>> {
        let healths: Api<ClusterHealth> = Api::all(self.client.clone());
        let listed = healths.list(&ListParams::default()).await?.into_iter();
        Ok(listed
            .map(|it| (it.name_any(), it.status.unwrap_or_default()))
            .collect())
    }

    /// Waits until the ClusterHealths of all these shoots are so.
    pub(crate) async fn report(
        &self,
        limit: Duration,
        what: &str,
        shoots: &[usize],
        met: impl Fn(&ClusterHealthStatus) -> bool,
    ) -> Result<()> {
        wait::seldom(limit, what, async || {
            let healths = self.healths().await?;
            let of = |shoot: &usize| healths.get(&hosted::namespace(*shoot));
            let mut others = shoots.iter().filter(|shoot| !of(shoot).is_some_and(&met));
            let example = others.next().map(|shoot| (*shoot, of(shoot)));
            let missing = others.count() + usize::from(example.is_some());
            wait::seen(
                missing == 0,
                format!("{missing} of {} do not, such as {example:?}", shoots.len()),
            )
        })
        .await
    }

    /// When the seed has received each write to a dependent that succeeded since then, by shoot.
    pub(crate) fn writes(&self, since: Micros) -> Result<BTreeMap<usize, Vec<Timestamp>>> {
        let mut writes: BTreeMap<usize, Vec<Timestamp>> = BTreeMap::new();
        let shoots: BTreeMap<String, usize> = (0..self.shoots)
            .map(|it| (hosted::namespace(it), it))
            .collect();
        for request in self.seed.operator_requests()? {
            if request.is_write()
                && request.resource.starts_with("deployments")
                && request.code < 300
                && request.received.as_microsecond() >= since
            {
                let shoot = shoots.get(&request.namespace);
                let shoot = shoot.with_context(|| format!("a write to {}", request.namespace))?;
                writes.entry(*shoot).or_default().push(request.received);
            }
        }
        Ok(writes)
    }

    /// Waits until each of these shoots had so many writes since then, and no other had any.
    pub(crate) async fn written(
        &self,
        limit: Duration,
        shoots: &[usize],
        since: Micros,
    ) -> Result<BTreeMap<usize, Vec<Timestamp>>> {
        let what = format!("the dependents of {} shoots to be written", shoots.len());
        wait::seldom(limit, &what, async || {
            let writes = self.writes(since)?;
            if let Some(other) = writes.keys().find(|shoot| !shoots.contains(shoot)) {
                let other = hosted::namespace(*other);
                return Ok(wait::Look::Never(format!(
                    "{other} was touched, a healthy one"
                )));
            }
            let done = writes.values().filter(|it| it.len() >= DEPENDENTS.len());
            let done = done.count();
            Ok(if done == shoots.len() {
                wait::Look::Met(writes)
            } else {
                wait::Look::Not(format!("{done} of {}", shoots.len()))
            })
        })
        .await
    }

    /// Fails unless the dependents of these shoots are at 0 with a mark, and all others as they
    /// were, without.
    pub(crate) async fn ensure_at_zero(&self, shoots: &[usize]) -> Result<()> {
        let names: Vec<String> = shoots.iter().map(|it| hosted::namespace(*it)).collect();
        for deployment in self.deployments().await? {
            let namespace = deployment.namespace().unwrap_or_default();
            let cut = names.contains(&namespace);
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            let marked = deployment.annotations().contains_key(MARK);
            let expected = if cut { Some(0) } else { normal(&deployment) };
            ensure!(
                // What is back keeps its mark for a minute.
                replicas == expected && (marked || !cut),
                "{namespace}/{} has {replicas:?} replicas instead of {expected:?}, marked: {marked}",
                deployment.name_any()
            );
        }
        Ok(())
    }

    async fn ready_dependents(&self) -> Result<usize> {
        let ready = |it: &&Deployment| {
            let status = it.status.as_ref();
            status.and_then(|status| status.ready_replicas) == normal(it)
        };
        Ok(self.deployments().await?.iter().filter(ready).count())
    }

    /// The dependents of all shoots; the operator's own installation is none.
    async fn deployments(&self) -> Result<Vec<Deployment>> {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let mut all = deployments.list(&ListParams::default()).await?.items;
        all.retain(|it| normal(it).is_some());
        Ok(all)
    }
}

/// The replicas that a dependent has before an outage.
fn normal(deployment: &Deployment) -> Option<i32> {
    let name = deployment.name_any();
    let place = DEPENDENTS.iter().position(|it| *it == name)?;
    hosted::REPLICAS.get(place).copied()
}

/// Applies the policy, and tells by which rules it judges.
async fn apply_policy(client: &Client, settings: &Settings) -> Result<Rules> {
    let mut policy: Value = serde_saphyr::from_str(POLICY)?;
    // It would only be waited for, whatever the operator does.
    let dependents = policy.pointer_mut("/spec/dependentResourceInfos");
    let dependents = dependents.and_then(Value::as_array_mut);
    for dependent in dependents.context("no dependents")? {
        json_patch::merge(
            dependent,
            &json!({"scaleUp": {"initialDelay": "0s", "awaitNodes": null}}),
        );
    }
    let mut changes = json!({"spec": {"mode": "Enforce"}});
    if settings.faster > 1 {
        let spec = json!({
            "kcmNodeMonitorGraceDuration": seconds(settings.grace()),
            "probeInterval": seconds(settings.interval()),
        });
        json_patch::merge(&mut changes, &json!({"spec": spec}));
    }
    json_patch::merge(&mut policy, &changes);
    let policies: Api<ProbePolicy> = Api::all(client.clone());
    let params = PatchParams::apply("bench").force();
    let applied = policies
        .patch("shoots", &params, &Patch::Apply(&policy))
        .await;
    let applied = applied.context("cannot apply the ProbePolicy")?;
    Ok(Rules {
        grace: applied.spec.kcm_node_monitor_grace_duration.get(),
        period: settings.lease() / farm::RENEWALS_PER_LEASE,
        fraction: applied.spec.node_lease_failure_fraction,
    })
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs())
}
