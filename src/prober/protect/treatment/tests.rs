use std::collections::BTreeMap;

use rstest::rstest;

use super::*;
use crate::{
    cluster::{Deletion, LeaseRules, Selected, SettingsError},
    gardener::{LastOperation, Unreadable},
};

fn settings(policy: &str) -> Settings {
    Settings {
        policy: policy.into(),
        mode: Mode::Enforce,
        secret_name: "dwd".into(),
        rules: LeaseRules::default(),
        initial_delay: std::time::Duration::ZERO,
        max_protection: None,
        dependents: [].into(),
        pools: BTreeMap::new(),
        observer: Arc::default(),
        checks: Arc::default(),
    }
}

const FREE: PolicyHold = PolicyHold {
    suspended: false,
    dry_run: false,
    undecodable: false,
};
const SUSPEND: PolicyHold = PolicyHold {
    suspended: true,
    ..FREE
};
const DRY: PolicyHold = PolicyHold {
    dry_run: true,
    ..FREE
};
const UNREAD: PolicyHold = PolicyHold {
    undecodable: true,
    ..FREE
};

fn policy(hold: PolicyHold, settings: Result<Settings, SettingsError>) -> Option<Selected> {
    let mode = if hold.dry_run {
        Mode::DryRun
    } else {
        Mode::Enforce
    };
    Some(Selected {
        policy: "shoots".into(),
        hold,
        settings: settings.map(|settings| Arc::new(Settings { mode, ..settings })),
        outranked: vec![],
    })
}

fn valid(hold: PolicyHold) -> Option<Selected> {
    policy(hold, Ok(settings("shoots")))
}

fn assignment(
    selected: Option<Selected>,
    former: Option<Selected>,
    eligibility: Eligibility,
) -> Assignment {
    Assignment {
        uid: "uid".into(),
        eligibility,
        reconciled: true,
        selected,
        former,
    }
}

const NOTHING_OWED: Known<'_> = Known {
    last: None,
    engaged: false,
    looked_at: true,
    dry_run: false,
};
const NEVER_LOOKED: Known<'_> = Known {
    looked_at: false,
    ..NOTHING_OWED
};
const OWING: Known<'_> = Known {
    engaged: true,
    ..NOTHING_OWED
};

/// The treatment in a word or two.
fn brief(treatment: &Treatment) -> String {
    let finding = |finding: &Finding| match finding {
        Finding::Skipped { reason, .. } | Finding::Unread { reason, .. } => *reason,
        Finding::Pending | Finding::Judged(..) => "unexpected",
    };
    match treatment {
        Treatment::Probe(settings) => format!("probe by {}", settings.policy),
        Treatment::LetGo(settings, None) => format!("let go by {}", settings.policy),
        Treatment::LetGo(settings, Some(found)) => {
            format!("let go by {}, {}", settings.policy, finding(found))
        }
        Treatment::Hibernate(settings, _) => format!("hibernate by {}", settings.policy),
        Treatment::Complete(aim, found) => format!("{aim:?}, {}", finding(found)),
        Treatment::Hold(found, why) => format!("hold, {}: {why}", finding(found)),
        Treatment::Idle(found) => format!("idle, {}", finding(found)),
        Treatment::Gone => "bury".to_owned(),
        Treatment::Done => "forget".to_owned(),
    }
}

fn bad_grace() -> SettingsError {
    SettingsError::GracePeriod("soon".to_owned())
}

fn not_valid() -> SettingsError {
    SettingsError::Policy {
        policy: "shoots".into(),
        problems: "spec: no".to_owned(),
    }
}

#[rstest]
#[case::enforce(valid(FREE), ["probe by shoots"; 3])]
#[case::dry_run(valid(DRY), ["probe by shoots"; 3])]
#[case::suspended(
    valid(SUSPEND),
    ["idle, Suspended", "idle, Suspended", "hold, Suspended: marks stay until the policy goes on"]
)]
#[case::suspended_with_a_mistake(
    policy(SUSPEND, Err(bad_grace())),
    ["idle, Suspended", "idle, Suspended", "hold, Suspended: marks stay until the policy goes on"]
)]
#[case::mistake(
    policy(FREE, Err(bad_grace())),
    [
        "idle, ClusterInvalid",
        "idle, ClusterInvalid",
        "hold, ClusterInvalid: there is nothing valid by which it could be judged",
    ]
)]
fn a_selected_cluster_is_probed_unless_it_must_not_be(
    #[case] selected: Option<Selected>,
    #[case] expected: [&str; 3],
) {
    let assignment = assignment(selected, None, Eligibility::Probed);
    for (known, expected) in [NOTHING_OWED, NEVER_LOOKED, OWING]
        .into_iter()
        .zip(expected)
    {
        assert_eq!(
            brief(&Treatment::new(
                &ClusterObject::There(Box::new(assignment.clone())),
                known
            )),
            expected
        );
    }
}

/// Whatever the Shoot is like, it is known that it is not to be probed.
#[test]
fn a_suspended_policy_says_so_of_a_shoot_that_cannot_be_read() {
    let unreadable = || Eligibility::Skipped(Skip::Unreadable(Unreadable::new("no map")));
    for (hold, known, expected) in [
        (SUSPEND, NOTHING_OWED, "idle, Suspended"),
        (FREE, NOTHING_OWED, "idle, Unreadable"),
        (
            SUSPEND,
            OWING,
            "hold, Suspended: marks stay until the policy goes on",
        ),
    ] {
        let presence = ClusterObject::There(Box::new(assignment(valid(hold), None, unreadable())));
        assert_eq!(brief(&Treatment::new(&presence, known)), expected);
    }
}

fn operation() -> LastOperation {
    of_type("Create")
}

fn of_type(kind: &str) -> LastOperation {
    LastOperation {
        kind: kind.to_owned(),
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
#[case::self_hosted(Skip::SelfHosted, "let go by shoots, SelfHosted")]
#[case::live_migrating(
    Skip::OtherOperation(of_type("LiveMigrate")),
    "let go by shoots, LiveMigrating"
)]
#[case::unknown_operation(
    Skip::OtherOperation(of_type("Later")),
    "let go by shoots, UnknownOperation"
)]
#[case::creating(
    Skip::NotYetCreated(Some(operation())),
    "hold, NotYetCreated: the cluster is not in a state to be judged"
)]
#[case::restoring(
    Skip::NotYetRestored(operation()),
    "hold, NotYetRestored: the cluster is not in a state to be judged"
)]
fn what_is_owed_to_a_skipped_cluster_is_settled_by_its_state(
    #[case] skip: Skip,
    #[case] expected: &str,
    #[values(true, false)] selected: bool,
) {
    let reason = skip.reason();
    let of = |policy: Option<Selected>, known| {
        let (now, former) = if selected {
            (policy, None)
        } else {
            (None, policy)
        };
        let assignment = assignment(now, former, Eligibility::Skipped(skip.clone()));
        brief(&Treatment::new(
            &ClusterObject::There(Box::new(assignment.clone())),
            known,
        ))
    };
    assert_eq!(of(valid(FREE), OWING), expected);
    // Whatever the cluster overrides: where it is needed, nothing happens.
    let needed = matches!(
        skip,
        Skip::Hibernated { asleep: false } | Skip::SelfHosted | Skip::OtherOperation(_)
    );
    let mistaken = of(policy(FREE, Err(bad_grace())), OWING);
    if needed {
        let why = "there is nothing valid by which it could be judged";
        assert_eq!(mistaken, format!("hold, {reason}: {why}"));
    } else {
        assert_eq!(mistaken, expected);
    }
    let held = |why: &str| format!("hold, {reason}: {why}");
    for mistake in [None, Some(bad_grace())] {
        let of = |hold, known| {
            let settings = mistake.clone().map_or_else(|| Ok(settings("shoots")), Err);
            of(policy(hold, settings), known)
        };
        assert_eq!(of(SUSPEND, OWING), held("the policy is suspended"));
        assert_eq!(of(DRY, OWING), held("the mode is DryRun"));
        let unread = held("the policy cannot be read, so it may be suspended");
        assert_eq!(of(UNREAD, OWING), unread);
    }
    // Where nothing is owed there is nothing to settle.
    let rest = if selected {
        format!("idle, {reason}")
    } else {
        "forget".to_owned()
    };
    assert_eq!(of(valid(FREE), NOTHING_OWED), rest);
    // An unknown mark is worth a look: by the way where it would be taken off anyhow.
    let look = match expected.split_once(' ') {
        _ if !selected => "Look, Unselected".to_owned(),
        Some(("hold,", _)) => format!("idle, {reason}"),
        Some(("let", _)) => format!("Look, {reason}"),
        _ => expected.to_owned(),
    };
    assert_eq!(of(valid(FREE), NEVER_LOOKED), look);
}

#[rstest]
#[case::by_the_former(valid(FREE), None, "let go by shoots")]
#[case::not_by_an_older(valid(FREE), Some("old"), "let go by shoots")]
#[case::suspended(
    valid(SUSPEND),
    None,
    "hold, Unselected: marks stay until the policy goes on"
)]
#[case::dry_run(valid(DRY), None, "let go by shoots")]
#[case::bad_grace(
    policy(FREE, Err(bad_grace())),
    Some("old"),
    "hold, ClusterInvalid: there is nothing valid by which it could be judged"
)]
#[case::not_valid(policy(FREE, Err(not_valid())), Some("old"), "let go by old")]
#[case::not_valid_and_suspended(
    policy(SUSPEND, Err(not_valid())),
    Some("old"),
    "hold, Unselected: marks stay until the policy goes on"
)]
#[case::unreadable(
    policy(UNREAD, Err(not_valid())),
    Some("old"),
    "hold, PolicyInvalid: the policy cannot be read, so it may be suspended"
)]
#[case::never_valid(
    policy(FREE, Err(not_valid())),
    None,
    "hold, PolicyInvalid: there is nothing valid by which it could be judged"
)]
#[case::policy_gone(None, Some("old"), "let go by old")]
#[case::nothing_known(
    None,
    None,
    "hold, Unselected: there is nothing valid by which it could be judged"
)]
fn a_protected_cluster_is_not_dropped(
    #[case] former: Option<Selected>,
    #[case] last: Option<&str>,
    #[case] expected: &str,
) {
    let assignment = assignment(None, former, Eligibility::Probed);
    let last = last.map(|last| Arc::new(settings(last)));
    let treatment = |known: Known<'static>| {
        let known = Known {
            last: last.as_ref(),
            ..known
        };
        brief(&Treatment::new(
            &ClusterObject::There(Box::new(assignment.clone())),
            known,
        ))
    };
    assert_eq!(treatment(OWING), expected);
    assert_eq!(treatment(NOTHING_OWED), "forget");
    assert_eq!(treatment(NEVER_LOOKED), "Look, Unselected");
}

/// By the settings of before it may be taken for healthy although its nodes are silent.
#[rstest]
#[case::live_migrating(Skip::OtherOperation(of_type("LiveMigrate")))]
#[case::self_hosted(Skip::SelfHosted)]
fn a_cluster_is_not_let_go_by_settings_that_it_has_no_more(#[case] skip: Skip) {
    let selected = policy(FREE, Err(bad_grace()));
    let reason = skip.reason();
    let assignment = assignment(selected, None, Eligibility::Skipped(skip));
    let last = Arc::new(settings("shoots"));
    let known = Known {
        last: Some(&last),
        ..OWING
    };
    assert_eq!(
        brief(&Treatment::new(
            &ClusterObject::There(Box::new(assignment)),
            known
        )),
        format!("hold, {reason}: there is nothing valid by which it could be judged")
    );
}

/// Of a policy that is gone nobody is left who could switch it to Enforce.
#[rstest]
#[case::gone(None, Mode::Enforce)]
#[case::not_valid(policy(FREE, Err(not_valid())), Mode::Enforce)]
#[case::not_valid_and_dry(policy(DRY, Err(not_valid())), Mode::DryRun)]
#[case::dry(valid(DRY), Mode::DryRun)]
fn what_the_last_settings_held_back(#[case] former: Option<Selected>, #[case] expected: Mode) {
    let assignment = assignment(None, former, Eligibility::Probed);
    let last = Arc::new(Settings {
        mode: Mode::DryRun,
        ..settings("old")
    });
    let known = Known {
        last: Some(&last),
        ..OWING
    };
    let Treatment::LetGo(settings, None) =
        Treatment::new(&ClusterObject::There(Box::new(assignment.clone())), known)
    else {
        panic!("not let go");
    };
    assert_eq!(settings.mode, expected);
}

/// Nobody but the flag says so: the policy is gone, or says nothing of it.
#[rstest]
#[case::probed(Eligibility::Probed, "let go by old")]
#[case::no_workers(
    Eligibility::Skipped(Skip::NoWorkers),
    "hold, NoWorkers: the mode is DryRun"
)]
#[case::deleting(
    Eligibility::Skipped(Skip::Deleting(Deletion::Cluster)),
    "hold, Deleting: the mode is DryRun"
)]
#[case::going_to_sleep(
    Eligibility::Skipped(Skip::Hibernated { asleep: false }),
    "hold, Hibernated: the mode is DryRun"
)]
fn a_dry_run_holds_back_without_a_policy(
    #[case] eligibility: Eligibility,
    #[case] expected: &str,
    #[values(None, policy(FREE, Err(not_valid())))] former: Option<Selected>,
) {
    let last = Arc::new(settings("old"));
    let known = Known {
        last: Some(&last),
        dry_run: true,
        ..OWING
    };
    let there = ClusterObject::There(Box::new(assignment(None, former, eligibility)));
    let treatment = Treatment::new(&there, known);
    assert_eq!(brief(&treatment), expected);
    if let Some(settings) = treatment.settings() {
        assert_eq!(settings.mode, Mode::DryRun);
    }
    let gone = Treatment::new(&ClusterObject::Gone(FREE), known);
    assert_eq!(brief(&gone), "hold, Gone: the mode is DryRun");
}

#[rstest]
#[case(FREE, OWING, "bury")]
#[case(FREE, NOTHING_OWED, "forget")]
#[case(FREE, NEVER_LOOKED, "bury")]
#[case(SUSPEND, NEVER_LOOKED, "forget")]
#[case(DRY, NEVER_LOOKED, "forget")]
#[case(UNREAD, NEVER_LOOKED, "forget")]
#[case(
    UNREAD,
    OWING,
    "hold, Gone: the policy cannot be read, so it may be suspended"
)]
#[case(SUSPEND, OWING, "hold, Gone: the policy is suspended")]
#[case(SUSPEND, NOTHING_OWED, "forget")]
#[case(DRY, OWING, "hold, Gone: the mode is DryRun")]
fn a_cluster_that_is_gone_leaves_no_marks(
    #[case] hold: PolicyHold,
    #[case] known: Known<'_>,
    #[case] expected: &str,
) {
    assert_eq!(
        brief(&Treatment::new(&ClusterObject::Gone(hold), known)),
        expected
    );
}
