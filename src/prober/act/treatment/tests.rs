use std::collections::BTreeMap;

use rstest::rstest;

use super::*;
use crate::cluster::{LeaseRules, Selected};

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

const NOTHING_OWED: Known<'_> = Known {
    last: None,
    engaged: false,
    looked_at: true,
    hold: FREE,
};
const NEVER_LOOKED: Known<'_> = Known {
    looked_at: false,
    ..NOTHING_OWED
};
const OWING: Known<'_> = Known {
    engaged: true,
    ..NOTHING_OWED
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

/// A policy that holds this back, and settings or what is wrong with them.
fn policy(hold: PolicyHold, mistake: Option<SettingsError>) -> Option<Selected> {
    let mode = match hold.dry_run {
        true => Mode::DryRun,
        false => Mode::Enforce,
    };
    let valid = Settings {
        mode,
        ..settings("shoots")
    };
    Some(Selected {
        policy: "shoots".into(),
        hold,
        settings: mistake.map_or_else(|| Ok(Arc::new(valid)), Err),
        outranked: vec![],
    })
}

fn valid(hold: PolicyHold) -> Option<Selected> {
    policy(hold, None)
}

fn of_the_cluster() -> Option<SettingsError> {
    Some(SettingsError::Cluster("soon is no duration".to_owned()))
}

fn of_the_policy() -> Option<SettingsError> {
    Some(SettingsError::Policy("spec: no".to_owned()))
}

/// The treatment of a Cluster that this policy selects, or one did last, in a few words.
fn of(
    selected: Option<Selected>,
    former: Option<Selected>,
    skip: Option<Skip>,
    known: Known<'_>,
) -> String {
    let assignment = Assignment {
        uid: "uid".into(),
        skip,
        selected,
        former,
    };
    let (flag, hold) = (known.hold.dry_run, assignment.hold());
    let hold = PolicyHold {
        dry_run: flag || hold.dry_run,
        ..hold
    };
    brief(&Treatment::new(&assignment, Known { hold, ..known }))
}

fn brief(treatment: &Treatment) -> String {
    let finding = |finding: &Finding| match finding {
        Finding::Skipped { reason, .. } | Finding::Unread { reason, .. } => *reason,
        Finding::Pending | Finding::Judged(..) => "unexpected",
    };
    let by = |settings: &Settings| format!("by {} in {:?}", settings.policy, settings.mode);
    match treatment {
        Treatment::Probe(settings) => format!("probe {}", by(settings)),
        Treatment::LetGo(settings, None) => format!("let go {}", by(settings)),
        Treatment::LetGo(settings, Some(found)) => {
            format!("let go {}, {}", by(settings), finding(found))
        }
        Treatment::Complete(aim, found) => format!("{aim:?}, {}", finding(found)),
        Treatment::Hold(found, why) => format!("hold, {}: {why}", finding(found)),
        Treatment::Idle(found) => format!("idle, {}", finding(found)),
    }
}

/// To be probed, where something is owed, nothing is, and where nobody has looked.
#[rstest]
#[case::enforce(valid(FREE), ["probe by shoots in Enforce"; 3])]
#[case::dry_run(valid(DRY), ["probe by shoots in DryRun"; 3])]
#[case::suspended(
    valid(SUSPEND),
    ["hold, Suspended: marks stay until the policy goes on", "idle, Suspended", "idle, Suspended"]
)]
#[case::mistaken(
    policy(FREE, of_the_cluster()),
    [
        "hold, ClusterInvalid: there is nothing valid by which it could be judged",
        "idle, ClusterInvalid",
        "idle, ClusterInvalid",
    ]
)]
#[case::unselected(
    None,
    ["hold, Unselected: there is nothing valid by which it could be judged", "idle, Unselected", "idle, Unselected"]
)]
fn a_cluster_that_is_to_be_probed(#[case] selected: Option<Selected>, #[case] expected: [&str; 3]) {
    for (known, expected) in [OWING, NOTHING_OWED, NEVER_LOOKED]
        .into_iter()
        .zip(expected)
    {
        let treatment = of(selected.clone(), None, None, known);
        assert_eq!(treatment, expected);
    }
}

fn skip(reason: &'static str, then: Then) -> Skip {
    Skip {
        reason,
        message: String::new(),
        then,
    }
}

/// What is owed to it is settled by its state, unless its policy holds that back.
#[rstest]
#[case::deleting(skip("Deleting", Then::Release), "Release, Deleting")]
#[case::no_workers(skip("NoWorkers", Then::Restore), "Up, NoWorkers")]
#[case::self_hosted(
    skip("SelfHosted", Then::LetGo),
    "let go by shoots in Enforce, SelfHosted"
)]
#[case::creating(
    skip("NotYetCreated", Then::Stay),
    "hold, NotYetCreated: the cluster is not in a state to be judged"
)]
#[case::unreadable(
    skip("Unreadable", Then::Stay),
    "hold, Unreadable: the cluster is not in a state to be judged"
)]
fn a_cluster_that_is_skipped(
    #[case] skip: Skip,
    #[case] expected: &str,
    #[values(true, false)] is_selected: bool,
) {
    let reason = skip.reason;
    let of = |policy: Option<Selected>, known| {
        let (selected, former) = match is_selected {
            true => (policy, None),
            false => (None, policy),
        };
        of(selected, former, Some(skip.clone()), known)
    };
    assert_eq!(of(valid(FREE), OWING), expected);
    let held = |why: &str| format!("hold, {reason}: {why}");
    let suspended = match (reason, is_selected) {
        ("Unreadable", true) => "hold, Suspended: marks stay until the policy goes on",
        _ => &held("the policy is suspended"),
    };
    for mistake in [None, of_the_cluster()] {
        let of = |hold, known| of(policy(hold, mistake.clone()), known);
        assert_eq!(of(SUSPEND, OWING), suspended);
        assert_eq!(of(DRY, OWING), held("the mode is DryRun"));
        let flag = Known { hold: DRY, ..OWING };
        assert_eq!(of(FREE, flag), held("the mode is DryRun"));
        let unread = held("the policy cannot be read, so it may be suspended");
        assert_eq!(of(UNREAD, OWING), unread);
    }
    // By the settings of before it may be taken for healthy although its nodes are silent.
    let last = Arc::new(settings("old"));
    let known = Known {
        last: Some(&last),
        ..OWING
    };
    let mistaken = of(policy(FREE, of_the_cluster()), known);
    match skip.then {
        Then::LetGo => {
            let why = "there is nothing valid by which it could be judged";
            assert_eq!(mistaken, held(why));
        }
        _ => assert_eq!(mistaken, expected),
    }
}

/// That no policy selects any more, by the one that did last, and the settings of the last probe.
#[rstest]
#[case::by_the_former(valid(FREE), "let go by shoots in Enforce")]
#[case::suspended(
    valid(SUSPEND),
    "hold, Unselected: marks stay until the policy goes on"
)]
#[case::dry_run(valid(DRY), "let go by shoots in DryRun")]
#[case::bad_grace(
    policy(FREE, of_the_cluster()),
    "hold, ClusterInvalid: there is nothing valid by which it could be judged"
)]
#[case::not_valid(policy(FREE, of_the_policy()), "let go by old in Enforce")]
#[case::not_valid_and_suspended(
    policy(SUSPEND, of_the_policy()),
    "hold, Unselected: marks stay until the policy goes on"
)]
#[case::not_valid_and_dry(policy(DRY, of_the_policy()), "let go by old in DryRun")]
#[case::unreadable(
    policy(UNREAD, of_the_policy()),
    "hold, PolicyInvalid: the policy cannot be read, so it may be suspended"
)]
// Nobody is left who could switch it to Enforce.
#[case::gone(None, "let go by old in Enforce")]
fn a_cluster_that_is_let_go(
    #[case] former: Option<Selected>,
    #[case] expected: &str,
    #[values(Mode::Enforce, Mode::DryRun)] mode: Mode,
) {
    let last = Arc::new(Settings {
        mode,
        ..settings("old")
    });
    let known = Known {
        last: Some(&last),
        ..OWING
    };
    assert_eq!(of(None, former, None, known), expected);
}

/// Nobody but the flag says so: the policy is gone, or says nothing of it.
#[rstest]
fn a_dry_run_holds_back_without_a_policy(
    #[values(None, policy(FREE, of_the_policy()))] former: Option<Selected>,
) {
    let last = Arc::new(settings("old"));
    let known = Known {
        last: Some(&last),
        hold: DRY,
        ..OWING
    };
    for (skip, expected) in [
        (None, "let go by old in DryRun"),
        (
            Some(skip("NoWorkers", Then::Restore)),
            "hold, NoWorkers: the mode is DryRun",
        ),
    ] {
        assert_eq!(of(None, former.clone(), skip, known), expected);
    }
}

/// Where something is owed, nothing is, and where nobody has looked.
#[rstest]
#[case(FREE, ["Release, Gone", "idle, Gone", "Release, Gone"])]
#[case(SUSPEND, ["hold, Gone: the policy is suspended", "idle, Gone", "idle, Gone"])]
#[case(DRY, ["hold, Gone: the mode is DryRun", "idle, Gone", "idle, Gone"])]
#[case(UNREAD, ["hold, Gone: the policy cannot be read, so it may be suspended", "idle, Gone", "idle, Gone"])]
fn a_cluster_that_is_gone(#[case] hold: PolicyHold, #[case] expected: [&str; 3]) {
    for (known, expected) in [OWING, NOTHING_OWED, NEVER_LOOKED]
        .into_iter()
        .zip(expected)
    {
        let treatment = of(valid(hold), None, Some(skip("Gone", Then::Bury)), known);
        assert_eq!(treatment, expected);
    }
}
