//! What a policy's status is made of.

use super::*;

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
fn a_status_goes_on_where_it_was_although_the_policy_cannot_be_read() {
    let recorded = |change: fn(&mut Value)| {
        policy("a", "etcd", "api", |it| {
            it["status"] = json!({"weeded": 7});
            change(it);
        })
    };
    let broken = recorded(|it| it["spec"]["watchDuration"] = json!(5));
    let mut bench = Bench::new(&["ns"], &[broken]);
    let report = bench.report();
    assert_eq!(
        (report.problems.len(), report.weeded, report.recorded.weeded),
        (1, 7, 7)
    );
    // It is corrected.
    bench.ready("ns", "etcd", true);
    bench.policy(recorded(|_| ()));
    assert_eq!(bench.report().weeded, 7);
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
