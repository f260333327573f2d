//! What is under way for one cluster's dependents, and what comes next: no client, no task.
//!
//! At most one flow is under way. A newer verdict of the same aim keeps it up; any other overtakes
//! it: it is withdrawn, ends between two requests, and only then the next one starts.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    flow::{Ending, FlowPlan, What},
    ledger::Ledger,
    plan::Aim,
};
use crate::{
    api::{ClusterHealthStatus, Protection, Restore},
    cluster::Dependent,
};

/// The dependents of a healthy cluster to which nothing is owed are looked at this often at most, and
/// those of one that is held as it is this often.
const SELDOM: Duration = Duration::from_secs(60);
/// What has been seen as a healthy cluster wants it is believed to be so for this long, unless it is in
/// doubt: etcd may have been restored to what it held in an outage.
const BELIEVED: Duration = Duration::from_secs(3600);
/// What no verdict asks for is tried again after this long if it did not succeed, and so is, at the
/// latest, what the seed has refused in an outage ...
const AGAIN: Duration = Duration::from_secs(10);
/// ... and each try is over after this.
const TRY: Duration = Duration::from_secs(3600);

/// What a verdict asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// What is wanted of the dependents.
    pub aim: Aim,
    /// What a scale-up touches.
    pub restore: Restore,
    /// Until when the evidence counts that the verdict rests on: nothing is scaled after that
    /// without another.
    pub valid_until: Instant,
}

/// Something that is to be done about the flow, before anything else is learnt.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin this one; there is none under way.
    Start(Box<FlowPlan>),
    /// The one under way may go on until then.
    Extend(Instant),
    /// The one under way is to end between two requests.
    Withdraw,
    /// The one under way is to end, though not in the midst of a step.
    Finish,
}

/// What comes after the flow under way, if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Next {
    Nothing,
    /// What a verdict asks for.
    Order(Order),
    /// What is done until it is complete, without a verdict; or again and again.
    Standing {
        aim: Aim,
        due: Instant,
        again_and_again: bool,
    },
}

/// The flow that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    aim: Aim,
    /// No verdict asked for it.
    unasked: bool,
    withdrawn: bool,
}

/// One cluster's dependents, what they are owed, and what is done about it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Agenda {
    /// The dependents and what they are owed.
    pub ledger: Ledger,
    protection: Protection,
    /// The dependents have been seen as a healthy cluster wants them, and are believed to be so
    /// until then.
    restored: Option<Instant>,
    /// When the dependents are looked at again with this aim although nothing is known to be left
    /// to do, or to be feasible: each look costs requests to the seed, and there may be a thousand
    /// clusters. The flow before has ended like this.
    look_again: Option<(Aim, Ending, Instant)>,
    under_way: Option<UnderWay>,
    next: Next,
}

impl Agenda {
    /// Goes on from what an earlier run has left in the ClusterHealth.
    pub fn recall(known: Option<&ClusterHealthStatus>) -> Self {
        let ledger = known.map(Ledger::recall).unwrap_or_default();
        let owing = known.filter(|_| ledger.owes());
        Self {
            protection: match owing.map(|known| known.protection) {
                None => Protection::None,
                Some(Protection::None) => Protection::Active,
                Some(protection) => protection,
            },
            ledger,
            restored: None,
            look_again: None,
            under_way: None,
            next: Next::Nothing,
        }
    }

    /// Whether the dependents are scaled down.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether something is owed, or being scaled.
    pub fn is_engaged(&self) -> bool {
        let scales = |flow: &UnderWay| matches!(flow.aim, Aim::Protect | Aim::Restore);
        self.ledger.owes() || self.under_way.as_ref().is_some_and(scales)
    }

    /// Whether a flow of this aim has something to do that cannot wait, as far as is known.
    pub fn is_urgent(&self, aim: Aim) -> bool {
        match aim {
            // What is down already, or was refused, is only looked at again.
            Aim::Protect => {
                let refused = matches!(self.look_again, Some((Aim::Protect, Ending::Refused, _)));
                self.protection != Protection::Active && !refused
            }
            Aim::Restore | Aim::Release => self.ledger.owes(),
            Aim::Look => false,
        }
    }

    /// The aim of the flow that is under way.
    pub fn aim(&self) -> Option<Aim> {
        self.under_way.map(|flow| flow.aim)
    }

    /// Adopts the dependents of a policy; none if nobody asks for any more. What is known of another
    /// list says nothing of this one.
    #[must_use]
    pub fn adopt(&mut self, dependents: &[Dependent]) -> Option<Effect> {
        self.ledger.adopt(dependents);
        self.restored = None;
        self.look_again = None;
        self.stop()
    }

    /// Does what a verdict asks for.
    #[must_use]
    pub fn act(&mut self, order: Order, now: Instant) -> Option<Effect> {
        self.turn_to(order.aim);
        self.next = Next::Nothing;
        match &mut self.under_way {
            Some(flow) if flow.aim == order.aim && !flow.withdrawn => {
                Some(Effect::Extend(order.valid_until))
            }
            Some(flow) => {
                flow.withdrawn = true;
                self.next = Next::Order(order);
                Some(Effect::Withdraw)
            }
            None => self
                .is_due(order, now)
                .then(|| self.start(order, false, now)),
        }
    }

    /// There is newer evidence for a flow of this aim, if one is under way. None is begun: what could
    /// not be completed is taken up again by the next verdict.
    #[must_use]
    pub fn extend(&self, aim: Aim, valid_until: Instant) -> Option<Effect> {
        match self.aim() {
            Some(current) if current == aim => Some(Effect::Extend(valid_until)),
            _ => None,
        }
    }

    /// Does this from then on until it is complete, with no verdict to ask for it.
    #[must_use]
    pub fn insist(&mut self, aim: Aim, from: Instant) -> Option<Effect> {
        self.turn_to(aim);
        if matches!(&self.next, Next::Standing { aim: known, .. } if *known == aim) {
            return None;
        }
        let stopped = self.stop();
        self.next = Next::Standing {
            aim,
            due: from,
            again_and_again: false,
        };
        stopped
    }

    /// Scales nothing, but looks now and then at what it is owed: somebody else may pay it.
    #[must_use]
    pub fn hold(&mut self, now: Instant) -> Option<Effect> {
        if matches!(
            &self.next,
            Next::Standing {
                aim: Aim::Look,
                again_and_again: true,
                ..
            }
        ) {
            return None;
        }
        let stopped = self.stop();
        self.next = Next::Standing {
            aim: Aim::Look,
            due: now + SELDOM,
            again_and_again: true,
        };
        stopped
    }

    /// A restore that was under way is over once something else is wanted, whether or not that is begun.
    fn turn_to(&mut self, aim: Aim) {
        match aim {
            Aim::Protect | Aim::Release => self.ledger.reset_delays(),
            Aim::Restore | Aim::Look => {}
        }
    }

    /// Takes down what a flow did to a dependent, or met there.
    pub fn note(&mut self, dependent: &Dependent, what: &What, now: Instant) {
        // It may have been withdrawn by an outage, after which no delay goes on.
        let withdrawn = self.under_way.is_some_and(|flow| flow.withdrawn);
        if withdrawn && matches!(what, What::Delayed) {
            return;
        }
        let held = matches!(
            self.next,
            Next::Standing {
                again_and_again: true,
                ..
            }
        );
        self.ledger.note(dependent, what, held, now);
    }

    /// Ends a flow under way between two requests; nothing follows it.
    #[must_use]
    pub fn stop(&mut self) -> Option<Effect> {
        self.next = Next::Nothing;
        match &mut self.under_way {
            Some(flow) => {
                flow.withdrawn = true;
                Some(Effect::Withdraw)
            }
            None => None,
        }
    }

    /// When what is insisted on is due, while no flow is under way.
    pub fn due(&self) -> Option<Instant> {
        match (&self.next, &self.under_way) {
            (Next::Standing { due, .. }, None) => Some(*due),
            _ => None,
        }
    }

    /// Starts what is insisted on: it is due.
    #[must_use]
    pub fn resume(&mut self, now: Instant) -> Option<Effect> {
        let Next::Standing { aim, .. } = &self.next else {
            return None;
        };
        let order = Order {
            aim: *aim,
            restore: Restore::Marked,
            valid_until: now + TRY,
        };
        Some(self.start(order, true, now))
    }

    /// The flow under way has ended. `interval` is the one at which the cluster is probed.
    pub fn ended(&mut self, ending: Ending, interval: Duration, now: Instant) {
        let Some(UnderWay {
            aim,
            unasked,
            withdrawn,
        }) = self.under_way.take()
        else {
            return;
        };
        self.conclude(aim, ending, now);
        self.look_again = self
            .pause(aim, ending, interval)
            .map(|pause| (aim, ending, now + pause));
        if let Next::Standing {
            aim,
            due,
            again_and_again,
            ..
        } = &mut self.next
            // What was insisted on in the place of one that was withdrawn has a time of its own.
            && unasked
            && !withdrawn
        {
            let settled = *aim == Aim::Look || !self.ledger.owes();
            let complete = settled && self.ledger.is_looked_at();
            *due = match self.ledger.doubt() {
                _ if *again_and_again => now + SELDOM,
                // A look before tells no more than this one.
                Some(until) if settled && ending == Ending::Complete => until,
                _ => now + AGAIN,
            };
            if complete && !*again_and_again {
                self.next = Next::Nothing;
            }
        }
    }

    /// Starts what waited for the flow that has ended.
    #[must_use]
    pub fn go_on(&mut self, now: Instant) -> Option<Effect> {
        match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Order(order) if self.under_way.is_none() => Some(self.start(order, false, now)),
            next => {
                self.next = next;
                None
            }
        }
    }

    fn start(&mut self, order: Order, unasked: bool, now: Instant) -> Effect {
        self.ledger.begin(now);
        match order.aim {
            Aim::Protect => {
                self.restored = None;
                if self.protection != Protection::Active {
                    self.protection = Protection::ScalingDown;
                }
            }
            Aim::Restore if self.ledger.owes() => self.protection = Protection::Restoring,
            Aim::Restore | Aim::Release | Aim::Look => {}
        }
        self.under_way = Some(UnderWay {
            aim: order.aim,
            unasked,
            withdrawn: false,
        });
        let urgent = self.is_urgent(order.aim);
        let plan = FlowPlan::new(&self.ledger, order, urgent);
        Effect::Start(Box::new(plan))
    }

    fn is_due(&self, order: Order, now: Instant) -> bool {
        let wanted = match order.aim {
            Aim::Protect | Aim::Release | Aim::Look => true,
            Aim::Restore => {
                let believed = self.restored.is_some_and(|until| now < until);
                !believed || self.ledger.owes() || order.restore == Restore::Any
            }
        };
        wanted
            && self
                .look_again
                .is_none_or(|(aim, _, again)| aim != order.aim || now >= again)
    }

    fn conclude(&mut self, aim: Aim, ending: Ending, now: Instant) {
        let owes = self.ledger.owes();
        match (aim, ending) {
            (Aim::Protect, Ending::Complete) if owes => self.protection = Protection::Active,
            // A flow that did not complete is taken up again.
            (Aim::Protect, Ending::Stuck | Ending::Refused) => {}
            (Aim::Look, _) if owes && self.protection == Protection::None => {
                self.protection = Protection::Active;
            }
            _ if owes => {}
            _ => {
                // What is not where it should be is looked at again: somebody may have mended it.
                let good = aim == Aim::Restore
                    && ending == Ending::Complete
                    && self.ledger.problems().next().is_none();
                let believed = self.ledger.doubt().unwrap_or(now + BELIEVED);
                self.restored = good.then_some(believed);
                self.protection = Protection::None;
            }
        }
    }

    /// How long a flow like the one that has ended is put off if nothing is known to be left to do, or
    /// to be feasible.
    fn pause(&self, aim: Aim, ending: Ending, interval: Duration) -> Option<Duration> {
        match (aim, ending) {
            // Somebody may scale up what is down.
            (Aim::Protect, Ending::Complete) => Some(interval),
            // Verdicts come every few seconds, and somebody has to mend this first. What comes after
            // it is not down yet, whatever the interval.
            (Aim::Protect, Ending::Refused) => Some(interval.min(AGAIN)),
            // Somebody may scale down what a policy with `restore: Any` wants up, or mend what kept
            // a healthy cluster's dependents from being looked at.
            (Aim::Restore, Ending::Complete | Ending::Stuck | Ending::Refused)
                if !self.ledger.owes() =>
            {
                Some(interval.max(SELDOM))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
