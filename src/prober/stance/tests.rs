use std::collections::BTreeMap;

use rstest::rstest;

use super::*;
use crate::{
    api::Restore,
    cluster::{Deletion, Selected, SettingsError},
    gardener::LastOperation,
};

fn settings(policy: &str) -> Settings {
    Settings {
        policy: policy.into(),
        mode: Mode::Enforce,
        suspend: false,
        secret_name: "dwd".into(),
        interval: std::time::Duration::from_secs(10),
        initial_delay: std::time::Duration::ZERO,
        timeout: std::time::Duration::from_secs(30),
        jitter_factor: 0.0,
        grace: std::time::Duration::from_secs(40),
        fraction: 0.6,
        failure_threshold: 1,
        success_threshold: 1,
        restore: Restore::Marked,
        dependents: [].into(),
        pools: BTreeMap::new(),
    }
}

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = settings("shoots");
    change(&mut settings);
    settings
}

fn policy(settings: Result<Settings, SettingsError>) -> Option<Selected> {
    Some(Selected {
        policy: "shoots".into(),
        settings: settings.map(Arc::new),
        outranked: vec![],
    })
}

fn assignment(
    selected: Option<Selected>,
    former: Option<Selected>,
    eligibility: Eligibility,
) -> Assignment {
    Assignment {
        uid: "uid".into(),
        eligibility,
        selected,
        former,
    }
}

const NOTHING_OWED: Known<'_> = Known {
    last: None,
    engaged: false,
    looked_at: true,
};
const NEVER_LOOKED: Known<'_> = Known {
    looked_at: false,
    ..NOTHING_OWED
};
const OWING: Known<'_> = Known {
    engaged: true,
    ..NOTHING_OWED
};

/// The stance in a word or two.
fn brief(stance: &Stance) -> String {
    let finding = |finding: &Finding| match finding {
        Finding::Skipped { reason, .. } | Finding::Unread { reason, .. } => *reason,
        Finding::Pending | Finding::Judged(..) => "unexpected",
    };
    match stance {
        Stance::Probe(settings) => format!("probe by {}", settings.policy),
        Stance::LetGo(settings) => format!("let go by {}", settings.policy),
        Stance::Hibernate(settings, _) => format!("hibernate by {}", settings.policy),
        Stance::Settle(aim, found) => format!("{aim:?}, {}", finding(found)),
        Stance::Rest(found, None) => format!("rest, {}", finding(found)),
        Stance::Rest(found, Some(why)) => format!("rest, {}: {why}", finding(found)),
        Stance::Forget => "forget".to_owned(),
    }
}

fn bad_grace() -> SettingsError {
    SettingsError::GracePeriod("soon".to_owned())
}

#[rstest]
fn a_selected_cluster_is_probed_unless_it_must_not_be(
    #[values(NOTHING_OWED, NEVER_LOOKED, OWING)] known: Known<'_>,
) {
    for (settings, expected) in [
        (Ok(settings("shoots")), "probe by shoots"),
        (Ok(with(|it| it.mode = Mode::DryRun)), "probe by shoots"),
        (Ok(with(|it| it.suspend = true)), "rest, Suspended"),
        (Err(bad_grace()), "rest, ClusterInvalid"),
    ] {
        let assignment = assignment(policy(settings), None, Eligibility::Probed);
        assert_eq!(brief(&Stance::new(&assignment, known)), expected);
    }
}

fn operation() -> LastOperation {
    LastOperation {
        kind: "Create".to_owned(),
        state: "Processing".to_owned(),
    }
}

#[rstest]
#[case::deleting(Skip::Deleting(Deletion::Cluster), "Release, Deleting")]
#[case::migrating(Skip::Migrating, "Release, Migrating")]
#[case::hibernated(Skip::Hibernated { asleep: true }, "Release, Hibernated")]
#[case::waking(Skip::WakingUp, "Release, WakingUp")]
#[case::going_to_sleep(Skip::Hibernated { asleep: false }, "hibernate by shoots")]
#[case::no_workers(Skip::NoWorkers, "Restore, NoWorkers")]
#[case::creating(
    Skip::NotYetCreated(Some(operation())),
    "rest, NotYetCreated: the cluster is not in a state to be judged"
)]
#[case::restoring(
    Skip::NotYetRestored(operation()),
    "rest, NotYetRestored: the cluster is not in a state to be judged"
)]
fn what_is_owed_to_a_skipped_cluster_is_settled_by_its_state(
    #[case] skip: Skip,
    #[case] expected: &str,
    #[values(true, false)] selected: bool,
) {
    let reason = skip.reason();
    let of = |settings: Settings, known| {
        let policy = policy(Ok(settings));
        let (now, former) = if selected {
            (policy, None)
        } else {
            (None, policy)
        };
        let assignment = assignment(now, former, Eligibility::Skipped(skip.clone()));
        brief(&Stance::new(&assignment, known))
    };
    assert_eq!(of(settings("shoots"), OWING), expected);
    let held = |why: &str| format!("rest, {reason}: {why}");
    assert_eq!(
        of(with(|it| it.suspend = true), OWING),
        held("the policy is suspended")
    );
    assert_eq!(
        of(with(|it| it.mode = Mode::DryRun), OWING),
        held("the policy's mode is DryRun")
    );
    // Where nothing is owed there is nothing to settle.
    let rest = if selected {
        format!("rest, {reason}")
    } else {
        "forget".to_owned()
    };
    assert_eq!(of(settings("shoots"), NOTHING_OWED), rest);
    // An unknown mark is worth a look: by the way where it would be taken off anyhow.
    let look = if selected {
        expected
    } else {
        "Look, Unselected"
    };
    assert_eq!(of(settings("shoots"), NEVER_LOOKED), look);
}

#[rstest]
#[case::by_the_former(Some(Ok(settings("shoots"))), None, "let go by shoots")]
#[case::not_by_an_older(
    Some(Ok(settings("shoots"))),
    Some(settings("old")),
    "let go by shoots"
)]
#[case::suspended(
    Some(Ok(with(|it| it.suspend = true))),
    None,
    "rest, Unselected: the policy is suspended"
)]
#[case::dry_run(Some(Ok(with(|it| it.mode = Mode::DryRun))), None, "let go by shoots")]
#[case::bad_grace(Some(Err(bad_grace())), None, "rest, ClusterInvalid")]
#[case::policy_gone(None, Some(settings("old")), "let go by old")]
#[case::suspended_policy_gone(None, Some(with(|it| it.suspend = true)), "let go by shoots")]
#[case::nothing_known(
    None,
    None,
    "rest, Unselected: no policy is known by which the cluster could be judged"
)]
fn a_protected_cluster_is_not_dropped(
    #[case] former: Option<Result<Settings, SettingsError>>,
    #[case] last: Option<Settings>,
    #[case] expected: &str,
) {
    let assignment = assignment(None, former.and_then(policy), Eligibility::Probed);
    let last = last.map(Arc::new);
    let known = |known: Known<'static>| Known {
        last: last.as_ref(),
        ..known
    };
    let stance = Stance::new(&assignment, known(OWING));
    assert_eq!(brief(&stance), expected);
    if let Stance::LetGo(settings) = &stance {
        assert!(!settings.suspend);
    }
    assert_eq!(
        brief(&Stance::new(&assignment, known(NOTHING_OWED))),
        "forget"
    );
    assert_eq!(
        brief(&Stance::new(&assignment, known(NEVER_LOOKED))),
        "Look, Unselected"
    );
}

/// Nobody is left who could switch it to Enforce.
#[test]
fn the_dry_run_of_a_policy_that_is_gone_holds_nothing_back() {
    let assignment = assignment(None, None, Eligibility::Probed);
    let last = Arc::new(with(|it| it.mode = Mode::DryRun));
    let known = Known {
        last: Some(&last),
        ..OWING
    };
    let Stance::LetGo(settings) = Stance::new(&assignment, known) else {
        panic!("not let go");
    };
    assert_eq!(settings.mode, Mode::Enforce);
}
