//! Answers the loops' questions whether a Cluster and its policy are as their watches show them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, Shared, join, ready},
    stream::FuturesUnordered,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver},
        oneshot,
    },
    time::Instant,
};

use crate::{
    prober::{
        io::confirm::{self, Confirm, Found},
        machine::Confirmation,
        standby::Selection,
    },
    runtime::{
        seed::Seed,
        watches::{WATCH_SECONDS, WatchState},
    },
};

/// A watch is up to date if it has shown something within this: it is asked for again every
/// [`WATCH_SECONDS`], and that may take a moment.
const HEARD: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// A read of a policy answers what is asked within this about all its clusters.
const SHARED: Duration = Duration::from_secs(1);

/// What was read of a policy: its metadata, if there is one, and if it could be read.
type Policy = Option<Option<Arc<ObjectMeta>>>;
type PolicyRead = Shared<BoxFuture<'static, Policy>>;

/// A question of a cluster's loop.
pub(super) struct Question {
    cluster: Arc<str>,
    answer: oneshot::Sender<Confirmation>,
}

/// What there is to do about a question.
pub(super) enum Step {
    Asked(Question),
    Answered(Question, Option<Found>, Policy),
}

pub(super) struct Confirmations {
    seed: Seed,
    questions: UnboundedReceiver<Question>,
    reads: FuturesUnordered<BoxFuture<'static, Step>>,
    /// By policy, its last read and when that began.
    policies: BTreeMap<Arc<str>, (Instant, PolicyRead)>,
}

impl Confirmations {
    /// Reads this seed, and gives the loops the way to ask.
    pub(super) fn new(seed: Seed) -> (Self, Confirm) {
        let (sender, questions) = mpsc::unbounded_channel();
        let confirm: Confirm = Arc::new(move |cluster| {
            let (answer, answered) = oneshot::channel();
            // No answer comes when the fleet ends.
            let _ = sender.send(Question { cluster, answer });
            let answered = answered.map(|it| it.unwrap_or(Confirmation::Unknown));
            answered.boxed()
        });
        let confirmations = Self {
            seed,
            questions,
            reads: FuturesUnordered::new(),
            policies: BTreeMap::new(),
        };
        (confirmations, confirm)
    }

    /// Waits for the next step. Nothing is lost if it is not waited for to the end.
    pub(super) async fn next(&mut self) -> Step {
        tokio::select! {
            Some(question) = self.questions.recv() => Step::Asked(question),
            Some(step) = self.reads.next() => step,
            else => std::future::pending().await,
        }
    }

    pub(super) fn take(&mut self, step: Step, selection: &Selection) {
        match step {
            Step::Asked(question) => self.read(question, selection),
            Step::Answered(question, cluster, policy) => {
                let answer = answer(cluster, policy, selection);
                // Whoever has asked may have asked again, or have ended.
                let _ = question.answer.send(answer);
            }
        }
    }

    fn read(&mut self, question: Question, selection: &Selection) {
        let Some((known, policy)) = selection.index.version(&question.cluster) else {
            // The loop has not been told yet.
            let read = ready(Step::Answered(question, Some(Found::Gone), None));
            return self.reads.push(read.boxed());
        };
        let policy = self.policy(policy);
        let (seed, known) = (self.seed.clone(), known.to_owned());
        let read = async move {
            let cluster = confirm::cluster(&seed, &question.cluster, &known);
            let (cluster, policy) = join(cluster, policy).await;
            Step::Answered(question, cluster, policy)
        };
        self.reads.push(read.boxed());
    }

    fn policy(&mut self, name: &Arc<str>) -> PolicyRead {
        let now = Instant::now();
        self.policies
            .retain(|_, (began, _)| now.duration_since(*began) < SHARED);
        let (seed, of) = (self.seed.clone(), name.clone());
        let (_, read) = self.policies.entry(name.clone()).or_insert_with(|| {
            let read = async move { confirm::policy(&seed, &of).await };
            (now, read.boxed().shared())
        });
        read.clone()
    }
}

fn answer(cluster: Option<Found>, policy: Policy, selection: &Selection) -> Confirmation {
    let index = &selection.index;
    let cluster = cluster.map(|found| match found {
        Found::AsKnown => true,
        Found::Changed(cluster) => index.is_as_known(*cluster),
        Found::Gone => false,
    });
    let policy = policy.map(|found| found.is_some_and(|it| index.is_policy_as_known(&it)));
    // The least sure of the two.
    confirmation(cluster, &selection.clusters).max(confirmation(policy, &selection.policies))
}

/// Whether it is as known, if it could be read, and how its watch fares.
fn confirmation(is_as_known: Option<bool>, watch: &WatchState) -> Confirmation {
    match is_as_known {
        Some(true) => Confirmation::Read,
        Some(false) => Confirmation::Otherwise,
        None if watch.is_heard(HEARD) => Confirmation::Heard,
        None => Confirmation::Unknown,
    }
}
