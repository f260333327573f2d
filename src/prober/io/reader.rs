//! The task that reads one cluster: its leases when they are due, and beside them whatever else is known of it.
//!
//! It runs whoever leads. On a standby nobody hears of what it concludes, and the term of a leader goes on from what
//! it has seen.

mod beside;
mod probe;

use std::{
    mem,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use self::beside::{Beside, NodeReads};
pub(in crate::prober) use self::probe::STATES;
use crate::{
    api::ClusterHealthStatus,
    cluster::Settings,
    observer::{View, looks::Looks, state::Observation},
    prober::{
        lease_judge::{Conclusion, LeaseJudge},
        metrics::ProberMetrics,
        sources::{Evidence, Sources},
    },
    runtime::{metrics::InState, timer},
    shoot::Unread,
    util::{mono_time::MonoTime, since::Since},
};

/// What all readers of a replica share.
pub(crate) struct ReadContext {
    pub(crate) evidence: Evidence,
    pub(crate) metrics: Arc<ProberMetrics>,
    /// Looks at the state of clusters; `None` on a standby, of which nobody hears.
    pub(crate) looks: Option<Looks>,
}

/// What a cluster is read by.
#[derive(Clone)]
pub(crate) struct ReadSettings {
    /// Another one begins a term.
    pub(crate) context: Arc<ReadContext>,
    pub(crate) settings: Arc<Settings>,
    /// The UID of the Cluster. Another one is observed anew.
    pub(crate) uid: Option<Arc<str>>,
    /// Whether the cluster is protected, which changes what counts.
    pub(crate) protected: bool,
    /// Leases that have been silent since before this count neither way; and whether the protection at hand was
    /// ended then.
    pub(crate) cut: Option<(Since, bool)>,
    /// Since when a restore has been allowed that waits for nodes, if one does, and whether any is missing.
    pub(crate) awaits: Option<(Instant, bool)>,
    /// What an earlier process has left, which is taken up when a term begins.
    pub(crate) recalled: Option<Arc<Recalled>>,
}

/// What an earlier process has left of a cluster, until the reader takes it.
pub(crate) type Recalled = Mutex<Option<Box<ClusterHealthStatus>>>;

impl ReadSettings {
    /// Tells whether a restore waits for nodes.
    fn awaits_nodes(&self) -> bool {
        self.awaits.is_some_and(|(_, missing)| missing)
    }

    /// Whether both read the same, whatever was recalled.
    fn is_same(&self, other: &Self) -> bool {
        let same_settings =
            Arc::ptr_eq(&self.settings, &other.settings) || self.settings == other.settings;
        same_settings
            && Arc::ptr_eq(&self.context, &other.context)
            && (&self.uid, self.protected, self.cut, self.awaits)
                == (&other.uid, other.protected, other.cut, other.awaits)
    }
}

/// The result of a read.
pub(crate) struct Read {
    /// The settings by which it was read.
    pub(crate) settings: Arc<Settings>,
    /// `None`: there is news of the state alone.
    pub(crate) leases: Option<Result<Conclusion, Unread>>,
    /// The state of the cluster.
    pub(crate) view: View,
}

/// The reader of one cluster. Reading ends with the value.
pub(crate) struct LeaseReader {
    orders: watch::Sender<ReadSettings>,
    reads: mpsc::Receiver<Box<Read>>,
    task: AbortOnDropHandle<()>,
}

impl LeaseReader {
    /// Has a cluster read by this: by the reader that there is, or a new one. What one without a term has read is
    /// counted by `counted`.
    pub(crate) fn obtain(
        reader: &mut Option<Self>,
        name: &Arc<str>,
        orders: ReadSettings,
        counted: impl FnOnce() -> Option<InState>,
    ) {
        match reader {
            Some(reader) => reader.follow(orders),
            None => *reader = Some(Self::begin(name.clone(), orders, counted())),
        }
    }

    fn begin(name: Arc<str>, orders: ReadSettings, counted: Option<InState>) -> Self {
        let (sender, receiver) = watch::channel(orders.clone());
        // One waits to be taken up, while the next is read.
        let (news, reads) = mpsc::channel(1);
        let (settings, evidence) = (&orders.settings, &orders.context.evidence);
        let now = Instant::now();
        let task = Box::new(Task {
            sources: evidence.of(name.clone(), &settings.secret_name),
            judge: LeaseJudge::new(settings.rules),
            observation: Observation::new(settings.observer.clone(), None, now, 0.0),
            name,
            orders,
            receiver,
            news,
            counted,
            turn: None,
            is_due: true,
            draw: 0.0,
            reached: None,
            proving: false,
            redialled: None,
            beside: JoinSet::new(),
            began: None,
            generation: 0,
            nodes: NodeReads::new(now),
        });
        Self {
            orders: sender,
            reads,
            task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        }
    }

    /// Reads by this from now on, and keeps the evidence. No list is read out of turn, except when a term begins: a
    /// policy may apply to a thousand clusters.
    fn follow(&self, orders: ReadSettings) {
        self.orders.send_if_modified(|before| {
            let changed = !before.is_same(&orders);
            let recalled = orders.recalled.or(before.recalled.take());
            *before = ReadSettings { recalled, ..orders };
            changed
        });
    }

    /// Waits for the next result. Nothing is lost if it is not waited for to the end.
    pub(crate) async fn next(&mut self) -> Box<Read> {
        if let Some(read) = self.reads.recv().await {
            return read;
        }
        // It ends only by a defect, which belongs to the cluster's loop.
        match (&mut self.task).await {
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            _ => std::future::pending().await,
        }
    }
}

struct Task {
    name: Arc<str>,
    orders: ReadSettings,
    receiver: watch::Receiver<ReadSettings>,
    news: mpsc::Sender<Box<Read>>,
    /// While it stands by.
    counted: Option<InState>,
    sources: Sources,
    judge: LeaseJudge,
    observation: Observation,
    /// The turn of a first read.
    turn: Option<OwnedSemaphorePermit>,
    /// The leases are to be read whatever the schedule says.
    is_due: bool,
    /// Places the jitter of the next list.
    draw: f64,
    /// When the last list of leases ended, if it came.
    reached: Option<Instant>,
    /// Silence is being proven: nothing is read beside the leases but what the proof needs.
    proving: bool,
    /// When the connection was given up because it showed no writes.
    redialled: Option<Instant>,
    beside: JoinSet<(u64, Beside)>,
    /// When the last of them began.
    began: Option<Instant>,
    /// What began before this rose says nothing about the state.
    generation: u64,
    nodes: NodeReads,
}

impl Task {
    async fn run(mut self: Box<Self>) {
        self.count(probe::PENDING);
        self.recall();
        self.follow();
        self.turn = self.sources.first_turn().await;
        loop {
            let due = self.due();
            let next = self.next_beside(due);
            tokio::select! {
                // What is read by comes first; then what a verdict may wait for.
                biased;
                changed = self.receiver.changed() => match changed {
                    Ok(()) => self.obey(),
                    Err(_) => return,
                },
                Some(ended) = self.beside.join_next() => self.take(ended).await,
                // The futures that read have several kilobytes, and hardly ever run.
                () = until(Some(due)) => Box::pin(self.probe()).await,
                () = until(next.map(|(at, _)| at)) => {
                    if let Some((_, look)) = next {
                        self.begin(look);
                    }
                }
            }
        }
    }

    /// Reads by other settings.
    fn obey(&mut self) {
        let orders = self.receiver.borrow_and_update().clone();
        let before = mem::replace(&mut self.orders, orders);
        let settings = self.orders.settings.clone();
        if *settings != *before.settings {
            self.judge.set_rules(settings.rules);
            if settings.pools != before.settings.pools {
                self.judge.forget_facts(MonoTime::now());
            }
            if settings.secret_name != before.settings.secret_name {
                self.sources.set_secret(&settings.secret_name);
                self.reached = None;
            }
        }
        if !Arc::ptr_eq(&self.orders.context, &before.context) {
            self.judge.begin_term();
            let evidence = self.orders.context.evidence.clone();
            self.sources.begin_term(evidence);
            self.counted = None;
            // What was seen counts, and what was concluded from it does not.
            self.is_due = true;
            self.recall();
        } else if *settings != *before.settings || self.orders.uid != before.uid {
            self.generation += 1;
            let (now, draw) = (Instant::now(), fastrand::f64());
            self.observation
                .restart(settings.observer.clone(), now, draw);
        }
        self.follow();
    }

    /// Takes up what an earlier process has left.
    fn recall(&mut self) {
        let Some(recalled) = self.orders.recalled.take() else {
            return;
        };
        let observer = self.orders.settings.observer.clone();
        let (now, draw) = (Instant::now(), fastrand::f64());
        self.generation += 1;
        let status = recalled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.observation = Observation::new(observer, status.as_deref(), now, draw);
    }

    /// Hands on what changes which leases count.
    fn follow(&mut self) {
        self.judge.set_protected(self.orders.protected);
        let (cut, ended) = self.orders.cut.unzip();
        let cut = cut.map(|cut| cut.began);
        self.judge.set_cut(cut, ended == Some(true));
        let awaits = self.orders.awaits.map(|(since, _)| since.into());
        self.judge.set_awaits(awaits);
    }

    /// When the leases are read next.
    fn due(&self) -> Instant {
        if self.is_due {
            return Instant::now();
        }
        self.judge.next(MonoTime::now(), self.draw).instant()
    }
}

/// Waits for the moment; for ever without one. A timer would add a millisecond to one that has come.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= Instant::now() => {}
        moment => timer::until(moment).await,
    }
}
