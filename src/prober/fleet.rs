//! All clusters' loops side by side: watches keep the index, and each change of an assignment goes
//! to its cluster's loop.

mod loops;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use self::loops::Loops;
use super::{
    cluster::LoopContext,
    evidence::Evidence,
    instruments::Instruments,
    mono_time::Origin,
    protector::ScaleContext,
    recall,
    report::{PolicyReport, Reporter, Writer},
    rights::{AllNeeds, Needs, Reviewer},
    scale::Resources,
};
use crate::{
    api::{ClusterHealth, ProbePolicy},
    checks::{Runner, SharedSpread},
    cluster::{Changed, Index},
    gardener::Cluster,
    observer::look::Means,
    runtime::{
        answers::LARGE_OBJECTS_PER_PAGE,
        liveness::LoopLiveness,
        seed::Seed,
        timer::until,
        watches::{WATCH_SECONDS, WatchState, events},
    },
};

/// The name of the fleet's loop.
const LOOP: &str = "fleet";

/// Settings of the prober.
#[derive(Clone)]
pub struct Prober {
    /// Reads and reports.
    pub seed: Seed,
    /// Reads and writes dependents.
    pub scale: Seed,
    /// Treats every policy as one with the mode `DryRun`.
    pub dry_run: bool,
    /// Runs the policies' checks.
    pub checks: Runner,
    /// A protection that lasts for longer is reported.
    pub overdue_after: Duration,
    /// Metrics, liveness and readiness.
    pub instruments: Instruments,
}

/// The watches that the prober depends on.
struct Watched {
    policies: WatchState,
    healths: WatchState,
    clusters: WatchState,
}

/// Runs the prober until it is stopped.
pub async fn run(prober: Prober, stop: CancellationToken) {
    let (seed, instruments) = (prober.seed, prober.instruments);
    let watches = &instruments.common.watches;
    let watched = Watched {
        policies: watches.begin("ProbePolicies", "watch-probepolicies"),
        healths: watches.begin("ClusterHealths", "watch-clusterhealths"),
        clusters: watches.begin("Clusters", "watch-clusters"),
    };
    let known = recall::known(&seed, &watched.policies, &watched.healths);
    let Some(known) = stop.run_until_cancelled(known).await else {
        return;
    };
    let (mut recalled, mut policies) = (BTreeMap::new(), BTreeMap::new());
    for health in &known.clusters {
        if let Some(name) = health.metadata.name.as_deref().map(Arc::<str>::from) {
            let policy = health.status.as_ref().and_then(|it| it.policy.as_deref());
            policies.extend(policy.map(|policy| (name.clone(), policy.into())));
            let record = recall::record(health.status.clone());
            recalled.insert(name, record.map(Box::new));
        }
    }
    let (writer, reporter) = Writer::new(seed.clone(), known);
    let writer = writer.measured(
        instruments.health.clone(),
        instruments.common.liveness.clone(),
    );
    // The writer outlives the loops, whose end may cause the last reports.
    let last = CancellationToken::new();
    let writing = tokio::spawn(writer.run(last.clone()));
    let deletions = watch_cluster_healths(seed.clone(), reporter.clone(), watched.healths.clone());
    let deletions = tokio::spawn(last.clone().run_until_cancelled_owned(deletions));

    let resources = Resources::default();
    let (needs, needed) = watch::channel(AllNeeds::default());
    let reviewer = Reviewer {
        seed: seed.clone(),
        resources: resources.clone(),
        reporter: reporter.clone(),
    };
    let reviews = tokio::spawn(stop.clone().run_until_cancelled_owned(reviewer.run(needed)));

    let shared = LoopContext {
        evidence: Evidence::new(seed.clone(), &prober.scale, watches.restarts("Secrets")),
        reach: ScaleContext {
            scale: prober.scale,
            resources,
            dry_run: prober.dry_run,
            metrics: instruments.prober.clone(),
        },
        looks: Means::new(instruments.prober.durations(), prober.checks.clone()),
        checks: prober.checks,
        spread: SharedSpread::default(),
        reporter: reporter.clone(),
        origin: Origin::new(Instant::now().into_std()),
        overdue_after: prober.overdue_after,
    };
    let fleet = Fleet {
        dry_run: prober.dry_run,
        index: Index::new(policies),
        loops: Loops::new(seed.clone(), shared, recalled),
        seed,
        reporter,
        needs,
        watched,
        liveness: instruments.common.liveness.begin(LOOP),
    };
    fleet.run(stop).await;
    last.cancel();
    // None of them panics; if one did, it has ended as well.
    let _ = tokio::join!(writing, deletions, reviews);
}

/// Passes the ClusterHealths that others delete on to their writer.
async fn watch_cluster_healths(seed: Seed, reporter: Reporter, state: WatchState) {
    let api: Api<PartialObjectMeta<ClusterHealth>> = Api::all(seed.client().clone());
    let mut events = events(watcher(api, watcher::Config::default()), state);
    while let Some(event) = events.next().await {
        reporter.cluster_health(event);
    }
}

struct Fleet {
    seed: Seed,
    dry_run: bool,
    index: Index,
    loops: Loops,
    reporter: Reporter,
    /// What the rights are reviewed for.
    needs: watch::Sender<AllNeeds>,
    watched: Watched,
    liveness: LoopLiveness,
}

impl Fleet {
    async fn run(mut self, stop: CancellationToken) {
        let client = self.seed.client();
        let policies: Api<DeserializeGuard<ProbePolicy>> = Api::all(client.clone());
        let clusters: Api<Cluster> = Api::all(client.clone());
        let heard_soon = watcher::Config::default().timeout(WATCH_SECONDS);
        // A Cluster embeds a cloud profile of hundreds of kilobytes.
        let small_pages = heard_soon.clone().page_size(LARGE_OBJECTS_PER_PAGE);
        let dry_run = self.dry_run;
        let policies = watcher(policies, heard_soon).modify(move |policy| {
            if let Ok(policy) = &mut policy.0 {
                policy.spec.mode = policy.spec.mode.map(|mode| mode.or_dry_run(dry_run));
            }
        });
        let mut policies = events(policies, self.watched.policies.clone());
        let clusters = watcher(clusters, small_pages);
        let mut clusters = events(clusters, self.watched.clusters.clone());
        loop {
            self.liveness.beat();
            let restart = self.loops.next_restart();
            let (about_policies, changed) = tokio::select! {
                // Policies first: they decide what the clusters' events mean.
                biased;
                () = stop.cancelled() => break,
                Some(event) = policies.next() => (true, self.index.policy_event(event)),
                Some(event) = clusters.next() => (false, self.index.cluster_event(event)),
                Some(ended) = self.loops.tasks.join_next_with_id() => {
                    if self.loops.ended(ended, &mut self.index) {
                        self.report_policies();
                    }
                    continue;
                }
                () = until(restart) => {
                    self.loops.restart(&self.index);
                    continue;
                }
                () = self.liveness.due() => continue,
            };
            self.apply(about_policies, &changed);
        }
        self.loops.stop().await;
    }

    /// Passes changes on to the loops and the reporter.
    fn apply(&mut self, about_policies: bool, changed: &Changed) {
        let waits = !self.index.synced();
        if waits || (self.loops.started && changed.is_empty() && !about_policies) {
            return;
        }
        for name in changed {
            self.loops.assign(name, &self.index);
        }
        if about_policies {
            self.loops.update_gone(&self.index);
        }
        if !self.loops.started {
            self.loops.assign_recalled(&self.index);
        }
        self.report_policies();
    }

    fn report_policies(&self) {
        let mut needs = AllNeeds::new();
        let reports = self.index.policies().filter_map(|policy| {
            let view = self.index.policy_view(&policy.name)?;
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
        self.needs.send_if_modified(|known| {
            let changed = *known != needs;
            *known = needs;
            changed
        });
    }
}
