use rstest::rstest;
use serde_json::json;
use std::time::Duration;

use super::*;
use crate::weeder::slice::SERVICE_LABEL;

fn slice(name: &str, service: &str, version: u32, ready: bool) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "namespace": "ns",
            "resourceVersion": version.to_string(),
            "labels": {SERVICE_LABEL: service},
        },
        "endpoints": [{"conditions": {"ready": ready}}],
    }))
    .unwrap()
}

fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// Services whose slices have been listed: these, and no others.
fn listed(watched: &[&str], slices: &[EndpointSlice]) -> Services {
    let mut services = Services::default();
    services.watch(names(watched));
    list(&mut services, slices);
    services
}

fn tell(services: &mut Services, event: Event<EndpointSlice>) -> Vec<(String, Change)> {
    let names = services.names().clone();
    let changes = services.event(&names, event, Instant::now());
    changes
        .into_iter()
        .map(|(pair, change)| (pair.to_string(), change))
        .collect()
}

fn list(services: &mut Services, slices: &[EndpointSlice]) -> Vec<(String, Change)> {
    assert_eq!(tell(services, Event::Init), []);
    for slice in slices {
        assert_eq!(tell(services, Event::InitApply(slice.clone())), []);
    }
    tell(services, Event::InitDone)
}

const RECOVERED: Change = Change::Ready(Opening::Recovered);
const UNSEEN: Change = Change::Ready(Opening::ChangedUnseen);

fn etcd(change: Change) -> Vec<(String, Change)> {
    vec![("ns/etcd".to_owned(), change)]
}

#[rstest]
#[case::becomes_ready(&[slice("a", "etcd", 1, false)], slice("a", "etcd", 2, true), etcd(RECOVERED))]
#[case::is_created_ready(&[], slice("a", "etcd", 2, true), etcd(RECOVERED))]
#[case::is_created_not_ready(&[], slice("a", "etcd", 2, false), vec![])]
#[case::stays_ready(&[slice("a", "etcd", 1, true)], slice("a", "etcd", 2, true), vec![])]
#[case::is_lost(&[slice("a", "etcd", 1, true)], slice("a", "etcd", 2, false), etcd(Change::NotReady))]
#[case::a_second_slice_becomes_ready(
    &[slice("a", "etcd", 1, true), slice("b", "etcd", 1, false)],
    slice("b", "etcd", 2, true),
    vec![]
)]
#[case::one_of_two_is_lost(
    &[slice("a", "etcd", 1, true), slice("b", "etcd", 1, true)],
    slice("b", "etcd", 2, false),
    vec![]
)]
#[case::of_no_interest(&[], slice("a", "dns", 2, true), vec![])]
#[case::moves_to_another_service(
    &[slice("a", "etcd", 1, true)],
    slice("a", "events", 2, true),
    vec![("ns/etcd".to_owned(), Change::NotReady), ("ns/events".to_owned(), RECOVERED)]
)]
#[case::moves_out_of_sight(&[slice("a", "etcd", 1, true)], slice("a", "dns", 2, true), etcd(Change::NotReady))]
#[case::moves_away_and_leaves_another(
    &[slice("a", "etcd", 1, true), slice("b", "etcd", 1, true)],
    slice("a", "events", 2, false),
    vec![]
)]
fn a_slice(
    #[case] before: &[EndpointSlice],
    #[case] applied: EndpointSlice,
    #[case] expected: Vec<(String, Change)>,
) {
    let mut services = listed(&["etcd", "events"], before);
    assert_eq!(tell(&mut services, Event::Apply(applied)), expected);
}

#[rstest]
#[case::same(&[slice("a", "etcd", 1, true)], vec![])]
#[case::changed(&[slice("a", "etcd", 2, true)], etcd(UNSEEN))]
#[case::replaced(&[slice("b", "etcd", 2, true)], etcd(UNSEEN))]
#[case::another_changed(&[slice("a", "etcd", 1, true), slice("b", "etcd", 9, true)], vec![])]
#[case::lost(&[slice("a", "etcd", 2, false)], etcd(Change::NotReady))]
#[case::gone(&[], etcd(Change::NotReady))]
#[case::moved(
    &[slice("a", "events", 2, true)],
    vec![("ns/events".to_owned(), RECOVERED), ("ns/etcd".to_owned(), Change::NotReady)]
)]
fn a_list_after_a_break(#[case] shown: &[EndpointSlice], #[case] expected: Vec<(String, Change)>) {
    let mut services = listed(&["etcd", "events"], &[slice("a", "etcd", 1, true)]);
    assert_eq!(list(&mut services, shown), expected);
    // Nothing is left to be told.
    assert_eq!(list(&mut services, shown), []);
}

#[tokio::test(start_paused = true)]
async fn since_when_it_is_ready() {
    let pair = Pair {
        namespace: "ns".into(),
        service: "etcd".into(),
    };
    let mut services = listed(&["etcd"], &[slice("a", "etcd", 1, true)]);
    let found = Instant::now();
    tokio::time::advance(Duration::from_secs(5)).await;
    list(&mut services, &[slice("a", "etcd", 1, true)]);
    assert_eq!(services.ready_since(&pair), Some(found));
    list(&mut services, &[slice("a", "etcd", 2, true)]);
    assert_eq!(services.ready_since(&pair), Some(Instant::now()));
    tell(&mut services, Event::Apply(slice("a", "etcd", 3, false)));
    assert_eq!(services.ready_since(&pair), None);
}

#[test]
fn the_selector_names_them_unless_it_would_be_too_long() {
    let mut services = Services::default();
    services.watch(names(&["etcd", "apiserver"]));
    assert_eq!(
        services.names().label_selector(),
        "kubernetes.io/service-name in (apiserver,etcd)"
    );
    let many: BTreeSet<Arc<str>> = (0..200).map(|n| format!("{n:050}").into()).collect();
    services.watch(many);
    assert_eq!(services.names().label_selector(), SERVICE_LABEL);
}
