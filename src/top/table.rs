//! The fleet as people read it: counts, then a table.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{Fleet, Row, Standing};
use crate::util::{columns::columns, text::clean};

/// The fleet as text; `wide` adds columns, and no more than `limit` clusters are listed.
pub fn table(fleet: &Fleet, wide: bool, limit: usize) -> String {
    let shown = fleet.clusters.iter().take(limit);
    let now = fleet.time.0;
    let mut lines = vec![counts(&fleet.clusters)];
    if fleet.clusters.is_empty() {
        return lines.concat() + "\n";
    }
    lines.push(String::new());
    let narrow = shown.clone().map(|row| cells(row, now));
    let narrow: Vec<_> = [HEAD.map(str::to_owned)]
        .into_iter()
        .chain(narrow)
        .collect();
    match wide {
        false => lines.extend(columns(&narrow)),
        true => {
            let rest = shown.map(|row| more(row, now));
            let rest = [MORE.map(str::to_owned)].into_iter().chain(rest);
            let wide: Vec<_> = columns(&narrow)
                .into_iter()
                .zip(rest)
                .map(|(line, [owed, probed, message])| [line, owed, probed, message])
                .collect();
            lines.extend(columns(&wide));
        }
    }
    let left = fleet.clusters.len().saturating_sub(limit);
    if left > 0 {
        lines.push(format!("and {left} more, none of them worse"));
    }
    lines.join("\n") + "\n"
}

const HEAD: [&str; 9] = [
    "CLUSTER",
    "STANDING",
    "PROTECTION",
    "FOR",
    "STATE",
    "NODES",
    "EXPIRED",
    "REASON",
    "POLICY",
];
/// Limits on what a status says, in characters: those of a name, and of a message of a condition.
const MAX_CELL: usize = 253;
const MAX_MESSAGE: usize = 32_768;
const MORE: [&str; 3] = ["OWED", "PROBED", "MESSAGE"];

/// `5 clusters: 1 protected, 4 healthy`.
fn counts(rows: &[Row]) -> String {
    let parts = Standing::ALL.iter().filter_map(|standing| {
        let count = rows.iter().filter(|row| row.standing == *standing).count();
        let name = format!("{standing:?}").to_lowercase();
        (count > 0).then(|| format!("{count} {name}"))
    });
    let parts: Vec<String> = parts.collect();
    match rows.len() {
        0 => "no cluster".to_owned(),
        1 => format!("1 cluster: {}", parts.join(", ")),
        count => format!("{count} clusters: {}", parts.join(", ")),
    }
}

fn cells(row: &Row, now: Timestamp) -> [String; 9] {
    // What others wrote must not break the line.
    let or_dash =
        |cell: Option<String>| cell.map_or_else(|| "-".to_owned(), |cell| clean(&cell, MAX_CELL));
    let leases = row.leases;
    [
        row.cluster.clone(),
        format!("{:?}", row.standing),
        format!("{:?}", row.protection),
        age(row.protected_since.as_ref(), now),
        or_dash(row.state.map(|it| it.name().to_owned())),
        or_dash(row.nodes.clone()),
        or_dash(leases.map(|it| format!("{}/{}", it.expired, it.candidates))),
        or_dash(Some(row.reason.clone()).filter(|it| !it.is_empty())),
        or_dash(row.policy.clone()),
    ]
}

fn more(row: &Row, now: Timestamp) -> [String; 3] {
    [
        row.owed.to_string(),
        age(row.last_probe_time.as_ref(), now),
        clean(&row.message, MAX_MESSAGE),
    ]
}

/// `90s`, `14m`, as kubectl shows ages.
fn age(time: Option<&Time>, now: Timestamp) -> String {
    let Some(time) = time else {
        return "-".to_owned();
    };
    match now.duration_since(time.0).as_secs().max(0) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fleet() -> Fleet {
        let statuses = [
            (
                "shoot--a--down",
                json!({
                    "reason": "Outage", "protection": "Active", "policy": "shoots",
                    "protectedSince": "2026-11-20T11:58:30Z", "state": "NOTREADY", "nodes": "0/3\u{1b}\n",
                    "leases": {"candidates": 3, "expired": 2, "unknown": 0},
                    "message": "2 of 3 are\nexpired", "lastProbeTime": "2026-11-20T11:50:00Z",
                }),
            ),
            ("shoot--a--new", json!(null)),
            (
                "shoot--a--well",
                json!({"reason": "Healthy", "state": "ONLINE", "nodes": "3/3"}),
            ),
        ];
        let records: Vec<_> = statuses
            .iter()
            .map(|(name, status)| {
                let record = json!({
                    "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
                    "kind": "ClusterHealth", "metadata": {"name": name}, "spec": {},
                    "status": status,
                });
                serde_json::from_value(record).unwrap()
            })
            .collect();
        Fleet::new(&records, "2026-11-20T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            table(&fleet(), false, usize::MAX),
            "\
3 clusters: 1 protected, 1 pending, 1 healthy

CLUSTER         STANDING   PROTECTION  FOR  STATE     NODES  EXPIRED  REASON   POLICY
shoot--a--down  Protected  Active      90s  NOTREADY  0/3    2/3      Outage   shoots
shoot--a--new   Pending    None        -    -         -      -        Pending  -
shoot--a--well  Healthy    None        -    ONLINE    3/3    -        Healthy  -
"
        );
    }

    #[test]
    fn wide_adds_what_is_owed_when_it_was_probed_and_why() {
        let text = table(&fleet(), true, 1);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].ends_with("POLICY  OWED  PROBED  MESSAGE"),
            "{text}"
        );
        assert!(
            lines[3].ends_with("shoots  0     10m     2 of 3 are expired"),
            "{text}"
        );
        assert_eq!(lines[4], "and 2 more, none of them worse");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn an_empty_fleet_is_said_to_be_empty() {
        let mut fleet = fleet();
        fleet.retain(Some("none"), &[]);
        assert_eq!(table(&fleet, false, usize::MAX), "no cluster\n");
    }
}
