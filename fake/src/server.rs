//! An API server over a [`Store`], for clients in the same process and for sockets.

mod answer;
mod discovery;
mod watch;

pub(crate) use self::answer::Answer;
pub use self::answer::Body;

use crate::{
    fault::{Fate, Rule},
    store::{Call, Refusal, Store, Verb},
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch as channel,
    time::sleep,
};

/// The name of everybody in refusals.
const USER: &str = "system:serviceaccount:garden:dwd-prober";
/// How the API server is asked for rights.
const REVIEWS: &str = "selfsubjectaccessreviews";

type Denied = Box<dyn Fn(&str, &str, &str) -> bool + Send>;
type Matches = Box<dyn FnMut(&Call) -> bool + Send>;
type Change = Box<dyn FnMut(&mut Store, Timestamp) + Send>;

/// What is wrong with the server as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Whether every request and every watch fails with a reset of the connection.
    pub away: bool,
    /// Whether requests wait until this ends, and watches tell nothing.
    pub silent: bool,
    /// Whether events are withheld until this ends.
    pub late_watches: bool,
    /// Whether each watch is told that it is too old.
    pub gone_watches: bool,
    /// The revision that reads and lists show.
    pub stale: Option<u64>,
    /// The revisions that lists show that may come from a cache, by plural; 0 is before everything.
    pub stale_lists: BTreeMap<String, u64>,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When.
    pub at: Timestamp,
    /// The request.
    pub call: Call,
    /// The code that the store answered; `None` if it was not carried out.
    pub carried_out: Option<u16>,
    /// What became of it, if it is not merely answered.
    pub fate: Option<Fate>,
}

struct State {
    store: Store,
    asked: Vec<Asked>,
    rules: Vec<Rule>,
    interference: Vec<(usize, Matches, Change)>,
    switches: Switches,
    denied: Option<Denied>,
    /// How many connections were made.
    connections: u64,
    /// How many of them are dead.
    dead: u64,
    /// How often all connections were reset, and all watches cut.
    resets: u64,
    cuts: u64,
    /// Those that go on, by plural.
    watches: BTreeMap<String, Vec<Weak<()>>>,
    /// How many have begun, and how many of these by then of a plural end, or tell nothing any more.
    begun: u64,
    ended: BTreeMap<String, u64>,
    silenced: BTreeMap<String, u64>,
}

struct Inner {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<State>,
    /// Wakes whoever waits for a change of the state.
    changed: channel::Sender<()>,
}

/// A server; clones are the same.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

/// A connection to a server.
#[derive(Clone, Debug)]
pub struct Connection {
    server: Server,
    number: u64,
}

impl Server {
    /// A server without objects. Whatever it dates it dates by this clock.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            clock: Box::new(clock),
            state: Mutex::new(State {
                store: Store::default(),
                asked: Vec::new(),
                rules: Vec::new(),
                interference: Vec::new(),
                switches: Switches::default(),
                denied: None,
                connections: 0,
                dead: 0,
                resets: 0,
                cuts: 0,
                watches: BTreeMap::new(),
                begun: 0,
                ended: BTreeMap::new(),
                silenced: BTreeMap::new(),
            }),
            changed: channel::Sender::new(()),
        }))
    }

    /// The time by its clock.
    pub fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    /// Does something with the objects, and tells watches of it.
    pub fn store<T>(&self, act: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let now = self.now();
        self.alter(|state| act(&mut state.store, now))
    }

    /// Changes what is wrong with the server as a whole.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        self.alter(|state| change(&mut state.switches));
    }

    /// Adds a rule. The first one that is about a request decides.
    pub fn rule(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Does something with the objects just before each of the first `times` requests that match.
    pub fn interfere(
        &self,
        times: usize,
        when: impl FnMut(&Call) -> bool + Send + 'static,
        change: impl FnMut(&mut Store, Timestamp) + Send + 'static,
    ) {
        let interference = (times, Box::new(when) as Matches, Box::new(change) as Change);
        self.lock().interference.push(interference);
    }

    /// Ends all rules, switches and denials. Dead connections stay dead.
    pub fn heal(&self) {
        self.alter(|state| {
            state.rules.clear();
            state.interference.clear();
            state.switches = Switches::default();
            state.denied = None;
        });
    }

    /// Denies what matches by verb, resource (such as `deployments/scale`) and namespace, and says so
    /// when it is asked for rights.
    pub fn deny(&self, denied: impl Fn(&str, &str, &str) -> bool + Send + 'static) {
        self.lock().denied = Some(Box::new(denied));
    }

    /// All requests so far.
    pub fn calls(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// Forgets the requests so far.
    pub fn forget_calls(&self) {
        self.lock().asked.clear();
    }

    /// How many watches of a kind go on.
    pub fn watches(&self, plural: &str) -> usize {
        let state = self.lock();
        let all = state.watches.get(plural).into_iter().flatten();
        all.filter(|watch| watch.strong_count() > 0).count()
    }

    /// Ends the watches of a kind that go on, as a server does every few minutes.
    pub fn end_watches(&self, plural: &str) {
        self.alter(|state| state.ended.insert(plural.to_owned(), state.begun));
    }

    /// Has the watches of a kind that go on tell nothing any more, not even that they end.
    pub fn silence_watches(&self, plural: &str) {
        self.alter(|state| state.silenced.insert(plural.to_owned(), state.begun));
    }

    /// Makes a connection.
    pub fn connect(&self) -> Connection {
        let mut state = self.lock();
        let number = state.connections;
        state.connections += 1;
        Connection {
            server: self.clone(),
            number,
        }
    }

    /// Has all connections of now die without a word: no request arrives over them, no watch tells
    /// anything. New ones work.
    pub fn lose_connections(&self) {
        self.alter(|state| state.dead = state.connections);
    }

    /// Ends every watch in the middle of an event.
    pub fn cut_watches(&self) {
        self.alter(|state| state.cuts += 1);
    }

    /// Resets all connections: what is under way fails. The next request over them is served.
    pub fn restart(&self) {
        self.alter(|state| state.resets += 1);
    }

    /// Serves HTTP/1.1 over a stream of bytes until that ends, or the server is restarted.
    pub async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let connection = self.connect();
        let resets = self.lock().resets;
        let service = service_fn(|request: Request<hyper::body::Incoming>| {
            let connection = connection.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                connection.call(Request::from_parts(head, body)).await
            }
        });
        let served = http1::Builder::new().serve_connection(TokioIo::new(io), service);
        tokio::select! {
            // The client sees how it ended.
            _ = served => {}
            () = self.until(|state| (state.resets != resets).then_some(())) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for that.
    fn alter<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.lock());
        self.0.changed.send_replace(());
        done
    }

    /// Waits for what is seen in the state.
    async fn until<T>(&self, mut seen: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = self.0.changed.subscribe();
        loop {
            if let Some(found) = seen(&mut self.lock()) {
                return found;
            }
            if changed.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

/// What is to be sent for a request.
enum Course {
    Answer(Answer),
    Fail,
    Hang,
}

impl Connection {
    /// Sends a request.
    ///
    /// # Errors
    ///
    /// If the connection is reset before an answer, or in the middle of its body.
    pub async fn call(&self, request: Request<Bytes>) -> Result<Response<Body>, io::Error> {
        self.until_heard().await?;
        let resets = self.server.lock().resets;
        let served = async {
            let (head, body) = request.into_parts();
            let call = match Call::parse(&head, &body) {
                Ok(call) => call,
                Err(refusal) => return Ok(Answer::of(Err(refusal)).response(self.server.now())),
            };
            let (course, fate) = self.server.alter(|state| self.decide(state, &call));
            if fate == Some(Fate::DeadConnections) {
                self.server.lose_connections();
            }
            if let Some(Fate::Late(time)) = fate {
                sleep(time).await;
            }
            match course {
                Course::Hang => pending().await,
                Course::Fail => Err(reset()),
                Course::Answer(answer) => Ok(answer.response(self.server.now())),
            }
        };
        tokio::select! {
            biased;
            () = self.until_broken(resets) => Err(reset()),
            answer = served => answer,
        }
    }

    fn is_dead(&self, state: &State) -> bool {
        self.number < state.dead
    }

    /// Waits as long as the server is silent.
    async fn until_heard(&self) -> Result<(), io::Error> {
        let heard = |state: &mut State| match &state.switches {
            _ if self.is_dead(state) => None,
            switches if switches.away => Some(Err(reset())),
            switches if switches.silent => None,
            _ => Some(Ok(())),
        };
        self.server.until(heard).await
    }

    /// Waits for a reset of the connection. A dead one is never heard of again.
    async fn until_broken(&self, resets: u64) {
        let broken = |state: &mut State| {
            let is_reset = state.switches.away || state.resets != resets;
            (is_reset && !self.is_dead(state)).then_some(())
        };
        self.server.until(broken).await;
    }

    /// Decides what becomes of a request, and carries it out.
    fn decide(&self, state: &mut State, call: &Call) -> (Course, Option<Fate>) {
        let now = self.server.now();
        let fate = state.rules.iter_mut().find_map(|rule| rule.hit(call));
        let answer = match fate {
            Some(fate) if !fate.commits() => None,
            _ => Some(self.carry_out(state, call, now)),
        };
        state.asked.push(Asked {
            at: now,
            call: call.clone(),
            carried_out: answer.as_ref().map(Answer::code),
            fate,
        });
        let course = match (fate, answer) {
            (Some(Fate::LostAfter), _) | (Some(Fate::LostBefore), _) => Course::Fail,
            (Some(Fate::Hang { .. } | Fate::DeadConnections), _) => Course::Hang,
            (Some(Fate::Truncated), Some(answer)) => Course::Answer(answer.truncated()),
            (_, Some(answer)) => Course::Answer(answer),
            (Some(fate), None) => Course::Answer(instead(fate, call)),
            (None, None) => Course::Hang,
        };
        (course, fate)
    }

    fn carry_out(&self, state: &mut State, call: &Call, now: Timestamp) -> Answer {
        for (times, matches, change) in &mut state.interference {
            if *times > 0 && matches(call) {
                *times -= 1;
                change(&mut state.store, now);
            }
        }
        if call.plural == REVIEWS {
            return Answer::of(Ok((201, review(state, &call.body))));
        }
        if call.plural.starts_with('/') {
            return Answer::of(discovery::of(&state.store, &call.plural));
        }
        let denied = state.denied.as_ref();
        if denied.is_some_and(|it| it(call.verb.word(), &call.resource(), &call.namespace)) {
            return Answer::of(Err(forbidden(call)));
        }
        if call.verb == Verb::Watch {
            return self.watch(state, call);
        }
        let cached = call.verb == Verb::List && call.parameter("resourceVersion") == Some("0");
        let cached = state
            .switches
            .stale_lists
            .get(&call.plural)
            .filter(|_| cached);
        let stale = state.switches.stale.or(cached.copied());
        let answered = match stale.filter(|_| !call.verb.is_write()) {
            Some(revision) => state.store.at(revision).answer(call, now),
            None => state.store.answer(call, now),
        };
        Answer::of(answered)
    }
}

/// The answer to a request that is not carried out.
fn instead(fate: Fate, call: &Call) -> Answer {
    match fate {
        Fate::Refuse(code, retry_after) => Answer::of(Err(Refusal {
            retry_after,
            ..Refusal::new(code, "refused by the test")
        })),
        Fate::Deny => Answer::of(Err(forbidden(call))),
        Fate::Html => Answer::html(),
        Fate::WrongKind => {
            let other = json!({"kind": "Gnome", "apiVersion": "garden.example/v1", "metadata": {}});
            Answer::of(Ok((200, other)))
        }
        _ => Answer::of(Err(Refusal::unserved())),
    }
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

fn forbidden(call: &Call) -> Refusal {
    let group = call
        .group_version
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    let qualified = match group {
        "" => call.plural.clone(),
        group => format!("{}.{group}", call.plural),
    };
    let named = match &*call.name {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    let place = match &*call.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let message = format!(
        "{qualified}{named} is forbidden: User {USER:?} cannot {} resource {:?} in API group {group:?} {place}",
        call.verb.word(),
        call.resource(),
    );
    let mut details = json!({"kind": call.plural});
    for (field, value) in [("name", &*call.name), ("group", group)] {
        if !value.is_empty() {
            details[field] = value.into();
        }
    }
    Refusal {
        details,
        ..Refusal::new(403, message)
    }
}

/// The answer to whoever asks for a right.
fn review(state: &State, asked: &Value) -> Value {
    let attribute = |name: &str| {
        let value = asked.pointer(&format!("/spec/resourceAttributes/{name}"));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let resource = match &*attribute("subresource") {
        "" => attribute("resource"),
        sub => format!("{}/{sub}", attribute("resource")),
    };
    let denied = state.denied.as_ref();
    let denied =
        denied.is_some_and(|it| it(&attribute("verb"), &resource, &attribute("namespace")));
    let mut review = asked.clone();
    review["status"] = json!({"allowed": !denied});
    review
}
