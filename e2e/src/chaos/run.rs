//! One run: a cluster is selected, loses its network, gets it back, and is let go, while something
//! goes wrong.

mod attend;

use super::{
    Fault,
    proxy::{Proxy, Side},
    script::Script,
    stage::Stage,
    watching::{Watching, etcds},
};
use crate::{
    Policy, Shoot,
    shoot::PROBE,
    wait::{self, Look},
};
use anyhow::{Context as _, Result};
use attend::Attendant;
use dependency_watchdog::api::{ClusterHealth, ProbePolicy};
use fake::chaos::{
    rules,
    run::{BYSTANDERS, DEPENDENTS, ETCD, EXPIRY, NODES, PHASES, Phase, dependents},
    snapshot,
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fs, sync::Arc, time::Duration};
use tokio::time::sleep;

/// A run that has not come to the next phase by then never will. It is generous: a machine may be
/// busy, a fault may cost a back-off, and what is shown of the nodes of a cluster may wait for the next
/// look at them after a restart, a minute later.
const PHASE_LIMIT: Duration = Duration::from_secs(240);
/// Longer than a policy's status is held back: who has written nothing for so long has no more to
/// say.
const QUIET: SignedDuration = SignedDuration::from_millis(5_500);
const POLL: Duration = Duration::from_millis(250);
/// To write what is due when it is asked to end.
const FAREWELL: Duration = Duration::from_secs(20);

/// A fault, the dependent at whose write it happens, and what the write does to it: `mark`, `down`, `up`, `unmark`.
pub type Point = (Fault, &'static str, &'static str);

/// Names a write as the journal does.
fn write((_, dependent, change): Point) -> String {
    let resource = match (dependent, change) {
        (ETCD, "down" | "up") => "etcds/scale",
        (ETCD, _) => "etcds",
        _ => "deployments",
    };
    format!("{resource}/{dependent}:{change}#1")
}

/// Carries out a run with this fault. Returns why it is not as it should be: nothing if all is well. `name` is that of
/// its shoot.
pub async fn problems(stage: &Stage, name: &str, point: Point) -> Result<Vec<String>> {
    let fault = point.0;
    let mut run = Run::prepare(stage, name, fault, &write(point)).await?;
    let mut provable = None;
    let played = run.play(&mut provable).await;
    let mut problems = std::mem::take(&mut run.attendant.problems);
    problems.extend(played.err().map(|error| format!("{error:#}")));
    let (history, journal) = (run.watching.history(), run.script.journal());
    problems.extend(rules::broken(
        &history,
        &journal,
        &DEPENDENTS,
        &BYSTANDERS,
        provable,
        fault != Fault::SecondOperator,
    ));
    if !problems.is_empty() {
        run.keep("history", &history)?;
        run.keep("journal", &journal)?;
    }
    Ok(problems)
}

struct Run<'a> {
    stage: &'a Stage,
    client: Client,
    shoot: Shoot,
    policy: Policy,
    watching: Watching,
    script: Arc<Script>,
    attendant: Attendant<'a>,
    _proxies: [Proxy; 2],
}

impl<'a> Run<'a> {
    async fn prepare(stage: &'a Stage, name: &str, fault: Fault, write: &str) -> Result<Self> {
        let (script, demands) = Script::new(fault, write);
        let shoot = stage.shoot(name, NODES).await?;
        let client = stage.seed.client()?;
        let namespace = shoot.namespace().to_owned();
        let watching = Watching::start(&client, &namespace);
        create_objects(&shoot, &client).await?;

        let to_shoot = shoot.api_server().kubeconfig_of(PROBE.id)?;
        let (identity, side) = (&stage.identity, Side::Shoot);
        let shoot_proxy = Proxy::start(side, &to_shoot, identity, &script).await?;
        let kubeconfig = shoot_proxy.kubeconfig(identity, &to_shoot).to_string();
        shoot.control_plane.write_kubeconfig(&kubeconfig).await?;

        let to_seed = stage.seed.operator_kubeconfig()?;
        let side = Side::Seed(namespace.clone());
        let seed_proxy = Proxy::start(side, &to_seed, identity, &script).await?;
        let kubeconfig = seed_proxy.kubeconfig(identity, &to_seed);
        let election = fault.needs_election().then_some(&*namespace);
        let operator = attend::start(&stage.seed, name, &kubeconfig, election)?;
        script.cast(&operator);
        let policy = shoot.policy()?.with(&dependents());
        let attendant = Attendant {
            stage,
            name: name.to_owned(),
            namespace,
            kubeconfig,
            script: Arc::clone(&script),
            operator,
            second: None,
            demands,
            accounted: 0,
            problems: Vec::new(),
        };
        Ok(Self {
            stage,
            client,
            shoot,
            policy,
            watching,
            script,
            attendant,
            _proxies: [seed_proxy, shoot_proxy],
        })
    }

    /// Goes through all phases, and ends the operator, which must change nothing more in the end.
    async fn play(&mut self, provable: &mut Option<Timestamp>) -> Result<()> {
        for phase in PHASES {
            match phase {
                Phase::Healthy => self.policy.apply().await?,
                Phase::Protected => {
                    self.shoot.cut_all();
                    *provable = Some(provable_at(&self.shoot)?);
                }
                Phase::Restored => self.shoot.restore_all(),
                Phase::Gone => self.policy.delete().await?,
            }
            let Self {
                client,
                shoot,
                watching,
                script,
                attendant,
                ..
            } = &mut *self;
            let look = Looking {
                client,
                namespace: shoot.namespace(),
                watching,
                script,
            };
            tokio::select! {
                reached = look.comes_to(phase) => reached.with_context(|| format!("{phase:?}"))?,
                never = attendant.attend() => match never? {},
            }
        }
        self.attendant.finish(FAREWELL).await?;
        self.watching.catch_up().await
    }

    /// Keeps what is needed to understand a failure beside the logs.
    fn keep<T: Serialize>(&self, what: &str, items: &[T]) -> Result<()> {
        let name = format!("{}.{what}.json", self.attendant.name);
        let path = self.stage.seed.directory().join(name);
        let lines: Result<Vec<String>, _> = items.iter().map(serde_json::to_string).collect();
        fs::write(&path, lines?.join("\n")).with_context(|| path.display().to_string())
    }
}

/// The earliest instant at which both leases can be expired.
fn provable_at(shoot: &Shoot) -> Result<Timestamp> {
    let mut last = Timestamp::MIN;
    for kubelet in &shoot.kubelets {
        last = last.max(kubelet.last_renewal()?.sent);
    }
    Ok(last.checked_add(EXPIRY)?)
}

struct Looking<'a> {
    client: &'a Client,
    namespace: &'a str,
    watching: &'a Watching,
    script: &'a Script,
}

impl Looking<'_> {
    /// Waits until everything stands as it should at the end of the phase, nothing is written any more, and what was
    /// to go wrong by then is over.
    async fn comes_to(&self, phase: Phase) -> Result<()> {
        wait::until_within(PHASE_LIMIT, "the end of the phase", async || {
            let mut wrong = phase.lacks(&self.state().await?);
            let is_over =
                !matches!(phase, Phase::Restored | Phase::Gone) || !self.script.is_armed();
            if !is_over || self.script.is_disturbed() {
                wrong.push("what is to go wrong is not over".to_owned());
            }
            if !self.is_quiet()? {
                wrong.push("the operator still writes".to_owned());
            }
            if wrong.is_empty() {
                return Ok(Look::Met(()));
            }
            sleep(POLL).await;
            Ok(Look::Not(wrong.join("; ")))
        })
        .await
    }

    /// Reads how everything stands; the ClusterHealth and the policy have the name of the namespace.
    async fn state(&self) -> Result<Value> {
        let healths: Api<ClusterHealth> = Api::all(self.client.clone());
        let health = healths.get_opt(self.namespace).await?;
        let health = health.map(|found| serde_json::to_value(found.status));
        let policies: Api<ProbePolicy> = Api::all(self.client.clone());
        let policy = policies.get_opt(self.namespace).await?;
        let policy = policy.map(serde_json::to_value);
        Ok(snapshot::of(
            &self.watching.history(),
            health.transpose()?.as_ref(),
            policy.transpose()?.as_ref(),
            self.namespace,
        ))
    }

    /// Whether nothing was written for a while, but that the operator still leads.
    fn is_quiet(&self) -> Result<bool> {
        let mut journal = self.script.journal();
        journal.retain(|entry| !entry.write.starts_with("leases:"));
        Ok(match journal.last() {
            Some(last) => Timestamp::now() > last.at.checked_add(QUIET)?,
            None => false,
        })
    }
}

async fn create_objects(shoot: &Shoot, client: &Client) -> Result<()> {
    let all = DEPENDENTS.iter().map(|it| (it.name, it.replicas));
    let all = all.chain(BYSTANDERS.map(|it| (it.name, it.replicas)));
    for (name, replicas) in all {
        if name == ETCD {
            let kind = etcds();
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": kind.api_version, "kind": kind.kind,
                "metadata": {"name": name}, "spec": {"replicas": replicas},
            }))?;
            let api = Api::namespaced_with(client.clone(), shoot.namespace(), &kind);
            api.create(&PostParams::default(), &object).await?;
        } else {
            let replicas = i32::try_from(replicas)?;
            shoot.control_plane.create_dependent(name, replicas).await?;
        }
    }
    Ok(())
}
