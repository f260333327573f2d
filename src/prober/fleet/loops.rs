//! The loops of all clusters: each is started, given its assignment, has its term begun, and is started again after a
//! defect.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Assignment, Index},
    prober::{
        acting::Term,
        cluster::{self, Beginning, Record},
        reader::ReadContext,
        report::Reporter,
    },
    runtime::metrics::States,
};

/// Judgement: the pause after which a loop that ended by a defect is started again.
const RESTART: Duration = Duration::from_secs(10);

pub(super) struct Loops {
    /// Where a loop reads before its term, and counts what it has read.
    observing: (Arc<ReadContext>, States),
    term: Option<Term>,
    /// The ClusterHealths that an earlier run has left, until the loops begin their term.
    left: BTreeMap<Arc<str>, Record>,
    /// The clusters with a mark that was there at the start.
    marked: BTreeSet<Arc<str>>,
    running: BTreeMap<Arc<str>, Loop>,
    /// When loops that ended by a defect are started again.
    restarts: BTreeMap<Arc<str>, Instant>,
    /// Ends all loops.
    stop: CancellationToken,
    pub(super) tasks: JoinSet<()>,
    /// The loops have begun their term, since all objects have been listed once: clusters that come later are new.
    started: bool,
}

struct Loop {
    task: Id,
    assignment: watch::Sender<Box<Assignment>>,
    /// Has its term begin.
    begins: Option<oneshot::Sender<Beginning>>,
}

impl Loops {
    /// No loop yet, and no term: what they read is counted in these states.
    pub(super) fn new(reads: Arc<ReadContext>, states: States) -> Self {
        Self {
            observing: (reads, states),
            term: None,
            left: BTreeMap::new(),
            marked: BTreeSet::new(),
            running: BTreeMap::new(),
            restarts: BTreeMap::new(),
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            started: false,
        }
    }

    /// Takes up a term, with the ClusterHealths that an earlier run has left, and the clusters in which a dependent is
    /// marked.
    pub(super) fn lead(
        &mut self,
        term: Term,
        left: BTreeMap<Arc<str>, Record>,
        marked: BTreeSet<Arc<str>>,
    ) {
        (self.term, self.left, self.marked) = (Some(term), left, marked);
    }

    /// Reporter of the term.
    pub(super) fn reporter(&self) -> Option<&Reporter> {
        self.term.as_ref().map(|term| &term.reporter)
    }

    /// Has the term of all loops begin, unless it has. Returns whether it does.
    pub(super) fn begin(&mut self, index: &Index) -> bool {
        if self.started || self.term.is_none() {
            return false;
        }
        for (name, _) in index.assignments() {
            self.assign(name, index);
        }
        for name in self.running.keys().cloned().collect::<Vec<_>>() {
            let left = self.left.remove(&name).flatten();
            self.begin_one(&name, Some(left));
        }
        self.started = true;
        // What is left of Clusters that went before this process watched is deleted.
        let left = mem::take(&mut self.left).into_keys();
        for name in left.filter(|name| index.assignment(name).is_none()) {
            self.unselected(&name);
        }
        true
    }

    /// Gives a cluster's loop its assignment, and starts the loop if there is none.
    pub(super) fn assign(&mut self, name: &Arc<str>, index: &Index) {
        let assignment = index.assignment(name);
        match (self.running.get(name), assignment) {
            (Some(running), Some(assignment)) => {
                let assignment = Box::new(assignment.clone());
                running.assignment.send_replace(assignment);
            }
            // Before a term nothing is owed.
            (Some(running), None) if running.begins.is_some() => {
                self.running.remove(name);
            }
            (Some(running), None) => running.assignment.send_modify(|it| it.bury()),
            // A loop that waits for its restart gets the assignment of that time.
            (None, Some(_)) if self.restarts.contains_key(name) => {}
            // A record without a policy that selects the cluster may be of a debt; an empty one is
            // deleted.
            (None, Some(assignment))
                if assignment.responsible().is_some() || self.left.contains_key(name) =>
            {
                self.start(name, assignment, Some(None));
            }
            (None, _) => {}
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
                    mem::replace(&mut policy.hold, hold) != hold
                })
            });
        }
    }

    /// Starts a loop, which observes until its term begins. Without `known`, the loop before ended by a defect and its
    /// knowledge is lost: the ClusterHealth is read again.
    fn start(&mut self, name: &Arc<str>, assignment: &Assignment, known: Option<Record>) {
        let (sender, receiver) = watch::channel(Box::new(assignment.clone()));
        let (begins, beginning) = oneshot::channel();
        let (name_of, observing) = (name.clone(), self.observing.clone());
        let stop = self.stop.clone();
        let task = cluster::run(name_of, receiver, observing, beginning, stop);
        let running = Loop {
            task: self.tasks.spawn(task).id(),
            assignment: sender,
            begins: Some(begins),
        };
        self.running.insert(name.clone(), running);
        if self.started {
            self.begin_one(name, known);
        }
    }

    /// Has the term of one loop begin.
    fn begin_one(&mut self, name: &Arc<str>, known: Option<Record>) {
        let count = self.running.len();
        if let (Some(running), Some(term)) = (self.running.get_mut(name), &self.term)
            && let Some(begins) = running.begins.take()
        {
            term.pace.set_clusters(count);
            // One that has ended by a defect is started again.
            let _ = begins.send(Beginning {
                term: term.clone(),
                known,
                is_start: !self.started,
                is_marked: self.marked.remove(name),
            });
        }
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
        if let Some(term) = &self.term {
            term.pace.set_clusters(self.running.len());
        }
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
        self.unselected(&name);
        true
    }

    /// Has the record of this cluster deleted, which nobody keeps any more.
    fn unselected(&self, name: &Arc<str>) {
        if let Some(term) = &self.term {
            term.reporter.cluster_unselected(name);
        }
    }

    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.restarts.values().min().copied()
    }

    /// Starts the loops whose restart is due.
    pub(super) fn restart(&mut self, index: &Index) {
        let now = Instant::now();
        let due = self.restarts.extract_if(.., |_, at| *at <= now);
        for (name, _) in due.collect::<Vec<_>>() {
            match index.assignment(&name) {
                Some(assignment) => self.start(&name, assignment, None),
                None => self.unselected(&name),
            }
        }
    }

    /// Ends all loops, and waits until they have ended.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
