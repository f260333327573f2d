//! Which WeedPolicies cover the namespace of the cluster, and what their statuses tell of it: by the
//! same coverage by which the weeder decides.

use kube::core::DeserializeGuard;
use serde::Serialize;

use super::{
    Answers,
    operator::{OperatorAccount, WEEDER},
    record::{Trouble, trouble},
};
use crate::{
    api::{self, LastWeed, LeftAlone, Mode, WeedPolicy, WeedPolicyStatus},
    status::conditions::READY,
    weeder::{
        coverage::{Coverage, Namespace},
        policy::Policy,
    },
};

/// What a WeedPolicy has to do with the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Cover {
    /// It covers it.
    Covers,
    /// It would, and is suspended.
    Suspended,
    /// It would, and is being deleted.
    Deleting,
    /// It breaks a rule, and covers nothing.
    Invalid,
    /// It does not cover it, and has done something there.
    Former,
    /// That cannot be told, since the namespace could not be read.
    Unknown,
}

/// A WeedPolicy, seen from the namespace of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WeedPolicyAccount {
    /// Its name.
    pub name: String,
    /// What it has to do with the namespace.
    pub cover: Cover,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.suspend`.
    pub suspend: bool,
    /// The services whose recovery it waits for; empty if the policy is not valid.
    pub services: Vec<String>,
    /// For how long pods are deleted once one of them is back; absent if the policy is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_duration: Option<api::Duration>,
    /// The same as the rest of a sentence that begins with its name.
    pub message: String,
    /// The condition Ready of its status: about all its namespaces. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// What keeps it from deleting pods, in whatever namespace.
    pub trouble: Vec<Trouble>,
    /// The pods of this namespace among the last that were deleted for it, the newest first.
    pub last_weeds: Vec<LastWeed>,
    /// The pods of this namespace among the last that were left alone, the newest first.
    pub left_alone: Vec<LeftAlone>,
}

/// A condition Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In one word.
    pub reason: String,
    /// As a sentence.
    pub message: String,
}

/// What is known of weeding in the namespace of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Weeding {
    /// Whether a weeder is alive.
    pub weeder: OperatorAccount,
    /// The policies that have something to do with it, by name.
    pub policies: Vec<WeedPolicyAccount>,
}

impl Weeding {
    /// `None` if there is nothing to say.
    pub(super) fn new(answers: &Answers) -> Option<Self> {
        let told = answers.weeding.as_ref()?;
        let policies = answers.objects.weed_policies.iter().flatten();
        let parsed: Vec<_> = policies.map(|it| (Policy::new(it), it)).collect();
        // As if not suspended: it shows what the policy would cover.
        let mut coverage = Coverage::default();
        coverage.policies_are_listed();
        coverage.namespaces_are_listed();
        for (policy, _) in &parsed {
            coverage.put_policy(Policy {
                suspend: false,
                deleting: false,
                ..policy.clone()
            });
        }
        if let Ok(Some(metadata)) = &told.namespace {
            let namespace = Namespace {
                labels: metadata.labels.clone().unwrap_or_default(),
                deleting: metadata.deletion_timestamp.is_some(),
            };
            coverage.put_namespace(answers.cluster.as_str().into(), namespace);
        }
        let unread = told.namespace.is_err();
        let selecting = coverage.selecting(&answers.cluster);
        let mut policies: Vec<_> = parsed
            .iter()
            .filter_map(|(policy, object)| {
                let selects = selecting.contains(&policy.name);
                let status = object.0.as_ref().ok().and_then(|it| it.status.as_ref());
                let here = here(status, &answers.cluster);
                let cover = cover(policy, selects, unread, !here.is_empty())?;
                Some(account(policy, object, cover, here))
            })
            .collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        (!policies.is_empty()).then(|| Self {
            weeder: OperatorAccount::new(&WEEDER, &told.lease, &answers.namespace, answers.now),
            policies,
        })
    }
}

/// What a status tells of one namespace.
struct Here {
    weeds: Vec<LastWeed>,
    left: Vec<LeftAlone>,
}

impl Here {
    fn is_empty(&self) -> bool {
        self.weeds.is_empty() && self.left.is_empty()
    }
}

fn here(status: Option<&WeedPolicyStatus>, namespace: &str) -> Here {
    let weeds = status.map_or(&[][..], |status| &status.last_weeds);
    let left = status.map_or(&[][..], |status| &status.left_alone);
    let weeds = weeds.iter().filter(|it| it.namespace == namespace);
    let left = left.iter().filter(|it| it.namespace == namespace);
    Here {
        weeds: weeds.cloned().collect(),
        left: left.cloned().collect(),
    }
}

/// `None` if the policy has nothing to do with the namespace.
fn cover(policy: &Policy, selects: bool, unread: bool, acted: bool) -> Option<Cover> {
    match () {
        () if policy.rules.is_err() => Some(Cover::Invalid),
        () if unread => Some(Cover::Unknown),
        () if !selects => acted.then_some(Cover::Former),
        () if policy.deleting => Some(Cover::Deleting),
        () if policy.suspend => Some(Cover::Suspended),
        () => Some(Cover::Covers),
    }
}

fn account(
    policy: &Policy,
    object: &DeserializeGuard<WeedPolicy>,
    cover: Cover,
    here: Here,
) -> WeedPolicyAccount {
    let object = object.0.as_ref().ok();
    let spec = object.map(|it| &it.spec).filter(|_| policy.rules.is_ok());
    let services = spec.map(|spec| spec.services_and_dependant_selectors.keys());
    let services: Vec<String> = services.into_iter().flatten().cloned().collect();
    let watch_duration = spec.map(|spec| spec.watch_duration.clone());
    let status = object.and_then(|it| it.status.as_ref());
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let ready = conditions.iter().find(|it| it.type_ == READY);
    WeedPolicyAccount {
        name: policy.name.to_string(),
        cover,
        mode: policy.mode,
        suspend: policy.suspend,
        message: message(policy, cover, &services, watch_duration.as_ref()),
        services,
        watch_duration,
        ready: ready.map(|it| Ready {
            status: it.status.clone(),
            reason: it.reason.clone(),
            message: it.message.clone(),
        }),
        trouble: trouble(conditions, &["Degraded"]),
        last_weeds: here.weeds,
        left_alone: here.left,
    }
}

fn message(
    policy: &Policy,
    cover: Cover,
    services: &[String],
    lasts: Option<&api::Duration>,
) -> String {
    let services = services.join(", ");
    let lasts = lasts.map_or_else(String::new, ToString::to_string);
    match cover {
        Cover::Covers if policy.mode == Mode::DryRun => format!(
            "covers the namespace, and its mode is DryRun: pods that crash and need one of these \
             services are reported, and not deleted, for {lasts} after it has become ready: {services}"
        ),
        Cover::Covers => format!(
            "covers the namespace: pods that crash and need one of these services are deleted, for \
             {lasts} after it has become ready: {services}"
        ),
        Cover::Suspended => {
            "would cover the namespace, and is suspended: no pod is deleted for it".to_owned()
        }
        Cover::Deleting => "covers nothing any more, since it is being deleted".to_owned(),
        Cover::Invalid => format!(
            "is not valid, and covers nothing: {}",
            policy.problems().join("; ")
        ),
        Cover::Former => "does not cover the namespace any more".to_owned(),
        Cover::Unknown => "may cover the namespace or not: its labels could not be read".to_owned(),
    }
}
