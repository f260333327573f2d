use std::collections::BTreeSet;

use futures::future::join_all;
use tokio::{
    sync::SemaphorePermit,
    time::{sleep, timeout},
};

use super::*;

/// The patience of a resolver whose servers do not answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long after any lookup has ended. The clock jumps.
const LATER: Duration = Duration::from_secs(3_600);

/// Takes all turns for as long as the value lives.
pub(crate) async fn take_all(names: &Names) -> SemaphorePermit<'_> {
    let all = LOOKUPS.try_into().unwrap();
    names.0.turns.acquire_many(all).await.unwrap()
}

/// Names whose resolver answers this of each, and the names that it was asked for.
fn names(
    remembered: usize,
    answers: impl Fn(&str) -> Scripted + Send + Sync + 'static,
) -> (Names, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let resolver = move |host: Arc<str>| {
        noted.0.lock().unwrap().push(host.to_string());
        let (delay, answer) = answers(&host);
        async move {
            sleep(delay).await;
            answer
        }
    };
    (Names::new(resolver, remembered), asked)
}

/// After how long the resolver answers, and what.
type Scripted = (Duration, io::Result<Vec<SocketAddr>>);

#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn at_once() -> Scripted {
    (Duration::ZERO, Ok(vec![address(0)]))
}

fn hangs() -> Scripted {
    (PATIENCE, Err(io::Error::other("try again")))
}

async fn look_up(names: &Names, host: &str) -> io::Result<Vec<SocketAddr>> {
    timeout(LATER, names.look_up(host, 443)).await.unwrap()
}

/// However many names hang, they take few turns, and nobody who waits is kept.
#[tokio::test(start_paused = true)]
async fn a_dns_that_hangs_takes_few_turns() {
    let (names, asked) = names(0, |_| hangs());
    let hosts: Vec<String> = (0..1000).map(|it| format!("api-{it}")).collect();
    let lookups = hosts.iter().map(|host| names.look_up(host, 443));
    let lookups = lookups.map(|it| timeout(Duration::from_secs(5), it));
    assert!(join_all(lookups).await.iter().all(Result::is_err));
    assert_eq!(asked.take().len(), LOOKUPS);
    assert_eq!(names.0.turns.available_permits(), 0);
    // They end, and give back what they took.
    drop(timeout(LATER, take_all(&names)).await.unwrap());
}

/// However often it is asked for.
#[tokio::test(start_paused = true)]
async fn a_name_that_hangs_takes_one_turn() {
    let (names, asked) = names(0, |host| match host {
        "hangs" => hangs(),
        _ => at_once(),
    });
    let mut failed = Vec::new();
    for _ in 0..LOOKUPS {
        let waiting = names.clone();
        failed.push(tokio::spawn(
            async move { look_up(&waiting, "hangs").await },
        ));
        let given_up = timeout(Duration::from_millis(10), names.look_up("hangs", 443));
        given_up.await.unwrap_err();
    }
    assert_eq!(names.0.turns.available_permits(), LOOKUPS - 1);
    assert_eq!(look_up(&names, "lives").await.unwrap(), [address(443)]);
    assert_eq!(asked.take(), ["hangs", "lives"]);
    // All who waited are told the same, and who asks then has it looked up anew.
    for failed in failed {
        let error = failed.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "try again");
    }
    look_up(&names, "hangs").await.unwrap_err();
    assert_eq!(asked.take(), ["hangs"]);
}

/// Who gives up keeps the place in the queue: else a queue that is longer than the patience of those
/// in it would never end.
#[tokio::test(start_paused = true)]
async fn who_asks_again_is_not_put_behind() {
    let (names, asked) = names(0, |_| at_once());
    let others = take_all(&names).await;
    let soon = Duration::from_secs(3);
    timeout(soon, names.look_up("first", 443))
        .await
        .unwrap_err();
    timeout(soon, names.look_up("second", 443))
        .await
        .unwrap_err();
    drop(others);
    let both = tokio::join!(look_up(&names, "second"), look_up(&names, "first"));
    assert!(both.0.is_ok() && both.1.is_ok());
    assert_eq!(asked.take(), ["first", "second"]);
}

/// Kubeconfigs that name another host at each read do not keep others waiting for good.
#[tokio::test(start_paused = true)]
async fn what_nobody_wants_any_more_takes_no_turn() {
    let (names, asked) = names(0, |_| at_once());
    let others = take_all(&names).await;
    let waiting = names.clone();
    let patient = tokio::spawn(async move { look_up(&waiting, "patient").await });
    let soon = Duration::from_secs(3);
    for host in ["left", "retried"] {
        let given_up = timeout(soon, names.look_up(host, 443));
        given_up.await.unwrap_err();
    }
    sleep(WANTED - soon).await;
    let given_up = timeout(soon, names.look_up("retried", 443));
    given_up.await.unwrap_err();
    // Who waits wants it, and who is to be expected again.
    drop(others);
    patient.await.unwrap().unwrap();
    look_up(&names, "new").await.unwrap();
    assert_eq!(asked.take(), ["patient", "retried", "new"]);
    assert!(names.known().under_way.is_empty());
    look_up(&names, "left").await.unwrap();
    assert_eq!(asked.take(), ["left"]);
}

/// Healthy shoots whose connections are lost while the names of others take all turns.
#[tokio::test(start_paused = true)]
async fn the_last_addresses_are_used_while_there_is_no_turn() {
    let (names, asked) = names(8, |_| at_once());
    look_up(&names, "known").await.unwrap();
    let others = take_all(&names).await;
    let begun = Instant::now();
    assert_eq!(look_up(&names, "known").await.unwrap(), [address(443)]);
    assert_eq!(begun.elapsed(), SOON);
    // The second try of a read does not wait again.
    assert_eq!(look_up(&names, "known").await.unwrap(), [address(443)]);
    assert_eq!(begun.elapsed(), SOON);
    // Nothing is known of this one.
    let waiting = names.look_up("unknown", 443);
    timeout(PATIENCE, waiting).await.unwrap_err();
    drop(others);
    look_up(&names, "unknown").await.unwrap();
    assert_eq!(asked.take(), ["known", "known", "unknown"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_addresses_are_used_while_there_is_no_answer() {
    let away = Arc::new(Mutex::new(None));
    let script = away.clone();
    let (names, _) = names(8, move |_| match *script.lock().unwrap() {
        None => at_once(),
        Some(0) => hangs(),
        Some(moved) => (Duration::ZERO, Ok(vec![address(moved)])),
    });
    look_up(&names, "known").await.unwrap();
    *away.lock().unwrap() = Some(0);
    for _ in 0..5 {
        assert_eq!(look_up(&names, "known").await.unwrap(), [address(443)]);
        sleep(PATIENCE * 3 / 4).await;
    }
}

/// New addresses that it says in time are believed; a failure is none.
#[tokio::test(start_paused = true)]
async fn an_answer_replaces_the_last() {
    let moved = SocketAddr::from(([10, 0, 0, 2], 0));
    let answers = Arc::new(Mutex::new(vec![
        Err(io::Error::other("no such name")),
        Ok(vec![moved; 2 * ADDRESSES]),
        at_once().1,
    ]));
    let (names, _) = names(8, move |_| {
        let next = answers.lock().unwrap().pop();
        next.map_or_else(hangs, |answer| (SOON / 2, answer))
    });
    assert_eq!(look_up(&names, "known").await.unwrap(), [address(443)]);
    let moved = SocketAddr::new(moved.ip(), 443);
    assert_eq!(look_up(&names, "known").await.unwrap().len(), 2 * ADDRESSES);
    let begun = Instant::now();
    let last = vec![moved; ADDRESSES];
    assert_eq!(look_up(&names, "known").await.unwrap(), last);
    assert_eq!(begun.elapsed(), SOON / 2, "it failed");
    assert_eq!(look_up(&names, "known").await.unwrap(), last);
    assert_eq!(begun.elapsed(), SOON / 2 + SOON, "it hangs");
}

/// Those that were asked for longest ago are forgotten, whether they are looked up or not.
#[tokio::test(start_paused = true)]
async fn few_names_are_remembered() {
    let (names, _) = names(2, |_| at_once());
    for host in ["a", "b", "a", "c"] {
        sleep(SOON).await;
        look_up(&names, host).await.unwrap();
    }
    let known = names.known();
    let last: BTreeSet<&str> = known.last.keys().map(|host| &**host).collect();
    assert_eq!(last, BTreeSet::from(["a", "c"]));
    assert!(known.under_way.is_empty());
}

/// Whenever the answer came.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_makes_no_name_newer() {
    let (names, _) = names(2, |host| match host {
        "slow" => (PATIENCE, at_once().1),
        _ => at_once(),
    });
    let given_up = timeout(SOON, names.look_up("slow", 443));
    given_up.await.unwrap_err();
    look_up(&names, "a").await.unwrap();
    sleep(PATIENCE).await;
    look_up(&names, "b").await.unwrap();
    let known = names.known();
    let last: BTreeSet<&str> = known.last.keys().map(|host| &**host).collect();
    assert_eq!(last, BTreeSet::from(["a", "b"]));
}

/// Not by checks, which ask whether somebody answers, not who it is.
#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_unless_it_is_asked_for() {
    let (names, _) = names(Names::default().0.remembered, |_| at_once());
    look_up(&names, "known").await.unwrap();
    let _others = take_all(&names).await;
    let waiting = names.look_up("known", 443);
    timeout(PATIENCE, waiting).await.unwrap_err();
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let names = Names::default();
    let found = names.look_up("localhost", 80).await.unwrap();
    let local = |it: &SocketAddr| it.ip().is_loopback() && it.port() == 80;
    assert!(!found.is_empty() && found.iter().all(local));
    names.look_up("no-such-host.invalid", 80).await.unwrap_err();
}

/// Tests share what is static, and each has a runtime of its own.
#[test]
fn a_lookup_that_ended_with_its_runtime_is_begun_anew() {
    let (names, _) = names(0, |_| at_once());
    let run = |limit| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { timeout(limit, names.look_up("a", 443)).await.is_ok() })
    };
    assert!(!run(Duration::ZERO));
    assert!(run(LATER));
}
