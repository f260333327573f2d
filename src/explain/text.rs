//! Sections, wrapped lines and ages.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use crate::util::text::visible;

/// Characters in a line at most; long words and table rows may be longer.
const WIDTH: usize = 100;
/// Column at which the text of a section begins.
pub(super) const INDENT: usize = 12;

/// Page that is being written.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    /// Writes texts under a heading, each on lines of its own. Without a text there is no heading.
    pub(super) fn section(&mut self, heading: &str, texts: impl IntoIterator<Item = String>) {
        for (place, text) in texts.into_iter().enumerate() {
            self.wrapped(if place == 0 { heading } else { "" }, INDENT, &text);
        }
    }

    /// Writes `head` and, from the column `indent` on, the text in lines of [`WIDTH`] at most.
    pub(super) fn wrapped(&mut self, head: &str, indent: usize, text: &str) {
        let mut line = format!("{head:<indent$}");
        for (place, word) in text.split_whitespace().enumerate() {
            if place > 0 && line.chars().count() + word.chars().count() > WIDTH {
                self.line(&line);
                line = " ".repeat(indent);
            }
            line += word;
            line.push(' ');
        }
        self.line(&line);
    }

    /// Returns the page. Invisible characters that came from others are replaced: they could hide text.
    pub(super) fn finish(self) -> String {
        visible(self.0.trim_end()) + "\n"
    }
}

/// Formats a time as ` since 2026-11-20T20:51:03Z (2m ago)`; nothing without one.
pub(super) fn since(time: Option<&Time>, now: Timestamp) -> String {
    let since = |time: &Time| format!(" since {:.0} ({})", time.0, ago(time.0, now));
    time.map(since).unwrap_or_default()
}

/// Formats an age as `2m ago`.
pub(super) fn ago(time: Timestamp, now: Timestamp) -> String {
    match now.duration_since(time).as_secs() {
        ..=0 => "just now".to_owned(),
        seconds @ 1..120 => format!("{seconds}s ago"),
        seconds @ 120..7_200 => format!("{}m ago", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// Describes the conditions that have something to say, without what `message` says already.
pub(super) fn conditions(conditions: &[Condition], message: &str) -> Vec<String> {
    let is_ready = |it: &Condition| it.type_ == "Ready" && it.status == "True";
    let telling = conditions.iter().filter(|it| !is_ready(it));
    let told = telling.filter(|it| !it.message.is_empty()).map(|it| {
        let told = format!("{} is {} ({})", it.type_, it.status, it.reason);
        match message.contains(&it.message) {
            true => told,
            false => format!("{told}: {}", it.message),
        }
    });
    told.collect()
}
