//! The acting half of one cluster's loop: tells the decider what is learnt, and carries out what it decides.

use std::{
    collections::BTreeMap,
    future::{pending, ready},
    sync::Arc,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, select_all},
};
use tokio::{sync::Mutex, time::Instant};

use super::{
    decide::{Decider, Effect, Input},
    dependents::{Answer, Event, Request, What},
    io::confirm::Confirm,
    metrics::ProberMetrics,
    pace::Pace,
    reader::ReadContext,
    report::Reporter,
    scale::Scaler,
    step::Step,
};
use crate::{
    api::{DependentRef, Protection},
    checks::Runner,
    runtime::{seed::Seed, timer::until},
    util::{mono_time::MonoTime, now::Now},
};

/// Means of a term, which all loops share: no other client can write.
#[derive(Clone)]
pub(super) struct Term {
    /// Reads clusters.
    pub(super) reads: Arc<ReadContext>,
    /// Reads and writes dependents.
    pub(super) scaler: Scaler,
    /// Asks about a Cluster and its policy.
    pub(super) confirm: Confirm,
    /// Says when each cluster may be restored.
    pub(super) pace: Arc<Pace>,
    /// Counters.
    pub(super) metrics: Arc<ProberMetrics>,
    /// Makes the runs of the policies' checks.
    pub(super) checks: Runner,
    /// Budget of reads that are not urgent. One at a time waits for its turn, so that a thousand do not go before what is
    /// reported.
    pub(super) leisure: Arc<Mutex<Seed>>,
    /// Takes reports.
    pub(super) reporter: Reporter,
}

/// Protects one cluster's dependents, and restores them.
pub(super) struct Acting {
    cluster: Arc<str>,
    pub(super) term: Term,
    pub(super) decider: Decider,
    requests: Requests,
    /// When the outage at hand could be proven.
    provable: Option<Instant>,
}

/// Answers to the requests under way: one about each dependent, and one about the Cluster and its policy.
type Requests = BTreeMap<Option<DependentRef>, BoxFuture<'static, Input<'static>>>;

impl Acting {
    /// Acts on the dependents of the cluster of this name.
    pub(super) fn new(cluster: Arc<str>, term: Term, decider: Decider) -> Self {
        Self {
            cluster,
            term,
            decider,
            requests: Requests::new(),
            provable: None,
        }
    }

    /// Takes up what was learnt, and begins or ends what is to be done about it.
    pub(super) fn learn(&mut self, input: Input<'_>) {
        let (before, now) = (self.decider.told().protected_since, Now::read());
        // What is written later than the first is not measured.
        if let Input::Leases(Ok(conclusion), _) = input
            && self.decider.protection() == Protection::None
        {
            self.provable = conclusion.provable.map(MonoTime::instant);
        }
        let turn = || self.term.pace.reserve(now.mono);
        for effect in self.decider.step(input, now, turn) {
            match effect {
                Effect::Request(of, request) => self.request(of, request),
                Effect::Confirm => {
                    let asked = (self.term.confirm)(self.cluster.clone());
                    let asked = asked.map(Input::Confirmed).boxed();
                    self.requests.insert(None, asked);
                }
                Effect::Tell(event) => self.take_down(event, now),
            }
        }
        if let Some(since) = before.filter(|_| self.decider.told().protected_since != before) {
            let lasted = since.elapsed(now).as_secs_f64();
            self.term.metrics.protections.observe(lasted);
        }
    }

    /// Sends nothing more, and waits for the answers to what was written.
    pub(super) async fn shut_down(&mut self) {
        self.learn(Input::ShutDown);
        while self.decider.dependents().is_writing() {
            self.progress().await;
        }
    }

    /// Waits for an answer, or for the time that the decider waits for, and takes it up; forever if there is
    /// neither. Nothing is lost if it is not waited for to the end.
    pub(super) async fn progress(&mut self) {
        let due = self.decider.due();
        let input = tokio::select! {
            biased;
            input = answered(&mut self.requests) => input,
            () = until(due) => Input::Time,
        };
        self.learn(input);
    }

    fn request(&mut self, of: DependentRef, request: Request) {
        let scaler = self.term.scaler.within(self.cluster.clone());
        let (name, leisure) = (of.clone(), self.term.leisure.clone());
        let sent = async move {
            let answer = match request {
                Request::Read { urgent } => {
                    if !urgent {
                        leisure.lock().await.turn().await;
                    }
                    Answer::Read(scaler.read(&name).await)
                }
                Request::Queue => {
                    scaler.turn_to_write().await;
                    Answer::Turn
                }
                Request::Write(write) => Answer::Written(scaler.write(&name, write).await),
            };
            Input::Answer(name, answer)
        };
        let mut sent = sent.boxed();
        // A write is sent before anything else happens: its evidence counts now.
        let sent = match (&mut sent).now_or_never() {
            Some(input) => ready(input).boxed(),
            None => sent,
        };
        self.requests.insert(Some(of), sent);
    }

    /// Counts, logs and reports what was done to a dependent, or met there, and why that was wanted.
    fn take_down(&mut self, event: Event, now: Now) {
        self.term.metrics.did(event.aim, &event.what);
        if let What::Did(Step::ScaleDown { .. }, _) = event.what
            && let Some(provable) = self.provable.take()
        {
            let reaction = now.mono.duration_since(provable);
            self.term.metrics.reaction.observe(reaction.as_secs_f64());
        }
        if let What::Did(step, found) = &event.what {
            let (cluster, dependent, why) = (&*self.cluster, &event.dependent, &*event.why);
            tracing::info!(cluster, %dependent, %step, replicas = found.replicas, why, "wrote");
        }
        self.term.reporter.dependent(&self.cluster, event);
    }
}

/// The next answer to any of these.
async fn answered(requests: &mut Requests) -> Input<'static> {
    if requests.is_empty() {
        return pending().await;
    }
    let each = requests.iter_mut();
    let each = each.map(|(of, request)| request.map(|input| (of.clone(), input)));
    let ((of, input), ..) = select_all(each).await;
    requests.remove(&of);
    input
}
