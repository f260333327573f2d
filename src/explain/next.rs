//! How the cluster is and what comes next, in words, by the treatment that the operator takes.

use k8s_openapi::jiff::Timestamp;

use super::{
    account::{State, Threshold},
    dependents::DependentAccount,
    operator::{OperatorAccount, OperatorState},
    outlook::{Outlook, finding},
    text::since,
};
use crate::{
    api::{CheckRole, MaxProtectionAction},
    checks::spread::{FEWEST, LINGERS},
    cluster::Settings,
    prober::{plan::Aim, report, treatment::Treatment},
};

/// How the cluster is, in a sentence or two.
pub(super) fn summary(
    outlook: &Outlook<'_>,
    cluster: &str,
    dependents: &[DependentAccount],
    operator: &OperatorAccount,
    now: Timestamp,
) -> String {
    let record = outlook.record;
    let protected_since = record.and_then(|record| record.protected_since.as_ref());
    let when = protected_since.map_or(String::new(), |it| format!(" since {}", since(it.0, now)));
    let reason = match (outlook.treatment.and_then(finding), record) {
        (Some(finding), _) => report::reason(finding),
        (None, Some(record)) => record.reason.as_deref().unwrap_or_default(),
        (None, None) => "",
    };
    let taken = dependents.iter().filter(|it| it.is_taken()).count();
    let mut text = match outlook.state {
        State::Protected => format!(
            "{cluster} is PROTECTED{when}: dependents are scaled to zero, so that no silent node is \
             replaced, and are owed their replicas.{}",
            match outlook.treatment {
                Some(Treatment::Hold(finding, _)) => format!(
                    " It is NOT PROBED ({}), and nothing restores them.",
                    report::reason(finding)
                ),
                _ => String::new(),
            }
        ),
        State::ScalingDown => {
            format!("{cluster} is in an OUTAGE{when}: its dependents are being scaled to zero.")
        }
        State::Restoring => format!(
            "{cluster} is being RESTORED: its dependents are scaled back, and not all of them are \
             there yet."
        ),
        State::Outage if outlook.is_dry_run() => format!(
            "{cluster} is in an OUTAGE and not protected: the mode of its policy is DryRun."
        ),
        State::Outage if record.is_some_and(|record| record.widespread) => format!(
            "{cluster} fails a TRIGGER that fails in many clusters at the same time, which is NOT \
             TAKEN for an outage: its dependents are not scaled down."
        ),
        State::Outage => {
            format!("{cluster} is in an OUTAGE, and its dependents are not scaled down yet.")
        }
        State::Undetermined => {
            format!("{cluster} CANNOT BE JUDGED ({reason}), so nothing is scaled, either way.")
        }
        State::Healthy => {
            format!("{cluster} is HEALTHY: it is probed, and nothing is scaled down.")
        }
        State::Pending => {
            format!("{cluster} is to be probed, and the operator has NOT REPORTED on it yet.")
        }
        State::Skipped => format!("{cluster} is NOT PROBED ({reason}), so nothing protects it."),
        State::Unselected => format!("{cluster} is NOT PROBED: no policy selects it."),
        State::Gone if taken > 0 => format!(
            "The Cluster {cluster} is GONE, and {taken} of its dependents are scaled to zero."
        ),
        State::Gone => format!("The Cluster {cluster} is GONE; this is what is left of it."),
        State::NotInstalled => format!(
            "{cluster} is NOT PROBED: the kinds of dependency-watchdog are not installed on this \
             seed."
        ),
        State::Unknown => {
            format!("Whether {cluster} is protected CANNOT BE TOLD: too little could be read.")
        }
    };
    if operator.is_away() {
        text.push_str(
            " NO PROBER IS ALIVE: what is told is what it saw last, and nothing is done.",
        );
    } else if record.is_some_and(|record| record.stale) && operator.state != OperatorState::Alive {
        text.push_str(" The record is STALE: nobody seems to keep it.");
    }
    text
}

/// What comes next, as sentences.
pub(super) fn next(
    outlook: &Outlook<'_>,
    threshold: Option<&Threshold>,
    operator: &OperatorAccount,
) -> Vec<String> {
    let mut told = Vec::new();
    if operator.is_away() {
        told.push("Nothing, until a prober runs again. Then:".to_owned());
    }
    match outlook.treatment {
        None => told.push(
            "That cannot be told: it takes the Cluster and the policies, of which some could not be \
             read."
                .to_owned(),
        ),
        Some(Treatment::Probe(settings)) => probed(outlook, settings, threshold, &mut told),
        Some(Treatment::LetGo(..)) if outlook.is_dry_run() => told.push(dry_run(outlook)),
        Some(Treatment::LetGo(..)) => told.push(format!(
            "It is probed until it is healthy, then restored ({}) and let go. Nothing more is taken \
             from it.",
            outlook.order(Aim::Restore)
        )),
        Some(Treatment::Hibernate(..)) => told.push(
            "It is restored as long as its API server answers. When it does not any more, the marks \
             are removed and the replicas stay as they are: gardenlet then scales the control plane."
                .to_owned(),
        ),
        Some(Treatment::Complete(Aim::Restore, _)) => told.push(format!(
            "It is restored at once: {}.",
            outlook.order(Aim::Restore)
        )),
        Some(Treatment::Complete(..)) => told.push(
            "The marks are removed and the replicas stay as they are: in this state gardenlet \
             decides about them."
                .to_owned(),
        ),
        Some(Treatment::Hold(_, why)) => {
            told.push(format!("What is scaled down stays so for now: {why}."));
        }
        Some(Treatment::Idle(_)) => told.push(
            "Nothing, as long as it is not probed: no outage is seen, and nothing is scaled."
                .to_owned(),
        ),
        Some(Treatment::Gone) => told.push(
            "Unless the Cluster is created anew within half a minute, the marks are removed and the \
             replicas stay as they are."
                .to_owned(),
        ),
        Some(Treatment::Done) if outlook.state == State::Gone => {
            told.push("Nothing is owed to it, and its record goes.".to_owned());
        }
        Some(Treatment::Done) => {
            told.push("Nothing, until a policy selects it.".to_owned());
        }
    }
    told
}

fn probed(
    outlook: &Outlook<'_>,
    settings: &Settings,
    threshold: Option<&Threshold>,
    told: &mut Vec<String>,
) {
    let share = threshold.map_or_else(String::new, share);
    let widespread = outlook.record.is_some_and(|record| record.widespread);
    let in_a_row = |count: u32, what: &str| match count {
        0 | 1 => String::new(),
        count => format!(", by {count} {what} in a row"),
    };
    match outlook.state {
        State::Protected | State::ScalingDown | State::Restoring if outlook.is_dry_run() => {
            told.push(dry_run(outlook));
        }
        State::Protected | State::ScalingDown | State::Restoring => {
            if outlook.state == State::ScalingDown {
                told.push(format!("They go to zero in this order: {}.", outlook.order(Aim::Protect)));
            }
            let order = outlook.order(Aim::Restore);
            let in_the_way = outlook.in_the_way();
            if outlook.is_healthy() && in_the_way.is_empty() {
                told.push(format!("The replicas come back in this order: {order}."));
            } else {
                let rows = in_a_row(settings.rules.success_threshold, "healthy verdicts");
                told.push(format!(
                    "It is restored once {}{rows}. The replicas then come back in this order: \
                     {order}.",
                    threshold.map_or_else(String::new, below)
                ));
            }
            told.extend(waits(settings));
            told.extend(ends(settings));
            if !in_the_way.is_empty() {
                told.push(format!(
                    "Each Gate and each Trigger must pass for that, and these do not: {in_the_way}. \
                     Mend what they look at, or take them out of the policy's checks; the command \
                     restore puts the replicas back whatever they say."
                ));
            }
        }
        State::Undetermined => told.push(
            "Nothing is scaled, either way, until a probe can judge it again; what was seen says \
             what is in the way."
                .to_owned(),
        ),
        _ if outlook.is_dry_run() => told.push(format!(
            "Nothing is scaled in mode DryRun. In Enforce, an outage ({share}) scales to zero, in this \
             order: {}.",
            outlook.order(Aim::Protect)
        )),
        State::Outage if widespread => told.push(format!(
            "Nothing is scaled to zero for the Trigger until {LINGERS:?} after its check fails in fewer \
             than {FEWEST} clusters of the policy, or in less than a quarter of them. An outage \
             ({share}) that is proven scales to zero, in this order: {}.",
            outlook.order(Aim::Protect)
        )),
        State::Outage => told.push(format!(
            "To be scaled to zero, in this order: {}.",
            outlook.order(Aim::Protect)
        )),
        _ => {
            let rows = in_a_row(settings.rules.failure_threshold, "verdicts");
            told.push(format!(
                "An outage ({share}) that is proven{rows} scales to zero, in this order: {}.",
                outlook.order(Aim::Protect)
            ));
            if outlook.state == State::Pending && !settings.initial_delay.is_zero() {
                told.push(format!(
                    "If the cluster became eligible after the prober started, nothing is scaled in \
                     the first {:?}.",
                    settings.initial_delay
                ));
            }
        }
    }
    let triggers = settings.checks.iter();
    let triggers = triggers.filter(|check| check.role == CheckRole::Trigger);
    let triggers: Vec<&str> = triggers.map(|check| &*check.name).collect();
    if !triggers.is_empty() {
        told.push(format!(
            "A Trigger that fails is an outage too, whatever the leases say, unless its check fails in \
             many clusters of the policy at the same time: {}.",
            triggers.join(", ")
        ));
    }
    if outlook.record.is_some_and(|record| record.held_back) {
        told.push("For now the prober holds back; the end of what was seen says why.".to_owned());
    }
}

/// How long the protection lasts at most.
fn ends(settings: &Settings) -> Option<String> {
    let (after, then) = settings.max_protection?;
    (then == MaxProtectionAction::Restore).then(|| {
        format!(
            "When it has been protected for {after:?} it is given back although nodes are silent (maxProtection), \
             unless a Trigger fails or a Gate does not pass."
        )
    })
}

/// Which dependents wait for nodes, and for how long at most.
fn waits(settings: &Settings) -> Option<String> {
    let waiting = settings.dependents.iter();
    let waiting: Vec<String> = waiting
        .filter(|it| !it.up.await_nodes.is_zero())
        .map(|it| format!("{} for {:?}", it.reference.name, it.up.await_nodes))
        .collect();
    (!waiting.is_empty()).then(|| {
        format!(
            "Some wait until each node that was silent is Ready again, or is gone, at most (awaitNodes): {}.",
            waiting.join(", ")
        )
    })
}

fn dry_run(outlook: &Outlook<'_>) -> String {
    let policy = outlook.selected.map_or("", |selected| &selected.policy);
    format!(
        "What is scaled down stays so, and marked, as long as the mode of {policy} is DryRun. In \
         Enforce it comes back, in this order: {}.",
        outlook.order(Aim::Restore)
    )
}

fn share(threshold: &Threshold) -> String {
    let Threshold {
        fraction, expiry, ..
    } = threshold;
    match threshold.needed {
        Some(needed) => {
            format!("{needed} node leases or more expired, that is older than {expiry}")
        }
        None => {
            format!("a share of {fraction} of the node leases expired, that is older than {expiry}")
        }
    }
}

fn below(threshold: &Threshold) -> String {
    let Threshold {
        recovery_fraction,
        expiry,
        ..
    } = threshold;
    match threshold.recovered_below {
        Some(1) => format!("no node lease is, or may be, expired (older than {expiry})"),
        Some(some) => {
            format!("fewer than {some} node leases are, or may be, expired (older than {expiry})")
        }
        None => format!(
            "less than a share of {recovery_fraction} of the node leases is, or may be, expired (older than \
             {expiry})"
        ),
    }
}
