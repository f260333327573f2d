//! The processes of the operator: each is a task that reaches the seed and the shoots through a gate.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use dependency_watchdog::{
    checks::{FeatureGates, Runner},
    prober::{
        self,
        fleet::{self, Prober},
    },
    runtime::{
        leader::{Elector, Leadership, Times},
        metrics::RequestMetrics,
        names::Names,
        seed::{Rate, Seed},
        wire::{Access, Wire as SeedWire},
    },
    shoot::{Dial, Wire},
    weeder::{
        self,
        run::{self, Weeder},
    },
};
use fake::{
    farm::Micros,
    oracle::leading::{Sent, is_act},
    server::Server,
    store::Call,
};
use futures::StreamExt as _;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use kube::Client;
use tokio::task::{JoinHandle, spawn_local};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::{
    Shoots,
    gate::{Gate, Gated},
    micros,
};

/// The budget of what is reported.
const REPORTING: Rate = Rate {
    qps: 20.0,
    burst: NonZeroU32::new(40).unwrap(),
};

/// Which component runs in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Prober,
    /// A prober with `--dry-run`.
    Rehearsal,
    Weeder,
}

/// How a process takes part in the election for the Lease of its component.
#[derive(Clone, Copy, Debug)]
pub enum Election {
    /// It leads without asking.
    None,
    /// It stands again after each term, by the times of the flags' defaults.
    Stands,
}

/// One process.
pub struct Operator {
    pub gate: Gate,
    told: Told,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What a process has shown of itself.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Shown>>);

#[derive(Default)]
struct Shown {
    /// As the Lease names it.
    identity: String,
    /// What it has sent that only a leader may.
    sent: Vec<Sent>,
    /// When it has lost the Lease, until somebody asks.
    losses: Vec<Micros>,
}

impl Told {
    /// Notes what it sends, at which time it may not yet arrive.
    fn sends(&self, call: &Call) {
        let mut told = self.0.lock().unwrap();
        if call.plural == "leases" {
            let holder = call.body["spec"]["holderIdentity"].as_str();
            // One that ends gives the Lease back.
            if let Some(holder) = holder.filter(|it| !it.is_empty()) {
                holder.clone_into(&mut told.identity);
            }
        } else if is_act(call) {
            let sent = Sent {
                at: micros(),
                by: told.identity.clone(),
                what: call.brief(),
            };
            told.sent.push(sent);
        }
    }
}

impl Operator {
    pub fn start(role: Role, election: Election, seed: &Server, shoots: &Shoots) -> Self {
        let (gate, stop) = (Gate::default(), CancellationToken::new());
        let told = Told::default();
        let way = Way {
            gate: gate.clone(),
            told: told.clone(),
            seed: seed.clone(),
            shoots: shoots.clone(),
        };
        let task = match role {
            Role::Prober => spawn_local(prober(way, false, election, stop.clone())),
            Role::Rehearsal => spawn_local(prober(way, true, election, stop.clone())),
            Role::Weeder => spawn_local(weeder(way, election, stop.clone())),
        };
        Self {
            gate,
            told,
            stop,
            task,
        }
    }

    /// Ends it between two steps of whatever it does, as SIGKILL would.
    pub fn kill(self) {
        self.gate.shut();
        self.task.abort();
    }

    /// Asks it to end, and waits for that, as SIGTERM would. Returns what it has sent that only a leader may.
    pub async fn end(self) -> Vec<Sent> {
        self.stop.cancel();
        self.task.await.unwrap();
        self.told.0.lock().unwrap().sent.clone()
    }

    /// As the Lease names it; empty before it has stood for election.
    pub fn identity(&self) -> String {
        self.told.0.lock().unwrap().identity.clone()
    }

    /// What it has sent that only a leader may.
    pub fn sent(&self) -> Vec<Sent> {
        self.told.0.lock().unwrap().sent.clone()
    }

    /// When it has lost the Lease since this was asked last.
    pub fn losses(&self) -> Vec<Micros> {
        std::mem::take(&mut self.told.0.lock().unwrap().losses)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// The way out of a process.
#[derive(Clone)]
struct Way {
    gate: Gate,
    told: Told,
    seed: Server,
    shoots: Shoots,
}

impl Way {
    fn wire(&self, metrics: &RequestMetrics) -> SeedWire {
        let Self {
            gate, told, seed, ..
        } = self.clone();
        let make = move || {
            let (gate, told, connection) = (gate.clone(), told.clone(), seed.connect());
            service_fn(move |request: http::Request<kube::client::Body>| {
                let (gate, told, connection) = (gate.clone(), told.clone(), connection.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
                    if let Ok(call) = Call::parse(&head, &body) {
                        told.sends(&call);
                    }
                    gate.passes().await?;
                    let answer = connection.call(http::Request::from_parts(head, body)).await;
                    gate.passes().await?;
                    let (head, body) = answer?.into_parts();
                    let frames = BodyStream::new(body).then(move |frame| {
                        let gate = gate.clone();
                        async move {
                            gate.passes().await?;
                            frame
                        }
                    });
                    Ok::<_, std::io::Error>(http::Response::from_parts(
                        head,
                        BodyExt::boxed_unsync(StreamBody::new(Box::pin(frames))),
                    ))
                }
            })
        };
        SeedWire::over(make, metrics)
    }

    fn dial(&self) -> Dial {
        let Self { gate, shoots, .. } = self.clone();
        Dial::by(move |uri| {
            let (gate, shoots) = (gate.clone(), shoots.clone());
            async move {
                gate.passes().await?;
                shoots.gate.passes().await?;
                let stream = shoots.dial(uri.host().unwrap_or_default()).await?;
                let stream = Gated(shoots.gate.clone(), stream);
                Ok(Box::new(Gated(gate, stream)) as Box<dyn Wire>)
            }
        })
    }
}

async fn prober(way: Way, dry_run: bool, election: Election, stop: CancellationToken) {
    let (instruments, _registry) = prober::instruments::Instruments::new();
    let requests = &instruments.common.requests;
    let wire = way.wire(requests);
    let seed = Seed::new(wire.client(Access::All), REPORTING, requests);
    let work = async |leadership: Leadership| {
        instruments.common.stand_by();
        instruments.stand_by();
        let reads = Seed::new(wire.client(Access::Reads), REPORTING, requests);
        let seed = seed.clone().led_by(leadership.clone());
        let (gates, counted) = (FeatureGates::default(), instruments.checks.clone());
        let prober = Prober {
            checks: Runner::new(seed.clone(), gates, counted, Names::default()),
            reads,
            seed,
            dry_run,
            dial: way.dial(),
            instruments: instruments.clone(),
        };
        fleet::run(prober, leadership.begun(), stop.clone()).await;
    };
    let told = (&way.told, seed.client());
    lead(told, election, prober::LEASE, &stop, work).await;
}

async fn weeder(way: Way, election: Election, stop: CancellationToken) {
    let (instruments, _registry) = weeder::instruments::Instruments::new();
    let requests = &instruments.common.requests;
    let seed = Seed::new(way.wire(requests).client(Access::All), REPORTING, requests);
    let work = async |leadership: Leadership| {
        instruments.common.stand_by();
        instruments.stand_by();
        leadership.begun().await;
        let weeder = Weeder {
            dry_run: false,
            seed: seed.clone().led_by(leadership),
            instruments: instruments.clone(),
        };
        run::run(weeder, stop.clone()).await;
    };
    let told = (&way.told, seed.client());
    lead(told, election, weeder::LEASE, &stop, work).await;
}

/// Works in one term after the other, as the commands do.
async fn lead(
    (told, client): (&Told, &Client),
    election: Election,
    lease: &str,
    stop: &CancellationToken,
    work: impl AsyncFn(Leadership),
) {
    if matches!(election, Election::None) {
        return work(Leadership::unopposed()).await;
    }
    let times = [15, 10, 2].map(Duration::from_secs);
    let times = Times::new(times[0], times[1], times[2]).unwrap();
    let mut elector = Elector::new(client.clone(), "garden", lease, times);
    while elector.stand(stop, |it| work(it)).await.is_err() {
        told.0.lock().unwrap().losses.push(micros());
    }
}
