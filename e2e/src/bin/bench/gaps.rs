//! Whether probes keep their times.

use dependency_watchdog_e2e::farm::Micros;

/// The seconds between each list that came in a time and the one before it.
pub(crate) fn gaps(asked: &[Micros], from: Micros, to: Micros) -> impl Iterator<Item = f64> {
    asked.windows(2).filter_map(move |pair| match pair {
        [before, at] if (from..to).contains(at) => Some((at - before) as f64 / 1e6),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_belongs_to_the_list_that_ends_it() {
        let asked = [0, 10, 25, 45].map(|second| second * 1_000_000);
        let of = |from, to| gaps(&asked, from, to).collect::<Vec<_>>();
        assert_eq!(of(0, Micros::MAX), [10.0, 15.0, 20.0]);
        assert_eq!(of(10_000_001, 45_000_000), [15.0]);
        assert_eq!(of(46_000_000, Micros::MAX), [0.0; 0]);
    }
}
