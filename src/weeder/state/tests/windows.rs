//! When a window is open, for whom, and what is listed for it.

use super::*;
use crate::weeder::news::Opening;

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
fn a_window_ends_on_time_whatever_comes_late() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    assert_eq!(bench.state.due(), Some(bench.now.mono + MINUTE));
    // Nobody has called: what is told now is told after its end.
    bench.now.mono += MINUTE;
    bench.show(&watch, weed("p"));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state.sizes(), Sizes::default());
}

#[test]
fn a_pod_that_waits_when_its_window_ends_is_kept() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    bench.now.mono += MINUTE;
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
    let opened = bench.now.mono;
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
            mono: Instant::now(),
            wall: Timestamp::UNIX_EPOCH,
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
    assert!(!bench.state.services_listed() && bench.state.pod_watches().is_empty());
    // That it sees nothing is told.
    assert!(bench.state.listed() && !bench.report().listed);
    bench.state.namespace_event(Event::Init, bench.now);
    let namespace = object(json!({"metadata": {"name": "ns"}}));
    bench
        .state
        .namespace_event(Event::InitApply(namespace), bench.now);
    assert!(bench.state.pod_watches().is_empty());
    bench.state.namespace_event(Event::InitDone, bench.now);
    assert!(bench.state.services_listed() && bench.report().listed);
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

/// A ready slice of `etcd` whose annotation says that it has not changed for so many seconds.
fn unchanged(name: &str, seconds: Option<i64>, ready: bool) -> Value {
    let since = seconds.map(|it| Timestamp::UNIX_EPOCH - SignedDuration::from_secs(it));
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "resourceVersion": "1",
            "labels": {SERVICE_LABEL: "etcd"},
            "annotations": {CHANGED_ANNOTATION: since},
        },
        "endpoints": [{"conditions": {"ready": ready}}],
    })
}

/// The window would last for a minute.
#[rstest]
#[case::recovered_just_before(&[unchanged("a", Some(59), true)], true)]
#[case::as_long_ago_as_it_lasts(&[unchanged("a", Some(60), true)], true)]
#[case::long_ago(&[unchanged("a", Some(61), true)], false)]
#[case::unknown(&[unchanged("a", None, true)], false)]
#[case::by_a_clock_that_is_ahead(&[unchanged("a", Some(-60), true)], true)]
#[case::in_the_future(&[unchanged("a", Some(-61), true)], false)]
#[case::one_slice_has_been_ready_all_the_time(
    &[unchanged("a", Some(5), true), unchanged("b", None, true), unchanged("c", Some(61), true)],
    false
)]
#[case::another_ready_slice_does_not_say_since_when(
    &[unchanged("a", Some(5), true), unchanged("b", None, true)],
    false
)]
#[case::another_has_not_been_ready_all_the_time(
    &[unchanged("a", Some(5), true), unchanged("b", Some(61), false)],
    true
)]
fn a_service_that_has_long_been_ready_opens_no_window_at_the_start(
    #[case] slices: &[Value],
    #[case] opens: bool,
) {
    let mut bench = Bench::without_slices(&["ns"], &[plain("a")]);
    bench.slices(slices);
    assert_eq!(bench.state.sizes().windows, usize::from(opens));
    let news = bench.state.take_news();
    let [news] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!(matches!(news, News::NoWindow { .. }), !opens, "{news:?}");
}

/// After a break in which all its slices changed. What is open stays open, and is not told again.
#[rstest]
#[case::recovered_meanwhile(Some(5), true)]
#[case::changed_for_another_reason(None, false)]
#[case::long_ago(Some(61), false)]
fn a_list_after_a_break_opens_a_window_by_what_the_slices_say(
    #[case] seconds: Option<i64>,
    #[case] opens: bool,
) {
    let mut bench = Bench::new(&["ns"], &[plain("a")]);
    bench.ready("ns", "etcd", true);
    for windows in [1, 0] {
        bench.state.take_news();
        bench.slices(&[unchanged(&format!("b-{windows}"), seconds, true)]);
        let news = bench.state.take_news();
        let opened = matches!(
            &news[..],
            [News::Opened {
                why: Opening::ChangedUnseen,
                ..
            }]
        );
        assert!(opened == opens && opens != news.is_empty(), "{news:?}");
        assert_eq!(bench.state.sizes().windows, windows.max(usize::from(opens)));
        bench.now.mono += MINUTE;
        bench.state.tick(bench.now);
    }
}

#[test]
fn a_service_that_has_long_been_ready_is_watched_as_any_other() {
    let mut bench = Bench::without_slices(&["ns"], &[plain("a")]);
    bench.slices(&[unchanged("etcd", Some(61), true)]);
    assert_eq!((bench.report().ready, bench.state.sizes().windows), (1, 0));
    bench.ready("ns", "etcd", false);
    bench.ready("ns", "etcd", true);
    assert_eq!(bench.state.sizes().windows, 1);
}

/// Whether the policy, the service in it or the namespace is new to the weeder, or the policy is resumed.
#[rstest]
#[case::long_ago(61, false)]
#[case::just_before(59, true)]
fn what_is_new_to_a_policy_opens_no_window_if_it_has_long_been_ready(
    #[case] seconds: i64,
    #[case] opens: bool,
) {
    let slices = [unchanged("a", Some(seconds), true)];
    let ready = |policy: Value| {
        let mut bench = Bench::without_slices(&["ns"], &[policy]);
        bench.slices(&slices);
        bench.state.take_news();
        bench
    };
    let opened = |bench: &mut Bench, policy: &str| {
        let news = bench.state.take_news();
        let is_open = news
            .iter()
            .any(|it| matches!(it, News::Opened { policy: of, .. } if &**of == policy));
        let is_told = news
            .iter()
            .any(|it| matches!(it, News::NoWindow { policy: of, .. } if &**of == policy));
        assert!(is_open != is_told, "{news:?}");
        is_open
    };
    // Another policy.
    let mut bench = ready(plain("a"));
    bench.policy(plain("b"));
    assert_eq!(opened(&mut bench, "b"), opens);
    // One that names a service of which nothing was known.
    let mut bench = Bench::new(&["ns"], &[policy("a", "dns", "api", |_| ())]);
    bench.policy(plain("b"));
    bench.slices(&slices);
    assert_eq!(opened(&mut bench, "b"), opens);
    // One that is resumed.
    let mut bench = ready(plain("a"));
    bench.policy(policy("a", "etcd", "api", |it| {
        it["spec"]["suspend"] = json!(true)
    }));
    bench.state.take_news();
    bench.policy(plain("a"));
    bench.slices(&slices);
    assert_eq!(opened(&mut bench, "a"), opens);
    // Another namespace.
    let elsewhere =
        |it: &mut Value| it["spec"]["namespaceSelector"] = json!({"matchLabels": {"zone": "a"}});
    let mut bench = ready(policy("a", "etcd", "api", elsewhere));
    assert_eq!(bench.state.sizes().windows, 0);
    bench.policy(plain("b"));
    bench.state.take_news();
    let namespace = json!({"metadata": {"name": "ns", "labels": {"zone": "a"}}});
    bench
        .state
        .namespace_event(Event::Apply(object(namespace)), bench.now);
    assert_eq!(opened(&mut bench, "a"), opens);
}
