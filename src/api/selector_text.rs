//! A label selector as the API server takes it in a request.
//!
//! Two that say the same in another order are one: it shows in the text, by which they are compared,
//! so that policies with the same selector share a watch.

use std::{collections::BTreeSet, fmt};

use super::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};

/// So many characters of a selector are shown.
const MAX_BRIEF: usize = 200;

/// The text of a label selector, such as `app in (a,b),role=apiserver`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector(Box<str>);

impl Selector {
    /// The text of `selector`, which must be valid.
    pub fn new(selector: &LabelSelector) -> Self {
        let labels = selector.match_labels.iter();
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        let expressions = selector.match_expressions.iter().map(requirement);
        let requirements: BTreeSet<String> = labels.chain(expressions).collect();
        let text: Vec<String> = requirements.into_iter().collect();
        Self(text.join(",").into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text for people, who are told something else besides: a selector can have a hundred
    /// kilobytes.
    pub fn brief(&self) -> String {
        match self.0.char_indices().nth(MAX_BRIEF) {
            Some((end, _)) => format!("{}...", self.0.get(..end).unwrap_or_default()),
            None => self.0.to_string(),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn requirement(requirement: &LabelSelectorRequirement) -> String {
    let key = &requirement.key;
    let values: BTreeSet<&str> = requirement.values.iter().map(String::as_str).collect();
    let values: Vec<&str> = values.into_iter().collect();
    match (requirement.operator, &values[..]) {
        (LabelSelectorOperator::In, [value]) => format!("{key}={value}"),
        (LabelSelectorOperator::NotIn, [value]) => format!("{key}!={value}"),
        (LabelSelectorOperator::In, values) => format!("{key} in ({})", values.join(",")),
        (LabelSelectorOperator::NotIn, values) => format!("{key} notin ({})", values.join(",")),
        (LabelSelectorOperator::Exists, _) => key.clone(),
        (LabelSelectorOperator::DoesNotExist, _) => format!("!{key}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn text(selector: &str) -> String {
        Selector::new(&serde_saphyr::from_str(selector).unwrap()).to_string()
    }

    #[rstest]
    #[case::label("{matchLabels: {role: apiserver}}", "role=apiserver")]
    #[case::labels("{matchLabels: {b: y, a: x}}", "a=x,b=y")]
    #[case::empty_value("{matchLabels: {a: ''}}", "a=")]
    #[case::prefixed_key("{matchLabels: {gardener.cloud/role: x}}", "gardener.cloud/role=x")]
    #[case::is_in(
        "{matchExpressions: [{key: a, operator: In, values: [y, x]}]}",
        "a in (x,y)"
    )]
    #[case::is_in_empty_too(
        "{matchExpressions: [{key: a, operator: In, values: [x, '']}]}",
        "a in (,x)"
    )]
    #[case::not_in(
        "{matchExpressions: [{key: a, operator: NotIn, values: [x, y]}]}",
        "a notin (x,y)"
    )]
    #[case::not_in_one("{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", "a!=x")]
    #[case::exists("{matchExpressions: [{key: a, operator: Exists}]}", "a")]
    #[case::does_not_exist("{matchExpressions: [{key: a, operator: DoesNotExist}]}", "!a")]
    #[case::both(
        "{matchLabels: {b: y}, matchExpressions: [{key: a, operator: Exists}]}",
        "a,b=y"
    )]
    fn texts(#[case] selector: &str, #[case] expected: &str) {
        assert_eq!(text(selector), expected);
    }

    #[rstest]
    #[case::order(
        "{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: In, values: [x, y]}]}",
        "{matchExpressions: [{key: b, operator: In, values: [y, x, x]}, {key: a, operator: Exists}]}"
    )]
    #[case::one_value(
        "{matchLabels: {a: x}}",
        "{matchExpressions: [{key: a, operator: In, values: [x]}]}"
    )]
    fn what_says_the_same_is_one(#[case] one: &str, #[case] other: &str) {
        assert_eq!(text(one), text(other));
    }
}
