//! What one shoot more, and one node more, costs while nothing is wrong: between the least and the
//! greatest of the runs that differ in that alone.

use crate::results::{Run, Steady};
use std::collections::BTreeMap;

/// The growth from one run to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Of what, from where to where.
    pub(crate) what: String,
    /// Cores for each.
    pub(crate) cores: f64,
    /// Bytes resident for each.
    pub(crate) resident: f64,
    /// Bytes to the operator a minute for each.
    pub(crate) to_operator: f64,
}

/// All that these runs tell.
pub(crate) fn growths(runs: &[Run]) -> Vec<Growth> {
    let shoots = widest(runs, |run| (run.nodes, run.shoots)).map(|(nodes, from, to)| {
        let what = format!("a shoot of {nodes} nodes ({} → {})", from.shoots, to.shoots);
        growth(what, from, to, |run| run.shoots)
    });
    let nodes = widest(runs, |run| (run.shoots, run.nodes)).map(|(shoots, from, to)| {
        let what = format!("a node in {shoots} shoots ({} → {})", from.nodes, to.nodes);
        growth(what, from, to, |run| run.shoots * run.nodes)
    });
    shoots.chain(nodes).collect()
}

/// Of the runs that have the first number in common, those that are furthest apart by the second.
fn widest(
    runs: &[Run],
    of: fn(&Run) -> (usize, usize),
) -> impl Iterator<Item = (usize, &Run, &Run)> {
    let mut groups: BTreeMap<usize, BTreeMap<usize, &Run>> = BTreeMap::new();
    for run in runs {
        let (same, differs) = of(run);
        groups.entry(same).or_default().insert(differs, run);
    }
    groups.into_iter().filter_map(|(same, group)| {
        let (least, from) = group.first_key_value()?;
        let (greatest, to) = group.last_key_value()?;
        (least < greatest).then_some((same, *from, *to))
    })
}

fn growth(what: String, from: &Run, to: &Run, count: fn(&Run) -> usize) -> Growth {
    let more = count(to) as f64 - count(from) as f64;
    let each = |of: &dyn Fn(&Run) -> f64| (of(to) - of(from)) / more;
    let steady = |of: fn(&Steady) -> f64| each(&|run| of(&run.steady));
    Growth {
        what,
        cores: steady(|steady| steady.cores),
        resident: steady(|steady| steady.memory.resident as f64),
        to_operator: each(&|run| run.steady.per_shoot_minute.to_operator * run.shoots as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixtures::run;

    #[test]
    fn what_differs_in_one_number_tells_what_that_costs() {
        let of = |shoots, nodes, cores, resident| {
            let mut run = run(shoots, nodes);
            run.steady.cores = cores;
            run.steady.memory.resident = resident;
            run.steady.per_shoot_minute.to_operator = nodes as f64 * 10.0;
            run
        };
        let runs = [
            of(300, 100, 0.03, 5000),
            of(50, 100, 0.005, 2500),
            of(100, 100, 0.01, 3000),
            of(100, 500, 0.03, 43_000),
        ];
        let growths = growths(&runs);
        let whats = growths.iter().map(|it| it.what.as_str());
        assert_eq!(
            whats.collect::<Vec<_>>(),
            [
                "a shoot of 100 nodes (50 → 300)",
                "a node in 100 shoots (100 → 500)"
            ]
        );
        assert!((growths[0].cores - 0.0001).abs() < 1e-9);
        assert!((growths[1].cores - 0.000_000_5).abs() < 1e-12);
        let bytes = |it: &Growth| (it.resident, it.to_operator);
        assert_eq!(bytes(&growths[0]), (10.0, 1000.0));
        assert_eq!(bytes(&growths[1]), (1.0, 10.0));
    }
}
