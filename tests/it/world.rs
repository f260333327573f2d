//! A seed with shoots, and processes of the operator, on tokio's paused clock: no socket, no thread, no waiting.
//! Time jumps to the next moment at which anybody has something to do.

mod gate;
mod operator;

use std::{cell::Cell, io, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fake::{
    farm::{Micros, Shoot, TOKEN, namespace, node_name},
    oracle::policy::{HALF, half},
    server::Server,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    io::DuplexStream,
    task::LocalSet,
    time::{Instant, advance, sleep},
};

pub use self::{
    gate::Gate,
    operator::{Election, Operator, Role},
};

/// The Secret that the documented policy names.
pub const SECRET: &str = "shoot-access-dependency-watchdog-probe";
/// What each dependent has before an outage.
pub const REPLICAS: [(&str, i64); 3] = [
    ("kube-controller-manager", 2),
    ("machine-controller-manager", 3),
    ("cluster-autoscaler", 1),
];
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(500);
/// The documented policy.
const POLICY: &str = include_str!("../../docs/examples/probe-policy.yaml");

/// The shoots, by the hosts of their API servers.
#[derive(Clone)]
pub struct Shoots {
    all: Arc<Vec<Shoot>>,
    /// The network before all of them.
    pub gate: Gate,
}

impl Shoots {
    /// Connects to a shoot.
    async fn dial(&self, host: &str) -> io::Result<DuplexStream> {
        let shoot = self.all.iter().find(|it| it.host() == host);
        shoot.ok_or(io::ErrorKind::AddrNotAvailable)?.dial().await
    }
}

/// All of it.
pub struct World {
    pub seed: Server,
    pub shoots: Shoots,
}

thread_local! {
    /// When the run of this thread began, by both clocks.
    static BEGAN: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
}

/// Carries something out on a clock of its own, which jumps to whatever comes next. It begins with a whole second, so
/// that what is dated in seconds is dated alike whenever it is carried out.
pub fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let run = async {
        let real = Timestamp::now();
        let rest = 1_000 - real.subsec_millisecond().unsigned_abs();
        advance(Duration::from_millis(rest.into())).await;
        let second = Timestamp::from_second(real.as_second() + 1).unwrap();
        BEGAN.set(Some((Instant::now(), second)));
        run.await
    };
    LocalSet::new().block_on(&runtime.unwrap(), run)
}

/// The present, by the clock of all: that of the operator, which reads two clocks one after the other, is a millisecond
/// off.
pub fn now() -> Timestamp {
    let (instant, second) = BEGAN.get().expect("this is asked in a run");
    second.checked_add(instant.elapsed()).unwrap()
}

/// The same in microseconds.
pub fn micros() -> Micros {
    now().as_microsecond()
}

impl World {
    /// Healthy clusters, with so many nodes each, whose leases have such a duration; no policy and no operator.
    pub fn new(shoots: usize, nodes: usize, lease: Duration) -> Self {
        let lease = u32::try_from(lease.as_secs()).unwrap();
        let all = (0..shoots).map(|shoot| Shoot::new(shoot, nodes, lease, micros).unwrap());
        let world = Self {
            seed: Server::new(now),
            shoots: Shoots {
                all: Arc::new(all.collect()),
                gate: Gate::default(),
            },
        };
        for shoot in 0..shoots {
            world.put(&json!({"kind": "Namespace", "metadata": {
                "name": namespace(shoot), "labels": {"gardener.cloud/role": "shoot"},
            }}));
            world.put_secret(shoot, TOKEN);
            for node in 0..nodes {
                let name = node_name(shoot, node);
                world.put(&json!({
                    "kind": "Machine",
                    "metadata": {"name": name, "namespace": namespace(shoot), "labels": {"node": name}},
                    "status": {"currentStatus": {"phase": "Running"}},
                }));
            }
            for (name, replicas) in REPLICAS {
                world.put_workload(shoot, "Deployment", name, replicas);
            }
            world.put_cluster(shoot);
        }
        world
    }

    /// A shoot.
    pub fn shoot(&self, shoot: usize) -> &Shoot {
        &self.shoots.all[shoot]
    }

    /// Creates or replaces an object of the seed.
    pub fn put(&self, object: &Value) {
        self.seed.store(|store, now| store.put(now, object.clone()));
    }

    /// The Secret by which a shoot is read with this token.
    pub fn put_secret(&self, shoot: usize, token: &str) {
        let kubeconfig = STANDARD.encode(self.shoot(shoot).kubeconfig(token));
        self.put(&json!({
            "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace(shoot)},
            "data": {"kubeconfig": kubeconfig},
        }));
    }

    /// A workload whose controller has done its work.
    pub fn put_workload(&self, shoot: usize, kind: &str, name: &str, replicas: i64) {
        self.put(&json!({
            "kind": kind, "metadata": {"name": name, "namespace": namespace(shoot)},
            "spec": {"replicas": replicas},
        }));
    }

    /// The Cluster of a shoot, as Gardener keeps it.
    pub fn put_cluster(&self, shoot: usize) {
        self.put(&json!({
            "kind": "Cluster",
            "metadata": {"name": namespace(shoot), "labels": {HALF: half(shoot)}},
            "spec": {"shoot": {
                "metadata": {"generation": 1},
                "spec": {"provider": {"workers": [{"name": "worker"}]}},
                "status": {
                    "observedGeneration": 1, "hibernated": false,
                    "lastOperation": {"type": "Reconcile", "state": "Succeeded"},
                },
            }},
        }));
    }

    /// Applies the documented policy, with these fields of its spec changed.
    pub fn put_policy(&self, spec: &Value) {
        let mut policy: Value = serde_saphyr::from_str(POLICY).unwrap();
        json_patch::merge(&mut policy, &json!({"spec": spec}));
        self.put(&policy);
    }

    /// Starts a process of the operator.
    pub fn start(&self, role: Role, election: Election) -> Operator {
        Operator::start(role, election, &self.seed, &self.shoots)
    }

    /// Lets that much time pass.
    pub async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    /// Lets time pass until there is a value, for so long at most.
    pub async fn until<T>(
        &self,
        limit: Duration,
        mut value: impl FnMut() -> Result<T, String>,
    ) -> Result<T, String> {
        let end = Instant::now() + limit;
        loop {
            match value() {
                Err(lacks) if Instant::now() >= end => return Err(lacks),
                Err(_) => self.pass(LOOK).await,
                met => return met,
            }
        }
    }

    /// An object of the seed as it is.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let key = fake::store::Key::new(plural, namespace, name);
        let found = self.seed.store(|store, _| store.get(&key).cloned());
        found.unwrap_or_default()
    }

    /// Changes an object of the seed, as somebody else would, if it is there.
    pub fn edit(&self, plural: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = fake::store::Key::new(plural, namespace, name);
        self.seed.store(|store, now| store.edit(&key, now, change));
    }
}
