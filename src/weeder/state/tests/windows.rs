//! When a window is open, for whom, and what is listed for it.

use super::*;
use crate::weeder::news::Opening;

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
