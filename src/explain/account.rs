//! The account as a value, which is also its JSON.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::{
    Answers, Refused,
    commands::{Command, Means, commands},
    dependents::{DependentAccount, Wanted},
    next,
    operator::{OperatorAccount, PROBER},
    outlook::{self, Outlook},
    policies::{self, PolicyAccount},
    probing::{Probing, probing},
    record::Record,
    weeding::Weeding,
};
use crate::{
    api::{self, ClusterHealthStatus, DependentStatus, Protection, Restore, is_outage},
    cluster::{Assignment, Dependent, Eligibility, LeaseRules, PolicyHold, Settings},
    prober::{
        report::{Finding, HEALTHY},
        treatment::{ClusterObject, Known, Treatment},
    },
};

/// How the cluster is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// Its dependents are scaled to zero.
    Protected,
    /// They are being scaled to zero.
    ScalingDown,
    /// They are being scaled back.
    Restoring,
    /// It is in an outage, and its dependents are not scaled down.
    Outage,
    /// It is probed, and the evidence does not suffice.
    Undetermined,
    /// It is probed, and healthy.
    Healthy,
    /// It is to be probed, and the operator has not said anything of it yet.
    Pending,
    /// A policy applies, and it is not probed.
    Skipped,
    /// No policy selects it.
    Unselected,
    /// There is no such Cluster any more.
    Gone,
    /// The seed does not serve ProbePolicies.
    NotInstalled,
    /// Too little could be read.
    Unknown,
}

/// The account of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The Cluster's name.
    pub cluster: String,
    /// When this was told, by the seed's clock.
    pub time: Time,
    /// How the cluster is, in one word.
    pub state: State,
    /// The same as a sentence or two.
    pub summary: String,
    /// Whether an operator is alive.
    pub operator: OperatorAccount,
    /// Whether the cluster is probed.
    pub probing: Probing,
    /// All policies: the one that applies first.
    pub policies: Vec<PolicyAccount>,
    /// When it is an outage; absent where no valid policy applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// What the operator has seen and done; absent without a ClusterHealth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// The dependents of the policy and of the record.
    pub dependents: Vec<DependentAccount>,
    /// What comes next, as sentences.
    pub next: Vec<String>,
    /// Which pods the weeder deletes there; absent if no WeedPolicy has to do with the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weeding: Option<Weeding>,
    /// What can be done or looked at.
    pub commands: Vec<Command>,
    /// What could not be read, dependents apart.
    pub unread: Vec<Unread>,
}

/// What it takes to be an outage, and to be over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Threshold {
    /// The share of expired leases, above 0 and up to 1.
    pub fraction: f64,
    /// How many leases that is of those that counted last; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<i32>,
    /// The share below which the expired leases must fall before a protected cluster is restored.
    pub recovery_fraction: f64,
    /// How many leases that is of those that counted last; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_below: Option<i32>,
    /// The node monitor grace period that counts for the cluster.
    pub grace: api::Duration,
    /// The age at which a lease is expired; three renewals if that is longer.
    pub expiry: api::Duration,
    /// Verdicts of an outage in a row before scaling down.
    pub failure_threshold: u32,
    /// Healthy verdicts in a row before scaling back.
    pub success_threshold: u32,
    /// From one probe to the next.
    pub probe_interval: api::Duration,
    /// For how long a cluster that became eligible is only observed.
    pub initial_delay: api::Duration,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The kind, or the object.
    pub what: String,
    /// Why.
    pub message: String,
}

impl Account {
    /// What these answers come to.
    pub fn new(answers: &Answers) -> Self {
        let Answers {
            cluster,
            now,
            namespace,
            objects,
            index,
            dependents: asked,
            weeding: _,
        } = answers;
        let health = objects.health.as_ref().ok().and_then(Option::as_ref);
        let status = health.and_then(|health| health.as_ref().ok()?.status.as_ref());
        let found = || {
            asked
                .iter()
                .filter_map(|it| it.found.as_ref().ok()?.as_ref())
        };
        let taken = found().any(|it| it.marked && it.replicas == 0);
        let owes = status.is_some_and(|it| {
            it.protection != Protection::None || it.dependents.iter().any(|it| it.owed)
        });
        let engaged = owes || found().any(|it| it.marked);

        let presence = presence(answers, status);
        // The operator may read the dependents, whether or not the reader may.
        let known = Known {
            last: None,
            engaged,
            looked_at: true,
            dry_run: false,
        };
        let treatment = presence
            .as_ref()
            .map(|presence| Treatment::new(presence, known));
        let assignment = index.assignment(cluster);
        let responsible = assignment.and_then(Assignment::responsible);
        let settings = responsible.and_then(|it| it.settings.as_ref().ok());
        let record = status.map(|status| Record::new(status, *now));
        let state = state(answers, treatment.as_ref(), record.as_ref(), taken);

        let recorded = status.map_or(&[][..], |status| &status.dependents);
        let outlook = Outlook {
            state,
            treatment: treatment.as_ref(),
            selected: responsible,
            settings,
            record: record.as_ref(),
            recorded,
        };
        let aim = outlook.aim();
        let wanted = wanted(&outlook, settings, recorded);
        let mut dependents: Vec<_> = asked.iter().map(|asked| wanted.account(asked)).collect();
        dependents.sort_by_key(|dependent| dependent.level);
        let operator = OperatorAccount::new(&PROBER, &objects.lease, namespace, *now);
        let threshold = settings.map(|settings| Threshold::new(settings, status));
        let mut account = Self {
            cluster: cluster.clone(),
            time: Time(*now),
            state,
            summary: next::summary(&outlook, cluster, &dependents, &operator, *now),
            probing: probing(answers, treatment.as_ref(), responsible, record.as_ref()),
            policies: policies::accounts(index, objects, cluster),
            next: next::next(&outlook, threshold.as_ref(), &operator),
            weeding: Weeding::new(answers),
            threshold,
            operator,
            record,
            dependents,
            commands: Vec::new(),
            unread: unread(answers),
        };
        let means = Means {
            responsible,
            aim,
            enforced: assignment.is_some_and(is_enforced),
            namespace,
        };
        account.commands = commands(&account, &means);
        account
    }
}

impl Threshold {
    fn new(settings: &Settings, status: Option<&ClusterHealthStatus>) -> Self {
        let rules = settings.rules;
        let leases = status.and_then(|status| status.leases.as_ref());
        // A longer one may not count yet.
        let in_force = status.and_then(|status| status.node_monitor_grace_period.as_ref());
        let thresholds = LeaseRules {
            grace: in_force.map_or(rules.grace, |grace| grace.get().min(rules.grace)),
            ..rules
        };
        let fewest = |of: fn(&LeaseRules, usize) -> usize| {
            let all = leases?.candidates;
            let some = i32::try_from(of(&thresholds, usize::try_from(all).ok()?)).ok()?;
            (1..=all).contains(&some).then_some(some)
        };
        Self {
            fraction: rules.fraction,
            needed: fewest(LeaseRules::needed),
            recovery_fraction: rules.recovery,
            recovered_below: fewest(LeaseRules::unrecovered),
            grace: api::Duration::from(thresholds.grace),
            expiry: api::Duration::from(
                thresholds
                    .expiry(Duration::ZERO)
                    .unwrap_or(thresholds.grace),
            ),
            failure_threshold: rules.failure_threshold,
            success_threshold: rules.success_threshold,
            probe_interval: api::Duration::from(rules.interval),
            initial_delay: api::Duration::from(settings.initial_delay),
        }
    }
}

/// Whether a policy selects the cluster that scales down what is restored in an outage.
fn is_enforced(assignment: &Assignment) -> bool {
    let selected = assignment.selected.as_ref();
    assignment.eligibility == Eligibility::Probed
        && selected.is_some_and(|it| it.hold == PolicyHold::default())
}

/// What the operator knows of the Cluster; `None` if too little of it could be read here.
fn presence(answers: &Answers, status: Option<&ClusterHealthStatus>) -> Option<ClusterObject> {
    let Answers { objects, index, .. } = answers;
    objects.policies.as_ref().ok()?;
    match &objects.cluster {
        Ok(Some(_)) => {
            let assignment = index.assignment(&answers.cluster)?;
            Some(ClusterObject::There(Box::new(assignment.clone())))
        }
        Ok(None) => {
            let last = status.and_then(|status| status.policy.as_deref());
            let policy = last.and_then(|last| policies::find(index, last));
            Some(ClusterObject::Gone(
                policy.map(|policy| policy.hold).unwrap_or_default(),
            ))
        }
        Err(_) => None,
    }
}

fn state(
    answers: &Answers,
    treatment: Option<&Treatment>,
    record: Option<&Record>,
    taken: bool,
) -> State {
    let gone = matches!(answers.objects.cluster, Ok(None));
    let protection = record.map_or(Protection::None, |record| record.protection);
    match (protection, treatment) {
        _ if gone => State::Gone,
        (Protection::Active, _) => State::Protected,
        (Protection::ScalingDown, _) => State::ScalingDown,
        (Protection::Restoring, _) => State::Restoring,
        // The marks are the truth.
        (Protection::None, _) if taken => State::Protected,
        (_, None) if matches!(answers.objects.policies, Err(Refused::NotServed)) => {
            State::NotInstalled
        }
        (_, None) => match record {
            Some(record) if record.is_skipped => State::Skipped,
            Some(record) => judged(Some(record)),
            None => State::Unknown,
        },
        (_, Some(Treatment::Done | Treatment::Gone)) => State::Unselected,
        (_, Some(treatment)) => match outlook::finding(treatment) {
            Some(Finding::Skipped { reason, .. }) if *reason == "Unselected" => State::Unselected,
            Some(Finding::Skipped { .. }) => State::Skipped,
            Some(_) => State::Undetermined,
            None => judged(record),
        },
    }
}

/// By the record of a cluster that is to be probed.
fn judged(record: Option<&Record>) -> State {
    match record.and_then(|record| record.reason.as_deref().map(|reason| (record, reason))) {
        None | Some((_, "Pending")) => State::Pending,
        // What it says is of a time when it was not probed.
        Some((record, _)) if record.last_probe_time.is_none() => State::Pending,
        Some((_, HEALTHY)) => State::Healthy,
        Some((_, reason)) if is_outage(reason) => State::Outage,
        Some(_) => State::Undetermined,
    }
}

fn wanted<'a>(
    outlook: &Outlook<'_>,
    settings: Option<&'a std::sync::Arc<Settings>>,
    recorded: &'a [DependentStatus],
) -> Wanted<'a> {
    let named: &[Dependent] = settings.map_or(&[], |settings| &settings.dependents);
    Wanted {
        aim: outlook.aim(),
        restore: settings.map_or(Restore::Marked, |settings| settings.restore),
        named,
        recorded,
        held: outlook.is_held(),
    }
}

fn unread(answers: &Answers) -> Vec<Unread> {
    let Answers { objects, .. } = answers;
    let refused = |what: &str, refused: Option<&Refused>| {
        refused.map(|refused| Unread {
            what: what.to_owned(),
            message: refused.to_string(),
        })
    };
    let undecodable = match &objects.health {
        Ok(Some(Err(error))) => Some(Unread {
            what: format!("ClusterHealth {}", answers.cluster),
            message: format!("it cannot be understood: {error}"),
        }),
        _ => None,
    };
    // Where the kind is not there, nothing is weeded, and nobody asked for that.
    let weed_policies = objects.weed_policies.as_ref().err();
    let weed_policies = weed_policies.filter(|refused| **refused != Refused::NotServed);
    let namespace = answers.weeding.as_ref();
    let namespace = namespace.and_then(|weeding| weeding.namespace.as_ref().err());
    let kinds = [
        refused("Clusters", objects.cluster.as_ref().err()),
        refused("ClusterHealths", objects.health.as_ref().err()),
        refused("ProbePolicies", objects.policies.as_ref().err()),
        undecodable,
        refused("WeedPolicies", weed_policies),
        refused("the Namespace", namespace),
    ];
    kinds.into_iter().flatten().collect()
}
