//! Restores clusters by the flow of the prober, each on its own, and tells what is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};

use futures::{FutureExt as _, future::join_all};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Restorer, messages,
    plan::{Plan, is_back, short},
};
use crate::{
    api::DependentRef,
    prober::{
        flow::{Ending, FINISH, FlowEvent, FlowInput, FlowMachine, What},
        perform::perform,
        plan::{Aim, Settled, Step},
    },
};

/// Of what a flow has not come to.
const NOT_BEGUN: &str = "not begun";

/// What became of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its name.
    pub cluster: String,
    /// The dependents that were scaled up.
    pub restored: BTreeSet<DependentRef>,
    /// What is not as it was, or is not known to be, and why.
    pub left: Vec<String>,
    /// The dependents that the operator ignores from now on.
    pub ignored: BTreeSet<DependentRef>,
}

/// Follows one flow.
struct Account {
    plan: Plan,
    overrule: bool,
    /// Why each is not back, as long as it is not.
    open: BTreeMap<DependentRef, String>,
    /// A level could not be completed, and those after it were not begun.
    stuck: bool,
    ended: Ended,
}

impl Restorer {
    /// Restores these clusters until it is stopped: then what is half written is finished, within
    /// seconds. `say` is told of each step.
    pub async fn restore(
        &self,
        plans: Vec<Plan>,
        stop: &CancellationToken,
        say: &dyn Fn(&str),
    ) -> Vec<Ended> {
        // All at once: the budget bounds requests, and most of the time is waiting for pods, of which
        // none has to wait for those of others.
        let runs = plans.into_iter().map(|plan| self.run(plan, stop, say));
        let mut ended = join_all(runs).await;
        ended.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        ended
    }

    async fn run(&self, plan: Plan, stop: &CancellationToken, say: &dyn Fn(&str)) -> Ended {
        let acts = plan.workable() > 0;
        let (events, mut told) = mpsc::unbounded_channel();
        let aim = plan.aim();
        // What is back needs nobody to overrule the operator.
        let overrule = self.overrule && aim == Aim::Restore && plan.is_due();
        let scaler = self.scaler.within(plan.cluster.clone());
        let flow = FlowMachine::new(&plan.flow_plan(), overrule);
        let stopped = stop.cancelled();
        let control = pin!(stopped.map(|()| FlowInput::Finish(Instant::now() + FINISH)));
        let control = control.into_stream();
        let mut account = Account::new(plan, overrule);
        if acts {
            let follow = async {
                while let Some(event) = told.recv().await {
                    if let Some(line) = account.note(&event) {
                        say(&line);
                    }
                }
            };
            let (ending, ()) = tokio::join!(perform(flow, scaler, control, events), follow);
            account.stuck = matches!(ending, Ending::Stuck | Ending::Refused);
        }
        account.end()
    }
}

impl Account {
    fn new(plan: Plan, overrule: bool) -> Self {
        let due = plan.rows.iter().filter(|row| row.due);
        let open = due.map(|row| {
            let reference = &row.dependent.reference;
            let why = match (&plan.held_back, &row.plan) {
                (_, Err(refusal)) => refusal.clone(),
                (Some(_), _) => "held back, as said above".to_owned(),
                (None, Ok(Step::Nothing(_))) => row.words.clone(),
                (None, Ok(_)) => NOT_BEGUN.to_owned(),
            };
            (reference.clone(), why)
        });
        Self {
            open: open.collect(),
            ended: Ended {
                cluster: plan.cluster.to_string(),
                ..Ended::default()
            },
            overrule,
            stuck: false,
            plan,
        }
    }

    /// Takes down what the flow did or met, and tells what is worth a line.
    fn note(&mut self, event: &FlowEvent) -> Option<String> {
        let reference = &event.dependent.reference;
        let told = match &event.what {
            What::Did(step, _) => self.did(*step, reference),
            What::Settled(settled, _) => self.settled(*settled, reference),
            What::Late(timeout) => self.leave(
                reference,
                format!("scaled, and not up after {timeout:?}: see why its pods do not come"),
            ),
            // What holds up the others is named even if nothing is owed to it.
            What::Failed(error, _)
                if self.open.contains_key(reference) || error.is_about_the_attempt() =>
            {
                self.leave(reference, messages::scale(error))
            }
            What::Waiting(..) | What::Delayed | What::Unready(_) | What::Failed(..) => None,
            What::Interrupted(_) => self.leave(
                reference,
                "stopped in the middle; the next run completes it".to_owned(),
            ),
        }?;
        Some(format!(
            "{}  {}: {told}",
            self.ended.cluster,
            short(reference)
        ))
    }

    fn did(&mut self, step: Step, reference: &DependentRef) -> Option<String> {
        let (told, open) = match step {
            Step::ScaleUp { to } => {
                self.ended.restored.insert(reference.clone());
                let told = format!("scaled to {to}");
                let open = format!("{told}, and not seen to be up yet");
                (told, open)
            }
            Step::DropMarkAndRecord | Step::DropMark if self.plan.aim() == Aim::Release => {
                let told = "mark removed, and left to gardenlet".to_owned();
                (told.clone(), told)
            }
            // It is waited for by now.
            Step::DropMarkAndRecord if self.ended.restored.contains(reference) => return None,
            Step::DropMarkAndRecord => {
                let told = "mark removed, replicas kept".to_owned();
                (told.clone(), told)
            }
            Step::DropMark => {
                let told = "mark removed, left as it is: it says ignore-scaling".to_owned();
                (told.clone(), told)
            }
            Step::ScaleDown { .. } | Step::Record { .. } | Step::Wait | Step::Nothing(_) => {
                return None;
            }
        };
        if self.overrule && step != Step::DropMark {
            self.ended.ignored.insert(reference.clone());
        }
        self.open.insert(reference.clone(), open);
        Some(told)
    }

    fn settled(&mut self, settled: Settled, reference: &DependentRef) -> Option<String> {
        if settled == Settled::Released {
            self.open.remove(reference);
            return None;
        }
        if is_back(settled) {
            return self.open.remove(reference).map(|_| "is up".to_owned());
        }
        self.open.get(reference)?;
        let mut rows = self.plan.rows.iter();
        let number = rows.find(|row| row.dependent.reference == *reference);
        let number = number.and_then(|row| row.number);
        let why = self.plan.left(settled, reference, number);
        self.leave(reference, why)
    }

    fn leave(&mut self, reference: &DependentRef, why: String) -> Option<String> {
        self.open.insert(reference.clone(), why.clone());
        Some(why)
    }

    fn end(mut self) -> Ended {
        let (cluster, trouble) = (&self.ended.cluster, self.plan.trouble.take());
        let stuck = match self.stuck {
            true => ": an earlier level is not complete",
            false => "",
        };
        let open = self.open.iter().map(|(reference, why)| {
            let more = if why == NOT_BEGUN { stuck } else { "" };
            format!("{cluster}  {}: {why}{more}", short(reference))
        });
        let mut left: Vec<String> = open.collect();
        left.extend(trouble.map(|trouble| format!("{cluster}: {trouble}")));
        self.ended.left = left;
        self.ended
    }
}
