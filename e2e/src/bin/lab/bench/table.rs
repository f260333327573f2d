//! The results as a table in Markdown: one column a run.

use crate::bench::{
    delay::Delay,
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
    lines.join("\n")
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
    ("every ClusterHealth Healthy and ONLINE, s", |run| {
        tenths(run.start.settled)
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
    ("per shoot and minute: requests", |run| {
        hundredths(run.steady.per_shoot_minute.requests)
    }),
    ("… KiB to the operator", |run| {
        tenths(run.steady.per_shoot_minute.to_operator / KIB)
    }),
    ("… TLS handshakes", |run| {
        hundredths(run.steady.per_shoot_minute.handshakes)
    }),
    ("requests to the seed per minute", |run| {
        verbs(&run.steady.seed_requests, |rate| hundredths(*rate))
    }),
    ("**some API servers are dead**", |run| {
        dead(run, |dead| format!("{} shoots", dead.shoots))
    }),
    ("death → every ClusterHealth of theirs says so, s", |run| {
        dead(run, |dead| tenths(dead.reported))
    }),
    ("cores", |run| {
        dead(run, |dead| format!("{:.4}", dead.living.cores))
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
    ("cores", |run| format!("{:.4}", run.outage.cores)),
    ("resident memory, peak, MiB", |run| {
        tenths(run.outage.peak as f64 / MIB)
    }),
    ("**recovery**", |_| String::new()),
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
