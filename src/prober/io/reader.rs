//! The task that reads one cluster: its leases when they are due, and right after them whatever else is due by then.
//!
//! It runs whoever leads. On a standby nobody hears of what it concludes, and the term of a leader goes on from what
//! it has seen.

mod beside;

use std::{mem, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use self::beside::{Beside, NodeReads};
use crate::{
    cluster::Settings,
    observer::{View, looks::Looks, state::Observation},
    prober::{
        lease_judge::{Conclusion, LeaseJudge},
        leases::Intake,
        metrics::ProberMetrics,
        proof::Proof,
        sources::{Evidence, Sources},
        verdict::{Doubt, Verdict},
    },
    runtime::metrics::InFlight,
    shoot::{Consistency, Shoot, Unread},
    util::{mono_time::MonoTime, since::Since},
};

/// Judgement: a first read that takes longer no longer keeps others waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

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
    /// Since when a restore has been allowed that waits for nodes, if one does.
    pub(crate) awaits: Option<Instant>,
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
    /// Has a cluster read by this: by a new reader, or by the one that there is, which keeps the evidence and reads no
    /// list out of turn, except when a term begins: a policy may apply to a thousand clusters.
    pub(crate) fn obtain(reader: &mut Option<Self>, name: &Arc<str>, orders: ReadSettings) {
        match reader {
            Some(reader) => drop(reader.orders.send_replace(orders)),
            None => *reader = Some(Self::begin(name.clone(), orders)),
        }
    }

    fn begin(name: Arc<str>, orders: ReadSettings) -> Self {
        let (sender, receiver) = watch::channel(orders.clone());
        // One waits to be taken up, while the next is read.
        let (news, reads) = mpsc::channel(1);
        let (settings, evidence) = (&orders.settings, &orders.context.evidence);
        let task = Box::new(Task {
            sources: evidence.of(name.clone(), &settings.secret_name),
            judge: LeaseJudge::new(settings.rules),
            observation: Observation::new(settings.observer.clone()),
            name,
            orders,
            receiver,
            news,
            draw: 0.0,
            redialled: None,
            beside: JoinSet::new(),
            put_off: false,
            connection: Arc::default(),
            nodes: NodeReads::default(),
        });
        Self {
            orders: sender,
            reads,
            task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        }
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
    sources: Sources,
    judge: LeaseJudge,
    observation: Observation,
    /// Places the jitter of the next list.
    draw: f64,
    /// When the connection was given up because it showed no writes.
    redialled: Option<Instant>,
    beside: JoinSet<Beside>,
    /// Nothing was begun after the last list, since the next one was due immediately.
    put_off: bool,
    /// The turn of what is read beside the leases: two at the same time need two connections.
    connection: Arc<Mutex<()>>,
    nodes: NodeReads,
}

impl Task {
    async fn run(mut self: Box<Self>) {
        let turns = self.orders.context.evidence.first_reads.clone();
        let turn = turns.acquire_owned().await.ok();
        self.obey();
        Box::pin(in_turn(turn, FIRST_READ, self.probe())).await;
        loop {
            let due = self.judge.next(MonoTime::now(), self.draw).instant();
            tokio::select! {
                // What is read by comes first; then what a verdict may wait for.
                biased;
                changed = self.receiver.changed() => match changed {
                    Ok(()) => self.obey(),
                    Err(_) => return,
                },
                Some(ended) = self.beside.join_next() => self.take(ended).await,
                // The futures that read have several kilobytes, and hardly ever run.
                () = until(due) => Box::pin(self.probe()).await,
            }
        }
    }

    /// Reads by other settings.
    fn obey(&mut self) {
        let orders = self.receiver.borrow_and_update().clone();
        let before = mem::replace(&mut self.orders, orders);
        let (settings, context) = (self.orders.settings.clone(), &self.orders.context);
        let is_changed = settings != before.settings;
        if is_changed {
            self.judge.set_rules(settings.rules);
            if settings.pools != before.settings.pools {
                self.judge.forget_facts(MonoTime::now());
            }
            self.sources.set_secret(&settings.secret_name);
        }
        if !Arc::ptr_eq(context, &before.context) {
            self.judge.begin_term();
        }
        if self.orders.uid != before.uid {
            self.observation = Observation::default();
        }
        if is_changed || self.orders.uid != before.uid {
            // What is being read may be about the former.
            (self.beside, self.nodes.under_way) = (JoinSet::new(), None);
            let (now, draw) = (Instant::now(), fastrand::f64());
            self.observation
                .restart(settings.observer.clone(), now, draw);
        }
        self.judge.set_protected(self.orders.protected);
        let (cut, ended) = self.orders.cut.unzip();
        let cut = cut.map(|cut| cut.began);
        self.judge.set_cut(cut, ended == Some(true));
        self.judge.set_awaits(self.orders.awaits.map(Into::into));
    }

    /// Reads the leases, concludes from them, begins what else is due, and reports.
    async fn probe(&mut self) {
        let metrics = self.orders.context.metrics.clone();
        let (in_flight, began) = (InFlight::new(&metrics.probing), Instant::now());
        self.draw = fastrand::f64();
        let listed = self.list().await;
        let reached = listed.as_ref().map(|_| ()).map_err(ToString::to_string);
        let read = listed.and_then(|conclusion| self.with_facts(conclusion));
        drop(in_flight);
        metrics.probed(&read, began.elapsed());
        let verdict = read.as_ref().ok().map(|conclusion| conclusion.verdict);
        let is_proving = matches!(verdict, Some(Verdict::Undetermined(Doubt::Unproven(_))));
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        match &reached {
            Ok(()) => self.observation.reached(),
            Err(why) => self.observation.unreached(began, why),
        }
        self.report(Some(read)).await;
        if reached.is_ok() {
            // What begins now is read by settings that have come meanwhile.
            self.obey();
            self.begin_beside(is_proving);
        }
    }

    /// Lists the leases as the judge asks, and again if the answer is older than one before.
    async fn list(&mut self) -> Result<Conclusion, Unread> {
        let mut request = self.judge.request();
        loop {
            let started = MonoTime::now();
            let read = self.sources.leases(request).await.inspect_err(|error| {
                self.judge.failed(started, MonoTime::now(), error.said);
            })?;
            // A consistent list is always taken in.
            if self.judge.observe(&read) != Intake::Stale
                && let Some(conclusion) = self.judge.conclude()
            {
                return Ok(conclusion);
            }
            request.consistency = Consistency::Consistent;
        }
    }

    /// Returns the conclusion, unless it lacks Nodes or Machines that cannot be read: an outage could not be seen
    /// either.
    fn with_facts(&self, conclusion: Conclusion) -> Result<Conclusion, Unread> {
        let outdated = conclusion.verdict == Verdict::Undetermined(Doubt::FactsOutdated);
        match &self.nodes.error {
            Some(error) if outdated || !self.judge.has_facts() => Err(error.clone()),
            _ => Ok(conclusion),
        }
    }

    /// Derives the state, and the use of the connection, from the leases. Without a verdict, what
    /// was found before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(Doubt::NoWrites) => {
                // This connection may lead to a server that has been replaced. The next one has the
                // same time to show a write.
                let window = Proof::write_window(seen.period);
                if self.redialled.is_none_or(|at| now >= at + window) {
                    self.redialled = Some(now);
                    self.sources.shoot().iter().for_each(Shoot::disconnect);
                }
                return;
            }
            Verdict::Undetermined(_) => return,
        };
        self.observation.judged(silent);
    }

    /// Reports what was read, if anybody hears it.
    pub(super) async fn report(&mut self, leases: Option<Result<Conclusion, Unread>>) {
        if self.orders.context.looks.is_none() {
            return;
        }
        let read = Box::new(Read {
            settings: self.orders.settings.clone(),
            leases,
            view: self.observation.view(),
        });
        // A loop that has ended drops this reader as well.
        let _ = self.news.send(read).await;
    }
}

/// Reads in a turn, which is given up if that takes longer.
async fn in_turn<T>(turn: impl Sized, longest: Duration, read: impl Future<Output = T>) -> T {
    let mut read = pin!(read);
    if let Ok(read) = timeout(longest, &mut read).await {
        return read;
    }
    drop(turn);
    read.await
}

/// Waits for the moment. A timer would add a millisecond to one that has come.
async fn until(moment: Instant) {
    if moment > Instant::now() {
        sleep_until(moment).await;
    }
}
