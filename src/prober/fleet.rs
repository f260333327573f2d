//! All clusters' loops side by side: each change of an assignment goes to its cluster's loop, over a channel
//! that keeps only the newest.
//!
//! The loops run whoever leads. On a replica that does not, they only observe, by a client that sends nothing but reads:
//! nothing that acts or reports is made before a term begins. What was seen of the leases goes on in the term; what was
//! concluded from that does not count there, and what is owed is learnt as after a start.

mod loops;

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use futures::StreamExt;
use kube::{Api, core::PartialObjectMeta, runtime::watcher};
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::loops::Loops;
use super::{
    acting::Term,
    instruments::Instruments,
    io::confirm::confirm,
    reader::ReadContext,
    recall::{self, Known},
    report::Reporter,
    rights::{AllNeeds, Needs, Reviewer},
    scale::Scaler,
    selection::Selection,
    sources::Evidence,
};
use crate::{
    api::ClusterHealth,
    checks::Runner,
    cluster::{Changed, Index},
    observer::looks::Looks,
    runtime::{health::Health, seed::Seed, watch::WatchState},
    shoot::Dial,
};

/// The name of the fleet's loop.
const LOOP: &str = "fleet";

/// Settings of the prober.
#[derive(Clone)]
pub struct Prober {
    /// Where it reads, whether or not it leads.
    pub reads: Seed,
    /// Where it acts and reports in its term.
    pub seed: Seed,
    /// Treats every policy as one with the mode `DryRun`.
    pub dry_run: bool,
    /// Runs the policies' checks.
    pub checks: Runner,
    /// Makes connections to shoots.
    pub dial: Dial,
    /// Metrics and health.
    pub instruments: Instruments,
}

/// Runs the prober until it is stopped: it observes until this term has begun, and goes on from that. All that it has
/// begun ends when it is dropped.
pub async fn run(prober: Prober, begun: impl Future<Output = ()>, stop: CancellationToken) {
    let (seed, instruments) = (prober.seed, prober.instruments);
    let common = &instruments.common;
    let reads = ReadContext {
        evidence: Evidence::new(&prober.reads, prober.dial, &common.watches),
        // Not those of a leader, by which it is judged how that one fares.
        metrics: Arc::default(),
        looks: None,
    };
    let evidence = reads.evidence.clone();
    let mut fleet = Fleet {
        selection: Selection::watch(prober.reads.client(), prober.dry_run, &common.watches),
        loops: Loops::new(Arc::new(reads)),
        needs: watch::Sender::default(),
        health: common.health().clone(),
    };
    fleet.until(begun).await;
    let healths = common
        .watches
        .begin("ClusterHealths", "watch-clusterhealths");
    let policies = fleet.selection.policies.clone();
    let known = recall::known(&seed, &policies, &healths);
    let Some(known) = fleet.until(stop.run_until_cancelled(known)).await else {
        return;
    };
    let (writer, reporter) = Reporter::new(
        seed.clone(),
        known.statuses.clone(),
        instruments.health.clone(),
        common.health().clone(),
    );
    let deletions = watch_cluster_healths(seed.clone(), reporter.clone(), healths);
    let _deletions = AbortOnDropHandle::new(tokio::spawn(deletions));

    let mut scaler = Scaler::new(seed.clone());
    scaler.dry_run = prober.dry_run;
    let reviewer = Reviewer {
        scaler: scaler.clone(),
        reporter: reporter.clone(),
    };
    let reviews = reviewer.run(fleet.needs.subscribe());
    let reviews = stop.clone().run_until_cancelled_owned(reviews);
    let _reviews = AbortOnDropHandle::new(tokio::spawn(reviews));

    let looks = Looks::new(instruments.prober.durations.clone(), prober.checks.clone());
    let term = Term {
        reads: Arc::new(ReadContext {
            evidence: evidence.led(seed.clone()),
            metrics: instruments.prober.clone(),
            looks: Some(looks),
        }),
        scaler,
        confirm: confirm(seed.acting(), &fleet.selection),
        pace: Arc::default(),
        metrics: instruments.prober.clone(),
        checks: prober.checks,
        leisure: Arc::new(seed.into()),
        reporter,
    };
    fleet.lead(term, known);
    writer
        .beside(async {
            fleet.until(stop.cancelled()).await;
            fleet.loops.stop().await;
        })
        .await;
}

/// Passes the ClusterHealths that others delete on to their writer.
async fn watch_cluster_healths(seed: Seed, reporter: Reporter, state: WatchState) {
    let api: Api<PartialObjectMeta<ClusterHealth>> = Api::all(seed.client().clone());
    let watcher = watcher(api, watcher::Config::default());
    let mut changes = state.follow(watcher, |health| (health.metadata, true));
    while let Some(change) = changes.next().await {
        reporter.cluster_healths(change);
    }
}

struct Fleet {
    selection: Selection,
    loops: Loops,
    /// What the rights are reviewed for.
    needs: watch::Sender<AllNeeds>,
    health: Health,
}

impl Fleet {
    /// Runs until this is done.
    async fn until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            self.health.beat(LOOP);
            tokio::select! {
                biased;
                done = &mut done => return done,
                (about_policies, changed) = self.selection.changed() => {
                    self.apply(about_policies, &changed);
                }
                Some(ended) = self.loops.tasks.join_next_with_id() => {
                    let mut index = self.selection.index.lock();
                    if self.loops.ended(ended, &mut index) {
                        self.report_policies(&index);
                    }
                }
                () = sleep(Health::BEAT) => {}
            }
        }
    }

    /// Goes on in this term, from what an earlier run has left.
    fn lead(&mut self, term: Term, known: Known) {
        let (clusters, _) = known.statuses;
        let (mut records, mut policies) = (BTreeMap::new(), BTreeMap::new());
        for health in clusters {
            if let Some(name) = health.metadata.name.as_deref().map(Arc::<str>::from) {
                let policy = health.status.as_ref().and_then(|it| it.policy.as_deref());
                policies.extend(policy.map(|policy| (name.clone(), policy.into())));
                records.insert(name, recall::record(health.status).map(Box::new));
            }
        }
        self.selection.index.lock().recall(policies);
        self.loops.lead(term, records, known.marked);
        self.apply(true, &Changed::new());
    }

    /// Passes changes on to the loops and the reporter.
    fn apply(&mut self, about_policies: bool, changed: &Changed) {
        let index = self.selection.index.lock();
        if !index.synced() {
            return;
        }
        let begins = self.loops.begin(&index);
        for name in changed {
            self.loops.assign(name, &index);
        }
        if begins || about_policies || !changed.is_empty() {
            self.report_policies(&index);
        }
    }

    fn report_policies(&self, index: &Index) {
        let Some(reporter) = self.loops.reporter() else {
            return;
        };
        let names = index.policies().map(|policy| &*policy.name);
        let views: Vec<_> = names.filter_map(|name| index.policy_view(name)).collect();
        let needs: AllNeeds = views
            .iter()
            .map(|view| (view.policy.name.clone(), Needs::new(view)))
            .collect();
        reporter.policies(views);
        if *self.needs.borrow() != needs {
            self.needs.send_replace(needs);
        }
    }
}
