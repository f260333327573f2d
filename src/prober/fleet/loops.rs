//! The loops of all clusters: each is started, given its assignment, and has its term begun.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use tokio::{
    sync::{oneshot, watch},
    task::{Id, JoinError, JoinSet},
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
};

pub(super) struct Loops {
    /// Where a loop reads before its term.
    observing: Arc<ReadContext>,
    term: Option<Term>,
    /// The ClusterHealths that an earlier run has left, until the loops begin their term.
    left: BTreeMap<Arc<str>, Record>,
    /// The clusters with a mark that was there at the start.
    marked: BTreeSet<Arc<str>>,
    running: BTreeMap<Arc<str>, Loop>,
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
    /// No loop yet, and no term.
    pub(super) fn new(observing: Arc<ReadContext>) -> Self {
        Self {
            observing,
            term: None,
            left: BTreeMap::new(),
            marked: BTreeSet::new(),
            running: BTreeMap::new(),
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
            self.begin_one(&name, left);
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
            // A record without a policy that selects the cluster may be of a debt; an empty one is
            // deleted.
            (None, Some(assignment))
                if assignment.responsible().is_some() || self.left.contains_key(name) =>
            {
                self.start(name, assignment);
            }
            (None, _) => {}
        }
    }

    /// Starts a loop, which observes until its term begins.
    fn start(&mut self, name: &Arc<str>, assignment: &Assignment) {
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
            self.begin_one(name, None);
        }
    }

    /// Has the term of one loop begin.
    fn begin_one(&mut self, name: &Arc<str>, known: Record) {
        if let (Some(running), Some(term)) = (self.running.get_mut(name), &self.term)
            && let Some(begins) = running.begins.take()
        {
            // It waits for it, unless it is being stopped.
            let _ = begins.send(Beginning {
                term: term.clone(),
                known: Some(known),
                is_start: !self.started,
                is_marked: self.marked.remove(name),
            });
        }
    }

    /// Takes in the end of a loop: its cluster is let go, or gone. Returns whether the cluster is forgotten, which
    /// changes the reports on policies.
    pub(super) fn ended(&mut self, ended: Result<(Id, ()), JoinError>, index: &mut Index) -> bool {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        let ended = self.running.extract_if(.., |_, it| it.task == id).next();
        let Some((name, _)) = ended else {
            return false;
        };
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

    /// Ends all loops, and waits until they have ended.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        // Loops whose term has not begun wait for it.
        self.running.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
