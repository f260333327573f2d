//! Answers the loops' questions whether a Cluster and the policies are as their watches show them. The fleet
//! has the index and the watches, and one read of the policies serves all clusters.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, join},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver},
        oneshot,
    },
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    prober::{
        io::confirm::{self, Confirm, Found},
        machine::Confirmation,
        standby::Selection,
    },
    runtime::{
        seed::Seed,
        watch::{WATCH_SECONDS, WatchState},
    },
};

/// A watch is up to date if it showed something within this: it is renewed every [`WATCH_SECONDS`], and
/// that may take a moment.
const HEARD: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// A read of the policies answers all questions asked within this time.
const SHARED: Duration = Duration::from_secs(1);

/// The metadata of all policies, if they could be read.
type Policies = Option<Arc<[ObjectMeta]>>;

/// A question of a cluster's loop.
pub(super) struct Question {
    cluster: Arc<str>,
    /// The reads for it take no longer.
    limit: Duration,
    answer: oneshot::Sender<Confirmation>,
}

/// What there is to do about a question.
pub(super) enum Step {
    Asked(Question),
    Answered(Question, Option<Found>, Policies),
}

pub(super) struct Confirmations {
    seed: Seed,
    questions: UnboundedReceiver<Question>,
    /// Tasks, since a read that waits for its turn must be polled whatever the fleet is doing.
    reads: JoinSet<Step>,
    /// When the last read of the policies began, and its answer.
    policies: Option<(Instant, Shared<BoxFuture<'static, Policies>>)>,
}

impl Confirmations {
    /// Reads this seed, and returns how the loops ask.
    pub(super) fn new(seed: Seed) -> (Self, Confirm) {
        let (sender, questions) = mpsc::unbounded_channel();
        let confirm: Confirm = Arc::new(move |cluster, limit| {
            let (answer, answered) = oneshot::channel();
            // No answer comes when the fleet ends.
            let _ = sender.send(Question {
                cluster,
                limit,
                answer,
            });
            let answered = answered.map(|it| it.unwrap_or(Confirmation::Unknown));
            answered.boxed()
        });
        let confirmations = Self {
            seed,
            questions,
            reads: JoinSet::new(),
            policies: None,
        };
        (confirmations, confirm)
    }

    /// Waits for the next step. Cancel-safe.
    pub(super) async fn next(&mut self) -> Step {
        tokio::select! {
            Some(question) = self.questions.recv() => Step::Asked(question),
            // No task panics; if one did, dropping its question would answer it.
            Some(Ok(step)) = self.reads.join_next() => step,
            else => std::future::pending().await,
        }
    }

    pub(super) fn take(&mut self, step: Step, selection: &Selection) {
        match step {
            Step::Asked(question) => self.read(question, selection),
            Step::Answered(question, cluster, policies) => {
                let answer = answer(cluster, policies, selection);
                // The loop may have asked again, or ended.
                let _ = question.answer.send(answer);
            }
        }
    }

    fn read(&mut self, question: Question, selection: &Selection) {
        let Some(known) = selection.index.version(&question.cluster) else {
            // The loop does not know yet.
            let _ = question.answer.send(Confirmation::Otherwise);
            return;
        };
        let policies = self.policies();
        let (seed, known) = (self.seed.clone(), known.to_owned());
        self.reads.spawn(async move {
            let cluster = confirm::cluster(&seed, &question.cluster, &known);
            let (cluster, policies) = join(
                timeout(question.limit, cluster),
                timeout(question.limit, policies),
            )
            .await;
            Step::Answered(question, cluster.ok().flatten(), policies.ok().flatten())
        });
    }

    /// Reads all policies: a new one may outrank the one that applies.
    fn policies(&mut self) -> Shared<BoxFuture<'static, Policies>> {
        let now = Instant::now();
        let seed = self.seed.clone();
        let last = self.policies.take();
        let last = last.filter(|(began, _)| now.duration_since(*began) < SHARED);
        let (_, read) = self.policies.insert(last.unwrap_or_else(|| {
            let read = async move { confirm::policies(&seed).await.map(Arc::from) };
            // Its own task: every caller may give up.
            let read = AbortOnDropHandle::new(tokio::spawn(read));
            let read = read.map(|read| read.ok().flatten());
            (now, read.boxed().shared())
        }));
        read.clone()
    }
}

fn answer(cluster: Option<Found>, policies: Policies, selection: &Selection) -> Confirmation {
    let index = &selection.index;
    let cluster = cluster.map(|found| match found {
        Found::AsKnown => true,
        Found::Changed(cluster) => index.is_as_known(*cluster),
        Found::Gone => false,
    });
    let policies = policies.map(|found| index.are_policies_as_known(&found));
    // The least sure of the two.
    confirmation(cluster, &selection.clusters).max(confirmation(policies, &selection.policies))
}

/// By the read if there is one, otherwise by the watch.
fn confirmation(is_as_known: Option<bool>, watch: &WatchState) -> Confirmation {
    match is_as_known {
        Some(true) => Confirmation::Read,
        Some(false) => Confirmation::Otherwise,
        None if watch.is_heard(HEARD) => Confirmation::Heard,
        None => Confirmation::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, num::NonZeroU32};

    use futures::poll;
    use http::{Request, Response};
    use kube::client::{Body, Client};

    use super::*;
    use crate::runtime::{metrics::RequestMetrics, seed::Rate};

    /// Else each request to a dependent would wait behind it for good.
    #[tokio::test]
    async fn a_read_that_all_have_given_up_keeps_nobody_waiting() {
        let answers = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        let burst = NonZeroU32::MIN;
        let client = Client::new(answers, "default");
        let seed = Seed::new(
            client,
            Rate { qps: 50.0, burst },
            &RequestMetrics::default(),
        );
        let (mut confirmations, _confirm) = Confirmations::new(seed.clone());
        seed.turn().await;
        let mut before = Box::pin(seed.turn());
        assert!(poll!(before.as_mut()).is_pending());
        let read = confirmations.policies();
        assert!(timeout(Duration::from_millis(1), read).await.is_err());
        drop(before);
        let turn = timeout(Duration::from_secs(60), seed.turn());
        assert!(turn.await.is_ok());
    }
}
