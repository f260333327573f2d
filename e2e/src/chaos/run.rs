//! One run: a cluster is selected, loses its network, gets it back, and is let go, while something
//! goes wrong.

mod attend;

use super::{
    Fault, Point,
    proxy::{Proxy, Side},
    script::Script,
    snapshot::take,
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
use fake::chaos::{
    Entry, Seen, rules,
    run::{BYSTANDERS, DEPENDENTS, ETCD, EXPIRY, NODES, PHASES, Phase, dependents},
    snapshot,
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// A run that has not come to the next phase by then never will. It is generous: a machine may be
/// busy, several faults may each cost a back-off, and what is shown of the nodes of a cluster may wait
/// for the next look at them after a restart, a minute later.
const PHASE_LIMIT: Duration = Duration::from_secs(240);
/// Longer than a policy's status is held back: who has written nothing for so long has no more to
/// say.
const QUIET: SignedDuration = SignedDuration::from_millis(5_500);
/// For a write after which nothing is left to be seen, as that of an event.
const LINGER: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(250);
/// To write what is due when it is asked to end.
const FAREWELL: Duration = Duration::from_secs(20);

/// What an undisturbed run was like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expected {
    /// How everything stood at the end of each phase.
    pub(super) states: Vec<Value>,
    /// What was written, with the phase in which it was.
    pub(super) writes: BTreeMap<String, usize>,
    /// The same in order.
    pub(super) order: Vec<String>,
}

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The faults that did not happen, since what they happen at was not written.
    pub(super) unreached: Vec<String>,
    /// The time from the loss of the network to the protection, and from its return to the end of
    /// the restore.
    pub(super) took: Duration,
    /// Why it is not as it should be.
    pub(super) problems: Vec<String>,
    /// What it was like.
    pub(super) seen: Expected,
}

/// Carries out one run. Its name is that of its shoot.
pub(super) async fn run(
    stage: &Stage,
    name: &str,
    point: &Point,
    expected: Option<&Expected>,
) -> Result<Outcome> {
    let mut run = Run::prepare(stage, name, point).await?;
    let mut outcome = Outcome::default();
    let mut provable = None;
    let told = run.tell(point, expected, &mut outcome, &mut provable).await;
    if let Err(error) = told {
        outcome.problems.push(format!("{error:#}"));
    }
    let (history, journal) = (run.watching.history(), run.script.journal());
    let broken = rules::broken(
        &history,
        &journal,
        &DEPENDENTS,
        &BYSTANDERS,
        provable,
        alone(point),
    );
    outcome.problems.extend(broken);
    outcome.unreached = run.script.armed().iter().map(|it| it.1.clone()).collect();
    if !outcome.problems.is_empty() {
        run.keep(&outcome, &history, &journal)?;
    }
    stage.clean(&run.shoot).await?;
    Ok(outcome)
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
    async fn prepare(stage: &'a Stage, name: &str, point: &Point) -> Result<Self> {
        let (script, demands) = Script::new(point);
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
        let election = point.any(Fault::needs_election).then_some(&*namespace);
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
            may_end: point.any(Fault::may_end_the_operator),
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

    /// Goes through all phases, and ends the operator.
    async fn tell(
        &mut self,
        point: &Point,
        expected: Option<&Expected>,
        outcome: &mut Outcome,
        provable: &mut Option<Timestamp>,
    ) -> Result<()> {
        for (place, phase) in PHASES.into_iter().enumerate() {
            let begun = Instant::now();
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
            let reached = look.comes_to(place, phase, expected, point);
            let (state, at) = tokio::select! {
                reached = reached => reached.with_context(|| format!("{phase:?}"))?,
                never = attendant.attend() => match never? {},
            };
            if matches!(phase, Phase::Protected | Phase::Restored) {
                outcome.took += at - begun;
            }
            outcome.seen.states.push(state);
            for entry in script.journal() {
                let writes = &mut outcome.seen.writes;
                if let std::collections::btree_map::Entry::Vacant(new) =
                    writes.entry(entry.write.clone())
                {
                    new.insert(place);
                    outcome.seen.order.push(entry.write);
                }
            }
        }
        self.attendant.finish(FAREWELL).await?;
        outcome.problems.append(&mut self.attendant.problems);
        // What the operator has still written in the end must have changed nothing.
        let last = wait::until("a look at how everything stands", async || {
            self.watching.catch_up().await?;
            let history = self.watching.history();
            let namespace = self.shoot.namespace();
            // A seed that has just been restarted refuses some requests.
            take(&self.client, namespace, &history).await.map(Look::Met)
        })
        .await?;
        if let Some(state) = outcome.seen.states.last() {
            let differences = snapshot::differences(state, &last);
            let said = differences.iter().map(|it| format!("in the end {it}"));
            outcome.problems.extend(said);
        }
        Ok(())
    }

    /// Keeps what is needed to understand a failure beside the logs.
    fn keep(&self, outcome: &Outcome, history: &[Seen], journal: &[Entry]) -> Result<()> {
        let file = |suffix: &str| {
            let name = format!("{}.{suffix}", self.attendant.name);
            self.stage.seed.directory().join(name)
        };
        write_lines(&file("history.json"), history)?;
        write_lines(&file("journal.json"), journal)?;
        let states = serde_json::to_string_pretty(&outcome.seen.states)?;
        fs::write(file("states.json"), states)?;
        fs::write(file("problems.txt"), outcome.problems.join("\n"))?;
        Ok(())
    }
}

fn write_lines<T: serde::Serialize>(path: &Path, items: &[T]) -> Result<()> {
    let lines: Result<Vec<String>, _> = items.iter().map(serde_json::to_string).collect();
    fs::write(path, lines?.join("\n")).with_context(|| path.display().to_string())
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
    script: &'a Arc<Script>,
}

impl Looking<'_> {
    /// Waits until everything stands as expected, or if nothing is, as it should at the end of the
    /// phase, and until what is to go wrong in this phase has. Tells when that was first so.
    async fn comes_to(
        &self,
        place: usize,
        phase: Phase,
        expected: Option<&Expected>,
        point: &Point,
    ) -> Result<(Value, Instant)> {
        let mut since: Option<Instant> = None;
        let armed_here = |expected: &Expected| {
            let armed = self.script.armed();
            armed
                .iter()
                .any(|it| expected.writes.get(&it.1) == Some(&place))
        };
        let what = format!("the end of the phase in the run with {point}");
        wait::until_within(PHASE_LIMIT, &what, async || {
            let history = self.watching.history();
            let state = take(self.client, self.namespace, &history).await?;
            let (wrong, calm) = match expected.and_then(|it| Some((it, it.states.get(place)?))) {
                Some((expected, wanted)) => {
                    let calm = !armed_here(expected)
                        || since.is_some_and(|since| since.elapsed() > LINGER);
                    let settled = phase != Phase::Gone || alone(point) || self.is_quiet()?;
                    (snapshot::differences(wanted, &state), calm && settled)
                }
                None => (phase.lacks(&state), self.is_quiet()?),
            };
            if !wrong.is_empty() {
                since = None;
                sleep(POLL).await;
                return Ok(Look::Not(wrong.join("; ")));
            }
            let at = *since.get_or_insert_with(Instant::now);
            Ok(match calm && !self.script.is_disturbed() {
                true => Look::Met((state, at)),
                false => {
                    sleep(POLL).await;
                    Look::Not("as it should be, but what is to go wrong has not yet".to_owned())
                }
            })
        })
        .await
    }

    /// Whether nothing was written for a while.
    fn is_quiet(&self) -> Result<bool> {
        let last = self.script.journal().last().map(|entry| entry.at);
        Ok(match last {
            Some(last) => Timestamp::now() > last.checked_add(QUIET)?,
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

/// Whether one operator acts. Of two, who is the first to let the cluster go deletes a ClusterHealth that
/// the other still keeps, and creates again: only when nothing is written any more have both let it go.
fn alone(point: &Point) -> bool {
    !point.any(|fault| fault == Fault::SecondOperator)
}
