//! Carries out a flow: sends its requests, and waits for what it waits for.

use std::{
    collections::{BTreeMap, VecDeque},
    future::{poll_fn, ready},
    task::Poll,
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use crate::{
    prober::{
        flow::{Ending, FlowEffect, FlowEvent, FlowInput, FlowMachine, Written},
        plan::Observed,
        scale::{ScaleError, Scaler, Target},
    },
    runtime::timer::until,
};

/// What comes of a request.
enum Answer {
    Read(Result<(Option<Observed>, Target), ScaleError>),
    Turn,
    Written(Written),
}

/// The requests under way, by the place of their dependent.
type Requests = BTreeMap<usize, BoxFuture<'static, Answer>>;

/// Carries a flow out, and tells what it does. `control` may extend or stop it.
pub async fn perform(
    mut flow: FlowMachine,
    scaler: Scaler,
    control: impl Stream<Item = FlowInput> + Unpin,
    events: UnboundedSender<FlowEvent>,
) -> Ending {
    let mut requests = Requests::new();
    let mut targets: BTreeMap<usize, Target> = BTreeMap::new();
    let mut control = control.fuse();
    let mut inputs = VecDeque::from([FlowInput::Time]);
    loop {
        while let Some(input) = inputs.pop_front() {
            for effect in flow.step(input, Instant::now()) {
                match effect {
                    FlowEffect::Read(place) => {
                        let Some((dependent, _)) = flow.level().nth(place) else {
                            continue;
                        };
                        let (scaler, dependent) = (scaler.clone(), dependent.reference.clone());
                        let read = async move { Answer::Read(scaler.see(&dependent).await) };
                        requests.insert(place, read.boxed());
                    }
                    FlowEffect::Queue(place) => {
                        let scaler = scaler.clone();
                        let turn = async move { scaler.turn_to_write().await };
                        requests.insert(place, turn.map(|()| Answer::Turn).boxed());
                    }
                    FlowEffect::Write(place, write) => {
                        let (scaler, target) = (scaler.clone(), targets.get(&place).cloned());
                        let written = async move { scaler.write(target, write).await };
                        let mut written = written.map(Answer::Written).boxed();
                        // It is sent before anything else happens: its evidence counts now.
                        if let Some(answer) = (&mut written).now_or_never() {
                            written = ready(answer).boxed();
                        }
                        requests.insert(place, written);
                    }
                    FlowEffect::Drop(place) => {
                        requests.remove(&place);
                    }
                    FlowEffect::Tell(event) => {
                        // Nobody listens any more only when the whole cluster is being let go.
                        let _ = events.send(*event);
                    }
                    FlowEffect::End(ending) => return ending,
                }
            }
        }
        let input = tokio::select! {
            biased;
            Some(said) = control.next() => said,
            (place, answer) = answered(&mut requests) => match answer {
                Answer::Read(seen) => FlowInput::Read(place, seen.map(|(found, target)| {
                    targets.insert(place, target);
                    found
                })),
                Answer::Turn => {
                    // What was said meanwhile comes before what is written.
                    while let Some(Some(said)) = control.next().now_or_never() {
                        inputs.push_back(said);
                    }
                    FlowInput::Turn(place)
                }
                Answer::Written(written) => FlowInput::Written(place, written),
            },
            () = until(flow.due()) => FlowInput::Time,
        };
        inputs.push_back(input);
    }
}

/// The next answer to any of these.
async fn answered(requests: &mut Requests) -> (usize, Answer) {
    let next = poll_fn(|context| {
        for (place, request) in requests.iter_mut() {
            if let Poll::Ready(answer) = request.poll_unpin(context) {
                return Poll::Ready((*place, answer));
            }
        }
        Poll::Pending
    });
    let (place, answer) = next.await;
    requests.remove(&place);
    (place, answer)
}
