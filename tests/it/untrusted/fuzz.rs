//! Runs properties: for a number of inputs, or for as long as `DWD_FUZZ_SECONDS` says.
//!
//! An input that fails is made smaller, and what it was made from is kept in a file beside the test,
//! which is tried first from then on.

use std::{
    env,
    fmt::Debug,
    time::{Duration, Instant},
};

use proptest::{
    prelude::*,
    test_runner::{Config, FileFailurePersistence, TestCaseResult, TestRunner},
};

/// Tries inputs of this strategy. `source` is the file that this is called from, `name` that of the
/// test; `cases` are tried if no time is given.
pub(crate) fn fuzz<S>(
    source: &'static str,
    name: &'static str,
    cases: u32,
    strategy: S,
    check: impl Fn(S::Value) -> TestCaseResult,
) where
    S: Strategy,
    S::Value: Debug,
{
    let config = Config {
        cases,
        source_file: Some(source),
        test_name: Some(name),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    };
    let begun = Instant::now();
    let time = env::var("DWD_FUZZ_SECONDS").ok();
    let time = time.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let mut tried = 0u64;
    loop {
        let mut runner = TestRunner::new(config.clone());
        if let Err(error) = runner.run(&strategy, &check) {
            panic!("{name}: {error}\n{runner}");
        }
        tried += u64::from(cases);
        match time {
            Some(time) if begun.elapsed() < time => {}
            Some(time) => return println!("{name}: {tried} inputs in {time:?}"),
            None => return,
        }
    }
}

/// A property that is a test of this name: `fuzzed!(name, cases, strategy, check)`.
macro_rules! fuzzed {
    ($(#[$meta:meta])* $name:ident, $cases:literal, $strategy:expr, $check:expr) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            crate::untrusted::fuzz::fuzz(file!(), stringify!($name), $cases, $strategy, $check);
        }
    };
}
pub(crate) use fuzzed;
