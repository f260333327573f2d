//! Rules of fields beyond a length and a range. Each stands once, for the schema and for the types' validation.

use garde::{
    Validate,
    rules::{AsStr, pattern::Matcher},
};
use regex::{Captures, Regex};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::OnceLock,
};

/// Most characters of a DNS label.
pub(super) const MAX_LABEL: usize = 63;
/// Most characters of a DNS subdomain.
pub(super) const MAX_NAME: usize = 253;

/// Name of a container, a check or a Service: a DNS label by RFC 1123. Before Kubernetes 1.36 that of a Service began
/// with a letter.
pub(super) static LABEL: Form = Form::new(
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
    "at most 63 lower case letters, digits or '-', beginning and ending with a letter or digit",
);
/// Name of an object: a DNS subdomain by RFC 1123.
pub(super) static NAME: Form = Form::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "the name of an object: at most 253 lower case letters, digits, '-' or '.', beginning and ending with a \
     letter or digit",
);
pub(super) static API_VERSION: Form = Form::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
    "an API version, such as apps/v1",
);
pub(super) static KIND: Form = Form::new("^[A-Z][A-Za-z0-9]{0,62}$", "a kind, such as Deployment");
/// Name of an APIService: a version, a dot, and a group.
pub(super) static API_SERVICE: Form = Form::new(
    r"^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$",
    "the name of an APIService, such as v1beta1.metrics.k8s.io",
);
/// Printable ASCII that may stand in a request as it is.
pub(super) static PATH: Form = Form::new(
    r"^/[!$-;=?-\[\]_a-z~]*$",
    "a path that begins with '/', of printable ASCII characters; encode spaces and any of \"#<>\\^`{|}, such \
     as %20 for a space",
);
/// A token by RFC 9110.
pub(super) static HEADER_NAME: Form = Form::new(
    "^[-!#$%&'*+.^_`|~0-9A-Za-z]+$",
    "the name of a header, such as Accept",
);
pub(super) static HEADER_VALUE: Form = Form::new("^[ -~]*$", "printable ASCII characters");

/// Form of a text: its pattern, and the words for what it allows.
///
/// `#[garde(pattern(…))]` with a form is read by both derives: by schemars as [`fmt::Display`], by garde as a
/// [`Matcher`].
pub(super) struct Form {
    pattern: &'static str,
    what: &'static str,
    regex: OnceLock<Option<Regex>>,
}

impl Form {
    /// Returns the form of this pattern; `what` follows "must be".
    pub(super) const fn new(pattern: &'static str, what: &'static str) -> Self {
        Self {
            pattern,
            what,
            regex: OnceLock::new(),
        }
    }

    /// Returns the groups of the pattern in a text that has this form.
    pub(super) fn captures<'a>(&self, text: &'a str) -> Option<Captures<'a>> {
        self.regex()?.captures(text)
    }

    /// Checks a text that garde's rule does not reach; `place` names it in the error.
    pub(super) fn check(&self, place: &str, text: &str) -> garde::Result {
        match self.is_match(text) {
            true => Ok(()),
            false => Err(garde::Error::new(format_args!(
                "{place}must be {}",
                self.what
            ))),
        }
    }

    fn regex(&self) -> Option<&Regex> {
        let compiled = self.regex.get_or_init(|| Regex::new(self.pattern).ok());
        compiled.as_ref()
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pattern)
    }
}

/// garde shows it where the form is missed.
impl AsStr for Form {
    fn as_str(&self) -> &str {
        self.what
    }
}

impl Matcher for Form {
    fn is_match(&self, text: &str) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(text))
    }
}

/// Rule that no keyword of a schema can express: in CEL, for the API server, its message, and the same in Rust.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub(super) struct Rule<T> {
    pub(super) rule: &'static str,
    pub(super) message: &'static str,
    #[serde(skip)]
    pub(super) holds: fn(&T) -> bool,
    /// Field that breaks the rule of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field_path: Option<&'static str>,
}

impl<T> Rule<T> {
    pub(super) const fn new(
        rule: &'static str,
        message: &'static str,
        holds: fn(&T) -> bool,
    ) -> Self {
        Self {
            rule,
            message,
            holds,
            field_path: None,
        }
    }

    /// Returns the rule as a garde validator.
    pub(super) fn check(self) -> impl Fn(&T, &()) -> garde::Result {
        move |value, ()| match (self.holds)(value) {
            true => Ok(()),
            false => Err(garde::Error::new(self.message)),
        }
    }
}

/// Returns the rule by which the names of the items of a list are unique; `holds` says the same in Rust.
pub(super) const fn unique_names<T>(holds: fn(&Vec<T>) -> bool) -> Rule<Vec<T>> {
    Rule::new(
        "self.all(x, self.exists_one(y, x.name == y.name))",
        "every name must be unique",
        holds,
    )
}

/// Returns the CEL rule by which all keys of a map have this form.
pub(super) fn keys(form: &Form) -> Value {
    json!({
        "rule": format!("self.all(key, key.matches('{form}'))"),
        "message": format!("every key must be {}", form.what),
    })
}

/// Returns the same rule as a garde validator.
pub(super) fn check_keys<T>(form: &Form) -> impl Fn(&BTreeMap<String, T>, &()) -> garde::Result {
    move |map, ()| {
        let mut keys = map.keys();
        keys.try_for_each(|key| form.check(&format!("key {key:?} "), key))
    }
}

/// Returns whether no two items have the same key.
pub(super) fn unique<'a, T, K: Ord>(items: &'a [T], key: impl Fn(&'a T) -> K) -> bool {
    items.iter().map(key).collect::<BTreeSet<K>>().len() == items.len()
}

/// Returns whether a text is a DNS subdomain by RFC 1123, as names of objects are.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_NAME && NAME.is_match(text)
}

/// Returns whether a text is a DNS label by RFC 1123, as names of namespaces are.
pub(crate) fn is_dns_label(text: &str) -> bool {
    LABEL.is_match(text)
}

/// garde's words for what breaks a rule, and ours.
const WORDS: [(&str, &str); 5] = [
    ("lower than ", "must be at least "),
    ("greater than ", "must be at most "),
    ("length is lower than ", "must have a length of at least "),
    ("length is greater than ", "must have a length of at most "),
    ("does not match pattern /", "must be "),
];

/// Returns what is wrong with the spec of a policy: each entry names the field and what is allowed.
///
/// The schema makes the API server refuse the same. This finds it in objects that were stored under an older
/// schema, and in files that no API server has seen.
pub fn problems<T: Validate<Context = ()>>(spec: &T) -> Vec<String> {
    let Err(report) = spec.validate() else {
        return Vec::new();
    };
    let problem = |(path, error): &(garde::Path, garde::Error)| {
        let error = error.message();
        let mut ours = WORDS.iter().filter_map(|(theirs, ours)| {
            let rest = error.strip_prefix(theirs)?;
            Some(format!("{ours}{}", rest.trim_end_matches('/')))
        });
        let error = ours.next().unwrap_or_else(|| error.to_owned());
        format!("spec.{}: {error}", camel_case(path))
    };
    report.iter().map(problem).collect()
}

/// Returns the name of a field as the API has it.
fn camel_case(path: &garde::Path) -> String {
    let path = path.to_string().replace("r#", "");
    let mut words = path.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|it| it.to_ascii_uppercase());
        name + &initial.map(String::from).unwrap_or_default() + letters.as_str()
    })
}
