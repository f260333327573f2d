//! The page, from top to bottom.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry, jiff::Timestamp};

use super::{
    Answers, policies,
    remedy::remedy,
    text::{INDENT, Text, ago, conditions, since},
    weeding,
};
use crate::{
    api::{ClusterHealthStatus, ClusterState},
    prober::{LEASE, finding::PENDING, step::Record},
    runtime::leader::MAX_HOLDER,
    util::{columns::columns, text::clean},
};

/// Seconds for which a Lease holds that does not say it: the default of the operator.
const LEASE_SECONDS: i32 = 15;
/// Namespace in which `restore` looks for the Lease by default.
const LEASE_NAMESPACE: &str = "garden";

/// Puts these answers into words.
pub fn page(answers: &Answers) -> String {
    let mut page = Text::default();
    let headline = match &answers.status {
        _ if answers.is_gone => "is gone".to_owned(),
        None => "has no record (ClusterHealth) that could be read".to_owned(),
        Some(status) => {
            let reason = status.reason.as_deref().unwrap_or(PENDING);
            let since = since(status.protected_since.as_ref(), answers.now);
            format!("is {reason}; protection: {:?}{since}", status.protection)
        }
    };
    page.wrapped("", 0, &format!("{} {headline}.", answers.cluster));
    page.line("");
    page.section("Operator", [operator(answers)]);
    page.section("Policies", policies::lines(answers));
    if let Some(status) = &answers.status {
        record(&mut page, status, answers.now);
    }
    dependents(&mut page, answers);
    page.section("Weeding", weeding::lines(answers));
    page.section("Not read", answers.not_read.clone());
    page.finish()
}

/// Says whether a prober leads, by the time at which the seed stored the last renewal of its Lease.
fn operator(answers: &Answers) -> String {
    let Some(lease) = &answers.lease else {
        let lease = format!("{}/{LEASE}", answers.namespace);
        return format!("not known: there is no Lease {lease}, or it was not read");
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = clean(&spec.holder_identity.unwrap_or_default(), MAX_HOLDER);
    // Others may change the Lease, too, such as its labels.
    let renews = |it: &&ManagedFieldsEntry| {
        let fields = it.fields_v1.as_ref();
        fields.is_some_and(|it| it.0.pointer("/f:spec/f:renewTime").is_some())
    };
    let entries = lease.metadata.managed_fields.iter().flatten();
    let stored = entries
        .filter(renews)
        .filter_map(|it| Some(it.time.as_ref()?.0));
    let stored = stored.max();
    let renewed = stored.or(spec.renew_time.map(|time| time.0));
    let age = renewed.map(|time| answers.now.duration_since(time).as_secs());
    let holds = spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS);
    let alive = age.is_some_and(|age| age <= holds.into());
    let when = renewed.map_or("never".to_owned(), |time| ago(time, answers.now));
    match (&*holder, alive) {
        ("", _) => "no prober leads, so nothing is done: the Lease was given back".to_owned(),
        (_, true) => format!("{holder} leads; it renewed its Lease {when}"),
        _ => format!("no prober is alive, so nothing is done: {holder} renewed {when}"),
    }
}

/// Prints the ClusterHealth in its own words, and what to do under its reasons.
fn record(page: &mut Text, status: &ClusterHealthStatus, now: Timestamp) {
    let reason = status.reason.as_deref().unwrap_or(PENDING);
    let message = status.message.as_deref().unwrap_or_default();
    let policy = status.policy.as_deref().unwrap_or("none");
    let probed = status.last_probe_time.as_ref();
    let probed = probed.map_or("never".to_owned(), |time| ago(time.0, now));
    let seen = format!("{reason} (policy: {policy}), last probed {probed}: {message}");
    page.section("Seen", [seen]);
    page.section("Conditions", conditions(&status.conditions, message));
    let others = status.conditions.iter().filter(|it| it.status == "True");
    let others = others.map(|it| &*it.reason).filter(|it| *it != reason);
    let reasons = [reason].into_iter().chain(others);
    page.section("To do", reasons.filter_map(remedy).map(str::to_owned));
    let done = status.last_action.as_ref().map(|last| {
        let (action, when) = (last.action, ago(last.time.0, now));
        format!("{action:?} {when}: {}", last.message)
    });
    page.section("Done", [done.unwrap_or_else(|| "nothing".to_owned())]);
    if let Some(state) = status.state.map(ClusterState::name) {
        let since = since(status.last_state_transition_time.as_ref(), now);
        let why = status.state_message.as_deref().unwrap_or_default();
        page.section("State", [format!("{state}{since}: {why}")]);
    }
    for (field, value) in [
        ("nodes", &status.nodes),
        ("nodesPidPressure", &status.nodes_pid_pressure),
        ("nodesMemoryPressure", &status.nodes_memory_pressure),
        ("nodesDiskPressure", &status.nodes_disk_pressure),
    ] {
        if let Some(value) = value {
            // Two numbers of at most ten digits: what others wrote there could look like a line of this page.
            page.line(&format!("{:INDENT$}{field:<21}{}", "", clean(value, 21)));
        }
    }
    let checks = status.checks.iter().map(|check| {
        let role = check.role.map(|role| format!(" ({role:?})"));
        let why = check.message.as_ref().map(|why| format!(": {why}"));
        let (role, why) = (role.unwrap_or_default(), why.unwrap_or_default());
        format!("{}{role} is {:?}{why}", check.name, check.result)
    });
    page.section("Checks", checks);
}

/// Prints the dependents as they are now, and how what is owed is given back by hand.
fn dependents(page: &mut Text, answers: &Answers) {
    let recorded = answers.status.iter().flat_map(|it| &it.dependents);
    let recorded: Vec<_> = recorded.filter(|it| it.owed).collect();
    let mut rows = vec![["DEPENDENT", "NOW", "OWED", "MARK"].map(str::to_owned)];
    let mut is_owed = false;
    for (reference, found) in &answers.dependents {
        let found = found.as_ref().map(Option::as_ref);
        let taken = found.flatten().filter(|it| it.marked && it.replicas == 0);
        let owed = recorded.iter().find(|it| it.r#ref == *reference);
        is_owed |= owed.is_some() || taken.is_some();
        let owed = match (taken.map(|it| &it.record), owed) {
            (None, None) => "-".to_owned(),
            (Some(Record::Replicas(replicas)), _) => replicas.to_string(),
            (Some(Record::Unreadable(text)), _) => format!("{text:?}"),
            (_, owed) => match owed.and_then(|it| it.recorded_replicas) {
                Some(replicas) => replicas.to_string(),
                None => "?".to_owned(),
            },
        };
        let (now, mark) = match found {
            Some(Some(it)) => {
                let mark = if it.marked { "yes" } else { "no" };
                let ignored = if it.ignored { ", ignore-scaling" } else { "" };
                (it.replicas.to_string(), format!("{mark}{ignored}"))
            }
            Some(None) => ("missing".to_owned(), "-".to_owned()),
            None => ("?".to_owned(), "?".to_owned()),
        };
        rows.push([reference.kubectl_name(), now, owed, mark]);
    }
    page.line("");
    if rows.len() > 1 {
        columns(&rows).iter().for_each(|row| page.line(row));
        page.line("");
    }
    if is_owed {
        let elsewhere = match &*answers.namespace {
            LEASE_NAMESPACE => String::new(),
            namespace => format!(" --leader-election-namespace={namespace}"),
        };
        let restore = format!("dependency-watchdog restore {}{elsewhere}", answers.cluster);
        page.line(&format!("To give back by hand what is owed: {restore}"));
        page.line("");
    }
}
