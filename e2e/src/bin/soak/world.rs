//! What a soak works with, and how each event of the walk is carried out.

use crate::{
    replicas::Replicas,
    versions::{Versions, version},
};
use anyhow::{Context as _, Result};
use dependency_watchdog::{api::ProbePolicy, prober::plan::IGNORE};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Process, Seed,
    farm::{self, Control, Description, Micros, NOTICE, now},
    hosted,
    wait::{self, seen},
};
use fake::oracle::{
    event::Event,
    plan::Size,
    policy::{Edit, HALF, Policy, half},
    truth::Truth,
    versions::{Version, names},
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs::File, io::Write as _, path::Path, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The documented one; what a soak has otherwise is in [`Policy::spec`].
const POLICY: &str = include_str!("../../../../docs/examples/probe-policy.yaml");
/// Its name there.
pub(crate) const NAME: &str = "shoots";
/// Half of a real one's, so that twice as much happens.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// Between two looks whether the operator runs.
const LOOK: Duration = Duration::from_millis(200);

/// All that there is; its processes end with it.
pub(crate) struct World {
    pub(crate) seed: Arc<Seed>,
    pub(crate) client: Client,
    pub(crate) replicas: Replicas,
    pub(crate) versions: Versions,
    pub(crate) truth: Truth,
    pub(crate) farm: Process,
    pub(crate) control: Control,
    pub(crate) description: Description,
    pub(crate) shoots: usize,
    pub(crate) nodes: usize,
    /// How many replicas people want of each dependent.
    pub(crate) wanted: BTreeMap<(usize, &'static str), i32>,
    /// What was done, by kind.
    pub(crate) done: BTreeMap<String, usize>,
    /// What was not, since it would not have been possible or sensible then.
    pub(crate) left_out: usize,
    /// How often a process ended since it did not lead any more.
    pub(crate) deposed: usize,
    /// What makes up for what was done and is not yet over.
    open: Vec<Event>,
    /// Clusters that are deleted, to be created again.
    removed: BTreeMap<usize, Value>,
    tokens: usize,
    journal: File,
}

impl World {
    /// Starts a seed, a farm and the operator, and creates all that the seed has of its shoots.
    pub(crate) async fn start(env: &Env, root: &Path, size: Size) -> Result<Self> {
        let Size { shoots, nodes, .. } = size;
        let (farm, control, description) = farm::start(root, "farm", shoots, nodes, LEASE).await?;
        let seed = env.own_seed("soak").await?;
        let client = seed.client()?;
        let versions = Versions::start(&client, shoots);
        hosted::create(&client, &description, nodes).await?;
        let period = LEASE / farm::RENEWALS_PER_LEASE;
        let mut truth = Truth::new(shoots, nodes, period, description.started, Policy::FIRST);
        let mut wanted = BTreeMap::new();
        for shoot in 0..shoots {
            for (name, replicas) in DEPENDENTS.into_iter().zip(hosted::REPLICAS) {
                truth.count(shoot, name, replicas.into());
                wanted.insert((shoot, name), replicas);
            }
        }
        let world = Self {
            replicas: Replicas::start(&seed)?,
            seed,
            client,
            versions,
            truth,
            farm,
            control,
            description,
            shoots,
            nodes,
            wanted,
            done: BTreeMap::new(),
            left_out: 0,
            deposed: 0,
            open: Vec::new(),
            removed: BTreeMap::new(),
            tokens: 0,
            journal: File::create(root.join("journal.jsonl"))?,
        };
        for shoot in 0..shoots {
            let label = json!({"metadata": {"labels": {HALF: half(shoot)}}});
            world.patch_cluster(shoot, &label).await?;
        }
        let mut policy: Value = serde_saphyr::from_str(POLICY)?;
        json_patch::merge(&mut policy, &json!({"spec": Policy::FIRST.spec()}));
        let policies: Api<ProbePolicy> = Api::all(world.client.clone());
        let policy: ProbePolicy = serde_json::from_value(policy)?;
        policies.create(&PostParams::default(), &policy).await?;
        Ok(world)
    }

    /// Lets time pass, and looks after the processes meanwhile.
    pub(crate) async fn pass(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.attend()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK)).await;
        }
    }

    pub(crate) fn attend(&mut self) -> Result<()> {
        self.farm.ensure_running()?;
        self.replicas.attend()?;
        for at in self.replicas.deposed.drain(..) {
            self.deposed += 1;
            self.truth.deposed(at);
        }
        Ok(())
    }

    /// Makes up for all that was done, so that all is well by and by.
    pub(crate) async fn heal(&mut self) -> Result<()> {
        while let Some(end) = self.open.last().cloned() {
            self.carry_out(&end).await?;
        }
        Ok(())
    }

    /// Does it, and notes it.
    pub(crate) async fn carry_out(&mut self, event: &Event) -> Result<()> {
        let begun = now();
        let outcome = self.act(event, begun).await;
        let outcome = outcome.with_context(|| format!("the walk cannot go on: {event:?}"))?;
        if let Some(place) = self.open.iter().position(|end| end == event) {
            self.open.remove(place);
        }
        let time = |at| Timestamp::from_microsecond(at).unwrap_or_default();
        let line = json!({
            "begun": time(begun).to_string(),
            "done": time(now()).to_string(),
            "event": event,
            "outcome": outcome,
        });
        writeln!(self.journal, "{line}")?;
        if outcome.is_none() {
            self.left_out += 1;
            return Ok(());
        }
        self.truth.happened(event, begun, now());
        *self.done.entry(event.kind()).or_default() += 1;
        self.open.extend(event.end());
        Ok(())
    }

    /// What was done to whom, if it was.
    async fn act(&mut self, event: &Event, begun: Micros) -> Result<Option<String>> {
        let at = begun + NOTICE;
        match *event {
            Event::Cut { shoot, nodes } => self.control.cut(&[shoot], nodes, at).await?,
            Event::Restore { shoot } => self.control.restore(&[shoot], at).await?,
            Event::Kill { shoot, how } => self.control.kill(&[(shoot, how)], at).await?,
            Event::Revive { shoot } => self.control.revive(&[shoot], at).await?,
            Event::Hibernate { shoot } => self.patch_cluster(shoot, &hibernation(true)).await?,
            Event::Wake { shoot } => {
                self.give_replicas(shoot).await?;
                self.patch_cluster(shoot, &hibernation(false)).await?;
            }
            Event::Remove { shoot } => self.remove_cluster(shoot).await?,
            Event::Create { shoot } => {
                if let Some(cluster) = self.removed.remove(&shoot) {
                    let cluster: DynamicObject = serde_json::from_value(cluster)?;
                    let params = PostParams::default();
                    self.clusters().create(&params, &cluster).await?;
                }
                self.give_replicas(shoot).await?;
            }
            Event::Rotate { shoot } => self.rotate(shoot).await?,
            Event::Scale {
                shoot,
                dependent,
                replicas,
            } => {
                self.truth.count(shoot, dependent, replicas.into());
                let change = json!({"spec": {"replicas": replicas}});
                if !self.change_if_well(shoot, dependent, change).await? {
                    return Ok(None);
                }
                self.wanted.insert((shoot, dependent), replicas);
            }
            Event::Annotate { shoot, dependent } => {
                let change = json!({"metadata": {"annotations": {"soak/at": begun.to_string()}}});
                self.patch_dependent(shoot, dependent, &change).await?;
            }
            Event::Replace { shoot, dependent } => self.replace(shoot, dependent).await?,
            Event::Ignore { shoot, dependent } => {
                let change = json!({"metadata": {"annotations": {IGNORE: "true"}}});
                if !self.change_if_well(shoot, dependent, change).await? {
                    return Ok(None);
                }
            }
            Event::Heed { shoot, dependent } => {
                let change = json!({"metadata": {"annotations": {IGNORE: null}}});
                self.patch_dependent(shoot, dependent, &change).await?;
            }
            Event::Policy(edit) => self.edit(edit).await?,
            Event::Hurt(hurt, role) => {
                let name = self.replicas.hurt(hurt, role).await?;
                return Ok(Some(name.to_owned()));
            }
            Event::Thaw => self.replicas.thaw()?,
            Event::RestartSeed => {
                self.replicas.excuse();
                self.seed.server().stop();
                self.seed.server().start_again().await?;
                self.replicas.excuse();
            }
        }
        Ok(Some("done".to_owned()))
    }

    /// The dependents as they are, in any order.
    pub(crate) async fn dependents(&self) -> Result<(Vec<Version>, Vec<Deployment>)> {
        let all: Api<Deployment> = Api::all(self.client.clone());
        let listed = all.list(&ListParams::default()).await?.items;
        let names = names(self.shoots);
        let versions = listed.iter().filter_map(|it| version(it, &names));
        Ok((versions.collect(), listed))
    }

    fn clusters(&self) -> Api<DynamicObject> {
        Api::all_with(
            self.client.clone(),
            &ApiResource {
                group: "extensions.gardener.cloud".into(),
                version: "v1alpha1".into(),
                api_version: "extensions.gardener.cloud/v1alpha1".into(),
                kind: "Cluster".into(),
                plural: "clusters".into(),
            },
        )
    }

    async fn patch_cluster(&self, shoot: usize, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        let name = hosted::namespace(shoot);
        let clusters = self.clusters();
        let patched = clusters.patch(&name, &params, &Patch::Merge(patch)).await;
        patched.with_context(|| format!("cannot patch {name}"))?;
        Ok(())
    }

    async fn remove_cluster(&mut self, shoot: usize) -> Result<()> {
        let (name, clusters) = (hosted::namespace(shoot), self.clusters());
        let mut kept = serde_json::to_value(clusters.get(&name).await?)?;
        let labels = kept.pointer("/metadata/labels").cloned();
        if let Some(kept) = kept.as_object_mut() {
            kept.insert(
                "metadata".to_owned(),
                json!({"name": name, "labels": labels}),
            );
        }
        clusters.delete(&name, &DeleteParams::default()).await?;
        self.removed.insert(shoot, kept);
        Ok(())
    }

    fn deployments(&self, shoot: usize) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &hosted::namespace(shoot))
    }

    async fn patch_dependent(&self, shoot: usize, name: &str, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        let patched = self.deployments(shoot);
        let patched = patched.patch(name, &params, &Patch::Merge(patch)).await;
        patched.with_context(|| format!("cannot patch {name} of shoot {shoot}"))?;
        Ok(())
    }

    /// Changes a dependent that is up and without a mark, as somebody would who looks first.
    async fn change_if_well(&self, shoot: usize, name: &str, mut change: Value) -> Result<bool> {
        let deployments = self.deployments(shoot);
        let found = deployments.get(name).await?;
        let before = version(&found, &names(self.shoots));
        if !before.is_some_and(|it| it.replicas > 0 && !it.marked && !it.ignored) {
            return Ok(false);
        }
        let seen = json!({"metadata": {"resourceVersion": found.metadata.resource_version}});
        json_patch::merge(&mut change, &seen);
        let params = PatchParams::default();
        match deployments
            .patch(name, &params, &Patch::Merge(change))
            .await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(refused)) if refused.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// As Gardener does when a shoot is reconciled that nobody protects.
    async fn give_replicas(&self, shoot: usize) -> Result<()> {
        for name in DEPENDENTS {
            let replicas = self.wanted(shoot, name);
            let change = json!({"spec": {"replicas": replicas}});
            self.patch_dependent(shoot, name, &change).await?;
        }
        Ok(())
    }

    fn wanted(&self, shoot: usize, name: &'static str) -> i32 {
        self.wanted.get(&(shoot, name)).copied().unwrap_or(1)
    }

    async fn replace(&self, shoot: usize, name: &'static str) -> Result<()> {
        let deployments = self.deployments(shoot);
        let mut found = serde_json::to_value(deployments.get(name).await?)?;
        let replicas = self.wanted(shoot, name);
        let labels = found.pointer("/metadata/labels").cloned();
        json_patch::merge(
            &mut found,
            &json!({"status": null, "spec": {"replicas": replicas}}),
        );
        if let Some(found) = found.as_object_mut() {
            found.insert(
                "metadata".to_owned(),
                json!({"name": name, "labels": labels}),
            );
        }
        let new: Deployment = serde_json::from_value(found)?;
        deployments.delete(name, &DeleteParams::default()).await?;
        wait::until("the dependent to be gone", async || {
            seen(deployments.get_opt(name).await?.is_none(), "it is there")
        })
        .await?;
        deployments.create(&PostParams::default(), &new).await?;
        Ok(())
    }

    /// The old token is refused before the Secret has the new one: nobody is asked to be quick.
    async fn rotate(&mut self, shoot: usize) -> Result<()> {
        self.tokens += 1;
        let token = format!("token-{}", self.tokens);
        let port = self.description.ports.get(shoot).copied();
        let port = port.context("a shoot without a port")?;
        self.control.token(shoot, &token).await?;
        let secret = hosted::secret(port, &self.description.authority, &token);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &hosted::namespace(shoot));
        let params = PatchParams::default();
        secrets
            .patch(hosted::SECRET, &params, &Patch::Merge(secret))
            .await?;
        Ok(())
    }

    async fn edit(&self, edit: Edit) -> Result<()> {
        let policy = self.truth.newest_policy().edited(edit);
        let policies: Api<ProbePolicy> = Api::all(self.client.clone());
        let patch = json!({"spec": policy.spec()});
        let params = PatchParams::default();
        policies.patch(NAME, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }
}

fn hibernation(is_on: bool) -> Value {
    json!({"spec": {"shoot": {
        "spec": {"hibernation": {"enabled": is_on}},
        "status": {"hibernated": is_on},
    }}})
}
