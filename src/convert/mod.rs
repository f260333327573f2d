//! Turns the configuration of Gardener's dependency-watchdog, a program written in Go, into
//! policies.
//!
//! Its fields have kept their names, so that little is to be done with what is right. What is wrong
//! is refused with its place; what is not needed any more, and what does not mean quite the same,
//! is said.

mod added;
mod duration;
mod fields;
mod notes;
mod source;
mod tree;
mod write;

use std::{collections::BTreeMap, fmt};

use crate::{
    api::{GROUP, ProbePolicySpec, WeedPolicySpec},
    validate::is_name,
    yaml::{Place, YamlError},
};
use source::Configuration;
use tree::Tree;
use write::Writer;

/// The name of a policy that nobody named.
const DEFAULT_NAME: &str = "default";

/// The two parts of the tool, and what their configurations become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Prober,
    Weeder,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The policies, as YAML documents.
    pub yaml: String,
    /// What to know about them.
    pub notes: Vec<Remark>,
}

/// Something about the configuration, or about a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where in the file.
    pub place: Option<Place>,
    /// What, and what to do.
    pub message: String,
}

/// Turns the text of a file into policies. Each is called `name`, or `default`; of several of a kind
/// each is called as its ConfigMap.
///
/// # Errors
/// All that is wrong with the configuration, or that there is none.
pub fn convert(text: &str, name: Option<&str>) -> Result<Converted, Vec<Remark>> {
    let found = source::configurations(text)?;
    let mut yaml = String::new();
    let mut notes = Vec::new();
    let mut refusals = Vec::new();
    let mut names = BTreeMap::new();
    for configuration in &found {
        let part = configuration.part;
        let several = found.iter().filter(|it| it.part == part).count() > 1;
        let name = match named(configuration, name, several) {
            Ok(name) => name,
            Err(refusal) => {
                refusals.push(refusal);
                continue;
            }
        };
        if names.insert((part, name.to_owned()), ()).is_some() {
            refusals.push(configuration.remark(format!("there are two {part}s called {name}")));
        }
        let mut writer = Writer::new(configuration);
        let mut spec = writer.object(fields::of(part), &configuration.root, "spec");
        added::mode(&mut spec);
        if part == Part::Prober {
            added::to_prober(&mut spec);
        }
        if writer.refusals.is_empty() {
            writer.refuse(problems(part, &spec));
        }
        refusals.append(&mut writer.refusals);
        match policy(part, name, spec) {
            Ok(policy) => yaml.push_str(&policy),
            Err(error) => refusals.push(configuration.remark(error)),
        }
        notes.append(&mut writer.notes);
    }
    for part in [Part::Prober, Part::Weeder] {
        let those: Vec<_> = found.iter().filter(|it| it.part == part).collect();
        notes.extend(notes::of(part, &those));
    }
    match refusals.is_empty() {
        true => Ok(Converted { yaml, notes }),
        false => Err(refusals),
    }
}

/// What the policy of a configuration is called.
fn named<'a>(
    configuration: &'a Configuration,
    name: Option<&'a str>,
    several: bool,
) -> Result<&'a str, Remark> {
    let refuse = |message: &str| Err(configuration.remark(message.to_owned()));
    let config_map = configuration.name.as_deref();
    let name = match (several, name, config_map) {
        (false, Some(name), _) => name,
        (false, None, _) => DEFAULT_NAME,
        (true, None, Some(config_map)) => config_map,
        (true, Some(_), _) => {
            return refuse("one of several of its kind, which cannot all have the name given");
        }
        (true, None, None) => {
            return refuse("one of several of its kind, and without a name: convert each alone");
        }
    };
    match is_name(name) {
        true => Ok(name),
        false => refuse(
            "the name of the policy must be at most 253 lower case letters, digits, '-' or '.', \
             beginning and ending with a letter or digit",
        ),
    }
}

/// What the validation of the kinds says of a specification: paths and messages.
fn problems(part: Part, spec: &Tree) -> Vec<(String, String)> {
    let decoded = serde_json::to_value(spec).and_then(|spec| match part {
        Part::Prober => serde_json::from_value(spec).map(|it: ProbePolicySpec| it.problems()),
        Part::Weeder => serde_json::from_value(spec).map(|it: WeedPolicySpec| it.problems()),
    });
    match decoded {
        Ok(problems) => {
            let split = |problem: String| match problem.split_once(": ") {
                Some((path, message)) => (path.to_owned(), message.to_owned()),
                None => ("spec".to_owned(), problem),
            };
            problems.into_iter().map(split).collect()
        }
        Err(error) => vec![("spec".to_owned(), error.to_string())],
    }
}

fn policy(part: Part, name: &str, spec: Tree) -> Result<String, String> {
    let text = |text: &str| Tree::Text(text.to_owned());
    let policy = Tree::Map(vec![
        ("apiVersion".to_owned(), text(&format!("{GROUP}/v1alpha1"))),
        ("kind".to_owned(), text(&part.to_string())),
        (
            "metadata".to_owned(),
            Tree::Map(vec![("name".to_owned(), text(name))]),
        ),
        ("spec".to_owned(), spec),
    ]);
    match serde_saphyr::to_string(&policy) {
        Ok(yaml) => Ok(format!("---\n{yaml}")),
        Err(error) => Err(format!("it cannot be written as YAML: {error}")),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prober => "ProbePolicy",
            Self::Weeder => "WeedPolicy",
        })
    }
}

impl From<YamlError> for Remark {
    fn from(error: YamlError) -> Self {
        Self {
            place: Some(error.place),
            message: format!("this is no YAML that can be read: {}", error.message),
        }
    }
}

#[cfg(test)]
mod tests;
