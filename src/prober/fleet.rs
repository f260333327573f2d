//! All clusters' loops side by side: watches keep the index, and each change of an assignment goes
//! to its cluster's loop.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{
    Api,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    moment::Origin,
    probe::{Probe, Shared},
    scale::Resources,
};
use crate::{
    api::{ClusterHealth, ClusterHealthSpec, ClusterHealthStatus, ProbePolicy},
    cluster::{Assignment, Changed, Index},
    gardener::Cluster,
    health::{PolicyReport, Reporter, Writer},
    runtime::{seed::Seed, timer::until},
};

/// A Cluster embeds a cloud profile of hundreds of kilobytes, so few are listed at a time.
const CLUSTERS_PER_PAGE: u32 = 20;
/// A loop that ended by a defect is started again after this long.
const RESTART: Duration = Duration::from_secs(10);

/// Runs the prober until it is stopped.
pub async fn run(seed: Seed, scale: Seed, stop: CancellationToken) {
    let Some(known) = stop.run_until_cancelled(known(&seed)).await else {
        return;
    };
    let recalled = known
        .iter()
        .filter_map(|health| {
            let name = health.metadata.name.as_deref()?;
            Some((Arc::from(name), health.status.clone().unwrap_or_default()))
        })
        .collect();
    let (writer, reporter) = Writer::new(seed.clone(), known);
    // Its last reports may be about the end of the loops, so the writer outlives them.
    let last = CancellationToken::new();
    let writing = tokio::spawn(writer.run(last.clone()));

    let fleet = Fleet {
        index: Index::default(),
        shared: Shared {
            seed: seed.clone(),
            scale,
            resources: Resources::default(),
            reporter: reporter.clone(),
            origin: Origin::new(Instant::now().into_std()),
        },
        reporter,
        recalled,
        loops: BTreeMap::new(),
        tasks: JoinSet::new(),
        names: HashMap::new(),
        restarts: BTreeMap::new(),
        started: false,
    };
    fleet.run(seed, stop).await;
    last.cancel();
    // The writer does not panic; if it did, there is nothing left to write.
    let _ = writing.await;
}

/// The ClusterHealths that there are, however long it takes to list them. One that cannot be read
/// keeps nobody from starting: the marks on the dependents tell what is owed.
async fn known(seed: &Seed) -> Vec<ClusterHealth> {
    let api: Api<DeserializeGuard<ClusterHealth>> = Api::all(seed.client().clone());
    let mut listed = Vec::new();
    let mut events = events("ClusterHealths", watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(DeserializeGuard(health)) => {
                listed.push(health.unwrap_or_else(|invalid| {
                    let name = invalid.metadata.name.unwrap_or_default();
                    tracing::warn!(name, error = %invalid.error, "a ClusterHealth is unreadable");
                    ClusterHealth::new(&name, ClusterHealthSpec::default())
                }));
            }
            watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_) => {
                break;
            }
        }
    }
    listed
}

struct Fleet {
    index: Index,
    shared: Shared,
    reporter: Reporter,
    /// What an earlier run has left in ClusterHealths.
    recalled: BTreeMap<Arc<str>, ClusterHealthStatus>,
    loops: BTreeMap<Arc<str>, Loop>,
    tasks: JoinSet<()>,
    names: HashMap<Id, Arc<str>>,
    /// Loops that ended by a defect, and when they are started again.
    restarts: BTreeMap<Arc<str>, Instant>,
    /// Whether all objects have been listed once: clusters that come later are new.
    started: bool,
}

struct Loop {
    assignment: watch::Sender<Assignment>,
    stop: CancellationToken,
}

impl Fleet {
    async fn run(mut self, seed: Seed, stop: CancellationToken) {
        let policies: Api<DeserializeGuard<ProbePolicy>> = Api::all(seed.client().clone());
        let clusters: Api<Cluster> = Api::all(seed.client().clone());
        let small_pages = watcher::Config::default().page_size(CLUSTERS_PER_PAGE);
        let mut policies = events(
            "ProbePolicies",
            watcher(policies, watcher::Config::default()),
        );
        let mut clusters = events("Clusters", watcher(clusters, small_pages));
        loop {
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
            };
            self.apply(about_policies, &changed);
        }
        for running in self.loops.values() {
            running.stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }

    /// Tells the loops and the reporter what has changed.
    fn apply(&mut self, about_policies: bool, changed: &Changed) {
        if !self.index.synced() || (changed.is_empty() && !about_policies) {
            return;
        }
        for name in changed {
            self.assign(name);
        }
        self.started = true;
        self.report_policies();
    }

    fn assign(&mut self, name: &Arc<str>) {
        let Some(assignment) = self.index.assignment(name).cloned() else {
            if let Some(ended) = self.loops.remove(name) {
                ended.stop.cancel();
            }
            self.recalled.remove(name);
            self.restarts.remove(name);
            self.reporter.cluster_gone(name);
            return;
        };
        if let Some(running) = self.loops.get(name) {
            running.assignment.send_replace(assignment);
            return;
        }
        let known = self.recalled.remove(name);
        let owes = known
            .as_ref()
            .is_some_and(|known| known.dependents.iter().any(|dependent| dependent.owed));
        if assignment.selected.is_some() || owes {
            self.start(name, assignment, known.as_ref());
        } else if known.is_some() {
            self.reporter.cluster_unselected(name);
        }
    }

    fn start(
        &mut self,
        name: &Arc<str>,
        assignment: Assignment,
        known: Option<&ClusterHealthStatus>,
    ) {
        let (sender, receiver) = watch::channel(assignment);
        let stop = CancellationToken::new();
        let probe = Probe::new(
            name.clone(),
            self.shared.clone(),
            receiver,
            known,
            !self.started,
        );
        let task = self.tasks.spawn(probe.run(stop.clone()));
        self.names.insert(task.id(), name.clone());
        let running = Loop {
            assignment: sender,
            stop,
        };
        self.loops.insert(name.clone(), running);
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
        // One of a cluster that is gone was removed before, and another may run by now.
        if !self
            .loops
            .get(&name)
            .is_some_and(|running| running.assignment.is_closed())
        {
            return;
        }
        self.loops.remove(&name);
        match ended {
            Ok(_) => match self.index.assignment(&name) {
                // It was selected again while its loop was ending.
                Some(assignment) if assignment.selected.is_some() => self.assign(&name),
                _ => self.reporter.cluster_unselected(&name),
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
            self.assign(&name);
        }
    }

    fn report_policies(&self) {
        let reports = self.index.policies().filter_map(|policy| {
            let view = self.index.policy_view(&policy.name)?;
            Some(PolicyReport {
                name: policy.name.clone(),
                uid: policy.uid.clone(),
                deleting: policy.deleting,
                held: policy.held,
                generation: policy.generation,
                problems: policy.problems().to_vec(),
                selected: view.selected,
                kept: view.kept,
                lost: view.lost,
            })
        });
        self.reporter.policies(reports.collect());
    }
}

/// The events of a watch that is taken up again whenever it breaks.
fn events<K>(
    what: &'static str,
    stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
) -> impl Stream<Item = watcher::Event<K>> + Unpin
where
    K: Send + 'static,
{
    let stream = stream
        .default_backoff()
        .filter_map(move |event| async move {
            event
                .inspect_err(
                    |error| tracing::warn!(%error, "the watch of {what} broke; it is resumed"),
                )
                .ok()
        });
    Box::pin(stream)
}
