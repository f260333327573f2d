//! All clusters' loops side by side: each change of an assignment goes to its cluster's loop, over a channel
//! that keeps only the newest.

mod loops;

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use kube::{Api, core::PartialObjectMeta, runtime::watcher};
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::loops::Loops;
use super::{
    acting::Means,
    cluster::LoopContext,
    instruments::Instruments,
    io::confirm::confirm,
    reader::ReadContext,
    recall::{self, Known},
    report::{PolicyReport, Reporter},
    rights::{AllNeeds, Needs, Reviewer},
    scale::Scaler,
    standby::{LOOP, Selection, Standby},
};
use crate::{
    api::ClusterHealth,
    checks::Runner,
    cluster::{Changed, Index},
    observer::looks::Looks,
    runtime::{health::Health, seed::Seed, timer::until, watch::WatchState},
    shoot::Dial,
};

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
    let mut standby = Standby::begin(&prober.reads, prober.dry_run, prober.dial, &instruments);
    standby.until(begun).await;
    let healths = &instruments.common.watches;
    let healths = healths.begin("ClusterHealths", "watch-clusterhealths");
    let policies = standby.selection.policies.clone();
    let known = recall::known(&seed, &policies, &healths);
    let known = standby.until(stop.run_until_cancelled(known)).await;
    let Some(Known {
        statuses: (clusters, statuses),
        marked,
    }) = known
    else {
        return;
    };
    let (mut recalled, mut policies) = (BTreeMap::new(), BTreeMap::new());
    for health in &clusters {
        if let Some(name) = health.metadata.name.as_deref().map(Arc::<str>::from) {
            let policy = health.status.as_ref().and_then(|it| it.policy.as_deref());
            policies.extend(policy.map(|policy| (name.clone(), policy.into())));
            let record = recall::record(health.status.clone());
            recalled.insert(name, record.map(Box::new));
        }
    }
    let (writer, reporter) = Reporter::measured(
        seed.clone(),
        (clusters, statuses),
        instruments.health.clone(),
        instruments.common.health.clone(),
    );
    let deletions = watch_cluster_healths(seed.clone(), reporter.clone(), healths);
    let _deletions = AbortOnDropHandle::new(tokio::spawn(deletions));

    let scaler = Scaler::new(seed.clone());
    let scaler = match prober.dry_run {
        true => scaler.dry_run(),
        false => scaler,
    };
    let (needs, needed) = watch::channel(AllNeeds::default());
    let reviewer = Reviewer {
        scaler: scaler.clone(),
        reporter: reporter.clone(),
    };
    let reviews = stop.clone().run_until_cancelled_owned(reviewer.run(needed));
    let _reviews = AbortOnDropHandle::new(tokio::spawn(reviews));

    let looks = Looks::new(instruments.prober.durations.clone(), prober.checks.clone());
    let reads = ReadContext {
        evidence: standby.reads.evidence.clone().led(seed.clone()),
        metrics: instruments.prober.clone(),
        looks: Some(looks),
    };
    let selection = standby.selection;
    selection.index.lock().recall(policies);
    let shared = LoopContext {
        reads: Arc::new(reads),
        means: Means {
            scaler,
            confirm: confirm(seed.acting(), &selection),
            pace: Arc::default(),
            metrics: instruments.prober.clone(),
        },
        checks: prober.checks,
        reporter: reporter.clone(),
    };
    let fleet = Fleet {
        selection,
        loops: Loops::new(seed, shared, (recalled, marked), standby.readers),
        reporter,
        needs,
        health: standby.health,
    };
    writer.beside(fleet.run(stop)).await;
}

/// Passes the ClusterHealths that others delete on to their writer.
async fn watch_cluster_healths(seed: Seed, reporter: Reporter, state: WatchState) {
    let api: Api<PartialObjectMeta<ClusterHealth>> = Api::all(seed.client().clone());
    let mut events = state.follow(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        reporter.cluster_health(event);
    }
}

struct Fleet {
    selection: Selection,
    loops: Loops,
    reporter: Reporter,
    /// What the rights are reviewed for.
    needs: watch::Sender<AllNeeds>,
    health: Health,
}

impl Fleet {
    async fn run(mut self, stop: CancellationToken) {
        let known: Changed = {
            let index = self.selection.index.lock();
            index.assignments().map(|(name, _)| name.clone()).collect()
        };
        self.apply(true, &known);
        loop {
            self.health.beat(LOOP);
            let restart = self.loops.next_restart();
            let (about_policies, changed) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                changed = self.selection.changed() => changed,
                Some(ended) = self.loops.tasks.join_next_with_id() => {
                    let mut index = self.selection.index.lock();
                    if self.loops.ended(ended, &mut index) {
                        self.report_policies(&index);
                    }
                    continue;
                }
                () = until(restart) => {
                    self.loops.restart(&self.selection.index.lock());
                    continue;
                }
                () = sleep(Health::BEAT) => continue,
            };
            self.apply(about_policies, &changed);
        }
        self.loops.stop().await;
    }

    /// Passes changes on to the loops and the reporter.
    fn apply(&mut self, about_policies: bool, changed: &Changed) {
        let index = self.selection.index.lock();
        let waits = !index.synced();
        if waits || (self.loops.started && changed.is_empty() && !about_policies) {
            return;
        }
        for name in changed {
            self.loops.assign(name, &index);
        }
        if about_policies {
            self.loops.update_gone(&index);
        }
        if !self.loops.started {
            self.loops.assign_recalled(&index);
        }
        self.report_policies(&index);
    }

    fn report_policies(&self, index: &Index) {
        let mut needs = AllNeeds::new();
        let reports = index.policies().filter_map(|policy| {
            let view = index.policy_view(&policy.name)?;
            needs.insert(policy.name.clone(), Needs::new(&view));
            Some(PolicyReport {
                name: policy.name.clone(),
                uid: policy.uid.clone(),
                deleting: policy.deleting,
                hold: policy.hold,
                held: policy.held,
                generation: policy.generation,
                problems: policy.problems().to_vec(),
                warnings: policy.warnings(),
                selected: view.selected,
                kept: view.kept,
                lost: view.lost,
            })
        });
        self.reporter.policies(reports.collect());
        if *self.needs.borrow() != needs {
            self.needs.send_replace(needs);
        }
    }
}
