//! All clusters' loops side by side: watches keep the index, and each change of an assignment goes
//! to its cluster's loop.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    evidence::Evidence,
    guard::Reach,
    instruments::Instruments,
    moment::Origin,
    probe::{Probe, Shared},
    recall,
    report::{PolicyReport, Reporter, Writer},
    rights::{AllNeeds, Needs, Reviewer},
    scale::Resources,
    stance::Presence,
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy},
    checks::{Runner, SharedSpread},
    cluster::{Assignment, Brake, Changed, Index},
    gardener::Cluster,
    observer::look::Means,
    runtime::{
        answers::LARGE_OBJECTS_PER_PAGE,
        pulse::Pulse,
        seed::Seed,
        timer::until,
        watches::{WATCH_SECONDS, WatchState, events},
    },
};

/// The name of the fleet's pulse.
const PULSE: &str = "fleet";
/// A loop that ended by a defect is started again after this long.
const RESTART: Duration = Duration::from_secs(10);

/// What the prober runs with.
#[derive(Clone)]
pub struct Prober {
    /// Reads and reports.
    pub seed: Seed,
    /// Reads and writes dependents.
    pub scale: Seed,
    /// Whether every policy is taken for one with the mode `DryRun`.
    pub dry_run: bool,
    /// Makes the runs of the policies' checks.
    pub checks: Runner,
    /// A protection that lasts for longer is reported.
    pub overdue_after: Duration,
    /// By which others see how it fares.
    pub instruments: Instruments,
}

/// The watches without which nothing is known.
struct Watched {
    policies: WatchState,
    healths: WatchState,
    clusters: WatchState,
}

/// Runs the prober until it is stopped.
pub async fn run(prober: Prober, stop: CancellationToken) {
    let Prober {
        seed,
        scale,
        dry_run,
        checks,
        overdue_after,
        instruments,
    } = prober;
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
    let recalled: BTreeMap<Arc<str>, Option<ClusterHealthStatus>> = known
        .clusters
        .iter()
        .filter_map(|health| {
            let name = health.metadata.name.as_deref()?;
            Some((Arc::from(name), recall::record(health.status.clone())))
        })
        .collect();
    let policies = known
        .clusters
        .iter()
        .filter_map(|health| {
            let policy = health.status.as_ref()?.policy.as_deref()?;
            Some((health.metadata.name.as_deref()?.into(), policy.into()))
        })
        .collect();
    let (writer, reporter) = Writer::new(seed.clone(), known);
    let writer = writer.measured(
        instruments.health.clone(),
        instruments.common.pulses.clone(),
    );
    // Its last reports may be about the end of the loops, so the writer outlives them.
    let last = CancellationToken::new();
    let writing = tokio::spawn(writer.run(last.clone()));
    let deletions = watch_cluster_healths(seed.clone(), reporter.clone(), watched.healths.clone());
    tokio::spawn(last.clone().run_until_cancelled_owned(deletions));

    let resources = Resources::default();
    let (needs, needed) = watch::channel(AllNeeds::default());
    let reviewer = Reviewer {
        seed: seed.clone(),
        resources: resources.clone(),
        reporter: reporter.clone(),
    };
    tokio::spawn(stop.clone().run_until_cancelled_owned(reviewer.run(needed)));

    let fleet = Fleet {
        seed: seed.clone(),
        dry_run,
        index: Index::new(policies),
        shared: Shared {
            evidence: Evidence::new(seed.clone(), &scale, watches.restarts("Secrets")),
            reach: Reach {
                scale,
                resources,
                dry_run,
                metrics: instruments.prober.clone(),
            },
            looks: Means::new(instruments.prober.durations(), checks.clone()),
            checks,
            spread: SharedSpread::default(),
            reporter: reporter.clone(),
            origin: Origin::new(Instant::now().into_std()),
            overdue_after,
        },
        reporter,
        needs,
        recalled,
        loops: BTreeMap::new(),
        gone: BTreeMap::new(),
        stop: CancellationToken::new(),
        tasks: JoinSet::new(),
        names: HashMap::new(),
        restarts: BTreeMap::new(),
        started: false,
        watched,
        pulse: instruments.common.pulses.begin(PULSE),
    };
    fleet.run(stop).await;
    last.cancel();
    // The writer does not panic; if it did, there is nothing left to write.
    let _ = writing.await;
}

/// Tells the writer of ClusterHealths that somebody else deletes.
async fn watch_cluster_healths(seed: Seed, reporter: Reporter, state: WatchState) {
    let api: Api<PartialObjectMeta<ClusterHealth>> = Api::all(seed.client().clone());
    let mut events = events(watcher(api, watcher::Config::default()), state);
    while let Some(event) = events.next().await {
        reporter.cluster_health(event);
    }
}

/// The policy that is responsible for a cluster.
fn responsible(presence: &Presence) -> Option<Arc<str>> {
    let Presence::There(assignment) = presence else {
        return None;
    };
    let policy = assignment.selected.as_ref().or(assignment.former.as_ref());
    policy.map(|policy| policy.policy.clone())
}

/// Tells a loop that its Cluster is gone, and only then the writer: until it has reported, a loop holds on
/// to what it reports by, so that no report by what was before can follow, and bring the record back.
fn tell_gone(
    name: &Arc<str>,
    brake: Brake,
    running: &watch::Sender<Presence>,
    reporter: &Reporter,
) {
    running.send_replace(Presence::Gone(brake));
    reporter.cluster_gone(name);
}

struct Fleet {
    seed: Seed,
    dry_run: bool,
    index: Index,
    shared: Shared,
    reporter: Reporter,
    /// What is reviewed ahead.
    needs: watch::Sender<AllNeeds>,
    /// The ClusterHealths that an earlier run has left, with what they say.
    recalled: BTreeMap<Arc<str>, Option<ClusterHealthStatus>>,
    /// What the index says goes to each loop.
    loops: BTreeMap<Arc<str>, watch::Sender<Presence>>,
    /// Clusters that are gone while their loops run, and the policy that was responsible last.
    gone: BTreeMap<Arc<str>, Arc<str>>,
    /// Ends all loops.
    stop: CancellationToken,
    tasks: JoinSet<()>,
    names: HashMap<Id, Arc<str>>,
    /// Loops that ended by a defect, and when they are started again.
    restarts: BTreeMap<Arc<str>, Instant>,
    /// Whether all objects have been listed once: clusters that come later are new.
    started: bool,
    watched: Watched,
    pulse: Pulse,
}

/// What is known of a cluster when its loop starts.
enum Recall {
    /// What its ClusterHealth said when the operator started.
    Known(Option<Box<ClusterHealthStatus>>),
    /// What its ClusterHealth says now: the loop before ended by a defect, and took with it what it
    /// knew.
    Read,
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
            self.pulse.beat();
            let restart = self.restarts.values().min().copied();
            let (about_policies, changed) = tokio::select! {
                // Policies first: they decide what the clusters' events mean.
                biased;
                () = stop.cancelled() => break,
                Some(event) = policies.next() => (true, self.index.policy_event(event)),
                Some(event) = clusters.next() => (false, self.index.cluster_event(event)),
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.ended(ended);
                    continue;
                }
                () = until(restart) => {
                    self.restart();
                    continue;
                }
                () = self.pulse.due() => continue,
            };
            self.apply(about_policies, &changed);
        }
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Tells the loops and the reporter what has changed.
    fn apply(&mut self, about_policies: bool, changed: &Changed) {
        if !self.index.synced() || (self.started && changed.is_empty() && !about_policies) {
            return;
        }
        for name in changed {
            self.assign(name);
        }
        if about_policies {
            for name in self.gone.keys() {
                if let Some(running) = self.loops.get(name) {
                    running.send_replace(Presence::Gone(self.brake(name)));
                }
            }
        }
        if !mem::replace(&mut self.started, true) {
            // What is left of it is about Clusters that went while nobody watched.
            for name in self.recalled.keys().cloned().collect::<Vec<_>>() {
                self.assign(&name);
            }
        }
        self.report_policies();
    }

    fn assign(&mut self, name: &Arc<str>) {
        let assignment = self.index.assignment(name).cloned();
        if let Some(running) = self.loops.get(name) {
            match assignment {
                Some(assignment) => {
                    self.gone.remove(name);
                    running.send_replace(Presence::There(Box::new(assignment)));
                }
                None => {
                    if let Some(policy) = responsible(&running.borrow()) {
                        self.gone.insert(name.clone(), policy);
                    }
                    tell_gone(name, self.brake(name), running, &self.reporter);
                }
            }
            return;
        }
        // It is started again when it is time, by the assignment of then.
        if self.restarts.contains_key(name) {
            return;
        }
        let known = self.recalled.remove(name);
        let wanted = |it: &Assignment| it.selected.is_some() || it.former.is_some();
        // What is known of one that nobody selects may be a debt; if nothing is, its ClusterHealth goes.
        if known.is_some() || assignment.as_ref().is_some_and(wanted) {
            let known = known.flatten().map(Box::new);
            self.start(name, assignment, Recall::Known(known));
        }
    }

    /// What the policy holds back that was responsible last for a Cluster that is gone.
    fn brake(&self, cluster: &str) -> Brake {
        let policy = self.gone.get(cluster);
        let policy = policy.and_then(|policy| self.index.policy_view(policy));
        policy.map(|view| view.policy.brake).unwrap_or_default()
    }

    fn start(&mut self, name: &Arc<str>, assignment: Option<Assignment>, recall: Recall) {
        let presence = match (assignment, &recall) {
            (Some(assignment), _) => Presence::There(Box::new(assignment)),
            (None, Recall::Known(Some(known))) => {
                if let Some(policy) = &known.policy {
                    self.gone.insert(name.clone(), policy.as_str().into());
                }
                Presence::Gone(self.brake(name))
            }
            (None, _) => Presence::Gone(self.brake(name)),
        };
        let (sender, receiver) = watch::channel(presence);
        let stop = self.stop.clone();
        let (name_of, shared) = (name.clone(), self.shared.clone());
        let seed = self.seed.clone();
        let from_the_start = !self.started;
        let task = self.tasks.spawn(async move {
            let known = match recall {
                Recall::Known(known) => known,
                Recall::Read => {
                    let read = Box::pin(recall::read(&seed, &name_of));
                    match stop.run_until_cancelled(read).await {
                        Some(read) => read.map(Box::new),
                        None => return,
                    }
                }
            };
            let probe = Probe::new(name_of, shared, receiver, known.as_deref(), from_the_start);
            // A future has room for all that is ever moved into it, and for whatever it may ever
            // wait for, as long as it lives: hence the boxes, here and in the loop.
            Box::new(probe).run(stop).await;
        });
        self.names.insert(task.id(), name.clone());
        self.loops.insert(name.clone(), sender);
    }

    /// A loop has ended: its cluster is let go, or gone, or the loop had a defect.
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(name) = self.names.remove(&id) else {
            return;
        };
        self.loops.remove(&name);
        self.gone.remove(&name);
        match ended {
            Ok(_) => match self.index.assignment(&name) {
                // It was selected, or created, again while its loop was ending.
                Some(assignment) if assignment.selected.is_some() => self.assign(&name),
                _ => {
                    self.index.forget(&name);
                    self.reporter.cluster_unselected(&name);
                    self.report_policies();
                }
            },
            Err(error) => {
                tracing::error!(cluster = &*name, %error, "the cluster's loop ended by a defect");
                self.restarts.insert(name, Instant::now() + RESTART);
            }
        }
    }

    fn restart(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .restarts
            .extract_if(.., |_, at| *at <= now)
            .map(|(name, _)| name)
            .collect();
        for name in due {
            let assignment = self.index.assignment(&name).cloned();
            self.start(&name, assignment, Recall::Read);
        }
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
                brake: policy.brake,
                held: policy.held,
                generation: policy.generation,
                problems: policy.problems().to_vec(),
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

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    /// A loop is about to report, on another thread, and what it has seen is that the Cluster is there.
    #[test]
    fn no_report_follows_the_word_that_a_cluster_is_gone() {
        let name: Arc<str> = "a".into();
        for _ in 0..200 {
            let (reporter, mut told) = Reporter::tapped(&name);
            let (running, presence) = watch::channel(Presence::Gone(Brake::default()));
            let both = Barrier::new(2);
            thread::scope(|scope| {
                let seen = presence.borrow();
                scope.spawn(|| {
                    both.wait();
                    tell_gone(&name, Brake::default(), &running, &reporter);
                });
                both.wait();
                for _ in 0..100 {
                    thread::yield_now();
                }
                reporter.exec_tolerated(&name, "report".to_owned(), String::new());
                drop(seen);
            });
            assert_eq!([told(), told()], [Some("event"), Some("gone")]);
        }
    }
}
