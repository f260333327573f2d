//! A scripted seed in memory: objects with resourceVersions, generations, merge patches and their
//! preconditions, `scale` and `status`, lists and watches; deployments whose status follows their
//! spec. Requests fail as the test says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use dependency_watchdog::runtime::{
    metrics::RequestMetrics,
    wire::{Access, Wire},
};
use futures::{
    channel::{mpsc, oneshot},
    future::BoxFuture,
};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Activity, Failure,
    answer::{
        Answer, Outcome, discovery, fail, groups, merge, new_scale, not_found, respond, scale,
        status, workload_status,
    },
    recording::Recording,
    selector::Labels,
};

/// The resources that are served: plural, kind, group and version.
const RESOURCES: [(&str, &str, &str); 13] = [
    ("leases", "Lease", "coordination.k8s.io/v1"),
    ("pods", "Pod", "v1"),
    ("namespaces", "Namespace", "v1"),
    ("endpointslices", "EndpointSlice", "discovery.k8s.io/v1"),
    (
        "weedpolicies",
        "WeedPolicy",
        "dependency-watchdog.gardener.cloud/v1alpha1",
    ),
    ("secrets", "Secret", "v1"),
    ("deployments", "Deployment", "apps/v1"),
    ("statefulsets", "StatefulSet", "apps/v1"),
    ("etcds", "Etcd", "druid.gardener.cloud/v1alpha1"),
    ("machines", "Machine", "machine.sapcloud.io/v1alpha1"),
    ("clusters", "Cluster", "extensions.gardener.cloud/v1alpha1"),
    (
        "probepolicies",
        "ProbePolicy",
        "dependency-watchdog.gardener.cloud/v1alpha1",
    ),
    (
        "clusterhealths",
        "ClusterHealth",
        "dependency-watchdog.gardener.cloud/v1alpha1",
    ),
];

/// The group of the kind whose versions come and go.
const DRUID: &str = "druid.gardener.cloud";
/// The group of the kind that a seed without Gardener lacks.
const MACHINES: &str = "machine.sapcloud.io";

/// What the operator tells, which is taken and not kept.
const EVENTS: &str = "events";

/// By which the operator asks what it may do.
pub(super) const REVIEWS: &str = "selfsubjectaccessreviews";

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Call {
    /// When.
    pub at: Instant,
    /// Such as `PATCH`.
    pub method: String,
    /// The group and version in the path.
    pub api_version: String,
    /// The plural of the resource, with `/scale` or `/status` behind it; the path, for discovery.
    pub resource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object, or empty for a list or a watch.
    pub name: String,
    /// The query.
    pub query: String,
    /// The content type.
    pub content_type: String,
    /// Whether only metadata is asked for.
    pub only_metadata: bool,
    /// The body.
    pub body: Value,
}

impl Call {
    /// `PATCH deployments/kcm` or the like.
    pub fn brief(&self) -> String {
        let watch = if self.is_watch() { " (watch)" } else { "" };
        match &*self.name {
            "" => format!("{} {}{watch}", self.method, self.resource),
            name => format!("{} {}/{name}", self.method, self.resource),
        }
    }

    /// Whether it follows changes.
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// The name that the field selector asks for, if there is one.
    pub fn selected_name(&self) -> Option<String> {
        let selector = self.parameter("fieldSelector")?;
        Some(
            selector
                .strip_prefix("metadata.name%3D")
                .unwrap()
                .to_owned(),
        )
    }

    /// What the query says for this parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|it| it.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

type Predicate = Box<dyn Fn(&Call) -> bool + Send>;
type Denied = Box<dyn Fn(&Value) -> bool + Send>;

struct Fault {
    matches: Predicate,
    /// How many matching requests pass before.
    skip: usize,
    /// How many fail.
    count: usize,
    failure: Failure,
    /// What is asked is done all the same.
    committed: bool,
}

type Key = (String, String, String);
type Interference = Box<dyn FnMut(&mut Value) + Send>;

/// What a list or a watch asks for.
struct Interest {
    plural: String,
    /// All, if it is empty.
    namespace: String,
    name: Option<String>,
    labels: Labels,
}

impl Interest {
    fn of(call: &Call, plural: &str) -> Self {
        Self {
            plural: plural.to_owned(),
            namespace: call.namespace.clone(),
            name: call.selected_name(),
            labels: Labels::parse(call.parameter("labelSelector").unwrap_or_default()),
        }
    }

    fn in_object(&self, (plural, namespace, name): &Key, object: &Value) -> bool {
        self.plural == *plural
            && (self.namespace.is_empty() || self.namespace == *namespace)
            && self.name.as_ref().is_none_or(|wanted| wanted == name)
            && self.labels.match_object(object)
    }

    /// What a watch is told of a change.
    fn line(&self, past: &Past) -> Option<Bytes> {
        let seen = |object: &Value| self.in_object(&past.key, object);
        let before = past.before.as_ref().filter(|object| seen(object));
        let after = past.after.as_ref().filter(|object| seen(object));
        let (what, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(object)) => ("ADDED", object),
            (Some(_), Some(object)) => ("MODIFIED", object),
            // It has the new resourceVersion, and its labels of before.
            (Some(before), None) => ("DELETED", before),
        };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(past.revision.to_string());
        Some(Bytes::from(format!(
            "{}\n",
            json!({"type": what, "object": object})
        )))
    }
}

/// A change of the past.
struct Past {
    revision: u64,
    key: Key,
    before: Option<Value>,
    after: Option<Value>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// By plural, namespace and name.
    objects: BTreeMap<Key, Value>,
    history: Vec<Past>,
    /// Watches from before this revision are told that it is gone.
    compacted: u64,
    watchers: Vec<(Interest, mpsc::UnboundedSender<Bytes>)>,
    /// Watches that tell nothing any more, not even that they end; and whether there are such.
    silent: Vec<(Interest, mpsc::UnboundedSender<Bytes>)>,
    silenced: Arc<AtomicBool>,
    faults: Vec<Fault>,
    /// Who changes an object just before a request that matches.
    interference: Vec<(Predicate, usize, Interference)>,
    /// Requests that are answered only when the test says so.
    held: Vec<(Predicate, oneshot::Receiver<()>)>,
    calls: Vec<Call>,
    /// What the operator is told that it may not do; nothing is denied when it does it.
    denied: Option<Denied>,
    /// Names of objects whose status does not follow.
    stuck: BTreeSet<String>,
    /// The versions of Etcds that are served.
    etcds: Vec<&'static str>,
    /// Those of Machines.
    machines: Vec<&'static str>,
    /// Those of them that lack the scale subresource.
    without_scale: Vec<&'static str>,
    /// The finalizers that each field manager has applied, and nobody else.
    finalizers: BTreeMap<(Key, String), BTreeSet<String>>,
}

/// The connections that were made, in order, and how many of them are dead.
#[derive(Default)]
struct Made {
    made: AtomicUsize,
    dead: AtomicUsize,
}

/// The seed.
#[derive(Clone, Default)]
pub struct Seed {
    state: Arc<Mutex<State>>,
    connections: Arc<Made>,
    activity: Activity,
    /// Ends with the value that [`Self::new`] returns.
    _recording: Recording,
}

impl Seed {
    /// A seed without any object.
    pub fn new(activity: Activity) -> Self {
        let seed = Self {
            activity,
            _recording: Recording::begin(),
            ..Self::default()
        };
        seed.lock().revision = 100;
        seed.serve_etcds(&["v1alpha1"]);
        seed.serve_machines(&["v1alpha1"]);
        seed
    }

    /// The operator's end of it, without a budget.
    pub fn unlimited(&self) -> dependency_watchdog::runtime::seed::Seed {
        self.counted(&RequestMetrics::default())
    }

    /// The same, whose requests are counted.
    pub fn counted(&self, metrics: &RequestMetrics) -> dependency_watchdog::runtime::seed::Seed {
        let client = self.wire(metrics).client(Access::All);
        dependency_watchdog::runtime::seed::Seed::unlimited(client)
    }

    /// The same for reads alone.
    pub fn reads(&self) -> dependency_watchdog::runtime::seed::Seed {
        let client = self.wire(&RequestMetrics::default()).client(Access::Reads);
        dependency_watchdog::runtime::seed::Seed::unlimited(client)
    }

    /// Connections that can [die](Self::lose_connections).
    fn wire(&self, metrics: &RequestMetrics) -> Wire {
        let seed = self.clone();
        let make = move || {
            let made = seed.connections.clone();
            let number = made.made.fetch_add(1, Ordering::Relaxed);
            let seed = seed.clone();
            tower::service_fn(move |request| {
                let (seed, made) = (seed.clone(), made.clone());
                async move {
                    if number < made.dead.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    seed.serve(request).await
                }
            })
        };
        Wire::over(make, metrics)
    }

    /// All connections of now die, and nobody says so: no request arrives, and no event of a watch.
    /// New ones are served.
    pub fn lose_connections(&self) {
        let made = self.connections.made.load(Ordering::Relaxed);
        self.connections.dead.store(made, Ordering::Relaxed);
        for (plural, ..) in RESOURCES {
            self.silence_watches(plural);
        }
    }

    /// Creates or replaces an object, by its kind and its name.
    pub fn put(&self, object: &Value) {
        let mut state = self.lock();
        let kind = object["kind"].as_str().unwrap();
        let (plural, ..) = RESOURCES.iter().find(|it| it.1 == kind).unwrap();
        let text = |field: &str| {
            let text = object["metadata"][field].as_str().unwrap_or_default();
            text.to_owned()
        };
        let key = (plural.to_string(), text("namespace"), text("name"));
        let mut object = object.clone();
        let before = state.objects.get(&key);
        let generation = before.map_or(1, |it| it["metadata"]["generation"].as_i64().unwrap() + 1);
        object["metadata"]["generation"] = json!(generation);
        state.store(&key, object);
    }

    /// From now on Etcds are served in these versions, and in no other.
    pub fn serve_etcds(&self, versions: &[&'static str]) {
        self.lock().etcds = versions.to_vec();
    }

    /// From now on Machines are served in these versions, and in no other.
    pub fn serve_machines(&self, versions: &[&'static str]) {
        self.lock().machines = versions.to_vec();
    }

    /// From now on Etcds cannot be scaled in these versions.
    pub fn serve_etcds_without_scale(&self, versions: &[&'static str]) {
        self.lock().without_scale = versions.to_vec();
    }

    /// Deletes an object.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.lock().remove(&key);
    }

    /// Asks for the deletion of an object, as somebody else would: finalizers hold it.
    pub fn ask_to_delete(&self, plural: &str, namespace: &str, name: &str) {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.lock().delete(&key);
    }

    /// An object as it is.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.lock().objects.get(&key).cloned()
    }

    /// Changes an object, as somebody else would.
    pub fn change(&self, plural: &str, namespace: &str, name: &str, change: impl Fn(&mut Value)) {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut state = self.lock();
        let mut object = state.objects[&key].clone();
        change(&mut object);
        state.update(&key, object);
    }

    /// The status of an object follows its spec, or does not.
    pub fn follow(&self, name: &str, follows: bool) {
        let mut state = self.lock();
        if !follows {
            state.stuck.insert(name.to_owned());
        } else if state.stuck.remove(name) {
            let keys: Vec<Key> = state.objects.keys().cloned().collect();
            for key in keys.iter().filter(|key| key.2 == name) {
                state.settle(key);
            }
        }
    }

    /// `count` requests that match fail, after `skip` that do not.
    pub fn fail(
        &self,
        failure: Failure,
        (skip, count): (usize, usize),
        matches: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        self.fault(failure, false, (skip, count), matches);
    }

    /// As [`Self::fail`], but what is asked for is done.
    pub fn fail_committed(
        &self,
        failure: Failure,
        (skip, count): (usize, usize),
        matches: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        self.fault(failure, true, (skip, count), matches);
    }

    fn fault(
        &self,
        failure: Failure,
        committed: bool,
        (skip, count): (usize, usize),
        matches: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        self.lock().faults.push(Fault {
            matches: Box::new(matches),
            skip,
            count,
            failure,
            committed,
        });
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Somebody changes the object just before each of the first `count` requests that match.
    pub fn interfere(
        &self,
        count: usize,
        matches: impl Fn(&Call) -> bool + Send + 'static,
        change: impl FnMut(&mut Value) + Send + 'static,
    ) {
        self.lock()
            .interference
            .push((Box::new(matches), count, Box::new(change)));
    }

    /// The operator is told that it may not do this, by `resourceAttributes`, and may do all else.
    pub fn deny(&self, denied: impl Fn(&Value) -> bool + Send + 'static) {
        self.lock().denied = Some(Box::new(denied));
    }

    /// The next request that matches is carried out, but answered only when the sender says so.
    pub fn hold(&self, matches: impl Fn(&Call) -> bool + Send + 'static) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.lock().held.push((Box::new(matches), held));
        release
    }

    /// How many watches of this resource go on.
    pub fn watches(&self, plural: &str) -> usize {
        let mut state = self.lock();
        state.watchers.retain(|(_, watcher)| !watcher.is_closed());
        let of = |it: &&(Interest, _)| it.0.plural == plural;
        state.watchers.iter().filter(of).count()
    }

    /// Ends the watches of this resource, as an API server does every few minutes.
    pub fn end_watches(&self, plural: &str) {
        self.lock().watchers.retain(|(of, _)| of.plural != plural);
    }

    /// The connections of the watches of this resource are lost, and nobody says so.
    pub fn silence_watches(&self, plural: &str) {
        let mut state = self.lock();
        let (silent, others) = std::mem::take(&mut state.watchers)
            .into_iter()
            .partition(|(of, _)| of.plural == plural);
        state.watchers = others;
        state.silent.extend::<Vec<_>>(silent);
        state.silenced.store(true, Ordering::Relaxed);
    }

    /// Forgets the events of the past: a watch cannot be taken up where it ended.
    pub fn compact(&self) {
        let mut state = self.lock();
        state.history.clear();
        state.revision += 1;
        state.compacted = state.revision;
    }

    /// All requests so far, without the events.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.lock().calls.clone();
        calls.retain(|call| call.resource != EVENTS);
        calls
    }

    /// The events so far, whatever they were answered.
    pub fn events(&self) -> Vec<Call> {
        let mut calls = self.lock().calls.clone();
        calls.retain(|call| call.resource == EVENTS);
        calls
    }

    /// The reasons of the events that tell of rights, in order.
    pub fn told_of_rights(&self) -> Vec<String> {
        let events = self.events().into_iter();
        let reasons = events.map(|it| it.body["reason"].as_str().unwrap_or_default().to_owned());
        reasons.filter(|it| it.starts_with("Rights")).collect()
    }

    /// The requests so far that are no watches, in brief.
    pub fn briefs(&self) -> Vec<String> {
        self.calls().iter().map(Call::brief).collect()
    }

    /// The requests that changed, or tried to change, a dependent.
    pub fn writes(&self) -> Vec<Call> {
        let scaled = ["deployments", "statefulsets", "etcds"];
        let is_write = |call: &Call| {
            let resource = call.resource.split('/').next().unwrap();
            call.method != "GET" && scaled.contains(&resource)
        };
        self.calls().into_iter().filter(is_write).collect()
    }

    /// Forgets the requests so far.
    pub fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(self, request: http::Request<Body>) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let call = call(&head, &body);
            self.activity.note();
            let (decided, held) = {
                let mut state = self.lock();
                let held = state.held.iter().position(|(matches, _)| matches(&call));
                let held = held.map(|index| state.held.remove(index).1);
                let decided = state.decide(&call);
                Recording::request(&call, result_of(&decided));
                (decided, held)
            };
            if let Some(held) = held {
                held.await.unwrap();
            }
            self.activity.note();
            match decided {
                Ok(outcome) => Ok(respond(outcome)),
                Err(failure) => fail(failure, &call.name).await,
            }
        })
    }
}

/// The result of a request; empty for a success.
fn result_of(decided: &Result<Outcome, Failure>) -> String {
    match decided {
        Ok(Outcome::Json(200..300, _) | Outcome::Watch(..)) => String::new(),
        Ok(Outcome::Json(code, _)) => format!(" -> {code}"),
        Err(failure) => format!(" -> {failure:?}"),
    }
}

/// The version in an apiVersion of Etcds.
fn etcd_version(api_version: &str) -> Option<&str> {
    api_version.strip_prefix(DRUID)?.strip_prefix('/')
}

impl State {
    fn decide(&mut self, call: &Call) -> Result<Outcome, Failure> {
        self.calls.push(call.clone());
        let failing = self.failing(call);
        if let Some((failure, false)) = failing {
            return Err(failure);
        }
        let scale = call.resource.ends_with("/scale");
        if !self.serves(&call.api_version) || scale && !self.scales(&call.api_version) {
            return Err(Failure::Unserved);
        }
        let outcome = self.carry_out(call);
        match failing {
            Some((failure, _)) => Err(failure),
            None => Ok(outcome),
        }
    }

    fn serves(&self, api_version: &str) -> bool {
        match api_version.split_once('/') {
            Some((DRUID, version)) => self.etcds.contains(&version),
            Some((MACHINES, version)) => self.machines.contains(&version),
            _ => true,
        }
    }

    fn scales(&self, api_version: &str) -> bool {
        let version = etcd_version(api_version);
        version.is_none_or(|version| !self.without_scale.contains(&version))
    }

    fn failing(&mut self, call: &Call) -> Option<(Failure, bool)> {
        for fault in &mut self.faults {
            if fault.count == 0 || !(fault.matches)(call) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.count -= 1;
            return Some((fault.failure, fault.committed));
        }
        None
    }

    fn carry_out(&mut self, call: &Call) -> Outcome {
        let (plural, sub) = match call.resource.split_once('/') {
            Some((plural, sub)) if !call.resource.starts_with('/') => (plural, sub),
            _ => (&*call.resource, ""),
        };
        if call.resource == "/apis" {
            let served = [(DRUID, &*self.etcds), (MACHINES, &*self.machines)];
            return Outcome::Json(200, groups(&served));
        }
        if call.resource.starts_with("/apis/druid.gardener.cloud/") {
            let scale = self.scales(&call.api_version);
            return Outcome::Json(200, discovery(&call.api_version, scale));
        }
        if plural == EVENTS {
            return Outcome::Json(201, call.body.clone());
        }
        if plural == REVIEWS {
            let mut review = call.body.clone();
            let asked = &review["spec"]["resourceAttributes"];
            let denied = self.denied.as_ref().is_some_and(|denied| denied(asked));
            review["status"] = json!({"allowed": !denied});
            return Outcome::Json(201, review);
        }
        let Some((_, kind, version)) = RESOURCES.iter().find(|it| it.0 == plural) else {
            return status(404, "the server could not find the requested resource");
        };
        let key = (plural.to_owned(), call.namespace.clone(), call.name.clone());
        self.interfere(call, &key);
        match (&*call.method, sub) {
            ("GET", "") if call.name.is_empty() && call.is_watch() => self.watch(call, plural),
            ("GET", "") if call.name.is_empty() => self.list(call, plural, kind, version),
            ("POST", "") => {
                let name = call.body["metadata"]["name"].as_str().unwrap();
                let key = (key.0, key.1, name.to_owned());
                if self.objects.contains_key(&key) {
                    return status(409, "already exists");
                }
                self.store(&key, call.body.clone());
                Outcome::Json(201, self.objects[&key].clone())
            }
            ("DELETE", "") => {
                let wanted = &call.body["preconditions"];
                if let Some(object) = self.objects.get(&key)
                    && ["uid", "resourceVersion"].iter().any(|field| {
                        !wanted[field].is_null() && wanted[field] != object["metadata"][field]
                    })
                {
                    return status(409, "the precondition does not hold");
                }
                match self.delete(&key) {
                    Some(object) => Outcome::Json(200, object),
                    None => not_found(&call.name),
                }
            }
            ("PATCH", "") if call.content_type == "application/apply-patch+yaml" => {
                let before = self.objects.get(&key).cloned();
                let uid = &call.body["metadata"]["uid"];
                if !uid.is_null() && before.as_ref().map(|it| &it["metadata"]["uid"]) != Some(uid) {
                    return status(409, "uid mismatch");
                }
                let mut object = before.clone().unwrap_or_else(|| json!({}));
                merge(&mut object, &call.body);
                let finalizers = self.applied_finalizers(call, &key, before.as_ref());
                let added = finalizers_of(before.as_ref()).is_superset(&finalizers);
                if !added && !object["metadata"]["deletionTimestamp"].is_null() {
                    return status(422, "no new finalizers can be added");
                }
                object["metadata"]["finalizers"] = json!(finalizers);
                match before {
                    Some(_) => self.update(&key, object),
                    None => self.store(&key, object),
                }
                let answer = self.objects[&key].clone();
                if finalizers.is_empty() && !answer["metadata"]["deletionTimestamp"].is_null() {
                    self.remove(&key);
                }
                Outcome::Json(200, answer)
            }
            (method, sub) => {
                let Some(mut object) = self.objects.get(&key).cloned() else {
                    return not_found(&call.name);
                };
                let wanted = &call.body["metadata"]["resourceVersion"];
                if ["PATCH", "PUT"].contains(&method)
                    && !wanted.is_null()
                    && *wanted != object["metadata"]["resourceVersion"]
                {
                    return status(409, "the object has been modified");
                }
                match (method, sub) {
                    ("GET", "") if call.only_metadata => {
                        let metadata = &object["metadata"];
                        let only = json!({
                            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                            "metadata": metadata,
                        });
                        return Outcome::Json(200, only);
                    }
                    ("GET", "") => {}
                    ("PUT", "") => self.update(&key, call.body.clone()),
                    ("PATCH", "") => {
                        let mut patch = call.body.clone();
                        patch["metadata"]
                            .as_object_mut()
                            .map(|metadata| metadata.remove("resourceVersion"));
                        merge(&mut object, &patch);
                        self.update(&key, object);
                    }
                    ("PATCH", "status") => {
                        object["status"] = call.body["status"].clone();
                        self.store(&key, object);
                    }
                    ("GET", "scale") => return Outcome::Json(200, scale(&object)),
                    ("PATCH", "scale") => {
                        match new_scale(&object, &call.body) {
                            Some(replicas) => object["spec"]["replicas"] = replicas,
                            None => return status(422, "the server rejected our request"),
                        }
                        self.update(&key, object);
                        return Outcome::Json(200, scale(&self.objects[&key]));
                    }
                    _ => return status(405, "not scripted"),
                }
                Outcome::Json(200, self.objects[&key].clone())
            }
        }
    }

    /// The finalizers of an object once this manager owns those that it applies, and no others.
    fn applied_finalizers(
        &mut self,
        call: &Call,
        key: &Key,
        before: Option<&Value>,
    ) -> BTreeSet<String> {
        let manager = call.query.split('&');
        let manager = manager.filter_map(|pair| pair.strip_prefix("fieldManager="));
        let owner = (key.clone(), manager.collect());
        let applied = finalizers_of(Some(&call.body));
        let owned = self.finalizers.remove(&owner).unwrap_or_default();
        let others = &finalizers_of(before) - &owned;
        self.finalizers.insert(owner, &applied - &others);
        &others | &applied
    }

    /// Deletes an object, or has it wait for its finalizers.
    fn delete(&mut self, key: &Key) -> Option<Value> {
        let mut object = self.objects.get(key)?.clone();
        if finalizers_of(Some(&object)).is_empty() {
            return self.remove(key);
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:02:33Z");
        self.update(key, object.clone());
        Some(object)
    }

    fn interfere(&mut self, call: &Call, key: &Key) {
        let mut interference = std::mem::take(&mut self.interference);
        for (matches, count, change) in &mut interference {
            if *count > 0 && matches(call) {
                *count -= 1;
                let mut object = self.objects[key].clone();
                change(&mut object);
                self.update(key, object);
            }
        }
        self.interference = interference;
    }

    /// A write of everything but the status; the status follows.
    fn update(&mut self, key: &Key, mut object: Value) {
        if self.objects.get(key) == Some(&object) {
            return;
        }
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = json!(generation + 1);
        self.store(key, object);
        if !self.stuck.contains(&key.2) {
            self.settle(key);
        }
    }

    /// The controller of a workload does its work.
    fn settle(&mut self, key: &Key) {
        if !["deployments", "statefulsets", "etcds"].contains(&&*key.0) {
            return;
        }
        let mut object = self.objects[key].clone();
        object["status"] = workload_status(&object);
        self.store(key, object);
    }

    fn store(&mut self, key: &Key, mut object: Value) {
        self.revision += 1;
        let (_, kind, version) = RESOURCES.iter().find(|it| it.0 == key.0).unwrap();
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(version);
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let before = self.objects.insert(key.clone(), object.clone());
        self.tell(key, before, Some(object));
    }

    fn remove(&mut self, key: &Key) -> Option<Value> {
        let mut object = self.objects.remove(key)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell(key, Some(object.clone()), None);
        Some(object)
    }

    fn tell(&mut self, key: &Key, before: Option<Value>, after: Option<Value>) {
        let past = Past {
            revision: self.revision,
            key: key.clone(),
            before,
            after,
        };
        self.watchers.retain(|(of, watcher)| {
            let line = of.line(&past);
            line.is_none_or(|line| watcher.unbounded_send(line).is_ok())
        });
        self.history.push(past);
    }

    fn list(&self, call: &Call, plural: &str, kind: &str, version: &str) -> Outcome {
        let interest = Interest::of(call, plural);
        let items = self.objects.iter();
        let items = items.filter(|(key, object)| interest.in_object(key, object));
        let items = items.map(|(_, object)| match call.only_metadata {
            true => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
            false => object.clone(),
        });
        let items: Vec<Value> = items.collect();
        let list = json!({
            "kind": format!("{kind}List"), "apiVersion": version,
            "metadata": {"resourceVersion": self.revision.to_string()}, "items": items,
        });
        Outcome::Json(200, list)
    }

    fn watch(&mut self, call: &Call, plural: &str) -> Outcome {
        let since = call.parameter("resourceVersion");
        let since = since.and_then(|version| version.parse::<u64>().ok());
        let (sender, receiver) = mpsc::unbounded();
        if since < Some(self.compacted) {
            let Outcome::Json(_, gone) = status(410, "too old resource version") else {
                unreachable!();
            };
            let line = json!({"type": "ERROR", "object": gone});
            let line = Bytes::from(format!("{line}\n"));
            return Outcome::Watch(vec![line], receiver, Box::pin(std::future::pending()));
        }
        let interest = Interest::of(call, plural);
        let past = self.history.iter();
        let missed = past.filter(|past| Some(past.revision) > since);
        let missed = missed.filter_map(|past| interest.line(past)).collect();
        self.watchers.push((interest, sender));
        let limit = call.parameter("timeoutSeconds");
        let limit = limit.map_or(290, |seconds| seconds.parse().unwrap());
        let silenced = self.silenced.clone();
        let end = async move {
            tokio::time::sleep(Duration::from_secs(limit)).await;
            if silenced.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        Outcome::Watch(missed, receiver, Box::pin(end))
    }
}

fn finalizers_of(object: Option<&Value>) -> BTreeSet<String> {
    let finalizers = object.and_then(|object| object["metadata"]["finalizers"].as_array());
    let names = finalizers.into_iter().flatten();
    names.map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn call(head: &http::request::Parts, body: &[u8]) -> Call {
    let path = head.uri.path();
    let mut segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let prefix = if segments[0] == "api" { 2 } else { 3 };
    let api_version = segments.iter().take(prefix).skip(1);
    let api_version: Vec<&str> = api_version.copied().collect();
    let api_version = api_version.join("/");
    let mut namespace = String::new();
    let mut resource = path.to_owned();
    let mut name = String::new();
    if segments.len() > prefix {
        segments.drain(..prefix);
        if segments[0] == "namespaces" && segments.len() > 2 {
            namespace = segments[1].to_owned();
            segments.drain(..2);
        }
        resource = segments[0].to_owned();
        name = segments.get(1).copied().unwrap_or_default().to_owned();
        if let Some(sub) = segments.get(2) {
            resource = format!("{resource}/{sub}");
        }
    }
    let header = |name: &str| {
        let value = head.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    };
    Call {
        at: Instant::now(),
        method: head.method.to_string(),
        api_version,
        resource,
        namespace,
        name,
        query: head.uri.query().unwrap_or_default().to_owned(),
        content_type: header("content-type").to_owned(),
        only_metadata: header("accept").contains("as=PartialObjectMetadata"),
        body: serde_json::from_slice(body).unwrap_or_default(),
    }
}
