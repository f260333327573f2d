//! Candidates over a Lease on a modelled API server, in paused time.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{identity::MAX_HOST, *};
use crate::runtime::seed::{CallError, Seed};

const LEASE: Duration = Duration::from_secs(15);

fn times() -> Times {
    Times::new(LEASE, Duration::from_secs(10), Duration::from_secs(2)).unwrap()
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Served,
    /// It takes so many seconds there, and as many back.
    Slow(u64),
    /// It takes so many seconds there alone.
    Late(u64),
    Failed,
    /// It is carried out, but the answer is lost.
    AnswerLost,
    /// Writes are answered as if they had been carried out, with an object that is none.
    Pretended,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: u64,
    lease: Option<Value>,
    fates: std::collections::VecDeque<Fate>,
    fate: Option<Fate>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request));
        Client::new(service, "default")
    }

    /// What happens to all requests from now on.
    fn set(&self, fate: Fate) {
        self.0.lock().unwrap().fate = Some(fate);
    }

    fn holder(&self) -> String {
        let state = self.0.lock().unwrap();
        let lease = state.lease.as_ref();
        let holder = lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        holder.unwrap_or_default().to_owned()
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let fate = {
            let mut state = self.0.lock().unwrap();
            let next = state.fates.pop_front();
            next.or(state.fate).unwrap_or(Fate::Served)
        };
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let pause = match fate {
            Fate::Slow(seconds) | Fate::Late(seconds) => Duration::from_secs(seconds),
            _ => Duration::from_millis(5),
        };
        sleep(pause).await;
        if matches!(fate, Fate::Failed) {
            return Ok(answer(503, &json!({"reason": "Unavailable"})));
        }
        if matches!(fate, Fate::Pretended) && method != Method::GET {
            return Ok(answer(200, &json!({})));
        }
        let (code, answered) = self.carry_out(&method, &body);
        if !matches!(fate, Fate::Late(_)) {
            sleep(pause).await;
        }
        if matches!(fate, Fate::AnswerLost) {
            std::future::pending::<()>().await;
        }
        Ok(answer(code, &answered))
    }

    fn carry_out(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        if method == Method::GET {
            return match &state.lease {
                Some(lease) => (200, lease.clone()),
                None => (404, json!({"reason": "NotFound"})),
            };
        }
        let mut object: Value = serde_json::from_slice(body).unwrap();
        let found = state
            .lease
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        let fits = match (method == Method::POST, found) {
            (true, None) => true,
            (false, Some(version)) => object["metadata"]["resourceVersion"] == *version,
            _ => false,
        };
        if !fits {
            return (409, json!({"reason": "Conflict"}));
        }
        state.revision += 1;
        object["metadata"]["resourceVersion"] = json!(state.revision.to_string());
        state.lease = Some(object.clone());
        (200, object)
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let mut body = body.clone();
    if code >= 400 {
        body =
            json!({"kind": "Status", "status": "Failure", "code": code, "reason": body["reason"]});
    }
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap()
}

/// A process that can be frozen.
struct Frozen<F> {
    inner: F,
    frozen: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl<F: Future + Unpin> Future for Frozen<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        *self.waker.lock().unwrap() = Some(context.waker().clone());
        if self.frozen.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll(context)
    }
}

/// A replica, and whether it believes that it leads.
struct Replica {
    stop: CancellationToken,
    leadership: Arc<Mutex<Option<Leadership>>>,
    /// Why it did not lead any more, each time.
    losses: Arc<Mutex<Vec<String>>>,
    frozen: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
    task: JoinHandle<Result<Ended<()>, Stuck>>,
}

impl Replica {
    fn start(server: &Server) -> Self {
        let mut elector = Elector::new(server.client(), "garden", "lease", times());
        let stop = CancellationToken::new();
        let leadership = Arc::new(Mutex::new(None));
        let losses = Arc::new(Mutex::new(Vec::new()));
        let (stopped, given, told) = (stop.clone(), leadership.clone(), losses.clone());
        let lead = async move {
            let work = |elected: Elected| {
                let given = given.clone();
                async move {
                    let term = elected.term().await;
                    *given.lock().unwrap() = Some(term.leadership);
                    term.stop.cancelled().await;
                }
            };
            loop {
                match elector.stand(&stopped, work).await {
                    Ok(Ended::Lost(lost)) => told.lock().unwrap().push(lost.0),
                    ended => return ended,
                }
            }
        };
        let (frozen, waker) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let task = tokio::spawn(Frozen {
            inner: Box::pin(lead),
            frozen: frozen.clone(),
            waker: Arc::clone(&waker),
        });
        Self {
            stop,
            leadership,
            losses,
            frozen,
            waker,
            task,
        }
    }

    fn leads(&self) -> bool {
        let leadership = self.leadership.lock().unwrap();
        leadership.as_ref().is_some_and(Leadership::is_held)
    }

    /// Waits until it has lost the Lease once more, and says why.
    async fn loses(&self) -> String {
        until(|| !self.losses.lock().unwrap().is_empty()).await;
        self.losses.lock().unwrap().remove(0)
    }

    fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// How long it takes until this holds, in steps of 100 ms.
async fn until(holds: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "never");
        sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

/// Two replicas, of which the first leads.
async fn two(server: &Server) -> (Replica, Replica) {
    let first = Replica::start(server);
    until(|| first.leads()).await;
    let second = Replica::start(server);
    sleep(Duration::from_secs(5)).await;
    assert!(first.leads() && !second.leads());
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_hands_over_at_once() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    first.stop.cancel();
    assert_eq!(first.task.await.unwrap(), Ok(Ended::Done(())));
    let after = until(|| second.leads()).await;
    assert!(after < Duration::from_secs(3), "{after:?}");
    let transitions = server.0.lock().unwrap().lease.clone().unwrap();
    assert_eq!(transitions["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_followed_when_its_lease_is_over() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    first.task.abort();
    let after = until(|| second.leads()).await;
    assert!(after > Duration::from_secs(11), "{after:?}");
    assert!(after < LEASE + Duration::from_secs(5), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_frozen_does_not_lead_when_it_goes_on() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    first.freeze(true);
    until(|| second.leads()).await;
    assert!(!first.leads());
    first.freeze(false);
    let lost = first.loses().await;
    assert!(lost.contains("held up"), "{lost}");
    assert!(second.leads());
}

#[tokio::test(start_paused = true)]
async fn what_a_frozen_leader_was_about_to_ask_is_not_asked_when_it_goes_on() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    let asked = Arc::new(AtomicBool::new(false));
    let sent = asked.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let sent = sent.clone();
        async move {
            // A connection is made first.
            sleep(Duration::from_secs(1)).await;
            sent.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(answer(200, &json!({})))
        }
    });
    let leadership = first.leadership.lock().unwrap().clone().unwrap();
    let seed = Seed::unlimited(Client::new(service, "default")).led_by(leadership);
    let ask = async move {
        let request = Request::get("/").body(Vec::new()).unwrap();
        seed.call(seed.client().request::<Value>(request)).await
    };
    let (frozen, waker) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let call = tokio::spawn(Frozen {
        inner: Box::pin(ask),
        frozen: frozen.clone(),
        waker: Arc::clone(&waker),
    });
    sleep(Duration::from_millis(500)).await;
    first.freeze(true);
    frozen.store(true, Ordering::Relaxed);
    until(|| second.leads()).await;
    frozen.store(false, Ordering::Relaxed);
    waker.lock().unwrap().take().unwrap().wake();
    let answered = call.await.unwrap();
    assert!(
        matches!(answered, Err(CallError::NotLeading)),
        "{answered:?}"
    );
    assert!(!asked.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_can_lead() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    server.set(Fate::Failed);
    let after = until(|| !first.leads()).await;
    assert!(after <= Duration::from_secs(11), "{after:?}");
    let lost = first.loses().await;
    assert!(lost.contains("not renewed within 10s"), "{lost}");
    assert!(!second.leads());
    server.set(Fate::Served);
    // The Lease has not run out: it is the first's again.
    until(|| first.leads()).await;
    assert!(!second.leads());
}

/// The process goes on, and stands behind whoever leads. What it was told in its first term is not true
/// again in another.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_deposed_leads_again_in_a_term_of_its_own() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    let former = first.leadership.lock().unwrap().clone().unwrap();
    first.freeze(true);
    until(|| second.leads()).await;
    first.freeze(false);
    first.loses().await;
    second.stop.cancel();
    until(|| first.leads()).await;
    assert!(!former.is_held());
    former.over().await;
}

/// What is asked in one term has no answer in the next.
#[tokio::test(start_paused = true)]
async fn a_request_under_way_ends_with_the_term() {
    let server = Server::default();
    let (first, _second) = two(&server).await;
    let leadership = first.leadership.lock().unwrap().clone().unwrap();
    let silent = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let seed = Seed::unlimited(Client::new(silent, "default")).led_by(leadership);
    server.set(Fate::Failed);
    sleep(Duration::from_secs(7)).await;
    assert!(first.leads());
    let asked = Instant::now();
    let request = Request::get("/").body(Vec::new()).unwrap();
    let answered = seed.call(seed.client().request::<Value>(request)).await;
    assert!(
        matches!(answered, Err(CallError::NotLeading)),
        "{answered:?}"
    );
    assert!(asked.elapsed() < Duration::from_secs(4));
}

/// The next term must not begin beside what is left of this one.
#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_with_its_term_ends_the_process() {
    let server = Server::default();
    let mut elector = Elector::new(server.client(), "garden", "lease", times());
    let never = CancellationToken::new();
    let cut_off = server.clone();
    let lead = elector.stand(&never, async |elected: Elected| {
        let term = elected.term().await;
        cut_off.set(Fate::Failed);
        term.stop.cancelled().await;
        std::future::pending::<()>().await;
    });
    let began = Instant::now();
    let stuck = lead.await.unwrap_err().to_string();
    assert!(stuck.contains("has not ended within 10s"), "{stuck}");
    let after = began.elapsed();
    let expected = Duration::from_secs(10) + WORK_ENDS;
    assert!(after <= expected + Duration::from_secs(1), "{after:?}");
}

/// It leads at each moment of this time.
async fn keeps_leading(replica: &Replica, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        sleep(Duration::from_millis(100)).await;
        assert!(replica.leads());
    }
}

/// Of the connections to the seed that are kept, some may be dead: the next try goes over another one.
#[tokio::test(start_paused = true)]
async fn two_requests_that_are_never_answered_cost_no_leadership() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    let lost = [Fate::AnswerLost, Fate::AnswerLost];
    server.0.lock().unwrap().fates.extend(lost);
    // The second does not ask meanwhile.
    second.freeze(true);
    keeps_leading(&first, Duration::from_secs(20)).await;
    assert!(server.0.lock().unwrap().fates.is_empty());
}

/// Each write takes 3 s of the 10 s, as where etcd is slow to write.
#[tokio::test(start_paused = true)]
async fn slow_writes_cost_no_leadership() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    second.freeze(true);
    // Whatever it has just sent is over.
    sleep(Duration::from_millis(100)).await;
    let slow = [Fate::Served, Fate::Late(3)].repeat(10);
    server.0.lock().unwrap().fates.extend(slow);
    keeps_leading(&first, Duration::from_secs(60)).await;
    assert!(server.0.lock().unwrap().fates.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_does_not_make_a_second_leader() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    for _ in 0..20 {
        server.0.lock().unwrap().lease = None;
        for _ in 0..50 {
            sleep(Duration::from_millis(70)).await;
            assert!(first.leads() && !second.leads());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_stopped_while_it_waits_leaves_the_lease_alone() {
    let server = Server::default();
    let (first, second) = two(&server).await;
    let holder = server.holder();
    second.stop.cancel();
    assert_eq!(second.task.await.unwrap(), Ok(Ended::Stopped));
    assert_eq!(server.holder(), holder);
    assert!(first.leads());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_show_that_it_holds_the_lease_does_not_lead() {
    let server = Server::default();
    server.set(Fate::Pretended);
    let first = Replica::start(&server);
    sleep(Duration::from_secs(60)).await;
    assert!(!first.leads());
    server.set(Fate::Served);
    until(|| first.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn who_cannot_read_the_lease_is_not_ready() {
    let server = Server::default();
    let mut elector = Elector::new(server.client(), "garden", "lease", times());
    let check = elector.check();
    assert!(check().unwrap_err().contains("yet"));
    // Somebody else leads: that is fine.
    let (_first, second) = two(&server).await;
    let stands = tokio::spawn(async move {
        let never = CancellationToken::new();
        elector.stand(&never, Elected::term).await
    });
    sleep(Duration::from_secs(5)).await;
    assert_eq!(check(), Ok(()));
    drop(second);
    server.set(Fate::Failed);
    sleep(Duration::from_secs(20)).await;
    let why = check().unwrap_err();
    assert!(why.contains("for 1") || why.contains("for 2"), "{why}");
    stands.abort();
}

#[tokio::test(start_paused = true)]
async fn to_give_the_lease_back_does_not_outlast_the_grace_of_the_pod() {
    let server = Server::default();
    let hour = Duration::from_secs(3_600);
    let times = Times::new(2 * hour, hour, Duration::from_secs(2)).unwrap();
    let mut elector = Elector::new(server.client(), "garden", "lease", times);
    let lost = server.clone();
    let never = CancellationToken::new();
    let lead = elector.stand(&never, async |elected: Elected| {
        elected.term().await;
        lost.set(Fate::AnswerLost);
    });
    let began = Instant::now();
    assert_eq!(lead.await, Ok(Ended::Done(())));
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
}

/// It stands in the Lease, in logs and in what `explain` shows, whatever the environment says.
#[test]
fn an_identity_is_a_short_word_and_nobody_elses() {
    for (host, begin) in [
        (Some("prober-0"), "prober-0_"),
        (Some("a\n\u{1b}[31m\u{202e}b"), "a [31m?b_"),
        (Some(""), "dependency-watchdog_"),
        (None, "dependency-watchdog_"),
    ] {
        let ours = identity(host);
        assert!(ours.starts_with(begin), "{ours:?}");
        assert_ne!(ours, identity(host));
    }
    let long = identity(Some(&"x".repeat(1_000_000)));
    assert_eq!(long.chars().count(), MAX_HOST + 1 + 16);
    assert!(long.chars().count() <= MAX_HOLDER, "it is shown whole");
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_the_lease_is_shown_in_a_line_that_ends() {
    let server = Server::default();
    let holder = "other\n\u{1b}[31m".to_owned() + &"x".repeat(100_000);
    server.0.lock().unwrap().lease = Some(json!({
        "metadata": {"resourceVersion": "1"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }));
    let mut elector = Elector::new(server.client(), "garden", "lease", times());
    let told = elector.try_once().await.unwrap_err().to_string();
    assert!(told.starts_with("other [31mxxx"), "{told:?}");
    assert!(told.chars().count() < MAX_HOLDER + 50, "{}", told.len());
}

#[test]
fn times_must_fit_together() {
    let new = |lease, deadline, retry| {
        let seconds = Duration::from_secs_f64;
        Times::new(seconds(lease), seconds(deadline), seconds(retry)).map_err(|e| e.to_string())
    };
    assert!(new(15.0, 10.0, 2.0).is_ok());
    assert!(new(4.0, 3.0, 2.0).is_ok());
    assert!(
        new(10.0, 10.0, 2.0)
            .unwrap_err()
            .contains("--leader-elect-lease-duration")
    );
    assert!(
        new(15.0, 2.0, 2.0)
            .unwrap_err()
            .contains("--leader-elect-retry-period")
    );
    // Others would take it to be over after 10 s.
    assert!(new(10.9, 10.5, 2.0).unwrap_err().contains("whole seconds"));
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Freeze(usize),
    Thaw(usize),
    Restart(usize),
    Stop(usize),
    Fate(Fate),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let fate = prop_oneof![
        3 => Just(Fate::Served),
        2 => (0_u64..8).prop_map(Fate::Slow),
        1 => Just(Fate::Failed),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Pretended),
    ];
    let event = prop_oneof![
        6 => (1_u64..20).prop_map(Event::Wait),
        1 => (0_usize..3).prop_map(Event::Freeze),
        2 => (0_usize..3).prop_map(Event::Thaw),
        1 => (0_usize..3).prop_map(Event::Restart),
        1 => (0_usize..3).prop_map(Event::Stop),
        2 => fate.prop_map(Event::Fate),
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is frozen, cut off, killed, slow or lost: at most one leads, and when all is well
    /// again somebody does.
    #[test]
    fn at_most_one_leads(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = Server::default();
            let mut replicas: Vec<_> = (0..3).map(|_| Replica::start(&server)).collect();
            let at_most_one = |replicas: &[Replica]| {
                assert!(replicas.iter().filter(|it| it.leads()).count() <= 1);
            };
            for event in events {
                match event {
                    Event::Wait(seconds) => {
                        for _ in 0..seconds * 4 {
                            sleep(Duration::from_millis(250)).await;
                            at_most_one(&replicas);
                        }
                    }
                    Event::Freeze(index) => replicas[index].freeze(true),
                    Event::Thaw(index) => replicas[index].freeze(false),
                    Event::Restart(index) => {
                        replicas[index].task.abort();
                        replicas[index] = Replica::start(&server);
                    }
                    Event::Stop(index) => replicas[index].stop.cancel(),
                    Event::Fate(fate) => server.set(fate),
                }
                at_most_one(&replicas);
            }
            server.set(Fate::Served);
            let fresh = Replica::start(&server);
            replicas.push(fresh);
            until(|| {
                at_most_one(&replicas);
                replicas.iter().any(Replica::leads)
            })
            .await;
        });
    }
}
