//! Label selectors, with Kubernetes' semantics and limits on their size and form.
//!
//! The upstream type accepts any text as an operator, key or value, and a selector that cannot be
//! evaluated would select silently nothing. Here the API server refuses it. The sizes are bounded
//! so that these rules keep within the cost limit of CEL, also where a policy has a thousand
//! selectors; the form of a key, of which each can have 32, is a pattern for the same reason.

use super::check::entries;
use garde::Validate;
use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most labels, and most expressions, of one selector.
const MAX_REQUIREMENTS: usize = 32;
/// Most values of one expression.
const MAX_VALUES: usize = 64;
/// Characters of a DNS subdomain, a slash and a name.
const MAX_KEY: usize = MAX_PREFIX + 1 + MAX_NAME;
const MAX_PREFIX: usize = 253;
const MAX_NAME: usize = 63;

const KEY_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const PREFIX_PATTERN: &str = r"^([^/]{1,253}/)?[^/]+$";
const VALUE_PATTERN: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

const KEY_MESSAGE: &str = "must be a label key: a name of at most 63 letters, digits, '-', '_' or \
     '.', beginning and ending with a letter or digit, optionally after a DNS subdomain and '/'";
const VALUE_MESSAGE: &str = "must be a label value: at most 63 letters, digits, '-', '_' or '.', \
     beginning and ending with a letter or digit, or empty";
const VALUES_MESSAGE: &str = "values must not be empty when operator is In or NotIn, and must be \
     empty when it is Exists or DoesNotExist";

/// Selects objects by their labels. What is listed must hold together; an empty selector selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = MAX_REQUIREMENTS,
        "additionalProperties" = {"type": "string", "maxLength": MAX_NAME, "pattern": VALUE_PATTERN}
    ))]
    #[x_kube(validation = keys_rule())]
    #[garde(custom(entries(0, MAX_REQUIREMENTS)), custom(check_labels))]
    pub match_labels: BTreeMap<String, String>,

    /// Requirements on labels that must all hold. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REQUIREMENTS))]
    #[garde(custom(entries(0, MAX_REQUIREMENTS)), dive)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = operator_rule())]
#[garde(custom(check_operator))]
pub struct LabelSelectorRequirement {
    /// The label's key: a name of at most 63 letters, digits, '-', '_' or '.', optionally after a DNS
    /// subdomain and a slash.
    #[schemars(
        length(max = MAX_KEY),
        regex(pattern = KEY_PATTERN),
        extend("allOf" = [{"pattern": PREFIX_PATTERN}])
    )]
    #[garde(custom(check_key))]
    pub key: String,

    /// How the label relates to the values: In and NotIn compare with them, Exists and
    /// DoesNotExist take none. NotIn and DoesNotExist also hold where the label is missing.
    #[garde(skip)]
    pub operator: LabelSelectorOperator,

    /// The values to compare with: 1 to 64 for In and NotIn, none otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_NAME), regex(pattern = VALUE_PATTERN)))]
    #[garde(custom(entries(0, MAX_VALUES)), inner(custom(check_value)))]
    pub values: Vec<String>,
}

/// How a label relates to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSelectorOperator {
    /// The label is there, with one of the values.
    In,
    /// The label is missing, or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether it requires nothing, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

impl LabelSelectorRequirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            LabelSelectorOperator::In => listed,
            LabelSelectorOperator::NotIn => !listed,
            LabelSelectorOperator::Exists => value.is_some(),
            LabelSelectorOperator::DoesNotExist => value.is_none(),
        }
    }

    fn takes_values(&self) -> bool {
        matches!(
            self.operator,
            LabelSelectorOperator::In | LabelSelectorOperator::NotIn
        )
    }
}

fn keys_rule() -> Rule {
    Rule::new(format!(
        "self.all(key, key.matches('{KEY_PATTERN}') && key.matches('{PREFIX_PATTERN}'))"
    ))
    .message(format!("every key {KEY_MESSAGE}").as_str())
}

fn operator_rule() -> Rule {
    Rule::new("(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)")
        .message(VALUES_MESSAGE)
}

fn check_labels(labels: &BTreeMap<String, String>, _: &()) -> garde::Result {
    for (key, value) in labels {
        if !is_label_key(key) {
            return Err(garde::Error::new(format_args!("key {key:?} {KEY_MESSAGE}")));
        }
        if !is_label_value(value) {
            return Err(garde::Error::new(format_args!(
                "value {value:?} {VALUE_MESSAGE}"
            )));
        }
    }
    Ok(())
}

fn check_operator(requirement: &LabelSelectorRequirement, _: &()) -> garde::Result {
    if requirement.takes_values() == requirement.values.is_empty() {
        return Err(garde::Error::new(VALUES_MESSAGE));
    }
    Ok(())
}

fn check_key(key: &str, _: &()) -> garde::Result {
    if is_label_key(key) {
        Ok(())
    } else {
        Err(garde::Error::new(KEY_MESSAGE))
    }
}

fn check_value(value: &str, _: &()) -> garde::Result {
    if is_label_value(value) {
        Ok(())
    } else {
        Err(garde::Error::new(VALUE_MESSAGE))
    }
}

/// Whether a text is the key of a label or an annotation.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Whether a text is the value of a label.
fn is_label_value(value: &str) -> bool {
    let end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= MAX_NAME
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && end(value.chars().next())
        && end(value.chars().next_back())
}

/// Whether a text is a DNS subdomain by RFC 1123, as names and label prefixes must be.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        label
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= MAX_PREFIX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;
    use rstest::rstest;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[rstest]
    #[case::empty_selects_all("{}", "", true)]
    #[case::label("{matchLabels: {a: x}}", "a=x,b=y", true)]
    #[case::label_of_another_value("{matchLabels: {a: x}}", "a=y", false)]
    #[case::label_missing("{matchLabels: {a: x}}", "b=x", false)]
    #[case::empty_value("{matchLabels: {a: ''}}", "a=", true)]
    #[case::empty_value_is_not_missing("{matchLabels: {a: ''}}", "", false)]
    #[case::all_labels("{matchLabels: {a: x, b: y}}", "a=x", false)]
    #[case::is_in(
        "{matchExpressions: [{key: a, operator: In, values: [x, y]}]}",
        "a=y",
        true
    )]
    #[case::is_not_in(
        "{matchExpressions: [{key: a, operator: In, values: [x]}]}",
        "a=y",
        false
    )]
    #[case::in_missing("{matchExpressions: [{key: a, operator: In, values: [x]}]}", "", false)]
    #[case::not_in(
        "{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}",
        "a=y",
        true
    )]
    #[case::not_in_listed(
        "{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}",
        "a=x",
        false
    )]
    #[case::not_in_missing(
        "{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}",
        "",
        true
    )]
    #[case::exists("{matchExpressions: [{key: a, operator: Exists}]}", "a=", true)]
    #[case::exists_missing("{matchExpressions: [{key: a, operator: Exists}]}", "b=a", false)]
    #[case::does_not_exist("{matchExpressions: [{key: a, operator: DoesNotExist}]}", "b=a", true)]
    #[case::does_not_exist_but_does(
        "{matchExpressions: [{key: a, operator: DoesNotExist}]}",
        "a=",
        false
    )]
    #[case::all_expressions(
        "{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: Exists}]}",
        "a=x",
        false
    )]
    #[case::labels_and_expressions(
        "{matchLabels: {a: x}, matchExpressions: [{key: b, operator: DoesNotExist}]}",
        "a=x,b=y",
        false
    )]
    fn matches(#[case] selector: &str, #[case] present: &str, #[case] expected: bool) {
        let selector: LabelSelector = serde_saphyr::from_str(selector).unwrap();
        assert_eq!(selector.matches(&labels(present)), expected);
    }

    proptest! {
        #[test]
        fn keys_are_those_of_the_schema(key in "([a-z0-9.-]{0,6}/){0,2}[a-zA-Z0-9._-]{0,66}") {
            let expected = [KEY_PATTERN, PREFIX_PATTERN]
                .iter()
                .all(|pattern| Regex::new(pattern).unwrap().is_match(&key));
            prop_assert_eq!(is_label_key(&key), expected, "{}", key);
        }

        #[test]
        fn values_are_those_of_the_schema(value in "[a-zA-Z0-9._/-]{0,3}[a-z.]{0,66}") {
            let pattern = Regex::new(VALUE_PATTERN).unwrap();
            prop_assert_eq!(is_label_value(&value), pattern.is_match(&value));
        }
    }

    #[test]
    fn the_prefix_of_a_key_is_bounded() {
        let pattern = Regex::new(PREFIX_PATTERN).unwrap();
        for (length, expected) in [(MAX_PREFIX, true), (MAX_PREFIX + 1, false)] {
            let key = format!("{}/a", "x".repeat(length));
            assert_eq!(is_label_key(&key), expected);
            assert_eq!(pattern.is_match(&key), expected);
        }
    }
}
