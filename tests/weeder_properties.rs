//! Properties of the weeder's decisions, whatever happens in whatever order.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "weeder_model/mod.rs"]
mod model;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use dependency_watchdog::weeder::{
    news::Opening,
    services::{Change, ServiceNames, Services},
};
use kube::runtime::watcher::Event;
use model::{
    objects::{SERVICES, Slice},
    steps::steps,
    world::World,
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use tokio::time::Instant;

/// A place of a slice: the namespace and the slice in it.
type Place = (usize, usize);

/// What happens to slices.
#[derive(Clone, Debug)]
enum Happening {
    /// The watch tells of one.
    Apply(Place, usize, bool),
    /// The watch tells that one is gone.
    Delete(Place),
    /// One changes, or goes, while the watch is broken.
    Unseen(Place, Option<(usize, bool)>),
    /// All are listed.
    List,
    /// Others are watched, and these are listed.
    Watch(BTreeSet<usize>),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let place = || (0..2_usize, 0..3_usize);
    let service = || 0..SERVICES.len();
    let happening = prop_oneof![
        6 => (place(), service(), any::<bool>())
            .prop_map(|(place, service, ready)| Happening::Apply(place, service, ready)),
        2 => place().prop_map(Happening::Delete),
        4 => (place(), prop::option::of((service(), any::<bool>())))
            .prop_map(|(place, change)| Happening::Unseen(place, change)),
        3 => Just(Happening::List),
        1 => prop::collection::btree_set(service(), 0..3).prop_map(Happening::Watch),
    ];
    prop::collection::vec(happening, 1..40)
}

/// Which services are ready: an endpoint of any of their slices is.
fn ready(slices: &BTreeMap<Place, Slice>, watched: &BTreeSet<usize>) -> BTreeSet<(usize, usize)> {
    let ready = slices.iter().filter(|(_, slice)| slice.ready);
    ready
        .map(|((namespace, _), slice)| (*namespace, slice.service))
        .filter(|(_, service)| watched.contains(service))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        ..ProptestConfig::with_failure_persistence(FileFailurePersistence::WithSource("regressions"))
    })]

    /// What is told of services is what a comparison of all slices before and after tells.
    #[test]
    fn services_become_ready_as_their_slices_say(happenings in happenings()) {
        let mut services = Services::default();
        let mut watched = BTreeSet::from([0, 1]);
        services.watch(names(&watched));
        // Of these all slices are known.
        let mut listed = BTreeSet::new();
        let mut told = BTreeMap::<Place, Slice>::new();
        let mut truth = BTreeMap::<Place, Slice>::new();
        for (version, happening) in happenings.into_iter().enumerate() {
            let version = version as u64;
            let slice = |service, ready| Slice { service, version, ready, changed: None };
            let before = ready(&told, &listed);
            let mut restarted = BTreeSet::new();
            let mut found = BTreeSet::new();
            let watching = services.names().clone();
            let tell = |services: &mut Services, event| {
                services.event(&watching, event, Instant::now())
            };
            let changes = match happening {
                Happening::Apply(..) | Happening::Delete(_) if listed.is_empty() => continue,
                Happening::Apply(place, service, ready) => {
                    let slice = slice(service, ready);
                    truth.insert(place, slice.clone());
                    told.insert(place, slice.clone());
                    tell(&mut services, Event::Apply(slice.object(place)))
                }
                Happening::Delete(place) => {
                    let Some(slice) = truth.remove(&place) else { continue };
                    told.remove(&place);
                    tell(&mut services, Event::Delete(slice.object(place)))
                }
                Happening::Unseen(place, change) => {
                    match change {
                        Some((service, ready)) => truth.insert(place, slice(service, ready)),
                        None => truth.remove(&place),
                    };
                    continue;
                }
                Happening::List | Happening::Watch(_) => {
                    if let Happening::Watch(others) = happening {
                        watched = others;
                        services.watch(names(&watched));
                        prop_assert_eq!(
                            watching == *services.names(), names_of(&watching) == names(&watched),
                        );
                        listed.retain(|service| watched.contains(service));
                    }
                    let before = ready(&told, &listed);
                    let after = ready(&truth, &watched);
                    let steady: BTreeSet<_> = truth
                        .iter()
                        .filter(|(place, slice)| slice.ready && told.get(*place) == Some(slice))
                        .map(|((namespace, _), slice)| (*namespace, slice.service))
                        .collect();
                    restarted = before.intersection(&after).copied().collect();
                    restarted.retain(|pair| !steady.contains(pair));
                    found = after.iter().copied().collect();
                    found.retain(|(_, service)| !listed.contains(service));
                    told = truth.clone();
                    listed = watched.clone();
                    let watching = services.names().clone();
                    let mut tell = |event| services.event(&watching, event, Instant::now());
                    prop_assert_eq!(tell(Event::Init), []);
                    for (place, slice) in &truth {
                        prop_assert_eq!(tell(Event::InitApply(slice.object(*place))), []);
                    }
                    tell(Event::InitDone)
                }
            };
            let after = ready(&told, &listed);
            let before: BTreeSet<_> =
                before.into_iter().filter(|(_, service)| watched.contains(service)).collect();
            let lost = before.difference(&after).map(|pair| (*pair, Change::NotReady));
            let new = after.difference(&before).map(|pair| match found.contains(pair) {
                true => (*pair, Change::Ready(Opening::FoundReady)),
                false => (*pair, Change::Ready(Opening::Recovered)),
            });
            let again = restarted
                .iter()
                .map(|pair| (*pair, Change::Ready(Opening::ChangedUnseen)));
            let expected: BTreeMap<_, _> = lost
                .chain(new)
                .chain(again)
                .map(|((namespace, service), change)| {
                    (format!("ns-{namespace}/{}", SERVICES[service]), change)
                })
                .collect();
            let count = changes.len();
            let changes: BTreeMap<_, _> =
                changes.into_iter().map(|(pair, change)| (pair.to_string(), change)).collect();
            prop_assert_eq!(count, changes.len(), "a service is told once");
            prop_assert_eq!(&changes, &expected);
            for namespace in 0..2 {
                for (index, service) in SERVICES.iter().enumerate() {
                    let expected = after.contains(&(namespace, index));
                    let is = services.is_ready(&format!("ns-{namespace}"), service);
                    prop_assert_eq!(is.unwrap_or(false), expected);
                }
            }
        }
    }
}

fn names(services: &BTreeSet<usize>) -> BTreeSet<Arc<str>> {
    services
        .iter()
        .map(|service| SERVICES[*service].into())
        .collect()
}

fn names_of(names: &ServiceNames) -> BTreeSet<Arc<str>> {
    names.iter().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        ..ProptestConfig::with_failure_persistence(FileFailurePersistence::WithSource("regressions"))
    })]

    /// After every single event the windows are those that the rules ask for, the watches are those
    /// that they need, and each deletion is one that they allow. When calm returns, each pod that is
    /// to be deleted is; and when all windows have ended nothing is left.
    #[test]
    fn whatever_happens_the_rules_hold(
        (namespaces, steps) in prop_oneof![3 => 2..4_usize, 1 => Just(24_usize)]
            .prop_flat_map(|namespaces| (Just(namespaces), steps(namespaces))),
    ) {
        let mut world = World::new(namespaces);
        for step in steps {
            world.step(step);
        }
        world.calm_down();
        world.end();
    }
}
