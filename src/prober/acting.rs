//! The acting half of one cluster's loop: tells the decider what is learnt, and carries out what it decides.

use std::{
    collections::BTreeMap,
    future::{pending, poll_fn, ready},
    sync::Arc,
    task::Poll,
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::{sync::Mutex, time::Instant};

use super::{
    decide::{Confirmation, Decider, Effect, Input},
    dependents::{Answer, Event, Request, What},
    io::confirm::Confirm,
    lease_judge::Conclusion,
    metrics::ProberMetrics,
    pace::Pace,
    reader::ReadContext,
    report::Reporter,
    scale::{Scaler, Target},
    step::Step,
};
use crate::{
    api::{DependentRef, Mode, Protection},
    checks::Runner,
    runtime::{seed::Seed, timer::until},
    util::now::Now,
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
    scaler: Scaler,
    decider: Decider,
    /// The requests under way, one for each dependent.
    requests: BTreeMap<DependentRef, BoxFuture<'static, Came>>,
    /// How the dependents were reached that were read.
    targets: BTreeMap<DependentRef, Target>,
    /// The answer to what was asked about the Cluster and its policy.
    confirming: Option<BoxFuture<'static, Confirmation>>,
    /// When the outage at hand could be proven, unless that was in a dry run.
    provable: Option<Instant>,
    /// When a verdict was last reached in mode DryRun: what was provable by then was not to be acted on.
    dry_run_at: Option<Instant>,
}

/// Answer to a request, and how the dependent was reached if it was read.
type Came = (Answer, Option<Target>);

impl Acting {
    /// Acts on the dependents of the cluster of this name.
    pub(super) fn new(cluster: Arc<str>, term: Term, decider: Decider) -> Self {
        Self {
            scaler: term.scaler.within(cluster.clone()),
            cluster,
            term,
            decider,
            requests: BTreeMap::new(),
            targets: BTreeMap::new(),
            confirming: None,
            provable: None,
            dry_run_at: None,
        }
    }

    /// Decisions.
    pub(super) fn decider(&self) -> &Decider {
        &self.decider
    }

    /// Takes up what was learnt, and begins or ends what is to be done about it.
    pub(super) fn learn(&mut self, input: Input<'_>) {
        let (before, now) = (self.decider.told().protected_since, Now::read());
        let turn = || self.term.pace.reserve(now.mono);
        for effect in self.decider.step(input, now, turn) {
            match effect {
                Effect::Request(of, request) => self.request(of, request),
                Effect::Confirm => {
                    self.confirming = Some((self.term.confirm)(self.cluster.clone()));
                }
                Effect::Tell(event) => self.take_down(event, now),
            }
        }
        if let Some(since) = before.filter(|_| self.decider.told().protected_since != before) {
            let lasted = since.elapsed(now).as_secs_f64();
            self.term.metrics.protections.observe(lasted);
        }
    }

    /// The same for leases that were judged; if they are an outage, it could be proven at this moment.
    pub(super) fn learn_verdict(
        &mut self,
        conclusion: &Conclusion,
        provable: Option<Instant>,
        gate: Option<String>,
    ) {
        let settings = self.decider.treatment().settings();
        if settings.is_some_and(|settings| settings.mode == Mode::DryRun) {
            self.dry_run_at = Some(Instant::now());
        }
        // What is written later than the first is not measured.
        if self.decider.protection() == Protection::None {
            self.provable = provable.filter(|at| self.dry_run_at < Some(*at));
        }
        self.learn(Input::Leases(Ok(conclusion), gate));
    }

    /// Sends nothing more, and waits for the answers to what was written.
    pub(super) async fn shut_down(&mut self) {
        self.learn(Input::ShutDown);
        while self.decider.is_writing() {
            self.progress().await;
        }
    }

    /// Waits for an answer, or for the time that the decider waits for, and takes it up; forever if there is
    /// neither. Nothing is lost if it is not waited for to the end.
    pub(super) async fn progress(&mut self) {
        let due = self.decider.due();
        tokio::select! {
            biased;
            (of, (answer, target)) = answered(&mut self.requests) => {
                self.targets.extend(target.map(|target| (of.clone(), target)));
                self.learn(Input::Answer(of, answer));
            }
            confirmation = answer(&mut self.confirming) => {
                self.learn(Input::Confirmed(confirmation));
            }
            () = until(due) => self.learn(Input::Time),
        }
    }

    fn request(&mut self, of: DependentRef, request: Request) {
        let scaler = self.scaler.clone();
        let sent = match request {
            Request::Read { urgent } => {
                let leisure = (!urgent).then(|| self.term.leisure.clone());
                let of = of.clone();
                async move {
                    if let Some(leisure) = leisure {
                        leisure.lock().await.turn().await;
                    }
                    match scaler.see(&of).await {
                        Ok((found, target)) => (Answer::Read(Ok(found)), Some(target)),
                        Err(error) => (Answer::Read(Err(error)), None),
                    }
                }
                .boxed()
            }
            Request::Queue => async move {
                scaler.turn_to_write().await;
                (Answer::Turn, None)
            }
            .boxed(),
            Request::Write(write) => {
                let target = self.targets.get(&of).cloned();
                let mut written = async move {
                    let written = scaler.write(target, write).await;
                    (Answer::Written(written), None)
                }
                .boxed();
                // It is sent before anything else happens: its evidence counts now.
                match (&mut written).now_or_never() {
                    Some(came) => ready(came).boxed(),
                    None => written,
                }
            }
            Request::Drop => {
                self.requests.remove(&of);
                return;
            }
        };
        self.requests.insert(of, sent);
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
            let (cluster, dependent) = (&*self.cluster, &event.dependent);
            let why = &*event.why;
            tracing::info!(cluster, %dependent, %step, replicas = found.replicas, why, "wrote");
        }
        self.term.reporter.dependent(&self.cluster, event);
    }
}

/// The next answer to any of these.
async fn answered(
    requests: &mut BTreeMap<DependentRef, BoxFuture<'static, Came>>,
) -> (DependentRef, Came) {
    let next = poll_fn(|context| {
        for (of, request) in requests.iter_mut() {
            if let Poll::Ready(answer) = request.poll_unpin(context) {
                return Poll::Ready((of.clone(), answer));
            }
        }
        Poll::Pending
    });
    let (of, came) = next.await;
    requests.remove(&of);
    (of, came)
}

/// The answer to this question, once.
async fn answer<T>(question: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(asked) = question else {
        return pending().await;
    };
    let answer = asked.await;
    *question = None;
    answer
}
