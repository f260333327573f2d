//! Whether a field that is refused was set at all, whatever its shape.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// True unless the field is absent, null, false, an empty text or an empty list: the values by
/// which client-go behaves as if it were absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Given(pub(super) bool);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visit)
    }
}

struct Visit;

impl<'de> Visitor<'de> for Visit {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Given, E> {
        Ok(Given(false))
    }

    fn visit_none<E>(self) -> Result<Given, E> {
        Ok(Given(false))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Given, E> {
        Ok(Given(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Given, E> {
        Ok(Given(true))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Given, E> {
        Ok(Given(true))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Given, E> {
        Ok(Given(true))
    }

    fn visit_str<E>(self, value: &str) -> Result<Given, E> {
        Ok(Given(!value.is_empty()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Given, A::Error> {
        let mut given = Given(false);
        while seq.next_element::<IgnoredAny>()?.is_some() {
            given = Given(true);
        }
        Ok(given)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Given(true))
    }
}
