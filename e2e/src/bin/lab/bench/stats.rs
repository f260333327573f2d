//! What many values come to.

/// The median, the 99th percentile and the greatest of some values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) worst: f64,
}

impl Spread {
    /// Of these values; none of none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: percentile(&values, 50)?,
            p99: percentile(&values, 99)?,
            worst: percentile(&values, 100)?,
        })
    }
}

/// The least value that so many of a hundred do not exceed (the nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}
