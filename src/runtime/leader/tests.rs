//! Candidates over a Lease on the model of an API server, in paused time.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use fake::{
    fault::{Fate, Rule},
    server::Server,
    store::{Key, Verb},
};
use futures::{pin_mut, poll};
use http::{Method, Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::advance};
use tower::service_fn;

use super::*;
use crate::runtime::seed::Seed;

const LEASE: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

fn times() -> Times {
    Times::new(LEASE, 10 * SECOND, 2 * SECOND).unwrap()
}

fn server() -> Server {
    Server::new(|| Timestamp::UNIX_EPOCH)
}

fn elector(server: &Server, times: Times) -> Elector {
    let connection = server.connect();
    let service = service_fn(move |request: Request<Body>| {
        let connection = connection.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            connection.call(Request::from_parts(head, body)).await
        }
    });
    Elector::new(Client::new(service, "default"), "garden", "lease", times)
}

/// A replica that works until it is stopped, and stands again when it has lost the Lease.
struct Replica {
    stop: CancellationToken,
    /// That of each candidacy so far, and whether what was begun in it has ended.
    candidacies: Arc<Mutex<Vec<(Leadership, CancellationToken)>>>,
    task: JoinHandle<Option<()>>,
}

impl Replica {
    fn start(server: &Server) -> Self {
        let (mut elector, stop) = (elector(server, times()), CancellationToken::new());
        let candidacies: Arc<Mutex<Vec<_>>> = Arc::default();
        let (given, stopped) = (candidacies.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let work = |leadership: Leadership| {
                let ended = CancellationToken::new();
                let candidacy = (leadership.clone(), ended.clone());
                given.lock().unwrap().push(candidacy);
                let stopped = stopped.clone();
                async move {
                    let _ended = ended.drop_guard();
                    leadership.begun().await;
                    stopped.cancelled().await;
                }
            };
            loop {
                if let Ok(done) = elector.stand(&stopped, work).await {
                    return done;
                }
            }
        });
        Self {
            stop,
            candidacies,
            task,
        }
    }

    fn leads(&self) -> bool {
        let candidacies = self.candidacies.lock().unwrap();
        candidacies.last().is_some_and(|(it, _)| it.is_held())
    }
}

/// How long it takes until this holds, in steps of 100 ms.
async fn until(holds: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < 120 * SECOND, "never");
        sleep(SECOND / 10).await;
    }
    start.elapsed()
}

/// Two replicas, of which the first leads.
async fn two(server: &Server) -> (Replica, Replica) {
    let first = Replica::start(server);
    until(|| first.leads()).await;
    let second = Replica::start(server);
    sleep(5 * SECOND).await;
    assert!(first.leads() && !second.leads());
    (first, second)
}

/// One that stood by has nothing to give back.
#[tokio::test(start_paused = true)]
async fn a_clean_end_hands_over_at_once() {
    let server = server();
    let (first, second) = two(&server).await;
    let third = Replica::start(&server);
    sleep(5 * SECOND).await;
    third.stop.cancel();
    assert_eq!(third.task.await.unwrap(), None);
    sleep(5 * SECOND).await;
    assert!(first.leads() && !second.leads());
    first.stop.cancel();
    assert_eq!(first.task.await.unwrap(), Some(()));
    let after = until(|| second.leads()).await;
    assert!(after < 3 * SECOND, "{after:?}");
}

/// Its work is dropped, and it stands again in the same process. What it was told in its first term is not true
/// again in another.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_can_lead() {
    let server = server();
    let (first, second) = two(&server).await;
    server.rule(Rule::always(Fate::Refuse(503, None), |_| true));
    let after = until(|| !first.leads()).await;
    assert!(after <= 11 * SECOND, "{after:?}");
    sleep(LEASE).await;
    assert!(!second.leads());
    server.heal();
    until(|| first.leads() || second.leads()).await;
    let candidacies = first.candidacies.lock().unwrap();
    assert_eq!(candidacies.len(), 2);
    let (former, ended) = &candidacies[0];
    assert!(!former.is_held() && ended.is_cancelled());
}

/// The term ends although the process could act for some seconds more.
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_taken_ends_the_term() {
    let server = server();
    let (first, _second) = two(&server).await;
    server.store(|store, now| {
        store.edit(&Key::new("leases", "garden", "lease"), now, |lease| {
            lease["spec"]["holderIdentity"] = json!("another");
        })
    });
    let after = until(|| !first.leads()).await;
    assert!(after <= 3 * SECOND, "{after:?}");
    let (former, ended) = first.candidacies.lock().unwrap()[0].clone();
    assert!(!former.is_held() && ended.is_cancelled());
}

/// Dead connections cost two reads at the most, and etcd may be slow to write.
#[rstest]
#[case(Fate::Hang { committed: false }, 2, Verb::Get)]
#[case(Fate::Late(3 * SECOND), usize::MAX, Verb::Update)]
#[tokio::test(start_paused = true)]
async fn a_seed_that_is_slow_costs_no_leadership(
    #[case] fate: Fate,
    #[case] times: usize,
    #[case] verb: Verb,
) {
    let server = server();
    let replica = Replica::start(&server);
    until(|| replica.leads()).await;
    let rule = Rule::always(fate, move |call| call.verb == verb);
    server.rule(Rule { times, ..rule });
    for _ in 0..300 {
        sleep(SECOND / 10).await;
        assert!(replica.leads());
    }
}

/// Others may have seen the renewal long before its answer came.
#[tokio::test(start_paused = true)]
async fn a_term_is_counted_from_the_start_of_the_renewal() {
    let server = server();
    let mut elector = elector(&server, Times::new(2 * LEASE, 12 * SECOND, SECOND).unwrap());
    server.rule(Rule::always(Fate::Late(2 * SECOND), |_| true));
    let began = Instant::now();
    elector.try_once().await.unwrap();
    assert_eq!(*elector.until.borrow(), Some(began + 12 * SECOND));
}

/// What a leader was about to ask when it was frozen is not asked when it goes on.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_by_who_does_not_lead() {
    let asked = Arc::new(AtomicBool::new(false));
    let sent = asked.clone();
    let service = service_fn(move |_: Request<Body>| {
        let sent = sent.clone();
        async move {
            // A connection is made first.
            sleep(5 * SECOND).await;
            sent.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let (until, held) = watch::channel(None);
    let seed = Seed::unlimited(Client::new(service, "default")).led_by(Leadership(Some(held)));
    let ask = || {
        let request = Request::get("/").body(Vec::new()).unwrap();
        seed.call(seed.client().request::<Value>(request))
    };
    assert!(matches!(ask().await, Err(CallError::NotLeading)));
    until.send_replace(Some(Instant::now() + 10 * SECOND));
    let asking = ask();
    pin_mut!(asking);
    assert!(poll!(&mut asking).is_pending());
    advance(10 * SECOND).await;
    assert!(matches!(asking.await, Err(CallError::NotLeading)));
    assert!(!asked.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn to_give_the_lease_back_does_not_outlast_the_grace_of_the_pod() {
    let (server, never) = (server(), CancellationToken::new());
    let hour = Duration::from_secs(3_600);
    let mut elector = elector(&server, Times::new(2 * hour, hour, SECOND).unwrap());
    let began = Instant::now();
    let ended = elector.stand(&never, async |leadership: Leadership| {
        leadership.begun().await;
        server.rule(Rule::always(Fate::Hang { committed: true }, |_| true));
    });
    assert_eq!(ended.await.unwrap(), Some(()));
    assert!(began.elapsed() < 6 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_the_lease_is_shown_in_a_line_that_ends() {
    let server = server();
    let holder = "other\n\u{1b}[31m".to_owned() + &"x".repeat(100_000);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lease", "namespace": "garden"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    });
    server.store(|store, now| store.put(now, lease));
    let mut elector = elector(&server, times());
    let check = elector.check();
    assert!(check().is_err());
    let told = elector.try_once().await.unwrap().unwrap();
    assert!(told.starts_with("other [31mxxx"), "{told:?}");
    assert!(told.chars().count() <= MAX_HOLDER + 1, "{}", told.len());
    // Who knows that another leads can stand for election.
    assert_eq!(check(), Ok(()));
    advance(LEASE + SECOND).await;
    assert!(check().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_the_lease_proves_nothing() {
    let service = service_fn(|request: Request<Body>| async move {
        let code = match *request.method() {
            Method::GET => 404,
            _ => 201,
        };
        let answer = Response::builder().status(code);
        Ok::<_, Infallible>(answer.body(Body::from(b"{}".to_vec())).unwrap())
    });
    let client = Client::new(service, "default");
    let mut elector = Elector::new(client, "garden", "lease", times());
    assert!(elector.try_once().await.is_err());
    assert_eq!(*elector.until.borrow(), None);
}

#[rstest]
#[case(15.0, 10.0, 2.0, true)]
#[case(4.0, 3.0, 2.0, true)]
#[case(10.0, 10.0, 2.0, false)]
#[case(15.0, 2.0, 2.0, false)]
// Others would take it to be over after 10 s.
#[case(10.9, 10.5, 2.0, false)]
fn times_must_fit_together(
    #[case] lease: f64,
    #[case] deadline: f64,
    #[case] retry: f64,
    #[case] fit: bool,
) {
    let [lease, deadline, retry] = [lease, deadline, retry].map(Duration::from_secs_f64);
    assert_eq!(Times::new(lease, deadline, retry).is_ok(), fit);
}
