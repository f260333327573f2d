//! What may happen.

use proptest::prelude::*;

use super::objects::{Flaw, Namespace, Owner, Policy, SERVICES};

/// How many policies there may be.
const POLICIES: usize = 3;

/// Something happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A policy is created or changed.
    Policy(usize, Policy),
    /// A policy goes; one that comes later under its name is another.
    NoPolicy(usize),
    Namespace(usize, Namespace),
    NoNamespace(usize),
    /// A slice is created or changed, with the seconds for which the annotation says it has not been.
    Slice(usize, usize, usize, bool, Option<i64>),
    NoSlice(usize, usize),
    /// All services of a kind become ready, or not ready, in all namespaces.
    Everywhere(usize, bool),
    NewPod(usize, usize, bool, Owner),
    /// A pod begins or ceases to loop, or has another label.
    ChangePod(usize, bool, Option<usize>),
    /// Somebody else deletes a pod, at once or with grace.
    DeletePod(usize, bool),
    /// A watch tells up to so many events, after a list if it has to begin with one.
    Deliver(usize, usize),
    /// All watches tell all.
    DeliverAll,
    /// A watch breaks, and is to list again.
    Break(usize),
    /// Deletions are begun.
    Delete,
    /// A deletion ends.
    Answer(usize, Answer),
    /// Milliseconds pass.
    Pass(u64),
}

/// How a deletion ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// As the server decides.
    Honest,
    Throttled(u64),
    Refused,
    /// The server has not got the request.
    Lost,
    /// The server has deleted the pod, and its answer is lost.
    Unheard,
}

pub(crate) fn steps(namespaces: usize) -> impl Strategy<Value = Vec<Step>> {
    let policy = (
        prop::collection::btree_map(
            0..2_usize,
            prop::collection::btree_set(0..3_usize, 1..3),
            1..3,
        ),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.75),
        prop::bool::weighted(0.1),
        prop_oneof![8 => Just(Flaw::None), 1 => Just(Flaw::Invalid), 1 => Just(Flaw::Unreadable)],
        prop::bool::weighted(0.05),
        prop_oneof![1..20_u64, Just(3_600)],
    )
        .prop_map(
            |(services, zoned, enforce, suspend, flaw, deleting, lasts)| Policy {
                uid: 0,
                services: services
                    .into_iter()
                    .map(|(service, selectors)| (service, selectors.into_iter().collect()))
                    .collect(),
                zoned,
                enforce,
                suspend,
                flaw,
                deleting,
                lasts,
            },
        );
    let namespace = || 0..namespaces;
    let any_bool = any::<bool>;
    let owner = prop_oneof![
        6 => Just(Owner::ReplicaSet),
        1 => Just(Owner::None),
        1 => Just(Owner::Node),
        1 => Just(Owner::Job),
        1 => Just(Owner::Other),
    ];
    let answer = prop_oneof![
        6 => Just(Answer::Honest),
        1 => (0..40_u64).prop_map(Answer::Throttled),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Unheard),
    ];
    let step = prop_oneof![
        4 => (0..POLICIES, policy).prop_map(|(name, policy)| Step::Policy(name, policy)),
        1 => (0..POLICIES).prop_map(Step::NoPolicy),
        1 => (namespace(), prop::bool::weighted(0.7), prop::bool::weighted(0.1)).prop_map(
            |(name, zoned, deleting)| Step::Namespace(name, Namespace { zoned, deleting })
        ),
        1 => namespace().prop_map(Step::NoNamespace),
        6 => (namespace(), 0..2_usize, 0..SERVICES.len(), any_bool(), prop::option::of(-10..40_i64))
            .prop_map(|(namespace, slice, service, ready, unchanged)| {
                Step::Slice(namespace, slice, service, ready, unchanged)
            }),
        1 => (namespace(), 0..2_usize).prop_map(|(namespace, slice)| Step::NoSlice(namespace, slice)),
        1 => (0..2_usize, any_bool()).prop_map(|(service, ready)| Step::Everywhere(service, ready)),
        6 => (namespace(), 0..3_usize, prop::bool::weighted(0.8), owner)
            .prop_map(|(namespace, app, looping, owner)| {
                Step::NewPod(namespace, app, looping, owner)
            }),
        4 => (any::<usize>(), any_bool(), prop::option::weighted(0.2, 0..3_usize))
            .prop_map(|(pod, looping, app)| Step::ChangePod(pod, looping, app)),
        1 => (any::<usize>(), any_bool()).prop_map(|(pod, grace)| Step::DeletePod(pod, grace)),
        12 => (any::<usize>(), 1..4_usize).prop_map(|(stream, count)| Step::Deliver(stream, count)),
        3 => Just(Step::DeliverAll),
        2 => any::<usize>().prop_map(Step::Break),
        6 => Just(Step::Delete),
        6 => (any::<usize>(), answer).prop_map(|(deletion, answer)| Step::Answer(deletion, answer)),
        3 => prop_oneof![0..1_500_u64, 0..15_000_u64].prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}
