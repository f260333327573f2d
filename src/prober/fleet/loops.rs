//! The loops of all clusters: each is started, given its assignment, and started again after a
//! defect.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::ClusterHealthStatus,
    cluster::{Assignment, Index},
    prober::{
        cluster::{Beginning, ClusterLoop, LoopContext},
        reader::LeaseReader,
        recall,
    },
    runtime::seed::Seed,
};

/// Judgement: the pause after which a loop that ended by a defect is started again.
const RESTART: Duration = Duration::from_secs(10);

/// What a ClusterHealth says, if that can be used.
type Record = Option<Box<ClusterHealthStatus>>;

pub(super) struct Loops {
    seed: Seed,
    shared: LoopContext,
    /// The ClusterHealths that an earlier run has left, until their clusters are assigned.
    recalled: BTreeMap<Arc<str>, Record>,
    /// The clusters with a mark that was there at the start.
    marked: BTreeSet<Arc<str>>,
    /// Those of a standby, until then as well.
    readers: BTreeMap<Arc<str>, LeaseReader>,
    running: BTreeMap<Arc<str>, Loop>,
    /// When loops that ended by a defect are started again.
    restarts: BTreeMap<Arc<str>, Instant>,
    /// Ends all loops.
    stop: CancellationToken,
    pub(super) tasks: JoinSet<()>,
    /// Whether all objects have been listed once: clusters that come later are new.
    pub(super) started: bool,
}

struct Loop {
    task: Id,
    assignment: watch::Sender<Box<Assignment>>,
}

impl Loops {
    pub(super) fn new(
        seed: Seed,
        shared: LoopContext,
        (recalled, marked): (BTreeMap<Arc<str>, Record>, BTreeSet<Arc<str>>),
        readers: BTreeMap<Arc<str>, LeaseReader>,
    ) -> Self {
        Self {
            seed,
            shared,
            recalled,
            marked,
            readers,
            running: BTreeMap::new(),
            restarts: BTreeMap::new(),
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            started: false,
        }
    }

    /// Gives a cluster's loop its assignment, and starts the loop if there is none.
    pub(super) fn assign(&mut self, name: &Arc<str>, index: &Index) {
        let assignment = index.assignment(name).cloned();
        if let Some(running) = self.running.get(name) {
            running.assignment.send_modify(|of| match assignment {
                Some(assignment) => **of = assignment,
                None => of.bury(),
            });
            return;
        }
        // A loop that waits for its restart gets the assignment of that time.
        if self.restarts.contains_key(name) {
            return;
        }
        let known = self.recalled.remove(name);
        match assignment {
            // A record without a policy that selects the cluster may be of a debt; an empty one is
            // deleted.
            Some(assignment) if known.is_some() || assignment.responsible().is_some() => {
                self.start(name, assignment, Some(known.flatten()));
            }
            None if known.is_some() => self.shared.reporter.cluster_unselected(name),
            _ => {}
        }
    }

    /// Updates what the policies hold back for Clusters that are gone.
    pub(super) fn update_gone(&self, index: &Index) {
        for running in self.running.values() {
            running.assignment.send_if_modified(|of| {
                let is_gone = of.is_gone();
                let policies = [&mut of.selected, &mut of.former];
                let policy = policies.into_iter().flatten().next();
                policy.filter(|_| is_gone).is_some_and(|policy| {
                    let known = index.policies().find(|it| it.name == policy.policy);
                    let hold = known.map(|it| it.hold).unwrap_or_default();
                    std::mem::replace(&mut policy.hold, hold) != hold
                })
            });
        }
    }

    /// Takes up the records that are left; those of Clusters that went before this process watched are deleted.
    pub(super) fn assign_recalled(&mut self, index: &Index) {
        self.started = true;
        for name in self.recalled.keys().cloned().collect::<Vec<_>>() {
            self.assign(&name, index);
        }
        self.readers.clear();
    }

    /// Starts a loop. Without `known`, the loop before ended by a defect and its knowledge is lost:
    /// the ClusterHealth is read again.
    fn start(&mut self, name: &Arc<str>, assignment: Assignment, known: Option<Record>) {
        let (sender, receiver) = watch::channel(Box::new(assignment));
        let (name_of, shared) = (name.clone(), self.shared.clone());
        let (seed, stop) = (self.seed.clone(), self.stop.clone());
        let reader = self.readers.remove(name);
        let beginning = Beginning {
            is_start: !self.started,
            is_marked: self.marked.remove(name),
        };
        let task = self.tasks.spawn(async move {
            let known = match known {
                Some(known) => known,
                None => {
                    let read = Box::pin(recall::read(&seed, &name_of));
                    match stop.run_until_cancelled(read).await {
                        Some(read) => read.map(Box::new),
                        None => return,
                    }
                }
            };
            let known = known.as_deref();
            let probe = ClusterLoop::new(name_of, shared, receiver, known, reader, beginning);
            // A future is as large as all that it ever holds, for as long as it lives: hence the
            // boxes, here and in the loop.
            Box::new(probe).run(stop).await;
        });
        let running = Loop {
            task: task.id(),
            assignment: sender,
        };
        self.running.insert(name.clone(), running);
        self.shared.means.pace.set_clusters(self.running.len());
    }

    /// Takes in the end of a loop: its cluster is let go, or gone, or the loop had a defect.
    /// Returns whether the cluster is forgotten, which changes the reports on policies.
    pub(super) fn ended(&mut self, ended: Result<(Id, ()), JoinError>, index: &mut Index) -> bool {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let mut loops = self.running.extract_if(.., |_, it| it.task == id);
        let Some((name, _)) = loops.next() else {
            return false;
        };
        drop(loops);
        self.shared.means.pace.set_clusters(self.running.len());
        if let Err(error) = ended {
            tracing::error!(cluster = &*name, %error, "the cluster's loop ended by a defect");
            self.restarts.insert(name, Instant::now() + RESTART);
            return false;
        }
        let assignment = index.assignment(&name);
        // It may have been selected, or created, again while its loop was ending.
        if assignment.is_some_and(|it| it.selected.is_some()) {
            self.assign(&name, index);
            return false;
        }
        index.forget(&name);
        self.shared.reporter.cluster_unselected(&name);
        true
    }

    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.restarts.values().min().copied()
    }

    /// Starts the loops whose restart is due.
    pub(super) fn restart(&mut self, index: &Index) {
        let now = Instant::now();
        let due = self.restarts.extract_if(.., |_, at| *at <= now);
        for (name, _) in due.collect::<Vec<_>>() {
            match index.assignment(&name).cloned() {
                Some(assignment) => self.start(&name, assignment, None),
                None => self.shared.reporter.cluster_unselected(&name),
            }
        }
    }

    /// Ends all loops, and waits until they have ended.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
