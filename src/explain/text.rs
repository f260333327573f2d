//! The account as people read it: sections, wrapped lines, aligned columns; commands as they are.

use std::fmt::Write as _;

use k8s_openapi::jiff::Timestamp;

use super::{
    account::{Account, Threshold},
    dependents::DependentAccount,
    policies::PolicyAccount,
    probing::Probing,
    record::{Observed, Record, Trouble},
    weeding::Weeding,
};
use crate::{
    api::{CheckRole, CheckStatus, Mode},
    util::columns::columns,
};

/// Where lines end at the latest, in characters; commands and long words may be longer.
const WIDTH: usize = 100;
/// Where what is said of a section begins.
const INDENT: usize = 12;
/// Room for the name of a field of a ClusterHealth and the gap behind it.
const FIELD: usize = 21;

/// The account in words.
pub fn text(account: &Account) -> String {
    let now = account.time.0;
    let mut page = Page(String::new());
    page.wrapped("", "", &account.summary);
    page.line("");
    page.section("Operator", &account.operator.message);
    page.section("Probed", &probing_line(&account.probing));
    page.sections("Policies", account.policies.iter().flat_map(policy_lines));
    if let Some(threshold) = &account.threshold {
        page.section("Threshold", &threshold_line(threshold));
    }
    match &account.record {
        Some(record) => {
            told(&mut page, record, now);
            if let Some(observed) = &record.observed {
                state(&mut page, observed, now);
            }
            page.sections("Checks", record.checks.iter().map(check_line));
        }
        None => page.section(
            "Seen",
            "nothing: the operator keeps no record (ClusterHealth) of this cluster",
        ),
    }
    dependents(&mut page, &account.dependents, now);
    page.sections("Next", account.next.iter().cloned());
    if let Some(weeding) = &account.weeding {
        weeded(&mut page, weeding, now);
    }
    let unread = account.unread.iter();
    let unread = unread.map(|it| format!("{}: {}", it.what, it.message));
    page.sections("Not read", unread);
    if !account.commands.is_empty() {
        page.line("");
        page.line("You can");
        for command in &account.commands {
            page.wrapped("  # ", "  # ", &command.purpose);
            for line in command.command.lines() {
                page.line(&format!("  {line}"));
            }
        }
    }
    // What came from others could move the cursor or hide text.
    page.0.replace(|c: char| c.is_control() && c != '\n', "?")
}

fn probing_line(probing: &Probing) -> String {
    match (probing.probed, &probing.reason) {
        (Some(false), Some(reason)) => format!("no ({reason}): {}", probing.message),
        _ => probing.message.clone(),
    }
}

fn policy_lines(policy: &PolicyAccount) -> Vec<String> {
    let mut text = format!("{} {}", policy.name, policy.message);
    if policy.mode == Some(Mode::DryRun) {
        text.push_str("; its mode is DryRun");
    }
    if policy.mode.is_none() {
        text.push_str("; its mode is missing or cannot be read, so nothing is scaled for it");
    }
    if policy.suspend {
        text.push_str("; it is suspended");
    }
    let trouble = policy.trouble.iter();
    let trouble = trouble.map(|Trouble { reason, message }| format!("{reason}: {message}"));
    std::iter::once(text).chain(trouble).collect()
}

fn threshold_line(threshold: &Threshold) -> String {
    let (fraction, grace, expiry) = (&threshold.fraction, &threshold.grace, &threshold.expiry);
    let mut text = format!("an outage is a share of {fraction} of the node leases that count");
    if let Some(needed) = threshold.needed {
        let _ = write!(text, " ({needed} of those counted last)");
    }
    let _ = write!(
        text,
        " not renewed for {expiry}, or three renewals if that is longer; kube-controller-manager \
         reacts after {grace}"
    );
    text
}

fn told(page: &mut Page, record: &Record, now: Timestamp) {
    let reason = record.reason.as_deref().unwrap_or("nothing yet");
    let probed = record.last_probe_time.as_ref();
    let probed = probed.map(|probed| ago(probed.0, now));
    let mut seen = match probed {
        None => format!("{reason}, never probed"),
        Some(ago) if record.is_skipped => format!("{reason}, last probed {ago}"),
        Some(ago) => format!("{reason}, as of {ago}"),
    };
    if record.stale {
        seen.push_str(" (STALE: it should have been written again since)");
    } else if record.lags(now) {
        seen.push_str(" (what stays the same is written again within 15 minutes)");
    }
    page.section("Seen", &seen);
    if let Some(message) = &record.message {
        page.section("", message);
    }
    let message = record.message.as_deref().unwrap_or_default();
    let told = |it: &&Trouble| !message.contains(&it.message);
    for Trouble { reason, message } in record.trouble.iter().filter(told) {
        page.section("", &format!("{reason}: {message}"));
    }
    match &record.last_action {
        Some(last) => page.section(
            "Done",
            &format!(
                "{:?} {}: {}",
                last.action,
                since(last.time.0, now),
                last.message
            ),
        ),
        None => page.section("Done", "nothing, as far as the record goes back"),
    }
}

/// The state, and the nodes behind it.
fn state(page: &mut Page, observed: &Observed, now: Timestamp) {
    let mut text = observed.state.name().to_owned();
    if let Some(begun) = &observed.since {
        let _ = write!(text, " since {}", since(begun.0, now));
    }
    if let Some(message) = &observed.message {
        let _ = write!(text, ": {message}");
    }
    page.section("State", &text);
    let Some(table) = &observed.nodes else {
        return;
    };
    for (field, value) in [
        ("nodes", &table.nodes),
        ("nodesPidPressure", &table.nodes_pid_pressure),
        ("nodesMemoryPressure", &table.nodes_memory_pressure),
        ("nodesDiskPressure", &table.nodes_disk_pressure),
    ] {
        page.line(&format!("{:INDENT$}{field:<FIELD$}{value}", ""));
    }
}

fn check_line(check: &CheckStatus) -> String {
    let mut text = format!("{} is {:?}", check.name, check.result);
    if let Some(role) = check.role.filter(|role| *role != CheckRole::Observe) {
        let _ = write!(text, " (a {role:?})");
    }
    if let Some(why) = &check.message {
        let _ = write!(text, ": {why}");
    }
    text
}

/// What was done in the namespace is told with its pods; of the rest of a status only what is amiss.
fn weeded(page: &mut Page, weeding: &Weeding, now: Timestamp) {
    page.section("Weeder", &weeding.weeder.message);
    for (place, policy) in weeding.policies.iter().enumerate() {
        let heading = if place == 0 { "Weeding" } else { "" };
        page.section(heading, &format!("{} {}", policy.name, policy.message));
        let mut told = Vec::new();
        let ready = policy.ready.iter().filter(|ready| ready.status != "True");
        told.extend(ready.map(|it| format!("not ready ({}): {}", it.reason, it.message)));
        let trouble = policy.trouble.iter();
        told.extend(trouble.map(|it| format!("{}: {}", it.reason, it.message)));
        told.extend(policy.last_weeds.iter().map(|it| {
            let done = match it.dry_run {
                true => "would have deleted",
                false => "deleted",
            };
            let when = since(it.time.0, now);
            format!(
                "{done} {} of {} {when}, for {}",
                it.pod, it.owner, it.service
            )
        }));
        told.extend(policy.left_alone.iter().map(|it| {
            let when = since(it.time.0, now);
            let (pod, service, reason) = (&it.pod, &it.service, &it.reason);
            format!(
                "left alone {pod} {when}, for {service} ({reason}): {}",
                it.message
            )
        }));
        let (head, next) = (" ".repeat(INDENT + 2), " ".repeat(INDENT + 4));
        for told in told {
            page.wrapped(&head, &next, &told);
        }
    }
}

fn dependents(page: &mut Page, dependents: &[DependentAccount], now: Timestamp) {
    if dependents.is_empty() {
        return;
    }
    page.line("");
    let heading = [
        "DEPENDENT",
        "NOW",
        "OWED",
        "MARK",
        "STATE",
        "REPLICAS SET BY",
    ];
    let number = |number: Option<i32>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(dependents.iter().map(|it| {
        let set_by = it.replicas_set_by.as_ref().map(|by| match it.set_at() {
            Some(time) => format!("{}, {}", by.manager, ago(time.0, now)),
            None => by.manager.clone(),
        });
        [
            it.kubectl_name(),
            number(it.replicas),
            number(it.owed),
            it.marked
                .map_or("-", |marked| if marked { "yes" } else { "no" })
                .to_owned(),
            format!("{:?}", it.state),
            set_by.unwrap_or_else(|| "-".to_owned()),
        ]
    }));
    page.table(&rows);
    for dependent in dependents.iter().filter(|it| !it.message.is_empty()) {
        let text = format!("{}: {}", dependent.kubectl_name(), dependent.message);
        page.wrapped("  ", "    ", &text);
    }
    page.line("");
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// A heading, with what is said under it beside it.
    fn section(&mut self, heading: &str, text: &str) {
        self.wrapped(&format!("{heading:<INDENT$}"), &" ".repeat(INDENT), text);
    }

    /// Texts under one heading.
    fn sections(&mut self, heading: &str, texts: impl IntoIterator<Item = String>) {
        for (place, text) in texts.into_iter().enumerate() {
            self.section(if place == 0 { heading } else { "" }, &text);
        }
    }

    /// Lines of [`WIDTH`] at most: the first begins with `head`, the others with `next`.
    fn wrapped(&mut self, head: &str, next: &str, text: &str) {
        let mut line = head.to_owned();
        let mut room = WIDTH.saturating_sub(head.chars().count());
        let mut fresh = true;
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if !fresh && length >= room {
                self.line(&line);
                line = next.to_owned();
                room = WIDTH.saturating_sub(next.chars().count());
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
            room = room.saturating_sub(length + usize::from(!fresh));
            fresh = false;
        }
        self.line(line.trim_end());
    }

    fn table<const N: usize>(&mut self, rows: &[[String; N]]) {
        for line in columns(rows) {
            self.line(&line);
        }
    }
}

/// `2026-11-20T20:51:03Z (2m ago)`.
pub(super) fn since(time: Timestamp, now: Timestamp) -> String {
    format!("{time:.0} ({})", ago(time, now))
}

/// `2m ago`.
pub(super) fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs();
    match seconds {
        ..=0 => "just now".to_owned(),
        1..120 => format!("{seconds}s ago"),
        120..7_200 => format!("{}m ago", seconds / 60),
        7_200..172_800 => format!("{}h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-11-20T12:00:05Z", "just now"),
            ("2026-11-20T12:00:00Z", "just now"),
            ("2026-11-20T11:59:59Z", "1s ago"),
            ("2026-11-20T11:58:01Z", "119s ago"),
            ("2026-11-20T11:58:00Z", "2m ago"),
            ("2026-11-20T10:00:00Z", "2h ago"),
            ("2026-11-18T12:00:00Z", "2 days ago"),
        ] {
            assert_eq!(ago(time.parse().unwrap(), now), expected, "{time}");
        }
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let mut page = Page(String::new());
        let word = "123456789";
        page.section("Head", &[word; 20].join(" "));
        let lines: Vec<&str> = page.0.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("Head        123456789 "), "{lines:?}");
        assert!(lines[1].starts_with("            123456789 "), "{lines:?}");
        assert_eq!(page.0.matches(word).count(), 20);
    }

    #[test]
    fn a_long_word_is_kept_whole() {
        let mut page = Page(String::new());
        let word = "x".repeat(150);
        page.wrapped("", "", &format!("a {word} b"));
        assert_eq!(page.0, format!("a\n{word}\nb\n"));
    }
}
