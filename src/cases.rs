//! How many cases a property has that takes long for each.

use proptest::prelude::ProptestConfig;

/// So many, unless `PROPTEST_CASES` says how many, as it does for all others.
pub(crate) fn fewer(cases: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    }
}
