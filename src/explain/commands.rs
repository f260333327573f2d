//! What the reader can do or look at, as commands to paste.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    account::{Account, State},
    dependents::{DependentAccount, DependentState},
    operator::{OperatorState, PROBER, WEEDER},
};
use crate::{
    cluster::Selected,
    prober::plan::{Aim, IGNORE, RECORD},
};

/// Where the command restore looks for the Lease unless it is told.
const LEASE_NAMESPACE: &str = "garden";

/// At zero, or on the way there, by the operator.
const DOWN: [DependentState; 2] = [DependentState::Down, DependentState::GoingDown];

/// A command, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    /// What it does, as the rest of "You can".
    pub purpose: String,
    /// Ready to paste into a shell; several lines are several commands.
    pub command: String,
}

/// What commands depend on beside the account.
pub(super) struct Means<'a> {
    /// The responsible policy.
    pub(super) responsible: Option<&'a Selected>,
    /// What the operator aims at.
    pub(super) aim: Aim,
    /// The policy is enforced on the cluster, so that an operator would take again what is restored.
    pub(super) enforced: bool,
    /// Where the operator's Lease was looked for.
    pub(super) namespace: &'a str,
}

/// What can be done about this account, the most urgent first.
pub(super) fn commands(account: &Account, means: &Means<'_>) -> Vec<Command> {
    let mut told = Commands(Vec::new());
    let (cluster, namespace) = (&account.cluster, means.namespace);
    let pods =
        format!("kubectl -n {namespace} get pods -l app.kubernetes.io/name=dependency-watchdog");
    if account.operator.is_away() {
        let lease = format!("kubectl -n {namespace} get lease {} -o yaml", PROBER.lease);
        told.add("see why no prober is alive", format!("{pods}\n{lease}"));
    } else if account.operator.state == OperatorState::NoLease {
        told.add("see whether a prober runs", pods);
    }
    let weeder = account.weeding.as_ref().map(|weeding| &weeding.weeder);
    if weeder.is_some_and(|weeder| weeder.is_away()) {
        let lease = format!("kubectl -n {namespace} get lease {} -o yaml", WEEDER.lease);
        told.add("see why no weeder is alive", lease);
    }
    if account.state == State::NotInstalled {
        told.add(
            "install the kinds",
            "dependency-watchdog crd | kubectl apply --server-side -f -".to_owned(),
        );
    }
    holds(account, means.responsible, &mut told);
    let restore = restore(account, means);
    if let Some(Restore::Unopposed(command)) = &restore {
        told.add(
            "put back by hand all that is owed: it shows what it would do, and asks; nodes that are \
             silent may then be replaced",
            command.clone(),
        );
    }
    for dependent in &account.dependents {
        let name = dependent.kubectl_name();
        let back = format!(
            "kubectl -n {cluster} scale {name} --replicas={}",
            dependent.by_hand()
        );
        match dependent.state {
            DependentState::RecordUnreadable => told.add(
                &format!("remove the record of {name}, to have the last known number restored"),
                format!("kubectl -n {cluster} annotate {name} {RECORD}-"),
            ),
            DependentState::MarkRemoved => {
                told.add(&format!("scale {name} back by hand"), back);
            }
            DependentState::Ignored => {
                if dependent.replicas == Some(0) {
                    told.add(&format!("scale {name} back by hand"), back);
                }
                told.add(
                    &format!("give {name} into the hands of the operator again"),
                    format!("kubectl -n {cluster} annotate {name} {IGNORE}-"),
                );
            }
            _ => {}
        }
    }
    if matches!(
        account.state,
        State::Protected | State::ScalingDown | State::Outage | State::Undetermined
    ) {
        told.add(
            "see how the machines behind the nodes are",
            format!("kubectl -n {cluster} get machines.machine.sapcloud.io"),
        );
    }
    if account.state == State::Unselected {
        told.add(
            "see what policies ask for, and which labels there are",
            format!(
                "kubectl get probepolicies -o custom-columns=NAME:.metadata.name,\
                 SELECTOR:.spec.clusterSelector\n\
                 kubectl get clusters.extensions.gardener.cloud {cluster} -o \
                 jsonpath='{{.metadata.labels}} {{.spec.shoot.metadata.labels}}'"
            ),
        );
    }
    if account.record.is_some() {
        told.add(
            "see the whole record, with what happened lately",
            format!("kubectl describe clusterhealth {cluster}"),
        );
    }
    // Last, since it is seldom the right thing to do.
    if let Some(Restore::Overruling(command)) = &restore {
        told.add(
            "overrule the operator: restore all that is owed, and keep it from scaling down again; it \
             shows what it would do, and asks; nodes that are silent may then be replaced",
            command.clone(),
        );
    }
    by_hand(account, &mut told);
    told.0
}

/// How all of the cluster is restored.
enum Restore {
    /// No operator would take it again.
    Unopposed(String),
    /// One would, or it is not known whether one is there.
    Overruling(String),
}

/// The command that restores what is at zero by the operator, unless gardenlet decides about it.
fn restore(account: &Account, means: &Means<'_>) -> Option<Restore> {
    let down = |it: &DependentAccount| DOWN.contains(&it.state);
    if means.aim == Aim::Release || !account.dependents.iter().any(down) {
        return None;
    }
    let mut command = format!("dependency-watchdog restore {}", account.cluster);
    if means.namespace != LEASE_NAMESPACE {
        let _ = write!(command, " --leader-election-namespace={}", means.namespace);
    }
    let seen = match account.operator.state {
        OperatorState::Alive | OperatorState::Unknown => true,
        OperatorState::Silent | OperatorState::Vacant | OperatorState::NoLease => false,
    };
    Some(match means.enforced && seen {
        true => Restore::Overruling(command + " --overrule"),
        false => Restore::Unopposed(command),
    })
}

/// What a policy holds back, and how to let it go on.
fn holds(account: &Account, responsible: Option<&Selected>, told: &mut Commands) {
    let Some(Selected { policy, hold, .. }) = responsible else {
        return;
    };
    let patch = |spec: &str| {
        format!("kubectl patch probepolicy {policy} --type=merge -p '{{\"spec\":{{{spec}}}}}'")
    };
    if hold.suspended {
        told.add(
            &format!("resume the policy {policy}, for all its clusters"),
            patch("\"suspend\":false"),
        );
    }
    if hold.no_mode {
        told.add(
            &format!("give the policy {policy} a mode: DryRun observes only, Enforce also scales"),
            patch("\"mode\":\"DryRun\""),
        );
    }
    let engaged = account.dependents.iter().any(|it| it.is_taken());
    if hold.dry_run && (engaged || account.state == State::Outage) {
        told.add(
            &format!("let the policy {policy} act, on all its clusters"),
            patch("\"mode\":\"Enforce\""),
        );
    }
}

/// How to overrule the operator, and how to see what the reader may not.
fn by_hand(account: &Account, told: &mut Commands) {
    let cluster = &account.cluster;
    let of = |states: &[DependentState], line: &dyn Fn(&DependentAccount) -> String| {
        let dependents = account.dependents.iter();
        let dependents = dependents.filter(|it| states.contains(&it.state));
        let lines: Vec<String> = dependents.map(line).collect();
        Some(lines.join("\n")).filter(|lines| !lines.is_empty())
    };
    if let Some(lines) = of(&DOWN, &|it| {
        let (name, replicas) = (it.kubectl_name(), it.by_hand());
        format!(
            "kubectl -n {cluster} annotate {name} {IGNORE}=true\n\
             kubectl -n {cluster} scale {name} --replicas={replicas}"
        )
    }) {
        told.add(
            "restore single dependents by hand, in this order, and keep the operator from scaling them \
             down again until the annotation is removed; nodes that are silent may then be replaced",
            lines,
        );
    }
    if let Some(lines) = of(&[DependentState::Unread], &|it| {
        format!("kubectl -n {cluster} auth can-i get {}", it.kubectl_name())
    }) {
        told.add("see which dependents you may read", lines);
    }
}

struct Commands(Vec<Command>);

impl Commands {
    fn add(&mut self, purpose: &str, command: String) {
        self.0.push(Command {
            purpose: purpose.to_owned(),
            command,
        });
    }
}
