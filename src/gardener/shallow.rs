//! JSON of any depth, of which the upper levels are kept.
//!
//! A decoder that recurses has to end somewhere, with an error for the whole document. An API server
//! stores what is nested thousands of levels deep, and nothing that is read here lies below a few.

use std::fmt;

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// So many levels are kept.
const LEVELS: usize = 32;

/// Decodes a value; what lies deeper than [`LEVELS`] is null.
pub(super) fn shallow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Shallow { levels: LEVELS }.deserialize(deserializer)
}

struct Shallow {
    levels: usize,
}

impl Shallow {
    fn below(&self) -> Self {
        let levels = self.levels.saturating_sub(1);
        Self { levels }
    }
}

impl<'de> DeserializeSeed<'de> for Shallow {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.levels {
            // That does not recurse.
            0 => IgnoredAny::deserialize(deserializer).map(|_| Value::Null),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Shallow {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element_seed(self.below())? {
            kept.push(item);
        }
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(name) = entries.next_key()? {
            kept.insert(name, entries.next_value_seed(self.below())?);
        }
        Ok(kept.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = shallow(&mut deserializer).unwrap();
        deserializer.end().unwrap();
        value
    }

    #[test]
    fn what_is_not_deep_is_whole() {
        let value = json!({"a": [null, true, -1, 2, 0.5, "s", {}], "b": {"c": []}});
        assert_eq!(read(&value.to_string()), value);
    }

    #[test]
    fn of_what_is_deep_the_upper_levels_stay() {
        const DEPTH: usize = 10_000;
        let text = format!("{}1{}", r#"{"a":["#.repeat(DEPTH), "]}".repeat(DEPTH));
        let mut value = &read(&text);
        for _ in 0..LEVELS / 2 {
            value = &value["a"][0];
        }
        assert!(value.is_null());
    }
}
