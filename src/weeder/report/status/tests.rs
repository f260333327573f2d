//! A policy's conditions, by what the weeder reports.

use std::sync::Arc;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use rstest::rstest;

use super::*;
use crate::{
    api::{LastWeed, LeftAlone},
    report::conditions::DEGRADED,
    weeder::{
        policy::Policy,
        report::{
            WeedTrouble,
            fixtures::{policy, weed_report},
        },
    },
};

fn condition<'a>(status: &'a WeedPolicyStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|c| c.type_ == kind)
}

fn message(report: &WeedReport, kind: &str) -> String {
    condition(&status(report), kind).unwrap().message.clone()
}

fn sound() -> WeedReport {
    weed_report()
}

fn recovering() -> WeedReport {
    WeedReport {
        windows: 1,
        open: vec!["a/etcd".to_owned()],
        ..sound()
    }
}

fn suspended() -> WeedReport {
    WeedReport {
        policy: policy(|it| it["spec"]["suspend"] = true.into()),
        services: 0,
        ready: 0,
        ..sound()
    }
}

fn changed(mut report: WeedReport, change: impl FnOnce(&mut Policy)) -> WeedReport {
    change(Arc::make_mut(&mut report.policy));
    report
}

fn invalid(report: WeedReport) -> WeedReport {
    changed(report, |it| {
        it.problems = vec!["spec.a: wrong".to_owned(), "spec.b: wrong".to_owned()];
    })
}

fn deleting(report: WeedReport) -> WeedReport {
    changed(report, |it| it.deleting = true)
}

fn dry_run() -> WeedReport {
    WeedReport {
        policy: policy(|it| it["spec"]["mode"] = "DryRun".into()),
        ..recovering()
    }
}

fn troubled(reasons: &[&'static str]) -> WeedReport {
    let troubles = reasons.iter().enumerate().map(|(number, reason)| {
        let message = format!("failure {number}");
        WeedTrouble { reason, message }
    });
    WeedReport {
        troubles: troubles.collect(),
        ..sound()
    }
}

/// Ready, Weeding and Degraded, as their status and reason.
#[rstest]
#[case::sound(sound(), ["True Watching", "False NoRecovery", "False AsExpected"])]
#[case::recovering(recovering(), ["True Watching", "True Recovery", "False AsExpected"])]
#[case::dry_run(
    dry_run(),
    ["True DryRun", "True Recovery", "False AsExpected"]
)]
#[case::suspended(suspended(), ["True Suspended", "False Suspended", "False AsExpected"])]
#[case::not_listed(
    WeedReport { listed: false, services: 0, ready: 0, ..sound() },
    ["False Listing", "False NoRecovery", "False AsExpected"]
)]
#[case::suspended_and_not_listed(
    WeedReport { listed: false, ..suspended() },
    ["True Suspended", "False Suspended", "False AsExpected"]
)]
#[case::invalid(invalid(sound()), ["False Invalid", "False NoRecovery", "False AsExpected"])]
#[case::invalid_and_suspended(
    invalid(suspended()),
    ["False Invalid", "False Suspended", "False AsExpected"]
)]
#[case::deleting(deleting(sound()), ["False Deleting", "False NoRecovery", "False AsExpected"])]
#[case::deleting_and_invalid(
    deleting(invalid(sound())),
    ["False Deleting", "False NoRecovery", "False AsExpected"]
)]
#[case::unwatched(
    troubled(&[PODS_UNWATCHED]),
    ["True Watching", "False NoRecovery", "True PodsUnwatched"]
)]
#[case::refused(
    troubled(&[DELETION_REFUSED]),
    ["True Watching", "False NoRecovery", "True DeletionRefused"]
)]
#[case::blind_before_unwatched(
    troubled(&[PODS_UNWATCHED, SERVICES_UNWATCHED]),
    ["True Watching", "False NoRecovery", "True ServicesUnwatched"]
)]
#[case::unwatched_before_refused(
    troubled(&[DELETION_REFUSED, PODS_UNWATCHED]),
    ["True Watching", "False NoRecovery", "True PodsUnwatched"]
)]
fn conditions_follow_the_report(#[case] report: WeedReport, #[case] expected: [&str; 3]) {
    let status = super::status(&report);
    let found = [READY, WEEDING, DEGRADED].map(|kind| {
        let condition = condition(&status, kind).unwrap();
        assert_eq!(condition.observed_generation, Some(7));
        format!("{} {}", condition.status, condition.reason)
    });
    assert_eq!(found, expected);
    let stalled = condition(&status, STALLED);
    assert_eq!(stalled.is_some(), expected[0] == "False Invalid");
    if let Some(stalled) = stalled {
        assert_eq!((&*stalled.status, &*stalled.reason), ("True", "Invalid"));
        assert_eq!(stalled.message, "spec.a: wrong; spec.b: wrong");
        assert_eq!(condition(&status, READY).unwrap().message, stalled.message);
    }
}

#[rstest]
#[case::none(0, 0, &[], "no service of a name in the policy has an EndpointSlice in the namespaces that it selects")]
#[case::one(1, 1, &[], "the only service is ready")]
#[case::all(2, 2, &[], "all 2 services are ready")]
#[case::some(3, 2, &["a/etcd"], "2 of 3 services are ready; not ready: a/etcd")]
#[case::few(9, 0, &["a/x", "b/x", "c/x", "d/x"], "0 of 9 services are ready; not ready: a/x, b/x, c/x and 6 more")]
fn ready_tells_which_services_are_not(
    #[case] services: usize,
    #[case] ready: usize,
    #[case] not_ready: &[&str],
    #[case] expected: &str,
) {
    let report = WeedReport {
        services,
        ready,
        not_ready: not_ready.iter().map(|name| (*name).to_owned()).collect(),
        ..sound()
    };
    assert_eq!(message(&report, READY), expected);
    let status = super::status(&report);
    let counts = (status.services.watched, status.services.ready);
    assert_eq!(
        counts,
        (services.try_into().unwrap(), ready.try_into().unwrap())
    );
}

#[test]
fn degraded_tells_all_that_is_amiss() {
    let reasons = [DELETION_REFUSED; 5].into_iter().chain([PODS_UNWATCHED]);
    let report = troubled(&reasons.collect::<Vec<_>>());
    let status = super::status(&report);
    let degraded = condition(&status, DEGRADED).unwrap();
    assert_eq!(degraded.reason, PODS_UNWATCHED);
    assert_eq!(
        degraded.message,
        "pods that need a service cannot be watched, so that none is deleted: failure 5; pods could \
         not be deleted: failure 0, failure 1, failure 2 and more"
    );
}

#[test]
fn what_was_done_is_bounded_and_the_newest_stays() {
    let weed = |number: usize| LastWeed {
        time: Time(Timestamp::UNIX_EPOCH),
        namespace: "a".to_owned(),
        pod: format!("pod-{number}"),
        owner: "ReplicaSet/api".to_owned(),
        service: "etcd".to_owned(),
        containers: vec![],
        dry_run: false,
    };
    let left = |number: usize| LeftAlone {
        time: Time(Timestamp::UNIX_EPOCH),
        namespace: "a".to_owned(),
        pod: format!("pod-{number}"),
        service: "etcd".to_owned(),
        reason: "NoController".to_owned(),
        message: String::new(),
    };
    let report = WeedReport {
        weeded: 5_000_000_000,
        last_weeds: (0..12).map(weed).collect(),
        left_alone: (0..12).map(left).collect(),
        ..sound()
    };
    let status = super::status(&report);
    assert_eq!(status.weeded, 5_000_000_000);
    assert_eq!(status.last_weeds, (0..10).map(weed).collect::<Vec<_>>());
    assert_eq!(status.left_alone, (0..10).map(left).collect::<Vec<_>>());
}
