//! A scripted seed: a [fake API server](fake::server) whose requests fail, wait and are watched as the test says.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use dependency_watchdog::{
    runtime::{
        metrics::RequestMetrics,
        seed::Seed as Ours,
        wire::{Access, Wire},
    },
    util::now::wall,
};
use fake::{
    refusal::Refusal,
    server::{Body, Connection, Server},
    store::{self, Key, Verb},
};
use futures::{channel::oneshot, future::BoxFuture};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::service_fn;

use super::{Activity, Failure, failure::UNSERVED, recording::Recording, wrong_kind};

/// What the operator tells.
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
    /// The parameters, without escapes.
    pub query: Vec<(String, String)>,
    /// The content type.
    pub content_type: String,
    /// Whether only metadata is asked for.
    pub only_metadata: bool,
    /// The body.
    pub body: Value,
}

impl Call {
    fn of(head: &http::request::Parts, body: &[u8]) -> Self {
        let call = store::Call::parse(head, body).unwrap();
        let content_type = head.headers.get("content-type");
        Self {
            at: Instant::now(),
            method: head.method.to_string(),
            resource: call.resource(),
            api_version: call.group_version,
            namespace: call.namespace,
            name: call.name,
            query: call.query,
            content_type: content_type
                .map_or("", |it| it.to_str().unwrap())
                .to_owned(),
            only_metadata: call.only_metadata,
            body: call.body,
        }
    }

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
        self.parameter("watch") == Some("true")
    }

    /// The name that the field selector asks for, if there is one.
    pub fn selected_name(&self) -> Option<&str> {
        self.parameter("fieldSelector")?
            .strip_prefix("metadata.name=")
    }

    /// What the query says for this parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

type Predicate = Box<dyn Fn(&Call) -> bool + Send>;
type Denied = Box<dyn Fn(&Value) -> bool + Send>;
type Interference = Box<dyn FnMut(&mut Value) + Send>;
/// An answer, or a broken connection.
type Answer = Result<http::Response<Body>, io::Error>;

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

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    /// Who changes an object just before a request that matches.
    interference: Vec<(Predicate, usize, Interference)>,
    /// Requests that are answered only when the test says so.
    held: Vec<(Predicate, oneshot::Receiver<()>)>,
    calls: Vec<Call>,
    /// What the operator is told that it may not do; nothing is denied when it does it.
    denied: Option<Denied>,
}

/// The seed.
#[derive(Clone)]
pub struct Seed {
    server: Server,
    state: Arc<Mutex<State>>,
    activity: Activity,
    /// Ends with the value that [`Self::new`] returns.
    _recording: Recording,
}

impl Default for Seed {
    fn default() -> Self {
        Self::new(Activity::default())
    }
}

impl Seed {
    /// A seed without any object.
    pub fn new(activity: Activity) -> Self {
        Self {
            server: Server::new(wall),
            state: Arc::default(),
            activity,
            _recording: Recording::begin(),
        }
    }

    /// The operator's end of it, without a budget.
    pub fn unlimited(&self) -> Ours {
        self.counted(&RequestMetrics::default())
    }

    /// The same, whose requests are counted.
    pub fn counted(&self, metrics: &RequestMetrics) -> Ours {
        Ours::unlimited(self.wire(metrics).client(Access::All))
    }

    /// The same for reads alone.
    pub fn reads(&self) -> Ours {
        let wire = self.wire(&RequestMetrics::default());
        Ours::unlimited(wire.client(Access::Reads))
    }

    /// Connections to it.
    fn wire(&self, metrics: &RequestMetrics) -> Wire {
        let seed = self.clone();
        let make = move || {
            let (seed, connection) = (seed.clone(), seed.server.connect());
            service_fn(move |request| seed.clone().serve(connection.clone(), request))
        };
        Wire::over(make, metrics)
    }

    /// Creates or replaces an object, by its kind and its name.
    pub fn put(&self, object: &Value) {
        let put = self
            .server
            .store(|store, now| store.put(now, object.clone()));
        put.unwrap();
    }

    /// From now on Etcds are served in these versions, and in no other.
    pub fn serve_etcds(&self, versions: &[&'static str]) {
        self.server.store(|store, _| store.serve("etcds", versions));
    }

    /// Deletes an object.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let key = Key::new(plural, namespace, name);
        self.server.store(|store, now| store.remove(&key, now));
    }

    /// Asks for the deletion of an object, as somebody else would: finalizers hold it.
    pub fn ask_to_delete(&self, plural: &str, namespace: &str, name: &str) {
        let call = store::Call::new(Verb::Delete, &Key::new(plural, namespace, name));
        self.server
            .store(|store, now| store.call(&call, now))
            .unwrap();
    }

    /// An object as it is.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(plural, namespace, name);
        self.server.store(|store, _| store.get(&key).cloned())
    }

    /// Changes an object, as somebody else would.
    pub fn change(&self, plural: &str, namespace: &str, name: &str, change: impl Fn(&mut Value)) {
        let key = Key::new(plural, namespace, name);
        let is_there = self
            .server
            .store(|store, now| store.edit(&key, now, change));
        assert!(is_there, "no {key:?}");
    }

    /// The status of an object follows its spec, or does not.
    pub fn follow(&self, name: &str, follows: bool) {
        self.server
            .store(|store, now| store.follow(name, follows, now));
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
        let interference = (Box::new(matches) as Predicate, count, Box::new(change) as _);
        self.lock().interference.push(interference);
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
        self.server.watches(plural)
    }

    /// Ends the watches of this resource, as an API server does every few minutes.
    pub fn end_watches(&self, plural: &str) {
        self.server.end_watches(plural);
    }

    /// The connections of the watches of this resource are lost, and nobody says so.
    pub fn silence_watches(&self, plural: &str) {
        self.server.silence_watches(plural);
    }

    /// Forgets the events of the past: a watch cannot be taken up where it ended.
    pub fn compact(&self) {
        self.server.store(|store, _| store.compact());
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

    fn serve(
        self,
        connection: Connection,
        request: http::Request<kube::client::Body>,
    ) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let call = Call::of(&head, &body);
            self.activity.note();
            let (failing, held) = {
                let mut state = self.lock();
                let held = state.held.iter().position(|(matches, _)| matches(&call));
                let held = held.map(|index| state.held.remove(index).1);
                state.calls.push(call.clone());
                (state.failing(&call), held)
            };
            let is_done = failing.is_none_or(|(_, committed)| committed);
            let answer = match is_done {
                false => None,
                true if call.resource == REVIEWS => Some(Ok(self.review(&call))),
                true => {
                    self.interferes(&call);
                    Some(connection.call(http::Request::from_parts(head, body)).await)
                }
            };
            let result = match (&failing, &answer) {
                (Some((failure, _)), _) => format!(" -> {failure:?}"),
                (None, Some(Ok(answer))) if !answer.status().is_success() => {
                    format!(" -> {}", answer.status().as_u16())
                }
                _ => String::new(),
            };
            Recording::request(&call, result);
            if let Some(held) = held {
                held.await.unwrap();
            }
            self.activity.note();
            match (failing, answer) {
                (None, Some(answer)) => answer,
                (failing, _) => fail(failing.unwrap().0, &call.name).await,
            }
        })
    }

    fn review(&self, call: &Call) -> http::Response<Body> {
        let mut review = call.body.clone();
        let asked = &review["spec"]["resourceAttributes"];
        let state = self.lock();
        let denied = state.denied.as_ref().is_some_and(|denied| denied(asked));
        review["status"] = json!({"allowed": !denied});
        whole(201, "application/json", review.to_string())
    }

    fn interferes(&self, call: &Call) {
        let plural = call.resource.split('/').next().unwrap();
        let key = Key::new(plural, &call.namespace, &call.name);
        let mut state = self.lock();
        for (matches, count, change) in &mut state.interference {
            if *count > 0 && matches(call) {
                *count -= 1;
                self.server
                    .store(|store, now| store.edit(&key, now, change));
            }
        }
    }
}

impl State {
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
}

fn whole(code: u16, content_type: &str, body: impl Into<Bytes>) -> http::Response<Body> {
    let body = http_body_util::Full::new(body.into());
    http::Response::builder()
        .status(code)
        .header("content-type", content_type)
        .body(body.map_err(|never| match never {}).boxed_unsync())
        .unwrap()
}

/// How a request for the object of this name, or for none, fails.
async fn fail(failure: Failure, name: &str) -> Answer {
    let refused = |code, details, retry: Option<u64>| {
        let refusal = Refusal {
            details,
            ..Refusal::new(code, "scripted failure")
        };
        let mut answer = whole(code, "application/json", refusal.body());
        let retry = retry.map(|seconds| (http::header::RETRY_AFTER, seconds.into()));
        answer.headers_mut().extend(retry);
        Ok(answer)
    };
    match failure {
        Failure::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
        Failure::Reset => Err(io::ErrorKind::ConnectionReset.into()),
        Failure::Hang => std::future::pending().await,
        Failure::Status(404) if !name.is_empty() => refused(404, json!({"name": name}), None),
        Failure::Status(code) => refused(code, Value::Null, None),
        Failure::RetryAfter(seconds) => {
            refused(429, json!({"retryAfterSeconds": seconds}), Some(seconds))
        }
        Failure::Truncated => {
            let frames = [
                Ok(hyper::body::Frame::data(Bytes::from_static(
                    b"{\"kind\": \"Dep",
                ))),
                Err(io::ErrorKind::UnexpectedEof.into()),
            ];
            let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
            Ok(http::Response::new(body.boxed_unsync()))
        }
        Failure::Html => Ok(whole(200, "text/html", "<html>Sign in</html>")),
        Failure::WrongKind => Ok(whole(200, "application/json", wrong_kind().to_string())),
        Failure::Unserved => Ok(whole(404, "text/plain", UNSERVED)),
    }
}
