//! Label selectors, with Kubernetes' semantics and limits on their size and form.
//!
//! The upstream type accepts any text as an operator, key or value, and a selector that cannot be evaluated
//! would select nothing without a word. Here the API server refuses it. The sizes are bounded so that these
//! rules keep within the cost limit of CEL, also where a policy has a thousand selectors; the form of a key, of
//! which each can have 32, is a pattern for the same reason.

use super::forms::{Form, MAX_LABEL, MAX_NAME, Rule, check_keys, keys};
use crate::util::text::clean;
use garde::Validate;
use kube::core::{Expression, SelectorExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a DNS subdomain, a slash and a name.
const MAX_KEY: usize = MAX_NAME + 1 + MAX_LABEL;
/// Most characters of a selector that are shown.
const MAX_BRIEF: usize = 200;

static KEY: Form = Form::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    "a label key: a name of at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or \
     digit, optionally after a DNS subdomain and '/'",
);
static VALUE: Form = Form::new(
    r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
    "a label value: at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, \
     or empty",
);
const OPERATOR: Rule<LabelSelectorRequirement> = Rule::new(
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "values must not be empty when operator is In or NotIn, and must be empty when it is Exists or DoesNotExist",
    |it| {
        use LabelSelectorOperator::{In, NotIn};
        matches!(it.operator, In | NotIn) != it.values.is_empty()
    },
);

/// Selects objects by their labels. What is listed must hold together; an empty selector selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = {"type": "string", "maxLength": MAX_LABEL, "pattern": VALUE.to_string()},
        "x-kubernetes-validations" = [keys(&KEY)]
    ))]
    #[garde(length(max = 32), custom(check_labels))]
    pub match_labels: BTreeMap<String, String>,

    /// Requirements on labels that must all hold. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(length(max = 32), dive)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [OPERATOR]))]
#[garde(custom(OPERATOR.check()))]
pub struct LabelSelectorRequirement {
    /// The label's key: a name of at most 63 letters, digits, '-', '_' or '.', optionally after a DNS
    /// subdomain and a slash.
    #[garde(length(max = MAX_KEY), pattern(KEY))]
    pub key: String,

    /// How the label relates to the values: In and NotIn compare with them, Exists and
    /// DoesNotExist take none. NotIn and DoesNotExist also hold where the label is missing.
    #[garde(skip)]
    pub operator: LabelSelectorOperator,

    /// The values to compare with: 1 to 64 for In and NotIn, none otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(length(max = 64), inner(length(max = MAX_LABEL), pattern(VALUE)))]
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
    /// Returns whether it requires nothing, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.expressions().all(|it| it.matches(labels))
    }

    /// Returns its text as the API server reads it in a request, such as `app in (a,b),role=apiserver`. Selectors that
    /// say the same in another order have the same text.
    pub fn text(&self) -> String {
        let requirements: BTreeSet<String> = self.expressions().map(|it| it.to_string()).collect();
        requirements.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Returns the beginning of the text, for messages: a selector can have a hundred kilobytes.
    pub fn brief(&self) -> String {
        clean(&self.text(), MAX_BRIEF)
    }

    fn expressions(&self) -> impl Iterator<Item = Expression> {
        let labels = self.match_labels.iter();
        let labels = labels.map(|(key, value)| Expression::Equal(key.clone(), value.clone()));
        labels.chain(self.match_expressions.iter().map(Into::into))
    }
}

impl From<&LabelSelectorRequirement> for Expression {
    fn from(requirement: &LabelSelectorRequirement) -> Self {
        let LabelSelectorRequirement { key, values, .. } = requirement.clone();
        match (requirement.operator, &values[..]) {
            (LabelSelectorOperator::In, [value]) => Self::Equal(key, value.clone()),
            (LabelSelectorOperator::NotIn, [value]) => Self::NotEqual(key, value.clone()),
            (LabelSelectorOperator::In, _) => Self::In(key, values.into_iter().collect()),
            (LabelSelectorOperator::NotIn, _) => Self::NotIn(key, values.into_iter().collect()),
            (LabelSelectorOperator::Exists, _) => Self::Exists(key),
            (LabelSelectorOperator::DoesNotExist, _) => Self::DoesNotExist(key),
        }
    }
}

fn check_labels(labels: &BTreeMap<String, String>, context: &()) -> garde::Result {
    let mut values = labels.values();
    check_keys(&KEY)(labels, context)?;
    values.try_for_each(|value| VALUE.check(&format!("value {value:?} "), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("{}", "", &["", "a=x"], &[])]
    #[case("{matchLabels: {a: x}}", "a=x", &["a=x", "a=x,b=y"], &["", "a=y", "b=x"])]
    #[case("{matchLabels: {b: y, a: ''}}", "a=,b=y", &["a=,b=y"], &["b=y", "a="])]
    #[case("{matchExpressions: [{key: a, operator: In, values: [y, x, x]}]}", "a in (x,y)", &["a=x"], &["", "a=z"])]
    #[case("{matchExpressions: [{key: a, operator: In, values: [x]}]}", "a=x", &["a=x"], &["a=y"])]
    #[case(
        "{matchExpressions: [{key: a, operator: NotIn, values: [x, '']}]}",
        "a notin (,x)",
        &["", "a=y"],
        &["a=x", "a="]
    )]
    #[case("{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", "a!=x", &["", "a=y"], &["a=x"])]
    #[case("{matchExpressions: [{key: g.c/a, operator: Exists}]}", "g.c/a", &["g.c/a="], &["", "a=x"])]
    #[case("{matchExpressions: [{key: a, operator: DoesNotExist}]}", "!a", &["", "b=x"], &["a="])]
    #[case(
        "{matchLabels: {b: y}, matchExpressions: [{key: a, operator: Exists}]}",
        "a,b=y",
        &["a=x,b=y"],
        &["b=y", "a=x"]
    )]
    fn selects_as_kubernetes_does(
        #[case] selector: &str,
        #[case] text: &str,
        #[case] selected: &[&str],
        #[case] others: &[&str],
    ) {
        let selector: LabelSelector = serde_saphyr::from_str(selector).unwrap();
        assert_eq!(selector.text(), text);
        for (objects, expected) in [(selected, true), (others, false)] {
            for labels in objects {
                let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
                let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
                assert_eq!(selector.matches(&pairs.collect()), expected, "{labels}");
            }
        }
    }
}
