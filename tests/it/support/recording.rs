//! Recordings of scripted runs. The requests of a run (acts) are compared with `tests/snapshots/acts`, one file per
//! test. The files do not depend on the machine:
//!
//! - Lines are grouped by object: tasks of different objects may run in any order.
//! - A read is recorded once between two writes to its object: the number of polls depends on when
//!   sockets answer.
//! - Times, UIDs, resourceVersions and ports are left out: [`is_volatile`], [`masked`].

mod page;
mod status;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Write as _,
};

use dependency_watchdog::runtime::seed::FIELD_MANAGER;
use serde_json::{Value, json};

use self::{
    page::{Page, compare},
    status::Statuses,
};
use super::{Call, seed::REVIEWS};

/// The suites that are recorded.
const RECORDED: [&str; 4] = [
    "health::writer::",
    "prober::holds::",
    "prober::fleet::",
    "prober::letting_go::",
];
/// The seed of all jitter in a recorded run. Any number serves.
const SEED: u64 = 1;
/// The prefix of the operator's annotations and finalizers, and its short form.
const PREFIX: (&str, &str) = ("dependency-watchdog.gardener.cloud/", "dwd/");

/// The run that is recorded on this thread.
#[derive(Default)]
struct Run {
    /// Requests to the seed, each with its result.
    requests: Vec<(Call, String)>,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    /// Whether this test has begun a run. A test has a thread of its own.
    static HAS_RUN: Cell<bool> = const { Cell::new(false) };
    /// The acts of the runs so far, while there is a [`Runs`].
    static RUNS: RefCell<Option<Vec<Page>>> = const { RefCell::new(None) };
}

fn record(what: impl FnOnce(&mut Run)) {
    RUN.with_borrow_mut(|run| run.as_mut().map(what));
}

/// The recordings of a test that makes several runs: they are compared, all at the same time, when
/// this is dropped. Such a test begins with it, and so drops it last.
pub struct Runs(String);

impl Runs {
    /// Begins the recordings of this test.
    #[must_use]
    pub fn begin() -> Self {
        RUNS.set(Some(Vec::new()));
        Self(name().expect("this test is recorded"))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let runs = RUNS.take().unwrap_or_default();
        // A test that fails gives its own reason.
        if !std::thread::panicking() {
            compare(&self.0, &runs);
        }
    }
}

/// The name of this test's snapshot, if it is recorded.
fn name() -> Option<String> {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let is_recorded = RECORDED.iter().any(|suite| test.starts_with(suite));
    is_recorded.then(|| test.replace("::", "__"))
}

/// A recording of one run with the name of its snapshots. It is compared when it is dropped, unless
/// there is a [`Runs`]. A clone records nothing.
#[derive(Default)]
pub(super) struct Recording(Option<String>);

impl Clone for Recording {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Recording {
    /// Begins a recording, if this test is recorded.
    pub(super) fn begin() -> Self {
        let Some(name) = name() else {
            return Self(None);
        };
        let is_first = !HAS_RUN.replace(true);
        assert!(
            is_first || RUNS.with_borrow(Option::is_some),
            "a test that makes several runs begins with `Runs::begin()`"
        );
        fastrand::seed(SEED);
        RUN.set(Some(Run::default()));
        Self(Some(name))
    }

    /// Records a request and its result.
    pub(super) fn request(call: &Call, result: String) {
        record(|run| run.requests.push((call.clone(), result)));
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(name) = self.0.take() else {
            return;
        };
        let run = RUN.take().unwrap_or_default();
        // A test that fails gives its own reason.
        if std::thread::panicking() {
            return;
        }
        let acts = acts_of(&run);
        RUNS.with_borrow_mut(|runs| match runs {
            Some(runs) => runs.push(acts),
            None => compare(&name, &[acts]),
        });
    }
}

fn acts_of(run: &Run) -> Page {
    let mut page = Page::default();
    let mut statuses = Statuses::default();
    let mut events = BTreeMap::new();
    for (call, result) in &run.requests {
        if call.resource == "events" {
            let (about, said) = event(call, &mut events);
            let again = if call.method == "PATCH" { " again" } else { "" };
            let (kind, reason) = (text(&said["type"]), text(&said["reason"]));
            page.add(about, format!("{kind} {reason}{again}{result}"));
            continue;
        }
        let (plural, sub) = resource(call);
        let is_apply = call.content_type.starts_with("application/apply");
        let (method, is_read) = match &*call.method {
            "POST" if plural == REVIEWS => ("ASK", true),
            "GET" if call.is_watch() => ("WATCH", true),
            "GET" if call.name.is_empty() => ("LIST", true),
            "GET" => ("GET", true),
            "PATCH" if is_apply => ("APPLY", false),
            method => (method, false),
        };
        let mut line = format!("{method}{sub}");
        let one = one(call);
        for selector in ["labelSelector", "fieldSelector"] {
            if let Some(value) = call.parameter(selector).filter(|_| one.is_none()) {
                let _ = write!(line, " {value}");
            }
        }
        if call.only_metadata {
            line += " metadata";
        }
        if method == "PATCH" {
            let kind = call.content_type.split(['/', '-']).nth(1);
            let _ = write!(line, " {}", kind.unwrap_or_default());
        }
        if is_apply && call.parameter("force") != Some("true") {
            line += " unforced";
        }
        if let Some(manager) = call.parameter("fieldManager")
            && manager != FIELD_MANAGER
        {
            let _ = write!(line, " by {manager}");
        }
        let mut changes = Vec::new();
        if sub == "/status" {
            changes = statuses.change(call, result);
            // A refresh, or other words.
            if changes.is_empty() {
                continue;
            }
        } else if !call.body.is_null() {
            let heading = [&call.name, text(&call.body["kind"]), &call.api_version];
            let _ = write!(line, " {}", masked(&call.body, &heading));
        }
        line += result;
        line.extend(changes.iter().map(|it| format!("\n    {it}")));
        let line = line.replace(PREFIX.0, PREFIX.1);
        match is_read {
            true => page.add_read(one.unwrap_or_else(|| heading(call)), line),
            false => page.add(heading(call), line),
        }
    }
    page
}

/// The plural and, with a slash, the subresource.
fn resource(call: &Call) -> (&str, &str) {
    let slash = call.resource.rfind('/');
    let slash = slash.filter(|_| !call.name.is_empty());
    call.resource.split_at(slash.unwrap_or(call.resource.len()))
}

/// The object of a request, or the kind of objects.
fn heading(call: &Call) -> String {
    object(resource(call).0, &call.namespace, &call.name)
}

/// The one object whose metadata a list asks for.
fn one(call: &Call) -> Option<String> {
    let name = call.selected_name().filter(|_| call.only_metadata)?;
    Some(object(resource(call).0, &call.namespace, name))
}

fn object(kind: &str, namespace: &str, name: &str) -> String {
    match (namespace, name) {
        ("", "") => kind.to_owned(),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

/// The object of an event, and the event as it was created: a patch that counts it again repeats
/// neither.
fn event(call: &Call, events: &mut BTreeMap<String, Value>) -> (String, Value) {
    let name = match &*call.name {
        "" => text(&call.body["metadata"]["name"]),
        name => name,
    };
    let said = events.entry(format!("{}/{name}", call.namespace));
    let said = said.or_insert_with(|| call.body.clone()).clone();
    let field = |field: &str| text(&said["regarding"][field]);
    let about = object(field("kind"), field("namespace"), field("name"));
    (format!("events of {about}"), said)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the value of a field is a time or an identity.
fn is_volatile(key: &str) -> bool {
    let ends = ["ime", "imestamp", "ince", "uid", "resourceVersion"];
    ends.iter().any(|end| key.ends_with(end))
}

/// A body without the text of its heading, and with a star for each volatile value.
fn masked(value: &Value, heading: &[&str]) -> Value {
    match value {
        Value::Object(object) => {
            let mask = |(key, value): (&String, &Value)| match value {
                Value::String(text) if !text.is_empty() && heading.contains(&&**text) => None,
                Value::String(_) if is_volatile(key) => Some((key.clone(), json!("*"))),
                value => Some((key.clone(), masked(value, heading))),
            };
            object.iter().filter_map(mask).collect()
        }
        Value::Array(items) => items.iter().map(|item| masked(item, heading)).collect(),
        leaf => leaf.clone(),
    }
}
