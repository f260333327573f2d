//! What the validation of the kinds shares: bounds, and problems in the words of the API.

use std::collections::BTreeMap;

/// What can be counted.
pub(super) trait Entries {
    /// How many there are.
    fn entries(&self) -> usize;
}

impl<T> Entries for Vec<T> {
    fn entries(&self) -> usize {
        self.len()
    }
}

impl<K, V> Entries for BTreeMap<K, V> {
    fn entries(&self) -> usize {
        self.len()
    }
}

/// A garde validator for the number of entries.
pub(super) fn entries<T: Entries>(min: usize, max: usize) -> impl Fn(&T, &()) -> garde::Result {
    move |list, _| match list.entries() {
        count if (min..=max).contains(&count) => Ok(()),
        count => Err(garde::Error::new(format_args!(
            "must have at least {min} and at most {max} entries, not {count}"
        ))),
    }
}

/// A garde validator for the value of a number.
pub(super) fn range(min: i32, max: i32) -> impl Fn(&i32, &()) -> garde::Result {
    move |value, _| {
        if (min..=max).contains(value) {
            Ok(())
        } else {
            Err(garde::Error::new(format_args!(
                "must be at least {min} and at most {max}, not {value}"
            )))
        }
    }
}

/// The entries of a report as `spec.fieldName: what is allowed`.
///
/// Reports name fields as Rust does; users know them as the API does.
pub(super) fn readable_problems(root: &str, report: &garde::Report) -> Vec<String> {
    report
        .iter()
        .map(|(path, error)| format!("{root}.{}: {error}", camel_case(path)))
        .collect()
}

fn camel_case(path: &garde::Path) -> String {
    let mut upper = false;
    let mut name = String::new();
    for c in path.to_string().replace("r#", "").chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}
