//! The results as a table in Markdown: one column a run.

use crate::{
    delay::Delay,
    growth::{Growth, growths},
    results::{Dead, Report, Run, Standby},
    stats::Spread,
};
use std::{collections::BTreeMap, fmt::Display};

const MIB: f64 = 1024.0 * 1024.0;
const KIB: f64 = 1024.0;

/// The whole report.
pub(crate) fn markdown(report: &Report) -> String {
    let host = &report.host;
    let mut lines = vec![
        format!(
            "Machine: {} cores ({}), {:.0} GiB, Linux {}. Operator: {}. Seed: kube-apiserver {}.",
            host.cores,
            host.processor,
            host.memory as f64 / MIB / KIB,
            host.kernel,
            host.operator,
            host.api_server,
        ),
        settings(&report.settings),
        String::new(),
    ];
    let heads = report
        .runs
        .iter()
        .map(|run| format!("{} × {}", run.shoots, run.nodes));
    lines.push(row("shoots × nodes", heads));
    lines.push(row("---", report.runs.iter().map(|_| "---:")));
    for (name, cell) in ROWS {
        lines.push(row(name, report.runs.iter().map(cell)));
    }
    lines.push(String::new());
    lines.extend(growth(&growths(&report.runs)));
    lines.join("\n")
}

/// What one more costs; nothing if no two runs tell.
fn growth(growths: &[Growth]) -> Vec<String> {
    if growths.is_empty() {
        return Vec::new();
    }
    let heads = [
        "thousandths of a core",
        "KiB resident",
        "KiB to the operator a minute",
    ];
    let mut lines = vec![
        row("one more costs", heads),
        row("---", heads.map(|_| "---:")),
    ];
    lines.extend(growths.iter().map(|it| {
        let cells = [
            format!("{:.4}", it.cores * 1000.0),
            hundredths(it.resident / KIB),
            tenths(it.to_operator / KIB),
        ];
        row(&it.what, cells)
    }));
    lines.push(String::new());
    lines
}

fn settings(settings: &BTreeMap<&str, String>) -> String {
    let told = settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    format!("Settings: {}.", told.collect::<Vec<_>>().join(", "))
}

type Cell = fn(&Run) -> String;

const ROWS: &[(&str, Cell)] = &[
    ("**start**", |_| String::new()),
    ("leases of every shoot asked for, s", |run| {
        tenths(run.start.asked)
    }),
    ("every ClusterHealth written, s", |run| {
        tenths(run.start.judged)
    }),
    ("… and every shoot ONLINE, s", |run| {
        tenths(run.start.settled)
    }),
    ("computed until then, core seconds", |run| {
        hundredths(run.start.computed)
    }),
    ("resident memory, peak, MiB", |run| {
        tenths(run.start.peak as f64 / MIB)
    }),
    ("requests to the seed", |run| {
        verbs(&run.start.seed_requests, |count| count.to_string())
    }),
    ("**nothing is wrong**", |_| String::new()),
    ("cores", |run| format!("{:.4}", run.steady.cores)),
    ("resident memory, MiB", |run| {
        tenths(run.steady.memory.resident as f64 / MIB)
    }),
    ("… of which anonymous", |run| {
        tenths(run.steady.memory.anonymous as f64 / MIB)
    }),
    ("resident memory, peak, MiB", |run| {
        tenths(run.steady.memory.peak as f64 / MIB)
    }),
    ("per shoot and minute: requests", |run| {
        hundredths(run.steady.per_shoot_minute.requests)
    }),
    ("… of which lists of leases", |run| {
        hundredths(run.steady.per_shoot_minute.lists_of_leases)
    }),
    ("… of which lists of Nodes", |run| {
        hundredths(run.steady.per_shoot_minute.lists_of_nodes)
    }),
    ("… of which for /readyz", |run| {
        hundredths(run.steady.per_shoot_minute.readiness)
    }),
    ("… KiB to the operator", |run| {
        tenths(run.steady.per_shoot_minute.to_operator / KIB)
    }),
    ("… KiB from the operator", |run| {
        tenths(run.steady.per_shoot_minute.from_operator / KIB)
    }),
    ("… TLS handshakes", |run| {
        hundredths(run.steady.per_shoot_minute.handshakes)
    }),
    ("requests to the seed per minute", |run| {
        verbs(&run.steady.seed_requests, |rate| hundredths(*rate))
    }),
    ("between two lists of one shoot, s", |run| {
        spread(run.steady.gaps)
    }),
    ("**some API servers are dead**", |run| {
        dead(run, |dead| format!("{} shoots", dead.shoots))
    }),
    ("death → every ClusterHealth of theirs says so, s", |run| {
        dead(run, |dead| tenths(dead.reported))
    }),
    ("between two lists of one of the living, s", |run| {
        dead(run, |dead| spread(dead.living.gaps))
    }),
    ("per living shoot and minute: requests", |run| {
        dead(run, |dead| {
            hundredths(dead.living.per_shoot_minute.requests)
        })
    }),
    ("… KiB to the operator", |run| {
        dead(run, |dead| {
            tenths(dead.living.per_shoot_minute.to_operator / KIB)
        })
    }),
    ("… TLS handshakes", |run| {
        dead(run, |dead| {
            hundredths(dead.living.per_shoot_minute.handshakes)
        })
    }),
    ("requests to the seed per minute", |run| {
        dead(run, |dead| {
            verbs(&dead.living.seed_requests, |rate| hundredths(*rate))
        })
    }),
    ("cores", |run| {
        dead(run, |dead| format!("{:.4}", dead.living.cores))
    }),
    ("resident memory, MiB", |run| {
        dead(run, |dead| tenths(dead.living.memory.resident as f64 / MIB))
    }),
    ("**outage of several at once**", |run| {
        format!("{} shoots", run.outage.shoots)
    }),
    ("stamps certain → first write, s", |run| {
        delays(run, |delay| delay.first)
    }),
    ("stamps certain → last write, s", |run| {
        delays(run, |delay| delay.last)
    }),
    ("truly expired → first write, s", |run| {
        delays(run, |delay| delay.true_first)
    }),
    ("truly expired → last write, s", |run| {
        delays(run, |delay| delay.true_last)
    }),
    ("left before the first node is lost, least, s", |run| {
        let left = run.outage.delays.iter().map(|delay| delay.left);
        hundredths(left.fold(f64::INFINITY, f64::min))
    }),
    ("all written before that", |run| {
        let late = run
            .outage
            .delays
            .iter()
            .filter(|delay| delay.left < 0.0)
            .count();
        if late == 0 {
            "yes".to_owned()
        } else {
            format!("no, {late} late")
        }
    }),
    ("cut → every ClusterHealth Active, s", |run| {
        tenths(run.outage.reported)
    }),
    ("between two lists of one of the others, s", |run| {
        spread(run.outage.gaps_of_others)
    }),
    ("requests per silent shoot", |run| {
        tenths(run.outage.requests)
    }),
    ("KiB to the operator per silent shoot", |run| {
        tenths(run.outage.to_operator / KIB)
    }),
    ("requests to the seed", |run| {
        run.outage.seed_requests.to_string()
    }),
    ("cores", |run| format!("{:.4}", run.outage.cores)),
    ("resident memory, peak, MiB", |run| {
        tenths(run.outage.peak as f64 / MIB)
    }),
    ("**recovery**", |_| String::new()),
    ("network back → first write, s", |run| {
        spread(run.recovery.first)
    }),
    ("network back → last write, s", |run| {
        spread(run.recovery.last)
    }),
    ("network back → every ClusterHealth None, s", |run| {
        tenths(run.recovery.reported)
    }),
    ("**beside the operator, while nothing is wrong**", |_| {
        String::new()
    }),
    ("cores of the standby", |run| {
        standby(run, |it| format!("{:.4}", it.cores))
    }),
    ("… its resident memory, MiB", |run| {
        standby(run, |it| tenths(it.memory.resident as f64 / MIB))
    }),
    ("… of which anonymous", |run| {
        standby(run, |it| tenths(it.memory.anonymous as f64 / MIB))
    }),
    ("… peak, MiB", |run| {
        standby(run, |it| tenths(it.memory.peak as f64 / MIB))
    }),
    ("cores of the farm", |run| hundredths(run.steady.farm_cores)),
    ("cores of the seed's API server", |run| {
        hundredths(run.steady.api_server_cores)
    }),
    ("cores of the whole machine", |run| {
        hundredths(run.steady.machine_cores)
    }),
];

fn row(name: &str, cells: impl IntoIterator<Item = impl Display>) -> String {
    let cells = cells.into_iter().map(|cell| format!(" {cell} |"));
    format!("| {name} |{}", cells.collect::<String>())
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn hundredths(value: f64) -> String {
    // To add zero takes the sign from a zero.
    let rounded = (value * 100.0).round() / 100.0 + 0.0;
    format!("{rounded:.2}")
}

/// The median, the 99th percentile and the greatest.
fn spread(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { median, p99, worst }) => [median, p99, worst].map(hundredths).join(" / "),
        None => "none".to_owned(),
    }
}

fn dead(run: &Run, of: fn(&Dead) -> String) -> String {
    run.dead.as_ref().map_or_else(|| "none".to_owned(), of)
}

fn standby(run: &Run, of: fn(&Standby) -> String) -> String {
    let standby = run.steady.standby.as_ref();
    standby.map_or_else(|| "none".to_owned(), of)
}

fn delays(run: &Run, of: fn(&Delay) -> f64) -> String {
    spread(Spread::of(run.outage.delays.iter().map(of)))
}

fn verbs<T>(counts: &BTreeMap<String, T>, told: impl Fn(&T) -> String) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let told = counts
        .iter()
        .map(|(verb, count)| format!("{verb} {}", told(count)));
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Host, fixtures::run};

    #[test]
    fn no_zero_has_a_sign() {
        let values = [-0.004, 0.004, -0.006, 1.005];
        assert_eq!(values.map(hundredths), ["0.00", "0.00", "-0.01", "1.00"]);
    }

    #[test]
    fn each_run_is_a_column_and_each_row_is_whole() {
        let report = Report {
            host: Host {
                cores: 2,
                ..Host::default()
            },
            settings: BTreeMap::from([("grace", "40s".to_owned())]),
            runs: vec![run(50, 100), run(300, 100)],
        };
        let text = markdown(&report);
        assert!(text.contains("Settings: grace 40s.\n"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        let (rows, growth) = rows.split_at(ROWS.len() + 2);
        assert!(
            rows.iter().all(|row| row.matches('|').count() == 4),
            "{text}"
        );
        let expected = "| a shoot of 100 nodes (50 → 300) | 0.0000 | 0.00 | 0.0 |";
        assert_eq!(growth.last(), Some(&expected), "{text}");
        for expected in [
            "| shoots × nodes | 50 × 100 | 300 × 100 |",
            "| cores | 0.0123 | 0.0123 |",
            "| resident memory, MiB | 2.0 | 2.0 |",
            "| cores of the standby | none | 0.0100 |",
            "| … its resident memory, MiB | none | 2.0 |",
            "| requests to the seed | list 7 | list 7 |",
            "| requests to the seed per minute | none | none |",
            "| stamps certain → first write, s | -0.25 / 1.50 / 1.50 | -0.25 / 1.50 / 1.50 |",
            "| left before the first node is lost, least, s | -0.50 | -0.50 |",
            "| all written before that | no, 1 late | no, 1 late |",
            "| **some API servers are dead** | none | 30 shoots |",
            "| between two lists of one of the living, s | none | 10.00 / 12.00 / 12.00 |",
            "| between two lists of one of the others, s | none | none |",
            "| between two lists of one shoot, s | 10.00 / 12.00 / 12.00 | 10.00 / 12.00 / 12.00 |",
        ] {
            assert!(rows.contains(&expected), "{expected}\n{text}");
        }
    }
}
