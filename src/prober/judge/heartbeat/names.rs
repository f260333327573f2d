//! The names of a shoot's leases, in one string: there are 100,000 of them over all shoots.

/// Names in their order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseNames {
    text: Box<str>,
    /// The end of each name in the text.
    ends: Box<[u32]>,
}

impl LeaseNames {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Where this name is.
    pub fn position(&self, name: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let place = low.midpoint(high);
            match self.get(place)?.cmp(name) {
                std::cmp::Ordering::Less => low = place + 1,
                std::cmp::Ordering::Greater => high = place,
                std::cmp::Ordering::Equal => return Some(place),
            }
        }
        None
    }

    fn get(&self, place: usize) -> Option<&str> {
        let start = match place.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text
            .get(start as usize..*self.ends.get(place)? as usize)
    }
}

/// From names in any order. Those beyond 4 GiB are left out; no list holds so much.
impl<'a> FromIterator<&'a str> for LeaseNames {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut text = String::with_capacity(names.iter().map(|name| name.len()).sum());
        let ends = names.iter().map_while(|name| {
            text.push_str(name);
            u32::try_from(text.len()).ok()
        });
        let ends = ends.collect();
        Self {
            text: text.into(),
            ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_is_found_where_it_is(
            names in prop::collection::vec("[ab]{0,3}|\\PC{0,5}", 0..12), other in "[ab]{0,3}"
        ) {
            let found: LeaseNames = names.iter().map(String::as_str).collect();
            let expected: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            prop_assert!(found.iter().eq(expected.iter().copied()));
            prop_assert_eq!(found.len(), expected.len());
            for (place, name) in expected.iter().enumerate() {
                prop_assert_eq!(found.position(name), Some(place));
            }
            prop_assert_eq!(found.position(&other).is_some(), expected.contains(&*other));
        }
    }
}
