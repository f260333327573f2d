//! One run: a cluster is selected, loses its network, gets it back, and is let go, while something goes wrong.

mod attend;
mod journal;

use std::time::Duration;

use fake::{
    chaos::{
        Fault, Seen, rules,
        run::{BYSTANDERS, DEPENDENTS, ETCD, EXPIRY, NODES, PHASES, Phase, dependents},
        snapshot,
    },
    farm::namespace,
    store::{Call, Key, Verb},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::{attend::Attendant, journal::Journal};
use crate::world::{World, micros};

const LEASE: Duration = Duration::from_secs(4);
const POLICY: &str = "shoots";

/// A run that has not come to the next phase by then never will: what is shown of the nodes of a cluster may wait for
/// the next look at them after a restart, a minute later, and several faults may each cost a back-off.
const PHASE_LIMIT: Duration = Duration::from_secs(240);
/// Longer than a policy's status is held back: who has written nothing for so long has no more to say.
const QUIET: Duration = Duration::from_millis(5_500);

/// A fault, and the write at which it happens.
pub type Point = (Fault, String);

/// What an undisturbed run is like.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// How everything stands at the end of each phase.
    states: Vec<Value>,
    /// What is written, in order.
    pub writes: Vec<String>,
}

/// What became of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why it is not as it should be.
    pub problems: Vec<String>,
    /// Whether the fault did not happen, since its write was not made.
    pub is_unreached: bool,
    /// What it was like.
    pub seen: Expected,
}

/// Carries out one run, with a fault at a write if any.
pub async fn run(point: Option<&Point>, expected: Option<&Expected>) -> Outcome {
    let mut run = Run::prepare(point);
    let mut outcome = Outcome::default();
    if let Err(problem) = run.tell(expected, &mut outcome).await {
        outcome.problems.push(problem);
    }
    let entries = run.journal.entries(&run.world.seed.calls());
    let (history, provable, alone) = (run.history(), run.provable, run.attendant.is_alone());
    let broken = rules::broken(
        &history,
        &entries,
        &DEPENDENTS,
        &BYSTANDERS,
        provable,
        alone,
    );
    outcome.problems.extend(broken);
    outcome.is_unreached = point.is_some() && !run.journal.has_happened();
    outcome.seen.writes = entries.into_iter().map(|it| it.write).collect();
    outcome
}

struct Run {
    world: World,
    journal: Journal,
    attendant: Attendant,
    provable: Option<Timestamp>,
}

impl Run {
    fn prepare(point: Option<&Point>) -> Self {
        let world = World::new(1, NODES, LEASE);
        world.put_workload(0, "Etcd", ETCD, 5);
        for bystander in BYSTANDERS {
            world.put_workload(0, "Deployment", bystander.name, bystander.replicas);
        }
        let (journal, demands) = Journal::begin(&world.seed, point);
        let attendant = Attendant::begin(&world, point.map(|it| it.0), demands);
        Self {
            world,
            journal,
            attendant,
            provable: None,
        }
    }

    /// Goes through all phases, and ends the operator.
    async fn tell(
        &mut self,
        expected: Option<&Expected>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        for (place, phase) in PHASES.into_iter().enumerate() {
            self.begin(phase);
            let wanted = expected.and_then(|it| it.states.get(place));
            let state = tokio::select! {
                state = self.comes_to(phase, wanted) => state,
                never = self.attendant.attend(&self.world) => never,
            };
            let state = state.map_err(|problem| format!("{phase:?}: {problem}"))?;
            outcome.seen.states.push(state);
        }
        outcome.problems.extend(self.attendant.finish().await);
        // What the operator has still written in the end must have changed nothing.
        if let Some(state) = outcome.seen.states.last() {
            let differences = self.differences(state, &self.state());
            let said = differences.iter().map(|it| format!("in the end {it}"));
            outcome.problems.extend(said);
        }
        Ok(())
    }

    fn begin(&mut self, phase: Phase) {
        let shoot = self.world.shoot(0);
        match phase {
            Phase::Healthy => self.world.put_policy(&spec()),
            Phase::Protected => {
                shoot.cut(NODES);
                let last = shoot.kubelets().last_written(micros()).max().unwrap();
                let last = Timestamp::from_microsecond(last).unwrap();
                self.provable = Some(last.checked_add(EXPIRY).unwrap());
            }
            Phase::Restored => shoot.restore(),
            Phase::Gone => {
                let call = Call::new(Verb::Delete, &Key::new("probepolicies", "", POLICY));
                let deleted = self.world.seed.store(|store, now| store.call(&call, now));
                deleted.unwrap();
            }
        }
    }

    /// Waits until everything stands as expected, or if nothing is, as it should at the end of the phase, and nothing
    /// more is written.
    async fn comes_to(&self, phase: Phase, wanted: Option<&Value>) -> Result<Value, String> {
        let look = || {
            if self.attendant.is_busy() || !self.journal.is_quiet_for(QUIET) {
                return Err("it does not come to rest".to_owned());
            }
            let state = self.state();
            let wrong = match wanted {
                Some(wanted) => self.differences(wanted, &state),
                None => phase.lacks(&state),
            };
            match wrong.is_empty() {
                true => Ok(state),
                false => Err(wrong.join("; ")),
            }
        };
        self.world.until(PHASE_LIMIT, look).await
    }

    /// Every version of the dependents and of the others.
    fn history(&self) -> Vec<Seen> {
        self.world.seed.store(|store, _| {
            let changes = ["deployments", "etcds"].map(|plural| store.versions(plural));
            let after = changes
                .into_iter()
                .flatten()
                .filter_map(|it| it.after.as_deref());
            let mut history: Vec<Seen> = after.map(Seen::of).collect();
            history.sort_by_key(|it| it.version);
            history
        })
    }

    fn state(&self) -> Value {
        let health = self.world.get("clusterhealths", "", &namespace(0));
        let health = Some(&health["status"]).filter(|_| !health.is_null());
        let policy = self.world.get("probepolicies", "", POLICY);
        let policy = Some(&policy).filter(|it| !it.is_null());
        snapshot::of(&self.history(), health, policy, &namespace(0))
    }

    fn differences(&self, wanted: &Value, found: &Value) -> Vec<String> {
        let mut all = snapshot::differences(wanted, found);
        if self.attendant.may_say_less() {
            all.retain(|it| it.starts_with("/objects/"));
        }
        all
    }
}

/// What the policy of a run has other than the documented one.
fn spec() -> Value {
    let mut spec = json!({
        "mode": "Enforce",
        "probeInterval": "1s",
        "probeTimeout": "5s",
        "initialDelay": "0s",
        "kcmNodeMonitorGraceDuration": "8s",
    });
    json_patch::merge(&mut spec, &dependents());
    spec
}
