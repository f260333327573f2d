//! Validates policies without an API server, for those who keep them in a repository.
//!
//! The rules are those of the definitions that this operator ships: their structural schema, and
//! their CEL rules once that is met, as the API server evaluates them. What is no kind of this
//! group is passed over and counted.

mod object;
mod rules;
mod schema;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use serde::Serialize;

use crate::{
    api::crds,
    yaml::{self, Node, Place, Value},
};
pub use object::is_name;
use rules::Rules;

/// What is wrong in one object is told up to here: more is noise, and a file could ask for millions.
const MAX_PROBLEMS: usize = 100;
/// And in all files up to here.
const MAX_REPORTED: usize = 10_000;
/// Characters of a value that a message repeats.
const MAX_QUOTED: usize = 60;

/// Validates files, and remembers what it saw: no two objects of a kind have one name.
pub struct Checker {
    rules: Vec<Rules>,
    names: BTreeMap<(String, String), String>,
    report: Report,
}

/// What was found in all files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is wrong, in the order of the files: the first 10,000 problems.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub omitted: usize,
    /// What the API server accepts, and may be a mistake all the same: the first 10,000.
    pub warnings: Vec<Problem>,
    /// How many objects were validated.
    pub checked: usize,
    /// How many documents and items of lists are of other kinds.
    pub passed_over: usize,
}

/// Something that the API server would refuse, or that makes a file unfit to be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// Where in the file.
    #[serde(flatten)]
    pub place: Place,
    /// The object, as kind and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The field, from the root of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// What is wrong with one object.
#[derive(Debug, Default)]
struct Found(Vec<Finding>);

#[derive(Debug)]
struct Finding {
    place: Place,
    field: String,
    message: String,
}

impl Checker {
    /// A validator by the rules of the definitions that are shipped.
    pub fn new() -> Self {
        Self {
            rules: crds().iter().filter_map(Rules::of).collect(),
            names: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Validates the documents of a file.
    pub fn check(&mut self, file: &str, text: &str) {
        for document in yaml::documents(text) {
            match document {
                Ok(document) => self.document(file, &document),
                Err(error) => {
                    let message = format!("this is no YAML that can be read: {}", error.message);
                    self.refuse(file, error.place, message);
                }
            }
        }
    }

    /// What was found.
    pub fn report(self) -> Report {
        self.report
    }

    fn document(&mut self, file: &str, document: &Node) {
        let kind = document.text_at("kind").unwrap_or_default();
        match document.get("items").map(|it| &it.value) {
            Some(Value::List(items)) if kind.ends_with("List") => {
                for item in items {
                    match misfit(document, item) {
                        Some(reason) => self.refuse(file, item.place, reason.to_owned()),
                        None => self.object(file, item),
                    }
                }
            }
            _ if kind == "List" => {
                let reason = "a List must have items, as a list".to_owned();
                self.refuse(file, document.place, reason);
            }
            // What is between two separators and says nothing is no document to kubectl.
            _ if document.is_null() => {}
            _ => self.object(file, document),
        }
    }

    /// Tells a problem of something that is no object.
    fn refuse(&mut self, file: &str, place: Place, message: String) {
        self.add(Problem {
            file: file.to_owned(),
            place,
            object: None,
            field: None,
            message,
        });
    }

    fn object(&mut self, file: &str, object: &Node) {
        let mut found = Found::default();
        if !object::validate(&self.rules, object, &mut found) {
            self.report.passed_over += 1;
            return;
        }
        self.report.checked += 1;
        let kind = object.text_at("kind").unwrap_or_default();
        let named = object.get("metadata").and_then(|it| it.get("name"));
        let name = named.and_then(Node::text).unwrap_or_default();
        if let Some(named) = named
            && !name.is_empty()
        {
            let here = format!("{file}:{}", named.place.line);
            match self.names.entry((kind.to_owned(), name.to_owned())) {
                Entry::Vacant(entry) => {
                    entry.insert(here);
                }
                Entry::Occupied(first) => found.add(
                    named.place,
                    "metadata.name",
                    format!("there is another {kind} of this name at {}", first.get()),
                ),
            }
        }
        let named = format!("{}/{}", quotable(kind), quotable(name));
        let problem = |finding: Finding| Problem {
            file: file.to_owned(),
            place: finding.place,
            object: Some(named.clone()),
            field: Some(finding.field).filter(|it| !it.is_empty()),
            message: finding.message,
        };
        let room = MAX_REPORTED.saturating_sub(self.report.warnings.len());
        let warnings = object::warnings(object).take(room);
        self.report.warnings.extend(warnings.map(problem));
        let problems = found.0.into_iter().map(problem);
        problems.for_each(|problem| self.add(problem));
    }

    fn add(&mut self, problem: Problem) {
        if self.report.problems.len() < MAX_REPORTED {
            self.report.problems.push(problem);
        } else {
            self.report.omitted += 1;
        }
    }
}

/// Why an item of a list is none: it would hide policies from what is validated.
fn misfit(list: &Node, item: &Node) -> Option<&'static str> {
    let says = |key| item.get(key).is_some();
    if item.text_at("kind") == Some("List") && says("items") {
        Some("a List in a list, which kubectl does not take")
    } else if object::is_of_group(list) && !says("kind") && !says("apiVersion") {
        Some("apiVersion and kind are required of each item")
    } else {
        None
    }
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Found {
    fn add(&mut self, place: Place, field: &str, message: String) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Finding {
                place,
                field: quotable(field),
                message,
            });
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }
}

/// The beginning of what came from a file, on one line.
fn quotable(text: &str) -> String {
    let limit = 4 * MAX_QUOTED;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(limit).map(printable).collect()
}

/// A value in a message: its beginning, in quotes.
fn quoted(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED).collect();
    let rest = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{rest}")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.place)?;
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests;
