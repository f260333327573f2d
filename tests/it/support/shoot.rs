//! A scripted shoot on a real socket: nodes whose leases are renewed, or not, by the test's clock.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Activity, Failure, Reply, Request, ScriptedServer, kubeconfig};

/// The server's clock when the test begins, in Unix seconds.
const EPOCH: i64 = 1_795_000_000;
/// What every kubelet does.
const RENEWAL: i64 = 10;
/// The first resourceVersion, far enough from zero for what lies before the beginning.
const FIRST_REVISION: i64 = 1_000_000;

/// A read that is asked of a shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// Leases, from the cache.
    Cached,
    /// Leases, consistently.
    Consistent,
    /// Nodes.
    Nodes,
    /// Whether it is ready.
    Ready,
    /// The API v1beta1 of the group metrics.k8s.io.
    Api,
}

struct State {
    begin: Instant,
    nodes: usize,
    /// The second of the last renewal; `None` while they are renewed.
    silent_since: Option<i64>,
    failures: BTreeMap<Read, Failure>,
    /// How long the answers take.
    slow: BTreeMap<Read, Duration>,
    /// The conditions of a node that are true, if they are not that it is ready.
    conditions: BTreeMap<usize, Vec<String>>,
    /// The token that is accepted; any is, if `None`.
    token: Option<String>,
    /// On connections up to this one nothing is answered any more.
    mute: usize,
    /// On connections up to this one nothing has been written since this second.
    stands_still: (usize, i64),
    reads: Vec<(Instant, Read, usize)>,
}

/// The shoot.
pub struct ScriptedShoot {
    server: ScriptedServer,
    state: Arc<Mutex<State>>,
}

impl ScriptedShoot {
    /// A shoot with that many nodes, all alive.
    pub async fn start(nodes: usize, activity: Activity) -> Self {
        let state = Arc::new(Mutex::new(State {
            begin: Instant::now(),
            nodes,
            silent_since: None,
            failures: BTreeMap::new(),
            slow: BTreeMap::new(),
            conditions: BTreeMap::new(),
            token: None,
            mute: 0,
            stands_still: (0, 0),
            reads: Vec::new(),
        }));
        let shared = state.clone();
        let server = ScriptedServer::start(move |request| {
            activity.note();
            shared.lock().unwrap().answer(&request)
        })
        .await;
        Self { server, state }
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> Vec<u8> {
        self.server.kubeconfig()
    }

    /// A kubeconfig for it, with this token.
    pub fn kubeconfig_with(&self, token: &str) -> Vec<u8> {
        let (url, ca) = (self.server.url(), self.server.ca_pem());
        kubeconfig(&url, &ca, &json!({"token": token}))
    }

    /// Accepts this token alone from now on.
    pub fn accept(&self, token: &str) {
        self.lock().token = Some(token.to_owned());
    }

    /// The token of each request, in order.
    pub fn tokens(&self) -> Vec<String> {
        let requests = self.server.requests();
        let token =
            |it: &Request| it.header("authorization").unwrap()["Bearer ".len()..].to_owned();
        requests.iter().map(token).collect()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// The connections made so far lead nowhere any more, of which nobody tells.
    pub fn mute(&self) {
        self.lock().mute = self.connections();
    }

    /// The connections made so far lead to a server whose etcd stands still from now on.
    pub fn leave_behind(&self) {
        let mut state = self.lock();
        state.stands_still = (self.connections(), state.now());
    }

    /// The kubelets have been silent for that many seconds.
    pub fn silence(&self, seconds: i64) {
        let mut state = self.lock();
        state.silent_since = Some(state.now() - seconds);
    }

    /// The kubelets are heard again.
    pub fn renew(&self) {
        self.lock().silent_since = None;
    }

    /// Reads of this sort fail.
    pub fn fail(&self, read: Read, failure: Failure) {
        self.lock().failures.insert(read, failure);
    }

    /// Reads of this sort take as long as this.
    pub fn slow(&self, read: Read, time: Duration) {
        self.lock().slow.insert(read, time);
    }

    /// These conditions alone are true of the node of this index.
    pub fn conditions(&self, node: usize, conditions: &[&str]) {
        let conditions = conditions.iter().map(|it| (*it).to_owned()).collect();
        self.lock().conditions.insert(node, conditions);
    }

    /// Reads of this sort do not fail any more.
    pub fn mend(&self, read: Read) {
        self.lock().failures.remove(&read);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.lock().failures.clear();
    }

    /// When each read came, of which sort, and on which connection.
    pub fn reads(&self) -> Vec<(Instant, Read, usize)> {
        self.lock().reads.clone()
    }

    /// How many reads of this sort there were.
    pub fn count(&self, read: Read) -> usize {
        self.reads().iter().filter(|(_, of, _)| *of == read).count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Seconds since the test began.
    fn now(&self) -> i64 {
        i64::try_from(self.begin.elapsed().as_secs()).unwrap()
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let now = match self.stands_still {
            (last, second) if request.connection <= last => second,
            _ => self.now(),
        };
        let (read, good) = match (&*request.path, &*request.query) {
            ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", query) => {
                let read = if query.is_empty() {
                    Read::Consistent
                } else {
                    Read::Cached
                };
                (read, self.leases(now))
            }
            ("/api/v1/nodes", _) => (Read::Nodes, self.nodes(now)),
            ("/readyz", _) => (Read::Ready, Value::Null),
            ("/apis/metrics.k8s.io/v1beta1", _) => (Read::Api, json!({"kind": "APIResourceList"})),
            _ => return Reply::status(404, "NotFound", "not scripted"),
        };
        self.reads.push((Instant::now(), read, request.connection));
        if request.connection <= self.mute {
            return Reply::hang();
        }
        if let Some(token) = &self.token
            && request.header("authorization") != Some(&format!("Bearer {token}"))
        {
            return Failure::Status(401).instead_of(Reply::hang());
        }
        let second = EPOCH + self.now();
        let date = DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&Timestamp::from_second(second).unwrap())
            .unwrap();
        let good = match read {
            Read::Ready => Reply::body(200, "text/plain", "ok"),
            Read::Api => Reply::json(200, &good),
            _ => Reply::list(&good),
        };
        let good = match self.slow.get(&read) {
            // One pause, between the two halves.
            Some(time) => good.halved(*time),
            None => good,
        };
        let good = good.header("Date", &date);
        match self.failures.get(&read) {
            Some(failure) => failure.instead_of(good),
            None => good,
        }
    }

    fn leases(&self, now: i64) -> Value {
        let renewed = match self.silent_since {
            Some(second) if second <= now => second,
            _ => now - now % RENEWAL,
        };
        let lease = |index| {
            let time = Timestamp::from_second(EPOCH + renewed).unwrap().to_string();
            json!({
                "metadata": {
                    "name": format!("node-{index}"), "uid": format!("uid-{index}"),
                    "resourceVersion": (FIRST_REVISION + renewed).to_string(),
                    "managedFields": [{
                        "manager": "kubelet", "operation": "Update", "time": time,
                        "fieldsV1": {"f:spec": {"f:renewTime": {}}},
                    }],
                },
                "spec": {"leaseDurationSeconds": 40, "renewTime": time},
            })
        };
        let leases = (0..self.nodes).map(lease).collect();
        list("LeaseList", "coordination.k8s.io/v1", leases, now)
    }

    fn nodes(&self, now: i64) -> Value {
        let ready = vec!["Ready".to_owned()];
        let node = |index| {
            let conditions = self.conditions.get(&index).unwrap_or(&ready);
            let conditions = conditions.iter();
            let conditions = conditions.map(|it| json!({"type": it, "status": "True"}));
            json!({
                "metadata": {"name": format!("node-{index}")},
                "status": {"conditions": conditions.collect::<Vec<_>>()},
            })
        };
        list("NodeList", "v1", (0..self.nodes).map(node).collect(), now)
    }
}

/// Somebody writes every second.
fn list(kind: &str, version: &str, items: Vec<Value>, now: i64) -> Value {
    json!({
        "kind": kind, "apiVersion": version,
        "metadata": {"resourceVersion": (FIRST_REVISION + now).to_string()},
        "items": items,
    })
}
