//! Fields of a status that a CustomResourceDefinition of an older version does not declare.
//!
//! Server-side apply refuses an object with such a field altogether, and names it. Without it the rest
//! is recorded: what is marked and owed must not be lost to an upgrade in the wrong order.

use kube::core::Status;
use serde_json::Value;

/// How the API server ends the name of such a field.
const UNDECLARED: &str = ": field not declared in schema";

/// The paths that a refusal names, such as `.status.dependents[0].keepsMark`.
pub(super) fn paths(refusal: &Status) -> Vec<String> {
    // What follows the last is about something else.
    let before = refusal.message.rsplit_once(UNDECLARED).map(|it| it.0);
    let named = before.into_iter().flat_map(|it| it.split(UNDECLARED));
    let words = named.filter_map(|it| it.split_whitespace().next_back());
    let paths = words.filter(|it| it.starts_with(".status."));
    paths.map(str::to_owned).collect()
}

/// Removes the field at this path, from all items of a list on the way. Returns whether it was there.
pub(super) fn remove(object: &mut Value, path: &str) -> bool {
    // Which item it is does not matter: none of them may have the field.
    let mut depth = 0_u32;
    let mut plain = String::new();
    for sign in path.chars() {
        match sign {
            '[' => depth = depth.saturating_add(1),
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(sign),
            _ => {}
        }
    }
    let names: Vec<&str> = plain.split('.').filter(|it| !it.is_empty()).collect();
    remove_at(object, &names)
}

fn remove_at(value: &mut Value, names: &[&str]) -> bool {
    match (value, names) {
        (Value::Array(items), names) => {
            let removed = items.iter_mut().map(|item| remove_at(item, names));
            // From each item, not up to the first that has it.
            removed.filter(|removed| *removed).count() > 0
        }
        (Value::Object(fields), [name]) => fields.remove(*name).is_some(),
        (Value::Object(fields), [name, rest @ ..]) => {
            fields.get_mut(*name).is_some_and(|it| remove_at(it, rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(message: &str) -> Status {
        Status::failure(message, "").with_code(500)
    }

    #[test]
    fn undeclared_fields_are_named_by_the_refusal() {
        let one = "failed to create typed patch object (/a; example.com/v1, Kind=A): .status.b: field not \
                   declared in schema";
        assert_eq!(paths(&refusal(one)), [".status.b"]);
        let two = "failed to create typed patch object (/a; example.com/v1, Kind=A): errors:\n  .status.b: \
                   field not declared in schema\n  .status.c[type=\"d.e\"].f: field not declared in schema";
        assert_eq!(
            paths(&refusal(two)),
            [".status.b", ".status.c[type=\"d.e\"].f"]
        );
        for other in [
            "",
            "etcdserver: request timed out",
            ": field not declared in schema",
            ".spec.a: field not declared in schema",
        ] {
            assert_eq!(paths(&refusal(other)), [""; 0], "{other}");
        }
    }

    #[test]
    fn a_field_is_removed_wherever_it_is() {
        let object = json!({"status": {"a": 1, "b": {"c": 1, "d": 2}, "list": [{"e": 1, "f": 2}, {"e": 3}, 4]}});
        for (path, expected) in [
            (
                ".status.a",
                json!({"b": {"c": 1, "d": 2}, "list": [{"e": 1, "f": 2}, {"e": 3}, 4]}),
            ),
            (
                ".status.b.c",
                json!({"a": 1, "b": {"d": 2}, "list": [{"e": 1, "f": 2}, {"e": 3}, 4]}),
            ),
            (
                ".status.list[k=\"x.y\"].e",
                json!({"a": 1, "b": {"c": 1, "d": 2}, "list": [{"f": 2}, {}, 4]}),
            ),
        ] {
            let mut changed = object.clone();
            assert!(remove(&mut changed, path), "{path}");
            assert_eq!(changed, json!({"status": expected}), "{path}");
        }
        for path in [
            "",
            ".",
            ".status.z",
            ".status.a.b",
            ".status.list[0].z",
            "[[[",
        ] {
            let mut same = object.clone();
            assert!(!remove(&mut same, path), "{path}");
            assert_eq!(same, object, "{path}");
        }
    }
}
