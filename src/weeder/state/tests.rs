use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{health::PodNews, weeder::news::Opening};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// A state that has listed everything, and a clock.
struct Bench {
    state: State,
    now: Now,
    version: u64,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A policy for one minute: the service, and the label `app` of the pods that need it.
fn policy(name: &str, service: &str, app: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "WeedPolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1},
        "spec": {
            "watchDuration": "1m",
            "servicesAndDependantSelectors": {
                service: {"podSelectors": [{"matchLabels": {"app": app}}]},
            },
        },
    });
    change(&mut policy);
    policy
}

fn plain(name: &str) -> Value {
    policy(name, "etcd", "api", |_| ())
}

fn dry_run(name: &str) -> Value {
    policy(name, "etcd", "api", |it| {
        it["spec"]["mode"] = json!("DryRun")
    })
}

fn pod(namespace: &str, name: &str, version: u64, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-1", "uid": "r",
                "controller": true,
            }],
        },
        "status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]},
    });
    change(&mut pod);
    object(pod)
}

fn terminating(pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
}

/// A pod of a controller of its own.
fn of_its_own(pod: &mut Value) {
    pod["metadata"]["ownerReferences"][0]["uid"] = pod["metadata"]["uid"].clone();
}

fn orphan(pod: &mut Value) {
    pod["metadata"]["ownerReferences"] = json!([]);
}

impl Bench {
    fn new(namespaces: &[&str], policies: &[Value]) -> Self {
        let mut bench = Self {
            state: State::default(),
            now: Now {
                instant: Instant::now(),
                time: Timestamp::UNIX_EPOCH,
            },
            version: 0,
        };
        bench.state.namespace_event(Event::Init, bench.now);
        for namespace in namespaces {
            let namespace = object(json!({"metadata": {"name": namespace}}));
            let event = Event::InitApply(namespace);
            bench.state.namespace_event(event, bench.now);
        }
        bench.state.namespace_event(Event::InitDone, bench.now);
        bench.state.policy_event(Event::Init, bench.now);
        for policy in policies {
            let event = Event::InitApply(object(policy.clone()));
            bench.state.policy_event(event, bench.now);
        }
        bench.state.policy_event(Event::InitDone, bench.now);
        bench.slice(Event::Init);
        bench.slice(Event::InitDone);
        assert!(bench.state.listed());
        bench
    }

    /// In the namespace `ns`, with one policy, whose service has just recovered, and its watch.
    fn weeding(policies: &[Value]) -> (Self, PodWatch) {
        let mut bench = Self::new(&["ns"], policies);
        bench.ready("ns", "etcd", true);
        let watch = bench.watch();
        bench.list(&watch, vec![]);
        bench.state.take_news();
        (bench, watch)
    }

    fn watch(&self) -> PodWatch {
        self.state.pod_watches().first().unwrap().clone()
    }

    fn slice(&mut self, event: Event<EndpointSlice>) {
        let names = self.state.service_names().clone();
        self.state.slice_event(&names, event, self.now);
    }

    fn ready(&mut self, namespace: &str, service: &str, ready: bool) {
        self.version += 1;
        self.slice(Event::Apply(object(json!({
            "metadata": {
                "name": service,
                "namespace": namespace,
                "resourceVersion": self.version.to_string(),
                "labels": {super::super::slice::SERVICE_LABEL: service},
            },
            "endpoints": [{"conditions": {"ready": ready}}],
        }))));
    }

    fn policy(&mut self, policy: Value) {
        let event = Event::Apply(object(policy));
        self.state.policy_event(event, self.now);
    }

    fn list(&mut self, watch: &PodWatch, pods: Vec<Pod>) {
        self.state.pod_event(watch, Event::Init, self.now);
        for pod in pods {
            self.state.pod_event(watch, Event::InitApply(pod), self.now);
        }
        self.state.pod_event(watch, Event::InitDone, self.now);
    }

    fn show(&mut self, watch: &PodWatch, pod: Pod) {
        self.state.pod_event(watch, Event::Apply(pod), self.now);
    }

    fn next(&mut self) -> Option<Deletion> {
        self.state.next_deletion(self.now)
    }

    fn end(&mut self, deletion: Deletion, result: Result<(), DeletionError>) {
        self.state.deletion_ended(deletion, result, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.time += SignedDuration::try_from(time).unwrap();
        self.state.tick(self.now);
    }

    /// What is told of pods, in short.
    fn told(&mut self) -> Vec<String> {
        let short = |news: PodNews| {
            let deed = match news.what {
                PodDeed::Weeded { .. } => "weeded".to_owned(),
                PodDeed::WouldWeed { .. } => "would weed".to_owned(),
                PodDeed::LeftAlone { reason, .. } => reason.to_owned(),
                PodDeed::Refused { message } => message,
            };
            format!("{} for {}: {deed}", news.pod, news.policy)
        };
        let news = self.state.take_news().into_iter();
        news.filter_map(|news| match news {
            News::Pod { news, .. } => Some(short(news)),
            _ => None,
        })
        .collect()
    }

    fn report(&self) -> WeedReport {
        self.state.reports().remove(0)
    }
}

fn weed(name: &str) -> Pod {
    pod("ns", name, 1, |_| ())
}

#[test]
fn a_looping_pod_is_deleted_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.pass(5 * SECOND);
    bench.show(&watch, weed("p"));
    bench.pass(2 * SECOND);
    assert!(bench.state.may_delete());
    let deletion = bench.next().unwrap();
    assert_eq!((&*deletion.pod, &*deletion.resource_version), ("p", "1"));
    assert_eq!((&*deletion.policy, &*deletion.service), ("a", "etcd"));
    bench.end(deletion, Ok(()));
    // The watch lags.
    bench.show(&watch, pod("ns", "p", 1, |_| ()));
    assert_eq!(bench.next(), None);
    let news = bench.state.take_news();
    let [News::Pod { news, looped_for }] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!(*looped_for, 2 * SECOND);
    let expected = PodDeed::Weeded {
        containers: vec!["c".into()],
        ready_for: 7 * SECOND,
    };
    assert_eq!(news.what, expected);
    let report = bench.report();
    assert_eq!((report.weeded, report.last_weeds.len()), (1, 1));
    assert_eq!(report.last_weeds[0].owner, "ReplicaSet/api-1");
    bench
        .state
        .pod_event(&watch, Event::Delete(weed("p")), bench.now);
    assert_eq!(
        (bench.state.sizes().pods, bench.state.sizes().tried),
        (0, 0)
    );
}

#[test]
fn a_pod_loops_since_it_was_first_seen_to() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    let first = bench.now.instant;
    bench.show(&watch, weed("p"));
    bench.pass(2 * SECOND);
    bench.show(&watch, pod("ns", "p", 2, |_| ()));
    assert_eq!(bench.next().unwrap().looping_since, first);
}

#[test]
fn a_window_that_opens_under_a_listed_watch_finds_what_it_remembers() {
    let both = policy("a", "etcd", "api", |it| {
        let services = &mut it["spec"]["servicesAndDependantSelectors"];
        services["dns"] = services["etcd"].clone();
    });
    let (mut bench, watch) = Bench::weeding(&[dry_run("d"), both]);
    bench.show(&watch, weed("p"));
    bench.pass(30 * SECOND);
    bench.ready("ns", "dns", true);
    // The windows for etcd are over, and that for dns is not; nothing is listed again.
    bench.pass(30 * SECOND);
    assert_eq!(bench.state.sizes().windows, 1);
    assert_eq!(bench.watch(), watch);
    assert_eq!(&*bench.next().unwrap().service, "dns");
}

#[rstest]
#[case::both_enforce(plain("a"), plain("b"), "b")]
#[case::dry_run_came_first(plain("a"), dry_run("b"), "a")]
#[case::dry_run_came_last(dry_run("a"), plain("b"), "b")]
fn the_window_that_came_first_is_credited(
    #[case] last: Value,
    #[case] first: Value,
    #[case] credited: &str,
) {
    let (mut bench, watch) = Bench::weeding(&[first]);
    bench.pass(SECOND);
    bench.policy(last);
    bench.show(&watch, weed("p"));
    assert_eq!(bench.state.pod_watches().len(), 1, "both share a watch");
    let deletion = bench.next().unwrap();
    assert_eq!(&*deletion.policy, credited);
    bench.end(deletion, Ok(()));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.told(), [format!("p for {credited}: weeded")]);
}

#[test]
fn a_dry_run_tells_once_of_each_pod() {
    let (mut bench, watch) = Bench::weeding(&[dry_run("a")]);
    bench.show(&watch, weed("p"));
    bench.show(&watch, pod("ns", "p", 2, |it| it["status"] = json!({})));
    bench.show(&watch, pod("ns", "p", 3, |_| ()));
    assert_eq!(bench.told(), ["p for a: would weed"]);
    assert_eq!(bench.next(), None);
    let report = bench.report();
    assert_eq!(report.weeded, 0);
    assert!(report.last_weeds[0].dry_run);
    // It is deleted when it may be.
    bench.policy(plain("a"));
    assert_eq!(&*bench.next().unwrap().resource_version, "3");
}

#[test]
fn what_nothing_would_replace_is_left_alone_and_told_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a"), plain("b")]);
    bench.show(&watch, pod("ns", "p", 1, orphan));
    bench.show(&watch, pod("ns", "p", 2, orphan));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.told(), ["p for a: NoController"]);
    // Windows that are opened again come across it again, and show it once.
    bench.ready("ns", "etcd", false);
    bench.ready("ns", "etcd", true);
    let watch = bench.watch();
    bench.pass(SECOND);
    bench.list(&watch, vec![pod("ns", "p", 2, orphan)]);
    let left = bench.report().left_alone;
    assert_eq!(left.len(), 1);
    assert_eq!((&*left[0].pod, &*left[0].reason), ("p", "NoController"));
    assert_eq!(left[0].time.0, bench.now.time);
}

#[test]
fn what_has_changed_is_decided_by_its_next_version() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Changed));
    // A watch that lags tells the same version again.
    bench.show(&watch, weed("p"));
    bench.pass(30 * SECOND);
    assert_eq!(bench.next(), None);
    bench.show(&watch, pod("ns", "p", 2, |_| ()));
    let deletion = bench.next().unwrap();
    assert_eq!(&*deletion.resource_version, "2");
    // The next one is known before the answer.
    bench.show(&watch, pod("ns", "p", 3, |_| ()));
    bench.end(deletion, Err(DeletionError::Changed));
    assert_eq!(&*bench.next().unwrap().resource_version, "3");
    assert_eq!(bench.told(), [""; 0]);
}

#[test]
fn what_is_refused_is_tried_again_ever_more_slowly_and_told_once() {
    let (mut bench, watch) = Bench::weeding(&[policy("a", "etcd", "api", |it| {
        it["spec"]["watchDuration"] = json!("1h");
    })]);
    bench.show(&watch, weed("p"));
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        let deletion = bench.next().unwrap();
        bench.end(deletion, Err(DeletionError::Refused("no (403)".to_owned())));
        assert_eq!(bench.state.due(), Some(bench.now.instant + wait * SECOND));
        bench.pass(wait * SECOND - Duration::from_millis(1));
        assert_eq!(bench.next(), None);
        bench.pass(Duration::from_millis(1));
    }
    assert_eq!(bench.told(), ["p for a: delete pod ns/p: no (403)"]);
    let troubles = bench.report().troubles;
    assert_eq!(troubles.len(), 1);
    assert_eq!(troubles[0].reason, "DeletionRefused");
    let deletion = bench.next().unwrap();
    bench.end(deletion, Ok(()));
    assert_eq!(bench.report().troubles, []);
}

#[rstest]
#[case::as_asked(Some(7), 7)]
#[case::no_longer_than_that(Some(900), 30)]
#[case::not_at_once(Some(0), 1)]
#[case::not_said(None, 1)]
fn what_is_throttled_waits(#[case] asked: Option<u64>, #[case] seconds: u32) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    let asked = asked.map(Duration::from_secs);
    bench.end(deletion, Err(DeletionError::Throttled(asked)));
    assert_eq!(
        bench.state.due(),
        Some(bench.now.instant + seconds * SECOND)
    );
}

#[test]
fn what_does_not_loop_any_more_is_not_tried_again() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Refused("no".to_owned())));
    bench.show(&watch, pod("ns", "p", 2, |it| it["status"] = json!({})));
    bench.pass(10 * SECOND);
    assert_eq!(bench.next(), None);
}

/// What becomes of a pod after a lost answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    Gone,
    Terminates,
    NotFound,
    GoneBefore,
    TerminatesBefore,
}

#[rstest]
fn a_lost_answer_counts_if_the_pod_went(
    #[values(
        Then::Gone,
        Then::Terminates,
        Then::NotFound,
        Then::GoneBefore,
        Then::TerminatesBefore
    )]
    then: Then,
) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    let lost = || Err(DeletionError::Unanswered("no answer".to_owned()));
    let gone = |bench: &mut Bench| {
        bench
            .state
            .pod_event(&watch, Event::Delete(weed("p")), bench.now);
    };
    match then {
        Then::GoneBefore => gone(&mut bench),
        Then::TerminatesBefore => bench.show(&watch, pod("ns", "p", 2, terminating)),
        _ => {}
    }
    bench.end(deletion, lost());
    bench.told();
    match then {
        Then::Gone => gone(&mut bench),
        Then::Terminates => bench.show(&watch, pod("ns", "p", 2, terminating)),
        Then::NotFound => {
            bench.pass(SECOND);
            let again = bench.next().unwrap();
            bench.end(again, Err(DeletionError::Gone));
        }
        Then::GoneBefore | Then::TerminatesBefore => {}
    }
    assert_eq!(bench.report().weeded, 1, "{then:?}");
    gone(&mut bench);
    bench.pass(MINUTE);
    assert_eq!((bench.next(), bench.report().weeded), (None, 1));
    assert_eq!(bench.state.sizes(), Sizes::default());
}

#[test]
fn a_pod_whose_second_deletion_is_answered_counts_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(
        deletion,
        Err(DeletionError::Unanswered("no answer".to_owned())),
    );
    bench.pass(SECOND);
    let again = bench.next().unwrap();
    bench.end(again, Ok(()));
    bench.show(&watch, pod("ns", "p", 2, terminating));
    assert_eq!(bench.report().weeded, 1);
}

#[test]
fn a_pod_that_goes_while_it_is_asked_for_again_counts_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(
        deletion,
        Err(DeletionError::Unanswered("no answer".to_owned())),
    );
    bench.pass(SECOND);
    let again = bench.next().unwrap();
    bench.show(&watch, pod("ns", "p", 2, terminating));
    assert_eq!(bench.report().weeded, 1);
    bench.end(again, Ok(()));
    assert_eq!(bench.report().weeded, 1);
}

#[test]
fn a_pod_that_a_new_list_shows_well_is_not_taken_for_gone() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(
        deletion,
        Err(DeletionError::Unanswered("no answer".to_owned())),
    );
    bench.list(
        &watch,
        vec![pod("ns", "p", 2, |it| it["status"] = json!({}))],
    );
    assert_eq!(bench.report().weeded, 0);
    assert_eq!(bench.state.sizes().pods, 1);
}

#[test]
fn what_is_gone_without_us_is_not_counted() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Gone));
    assert_eq!((bench.next(), bench.report().weeded), (None, 0));
    assert_eq!(bench.told(), [""; 0]);
}

#[test]
fn a_window_ends_on_time_whatever_comes_late() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    assert_eq!(bench.state.due(), Some(bench.now.instant + MINUTE));
    // Nobody has called: what is told now is told after its end.
    bench.now.instant += MINUTE;
    bench.show(&watch, weed("p"));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state.sizes(), Sizes::default());
}

#[test]
fn a_pod_that_waits_when_its_window_ends_is_kept() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    bench.now.instant += MINUTE;
    assert_eq!(bench.next(), None);
}

#[rstest]
#[case::shorter("30s", 30)]
#[case::longer("2m", 120)]
fn another_duration_applies_at_once_and_opens_nothing(#[case] lasts: &str, #[case] ends: u32) {
    let other = |name| {
        policy(name, "etcd", "api", |it| {
            it["spec"]["watchDuration"] = json!(lasts)
        })
    };
    let (mut bench, _) = Bench::weeding(&[plain("a")]);
    let opened = bench.now.instant;
    bench.pass(10 * SECOND);
    bench.policy(other("a"));
    assert_eq!(bench.state.due(), Some(opened + ends * SECOND));
    bench.pass(MINUTE * 3);
    bench.policy(plain("a"));
    assert_eq!(bench.state.sizes().windows, 0);
}

#[test]
fn other_selectors_apply_at_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    bench.policy(policy("a", "etcd", "kcm", |_| ()));
    assert_eq!(bench.next(), None);
    let [watch] = &Vec::from_iter(bench.state.pod_watches().clone())[..] else {
        panic!("one watch");
    };
    assert_eq!(watch.selector.as_str(), "app=kcm");
    bench.list(watch, vec![weed("q")]);
    assert_eq!(&*bench.next().unwrap().pod, "q");
}

#[test]
fn a_namespace_that_a_changed_policy_selects_is_new_to_it() {
    let selecting = |operator: &str| {
        policy("a", "etcd", "api", |it| {
            it["spec"]["namespaceSelector"] =
                json!({"matchExpressions": [{"key": "zone", "operator": operator}]});
        })
    };
    let mut bench = Bench::new(&["ns"], &[selecting("Exists")]);
    bench.ready("ns", "etcd", true);
    assert_eq!(bench.state.sizes().windows, 0);
    bench.policy(selecting("DoesNotExist"));
    assert_eq!(bench.state.sizes().windows, 1);
    // What it has selected before is not.
    bench.pass(MINUTE);
    bench.policy(plain("a"));
    assert_eq!(bench.state.sizes().windows, 0);
}

#[test]
fn a_list_that_is_begun_anew_has_forgotten_what_it_showed() {
    let mut bench = Bench::new(&["ns"], &[plain("a")]);
    let namespace = |name: &str| Event::InitApply(object(json!({"metadata": {"name": name}})));
    let policy = |name: &str| Event::InitApply(object(plain(name)));
    bench.state.namespace_event(Event::Init, bench.now);
    bench.state.namespace_event(namespace("gone"), bench.now);
    bench.state.namespace_event(Event::Init, bench.now);
    bench.state.namespace_event(namespace("ns"), bench.now);
    bench.state.namespace_event(Event::InitDone, bench.now);
    bench.state.policy_event(Event::Init, bench.now);
    bench.state.policy_event(policy("b"), bench.now);
    bench.state.policy_event(Event::Init, bench.now);
    bench.state.policy_event(policy("a"), bench.now);
    bench.state.policy_event(Event::InitDone, bench.now);
    bench.ready("gone", "etcd", true);
    assert_eq!(bench.state.sizes().windows, 0);
    assert_eq!(bench.state.reports().len(), 1);
    bench.ready("ns", "etcd", true);
    let watch = bench.watch();
    bench.state.pod_event(&watch, Event::Init, bench.now);
    bench
        .state
        .pod_event(&watch, Event::InitApply(weed("p")), bench.now);
    bench.list(&watch, vec![]);
    assert_eq!(bench.state.sizes().pods, 0);
}

#[test]
fn nothing_is_due_before_all_is_listed() {
    let mut bench = Bench {
        state: State::default(),
        now: Now {
            instant: Instant::now(),
            time: Timestamp::UNIX_EPOCH,
        },
        version: 0,
    };
    bench.state.policy_event(Event::Init, bench.now);
    bench
        .state
        .policy_event(Event::InitApply(object(plain("a"))), bench.now);
    assert!(bench.state.service_names().is_empty());
    bench.state.policy_event(Event::InitDone, bench.now);
    assert!(!bench.state.service_names().is_empty());
    bench.slice(Event::Init);
    bench.slice(Event::InitDone);
    bench.ready("ns", "etcd", true);
    assert!(!bench.state.listed() && bench.state.pod_watches().is_empty());
    bench.state.namespace_event(Event::Init, bench.now);
    let namespace = object(json!({"metadata": {"name": "ns"}}));
    bench
        .state
        .namespace_event(Event::InitApply(namespace), bench.now);
    assert!(bench.state.pod_watches().is_empty());
    bench.state.namespace_event(Event::InitDone, bench.now);
    assert!(bench.state.listed());
    let news = bench.state.take_news();
    assert!(
        matches!(
            &news[..],
            [News::Opened {
                why: Opening::FoundReady,
                ..
            }]
        ),
        "{news:?}"
    );
}

#[test]
fn many_namespaces_share_a_watch_and_none_is_missed_on_the_way() {
    let names: Vec<String> = (0..100).map(|n| format!("ns-{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&names, &[plain("a")]);
    for name in &names[..20] {
        bench.ready(name, "etcd", true);
    }
    let local = bench.state.pod_watches().clone();
    assert_eq!(local.len(), 20);
    let first = local.first().unwrap().clone();
    bench.list(&first, vec![pod(names[0], "p", 1, |_| ())]);
    for name in &names[20..] {
        bench.ready(name, "etcd", true);
    }
    let [all] = &Vec::from_iter(bench.state.pod_watches().difference(&local).cloned())[..] else {
        panic!("one more");
    };
    assert_eq!(all.namespace, None);
    // The others go on until it has been listed.
    bench.show(&first, pod(names[0], "q", 2, |_| ()));
    assert_eq!(bench.state.sizes().waiting, 2);
    bench.list(
        &first,
        vec![pod(names[0], "p", 1, |_| ()), pod(names[0], "q", 2, |_| ())],
    );
    assert_eq!(bench.state.pod_watches().len(), 21);
    let pods = names
        .iter()
        .map(|it| pod(it, &format!("p-{it}"), 3, |_| ()));
    bench.list(all, pods.chain([pod(names[0], "q", 2, |_| ())]).collect());
    assert_eq!(*bench.state.pod_watches(), BTreeSet::from([all.clone()]));
    // One pod, which the list has not shown, is gone.
    assert_eq!(bench.state.sizes().waiting, 101);
    let deletions: Vec<_> = std::iter::from_fn(|| bench.next()).collect();
    let places: BTreeSet<_> = deletions.iter().map(|it| it.namespace.clone()).collect();
    assert_eq!((deletions.len(), places.len()), (32, 32));
    // It stays until nobody needs it.
    for name in &names[1..] {
        bench.ready(name, "etcd", false);
    }
    assert_eq!(bench.state.sizes().watches, 1);
    bench.ready(names[0], "etcd", false);
    assert_eq!(bench.state.sizes().watches, 0);
}

#[test]
fn the_newest_version_that_any_watch_has_told_counts() {
    let other = policy("b", "etcd", "kcm", |_| ());
    let (mut bench, one) = Bench::weeding(&[plain("a"), other]);
    let two = bench.state.pod_watches().last().unwrap().clone();
    bench.show(&one, pod("ns", "p", 12, |it| it["status"] = json!({})));
    bench.show(&two, pod("ns", "p", 10, |_| ()));
    assert!(
        bench.state.may_delete(),
        "who knew of no pod believes what it is told"
    );
    bench.show(&one, pod("ns", "p", 13, |it| it["status"] = json!({})));
    bench.show(&two, pod("ns", "p", 11, |_| ()));
    assert!(!bench.state.may_delete());
    // It is shown as long as one of them does.
    bench
        .state
        .pod_event(&one, Event::Delete(pod("ns", "p", 14, |_| ())), bench.now);
    assert_eq!(bench.state.sizes().pods, 1);
}

#[test]
fn a_status_goes_on_where_it_was_and_a_new_policy_begins_at_nothing() {
    let recorded = || {
        policy("a", "etcd", "api", |it| {
            it["status"] = json!({"weeded": 7, "lastWeeds": [{
                "time": "2026-01-01T00:00:00Z", "namespace": "ns", "pod": "o",
                "owner": "ReplicaSet/r", "service": "etcd", "containers": ["c"],
            }]});
        })
    };
    let (mut bench, watch) = Bench::weeding(&[recorded()]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Ok(()));
    // What has been recorded since is known already.
    bench.policy(recorded());
    let report = bench.report();
    assert_eq!((report.weeded, report.recorded.weeded), (8, 7));
    let pods: Vec<_> = report.last_weeds.iter().map(|it| &*it.pod).collect();
    assert_eq!(pods, ["p", "o"]);
    // A deletion for the policy that was is not one for its successor.
    bench.show(&watch, weed("q"));
    let deletion = bench.next().unwrap();
    bench.policy(policy("a", "etcd", "api", |it| {
        it["metadata"]["uid"] = json!("new")
    }));
    bench.end(deletion, Ok(()));
    let report = bench.report();
    assert_eq!(
        (report.weeded, report.last_weeds.len(), report.windows),
        (0, 0, 1)
    );
}

#[test]
fn the_last_weeds_are_ten() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    for pod in 0..15 {
        bench.pass(SECOND);
        bench.show(&watch, self::pod("ns", &format!("p{pod}"), 1, of_its_own));
        let deletion = bench.next().unwrap();
        bench.end(deletion, Ok(()));
    }
    let report = bench.report();
    let pods: Vec<_> = report.last_weeds.iter().map(|it| &*it.pod).collect();
    let expected: Vec<_> = (5..15).rev().map(|pod| format!("p{pod}")).collect();
    assert_eq!(
        (report.weeded, pods),
        (15, expected.iter().map(|it| &**it).collect())
    );
}

/// What is deleted at once, and then the pods that were deleted, with the seconds that passed before.
fn weeded(bench: &mut Bench, seconds: u64) -> Vec<(u64, String)> {
    let mut weeded = Vec::new();
    for second in 0..=seconds {
        if second > 0 {
            bench.pass(SECOND);
        }
        while let Some(deletion) = bench.next() {
            // None was late.
            let delay = bench.now.instant - deletion.called_for;
            assert!(delay <= SECOND, "{delay:?}");
            weeded.push((second, deletion.pod.to_string()));
            bench.end(deletion, Ok(()));
        }
    }
    weeded
}

#[test]
fn successors_that_crash_as_well_wait_for_their_turn() {
    let long = policy("a", "etcd", "api", |it| {
        it["spec"]["watchDuration"] = json!("10m");
    });
    let (mut bench, watch) = Bench::weeding(&[long]);
    bench.show(&watch, weed("a1"));
    bench.show(&watch, weed("b1"));
    bench.pass(SECOND);
    let at_once = [(0, "a1".to_owned()), (0, "b1".to_owned())];
    assert_eq!(weeded(&mut bench, 0), at_once);
    bench.told();
    bench.pass(SECOND);
    bench.show(&watch, weed("a2"));
    bench.show(&watch, weed("b2"));
    bench.show(&watch, pod("ns", "other", 1, of_its_own));
    bench.show(&watch, pod("ns", "b2", 2, |_| ()));
    // Ten seconds after the first, and twenty after the second.
    let expected = [
        (0, "other".to_owned()),
        (9, "a2".to_owned()),
        (29, "b2".to_owned()),
    ];
    assert_eq!(weeded(&mut bench, 100), expected);
    assert_eq!(
        bench.told(),
        [
            "a2 for a: Repeated",
            "b2 for a: Repeated",
            "other for a: weeded",
            "a2 for a: weeded",
            "b2 for a: weeded"
        ]
    );
    // One that is well again meanwhile, or goes, is not deleted.
    bench.show(&watch, weed("a3"));
    bench
        .state
        .pod_event(&watch, Event::Delete(weed("a3")), bench.now);
    assert_eq!(weeded(&mut bench, 100), []);
}

#[test]
fn a_service_that_was_away_again_excuses_its_dependants() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("a1"));
    assert_eq!(weeded(&mut bench, 0).len(), 1);
    bench.pass(SECOND);
    bench.show(&watch, weed("a2"));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state.sizes().repeats, 1);
    bench.ready("ns", "etcd", false);
    assert_eq!((bench.state.due(), bench.state.sizes().repeats), (None, 0));
    bench.ready("ns", "etcd", true);
    let watch = bench.watch();
    bench.list(&watch, vec![weed("a2")]);
    assert_eq!(weeded(&mut bench, 0), [(0, "a2".to_owned())]);
}

#[test]
fn a_deletion_that_is_refused_makes_no_successor() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("a1"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Refused("no".to_owned())));
    assert_eq!(weeded(&mut bench, 1), [(1, "a1".to_owned())]);
}

#[test]
fn a_report_tells_of_services_windows_and_watches() {
    let two = policy("a", "etcd", "api", |it| {
        let services = &mut it["spec"]["servicesAndDependantSelectors"];
        services["dns"] = services["etcd"].clone();
    });
    let mut bench = Bench::new(&["one", "two"], &[two]);
    bench.ready("one", "etcd", true);
    bench.ready("one", "dns", false);
    bench.ready("two", "etcd", false);
    bench.ready("elsewhere", "etcd", true);
    let watch = bench.watch();
    bench.state.pod_watch_broke(&watch, "no (403)".to_owned());
    let report = bench.report();
    assert_eq!((report.services, report.ready, report.windows), (3, 1, 1));
    assert_eq!(report.not_ready, ["one/dns", "two/etcd"]);
    assert_eq!(report.open, ["one/etcd"]);
    let troubles: Vec<_> = report.troubles.iter().map(|it| &*it.message).collect();
    assert_eq!(
        troubles,
        ["pods app=api in namespace one are not watched: no (403)"]
    );
    bench.state.pod_watch_works(&watch);
    assert_eq!(bench.report().troubles, []);
    // What was wrong with a watch ends with it.
    bench.state.pod_watch_broke(&watch, "no (403)".to_owned());
    bench.ready("one", "etcd", false);
    bench.ready("one", "etcd", true);
    assert_eq!(bench.report().troubles, []);
}

/// Who has to mend it needs to know what failed, of which a status and an event hold only the
/// beginning.
#[test]
fn what_failed_is_told_of_pods_with_a_long_selector_too() {
    let expressions: Vec<Value> = (0..32)
        .map(|key| {
            let values: Vec<_> = (0..64).map(|value| format!("v{value:062}")).collect();
            json!({"key": format!("key-{key}"), "operator": "NotIn", "values": values})
        })
        .collect();
    let long = policy("a", "etcd", "api", |it| {
        let selector = &mut it["spec"]["servicesAndDependantSelectors"]["etcd"]["podSelectors"][0];
        *selector = json!({"matchExpressions": expressions});
    });
    let (mut bench, watch) = Bench::weeding(&[long]);
    bench.state.pod_watch_broke(&watch, "no (403)".to_owned());
    let report = bench.report();
    let [trouble] = &report.troubles[..] else {
        panic!("{report:?}");
    };
    let message = &trouble.message;
    assert!(message.starts_with("pods key-0 notin (v000"), "{message}");
    assert!(
        message.ends_with("... in namespace ns are not watched: no (403)"),
        "{message}"
    );
    assert!(message.len() < 300, "{message}");
}

#[test]
fn a_policy_with_problems_covers_nothing_and_says_which() {
    let (mut bench, _) = Bench::weeding(&[plain("a")]);
    bench.policy(policy("a", "etcd", "api", |it| {
        it["spec"]["mode"] = json!("Maybe")
    }));
    let report = bench.report();
    assert_eq!(
        (report.services, report.windows, report.problems.len()),
        (0, 0, 1)
    );
    assert!(bench.state.service_names().is_empty() && bench.state.pod_watches().is_empty());
}
