use futures::future::join_all;
use rstest::rstest;
use tokio::time::{sleep, timeout};

use super::*;

/// The patience of a resolver whose servers do not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names whose resolver answers so, and the names that it was asked for.
fn names(answers: impl Fn(&str) -> Scripted + Send + Sync + 'static) -> (Names, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let resolver = move |host: Arc<str>| {
        noted.lock().push(host.to_string());
        let (delay, answer) = answers(&host);
        async move {
            sleep(delay).await;
            answer.map(|last| vec![address(last); 2 * ADDRESSES])
        }
    };
    (Names::new(resolver), asked)
}

/// After how long the resolver answers, and what: the last number of an address.
type Scripted = (Duration, io::Result<u8>);
type Asked = Arc<Mutex<Vec<String>>>;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 0))
}

fn addresses(last: u8) -> Addresses {
    [address(last); ADDRESSES].into()
}

fn fails(after: Duration) -> Scripted {
    (after, Err(io::Error::other("try again")))
}

fn by_name(host: &str) -> Scripted {
    match host.starts_with("hangs") {
        true => fails(PATIENCE),
        false => (Duration::ZERO, Ok(1)),
    }
}

/// The second lookup of a name answers so: what who may use the first answer then gets, and when; and whether
/// the others are told of a failure.
#[rstest]
#[case::moved((SOON / 2, Ok(2)), 2, SOON / 2, false)]
#[case::fails_at_once(fails(Duration::ZERO), 1, Duration::ZERO, true)]
#[case::fails_soon(fails(SOON / 2), 1, SOON / 2, true)]
#[case::hangs(fails(PATIENCE), 1, SOON, true)]
#[case::late((PATIENCE, Ok(2)), 1, SOON, false)]
#[tokio::test(start_paused = true)]
async fn the_last_addresses_are_used(
    #[case] second: Scripted,
    #[case] expected: u8,
    #[case] after: Duration,
    #[case] told: bool,
) {
    let answers = Mutex::new(vec![second, (Duration::ZERO, Ok(1))]);
    let (names, _) = names(move |_| answers.lock().pop().unwrap());
    assert_eq!(names.look_up_or_last("a").await.unwrap(), addresses(1));
    let begun = Instant::now();
    let ours = async {
        let found = names.look_up_or_last("a").await.unwrap();
        (found, begun.elapsed())
    };
    let (ours, others) = tokio::join!(ours, names.look_up("a"));
    assert_eq!(ours, (addresses(expected), after));
    assert_eq!(others.is_err(), told, "{others:?}");
}

/// However often it is asked for, a name takes one turn; and however many names hang, they take few.
#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_does_not_stop_other_names() {
    let (names, asked) = names(by_name);
    let hang = async |number: usize| {
        let host = format!("hangs-{number}");
        let lookups = (0..3).map(|_| names.look_up(&host));
        timeout(SOON, join_all(lookups)).await.unwrap_err();
    };
    join_all((1..LOOKUPS).map(hang)).await;
    assert_eq!(asked.lock().len(), LOOKUPS - 1);
    names.look_up("known").await.unwrap();
    hang(LOOKUPS).await;

    // There is no turn any more: who is known goes on, and who is not keeps the place.
    assert_eq!(names.look_up_or_last("known").await.unwrap(), addresses(1));
    timeout(SOON, names.look_up("new")).await.unwrap_err();
    assert_eq!(names.look_up("later").await.unwrap(), addresses(1));
    assert_eq!(asked.lock()[LOOKUPS + 1..], ["known", "new", "later"]);

    // What hung is told to all who waited, and looked up anew for who asks then.
    let both = tokio::join!(names.look_up("hangs-1"), names.look_up("hangs-1"));
    assert_eq!(both.0.unwrap_err().to_string(), "try again");
    assert_eq!(both.1.unwrap_err().to_string(), "try again");
    assert_eq!(asked.lock()[LOOKUPS + 4..], ["hangs-1"]);
}

#[tokio::test(start_paused = true)]
async fn few_names_are_remembered() {
    let (names, _) = names(by_name);
    for number in 0..2 * REMEMBERED {
        names.look_up(&number.to_string()).await.unwrap();
        assert!(names.known.lock().len() <= REMEMBERED);
    }
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let names = Names::default();
    let found = names.look_up("localhost").await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|it| it.ip().is_loopback()));
    names.look_up("no-such-host.invalid").await.unwrap_err();
}

/// Tests share what is static, and each has a runtime of its own.
#[test]
fn a_lookup_that_ended_with_its_runtime_is_begun_anew() {
    let (names, _) = names(by_name);
    let run = |limit| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { timeout(limit, names.look_up("a")).await.is_ok() })
    };
    assert!(!run(Duration::ZERO));
    assert!(run(PATIENCE));
}
