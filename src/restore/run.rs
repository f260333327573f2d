//! Restores clusters, each on its own, by the step function of the prober.

use std::{mem, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Part, Restorer, State};
use crate::prober::{
    dependents::Written,
    scale::ScaleError,
    step::{self, Aim, Next, Observed, Step},
};

/// Time between two reads of a dependent. Pods take seconds to start.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports a step. Without it nothing is written: each dependent is read once, and its next step noted.
pub type Say<'a> = Option<&'a dyn Fn(&str)>;

impl Restorer {
    /// Restores these dependents until it is stopped, each cluster on its own.
    pub async fn restore(&self, parts: &mut [Part], stop: &CancellationToken, say: Say<'_>) {
        let clusters = parts.chunk_by_mut(|a, b| a.cluster == b.cluster);
        join_all(clusters.map(|parts| self.restore_one(parts, stop, say))).await;
    }

    async fn restore_one(&self, parts: &mut [Part], stop: &CancellationToken, say: Say<'_>) {
        // Read again: the cluster may have been hibernated before somebody consented.
        let Some(aim) = self.aim(parts).await else {
            return;
        };
        let level = |part: &Part| step::level(&part.dependent, aim);
        for parts in parts.chunk_by_mut(|a, b| level(a) == level(b)) {
            let runs = parts.iter_mut();
            join_all(runs.map(|part| self.bring_back(aim, part, stop, say))).await;
            let Some(say) = say else {
                continue;
            };
            parts.iter().for_each(|part| say(&part.line()));
            // What is still due was stopped.
            let blocks = |part: &Part| matches!(part.state, State::Due | State::Stuck);
            if parts.iter().any(blocks) {
                return;
            }
        }
    }

    /// Reads a dependent, writes what is next, and reads it again, until it is back or late.
    async fn bring_back(&self, aim: Aim, part: &mut Part, stop: &CancellationToken, say: Say<'_>) {
        let scaler = self.scaler.within(part.cluster.clone());
        let (reference, mut up) = (part.dependent.reference.clone(), part.dependent.up);
        let (mut pause, mut late) = (Duration::ZERO, None);
        loop {
            let read = async {
                sleep(pause).await;
                scaler.read(&reference).await
            };
            let Some(seen) = stop.run_until_cancelled(read).await else {
                return;
            };
            pause = PAUSE;
            let next = self.next(aim, part, seen);
            let (Some((next, found)), Some(say)) = (next, say) else {
                return;
            };
            let scales_up = matches!(next, Next::Do(Step::ScaleUp { .. }));
            if scales_up && !up.initial_delay.is_zero() {
                pause = mem::take(&mut up.initial_delay);
                continue;
            }
            let now = Instant::now();
            let waits = scales_up || next == Next::Wait;
            if waits && now >= *late.get_or_insert(now + up.timeout) {
                let why = format!("not running after {:?}: see its pods", up.timeout);
                return part.set(State::Left, why);
            }
            let Next::Do(step) = next else {
                continue;
            };
            let write = match self.overrules(aim) {
                true => step.overruling_write(&found),
                false => step.write(&found),
            };
            scaler.turn_to_write().await;
            match scaler.write(&reference, write).await {
                Written::Done => {
                    part.ignored |= self.overrules(aim);
                    part.says.push_str(", under way");
                    say(&part.line());
                }
                Written::Overtaken(_) => {}
                Written::Unanswered(error) | Written::Failed(error) => return part.fail(&error),
            }
        }
    }

    /// Notes what is next for a dependent that was read, and returns that, if there is anything.
    pub(super) fn next(
        &self,
        aim: Aim,
        part: &mut Part,
        found: Result<Option<Observed>, ScaleError>,
    ) -> Option<(Next, Observed)> {
        let next = match &found {
            Ok(found) => self.decide(aim, part, found.clone()),
            Err(error) => Err(error.clone()),
        };
        let found = found.ok().flatten();
        let is_zero = found.as_ref().is_some_and(|found| found.replicas == 0);
        match &next {
            Ok(Next::Reached) if is_zero && part.memory.owed && aim == Aim::Up => {
                let replicas = part.memory.replicas.unwrap_or(1);
                let why = "it has lost its mark, or says ignore-scaling";
                let why = format!("{why}: scale it to {replicas} by kubectl");
                part.set(State::Left, why);
            }
            Ok(Next::Reached) => part.set(State::Settled, "as it should be"),
            Ok(Next::Wait) => part.set(State::Due, "scaled up, and not running yet"),
            Ok(Next::Do(step)) if aim == Aim::Release => {
                let why = "gardenlet decides about its replicas";
                part.set(State::Due, format!("{step}: {why}"));
            }
            Ok(Next::Do(step)) => part.set(State::Due, step.to_string()),
            Err(error) => part.fail(error),
        }
        let decided = next.ok().zip(found);
        decided.filter(|_| part.state == State::Due)
    }

    /// Decides what is next. Nothing else uses the prober's step function.
    fn decide(
        &self,
        aim: Aim,
        part: &mut Part,
        found: Option<Observed>,
    ) -> Result<Next, ScaleError> {
        let memory = &mut part.memory;
        if let Some(found) = &found {
            memory.owed |= found.marked && (found.replicas == 0 || !found.running);
            memory.replicas = found.record.replicas().or(memory.replicas);
        }
        if self.overrules(aim) && !memory.owed {
            // The operator removes the mark of what is back.
            return Ok(Next::Reached);
        }
        // The user's own ignore-scaling prevents no restore that overrules the operator.
        let found = found.map(|found| Observed {
            ignored: found.ignored && !self.overrules(aim),
            ..found
        });
        step::next(aim, true, found.as_ref(), *memory, true)
    }

    /// Returns whether the operator is to ignore what is written. What is gardenlet's is only unmarked.
    fn overrules(&self, aim: Aim) -> bool {
        self.overrule && aim == Aim::Up
    }
}
