//! Reading of objects that another version has written.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns as much of an object as can be read, field by field, and the names of the fields that cannot: one value that
/// this version does not know is not to cost all others. `None` if it is no object, or if what is left of it is none of
/// these, since a required field is missing.
pub(crate) fn readable<T: DeserializeOwned>(object: &Value) -> Option<(T, Vec<String>)> {
    if let Ok(whole) = T::deserialize(object) {
        return object.is_object().then_some((whole, Vec::new()));
    }
    let mut unread = Vec::new();
    let mut kept = Map::new();
    for (name, value) in object.as_object()? {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        match T::deserialize(&alone) {
            Ok(_) => {
                kept.insert(name.clone(), value.clone());
            }
            Err(_) => unread.push(name.clone()),
        }
    }
    let kept = T::deserialize(Value::Object(kept)).ok()?;
    Some((kept, unread))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Status {
        count: u32,
        names: Vec<String>,
    }

    #[test]
    fn what_cannot_be_read_costs_nothing_else() {
        let read = |count: Value, names: Value| {
            readable::<Status>(&json!({"count": count, "names": names})).unwrap()
        };
        let status = |count: u32, names: &[&str]| Status {
            count,
            names: names.iter().map(|it| (*it).to_owned()).collect(),
        };
        assert_eq!(
            read(json!(3), json!(["a"])),
            (status(3, &["a"]), Vec::<String>::new())
        );
        assert_eq!(
            read(json!("three"), json!(["a"])),
            (status(0, &["a"]), vec!["count".to_owned()])
        );
        let (none, unread) = read(json!(-1), json!([1]));
        assert_eq!((none, unread.len()), (Status::default(), 2));
        assert_eq!(readable::<Status>(&json!([3, ["a"]])), None);
        assert_eq!(readable::<Status>(&Value::Null), None);
    }
}
