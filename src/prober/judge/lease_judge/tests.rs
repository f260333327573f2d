use std::collections::BTreeMap;

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::{
    prober::{
        fixtures::{RULES, at},
        nodes::Exclusion,
        verdict::Doubt,
    },
    shoot::{Lease, List, Node},
};

fn seconds(moment: MonoTime) -> f64 {
    moment.nanos() as f64 / 1e9
}

/// A judge of a shoot of three nodes that all renew in the same second.
struct Shoot {
    judge: LeaseJudge,
    names: Vec<&'static str>,
    /// The lease `a` has been created anew so often.
    recreated: u64,
    /// Rises with every read, for somebody always writes.
    revision: u64,
    /// Size of each list.
    bytes: usize,
    facts_read: usize,
    nodes_gone: Vec<&'static str>,
}

impl Shoot {
    fn new(rules: LeaseRules) -> Self {
        Self {
            judge: LeaseJudge::new(rules),
            names: vec!["a", "b", "c"],
            recreated: 0,
            revision: 10_000,
            bytes: 0,
            facts_read: 0,
            nodes_gone: vec![],
        }
    }

    /// Takes in a list of leases that were all last renewed at `renewed`.
    fn list(&mut self, now: f64, renewed: i64) -> Intake {
        self.list_each(now, &vec![renewed; self.names.len()])
    }

    /// Takes in a list of leases, each of which was last renewed then.
    fn list_each(&mut self, now: f64, renewed: &[i64]) -> Intake {
        self.revision += 1;
        let leases: Vec<Lease> = self
            .names
            .iter()
            .zip(renewed)
            .map(|(name, renewed)| Lease {
                name: (*name).into(),
                uid: match *name {
                    "a" => (*self.recreated.to_string()).into(),
                    _ => "u".into(),
                },
                resource_version: *renewed as u64,
                renew_time: Timestamp::from_second(*renewed).ok(),
                stamp: Some(*renewed),
                duration_seconds: Some(40),
            })
            .collect();
        self.judge.observe(&LeaseRead {
            started: at(now),
            finished: at(now),
            date: Some(now.floor() as i64),
            consistency: self.judge.request().consistency,
            bytes: self.bytes,
            list: List {
                resource_version: self.revision,
                items: leases,
            },
        })
    }

    fn learn(&mut self, now: f64) {
        self.learn_of(&self.nodes(), now);
        self.facts_read += 1;
    }

    fn learn_of(&mut self, nodes: &[Node], now: f64) {
        let (mut facts, pools) = (Facts::new(at(now)), BTreeMap::new());
        nodes.iter().for_each(|it| facts.take_node(it, &pools));
        self.judge.learn(&facts);
    }

    /// Learns which nodes are ready.
    fn learn_ready(&mut self, ready: &[&str], now: f64) {
        let mut nodes = self.nodes();
        for node in nodes.iter_mut().filter(|node| ready.contains(&&*node.name)) {
            node.true_conditions = vec!["Ready".to_owned()];
        }
        self.learn_of(&nodes, now);
    }

    fn nodes(&self) -> Vec<Node> {
        let names = self.names.iter();
        let names = names.filter(|name| !self.nodes_gone.contains(name));
        names
            .map(|name| Node {
                name: (*name).into(),
                ..Node::default()
            })
            .collect()
    }

    /// One whole probe.
    fn probe(&mut self, now: f64, renewed: i64) -> Conclusion {
        self.probe_each(now, &vec![renewed; self.names.len()])
    }

    fn probe_each(&mut self, now: f64, renewed: &[i64]) -> Conclusion {
        self.list_each(now, renewed);
        if self.judge.wants_facts() {
            self.learn(now);
        }
        self.judge.conclude().unwrap()
    }

    /// A probe while Nodes and Machines are not read.
    fn judge_each(&mut self, now: f64, renewed: &[i64]) -> Conclusion {
        self.list_each(now, renewed);
        self.judge.conclude().unwrap()
    }

    /// Probes when they are due, until the verdict; when that was, and the conclusion.
    fn probe_until(&mut self, verdict: Verdict, from: f64, renewed: i64) -> (f64, Conclusion) {
        self.probe_each_until(verdict, from, &vec![renewed; self.names.len()])
    }

    fn probe_each_until(
        &mut self,
        verdict: Verdict,
        from: f64,
        renewed: &[i64],
    ) -> (f64, Conclusion) {
        let mut now = from;
        for _ in 0..100 {
            let conclusion = self.probe_each(now, renewed);
            if conclusion.verdict == verdict {
                return (now, conclusion);
            }
            now = self.due(now);
        }
        panic!(
            "no {verdict:?} in 100 probes, at last {:?}",
            self.judge.clone().conclude()
        );
    }

    fn due(&self, now: f64) -> f64 {
        seconds(self.judge.next(at(now), 0.0))
    }
}

#[test]
fn new_rules_plan_the_next_read() {
    let rules = |grace| LeaseRules {
        grace: Duration::from_secs(grace),
        interval: Duration::from_secs(300),
        ..RULES
    };
    let due = |rules, then| {
        let mut shoot = Shoot::new(rules);
        shoot.probe(105.0, 100);
        shoot.judge.set_rules(then);
        shoot.due(105.0)
    };
    assert_eq!(due(rules(600), rules(40)), due(rules(40), rules(40)));
    assert!(due(rules(40), rules(40)) < 130.0 && due(rules(600), rules(600)) > 300.0);
}

#[test]
fn a_suspect_is_read_consistently() {
    let mut shoot = Shoot::new(RULES);
    shoot.probe(105.0, 100);
    let calm = Request {
        consistency: Consistency::Cached,
        limit: Duration::from_secs(5),
        kept: Duration::from_secs(10) / 3,
    };
    assert_eq!(shoot.judge.request(), calm);
    shoot.probe(120.0, 100);
    let suspicious = Request {
        consistency: Consistency::Consistent,
        limit: Duration::from_secs(10) / 3,
        ..calm
    };
    assert_eq!(shoot.judge.request(), suspicious);
    shoot.probe(121.0, 120);
    assert_eq!(shoot.judge.request(), calm);
}

#[test]
fn outages_are_counted_a_second_apart() {
    let mut shoot = Shoot::new(LeaseRules {
        failure_threshold: 3,
        ..RULES
    });
    let (first, conclusion) = shoot.probe_until(Verdict::Outage, 105.0, 100);
    assert!(!conclusion.decides);
    assert_eq!(shoot.judge.next(at(first), 0.0), at(first + 1.0));
    assert!(!shoot.probe(first + 1.0, 100).decides);
    // A failure proves nothing either way: neither it nor the doubt that follows sets the count
    // back.
    shoot
        .judge
        .failed(at(first + 2.0), at(first + 2.0), Said::Late);
    let doubtful = shoot.probe(first + 3.0, 100);
    assert!(matches!(
        doubtful.verdict,
        Verdict::Undetermined(Doubt::Unproven(_))
    ));
    assert!(!doubtful.decides);
    let due = shoot.due(first + 3.0);
    let (again, conclusion) = shoot.probe_until(Verdict::Outage, due, 100);
    assert!(conclusion.decides);
    assert!(again >= first + 3.0 + 15.0, "proven anew at {again}");
}

#[test]
fn recoveries_are_counted_until_the_next_outage() {
    let mut shoot = Shoot::new(LeaseRules {
        success_threshold: 2,
        ..RULES
    });
    assert!(!shoot.probe(101.0, 100).decides);
    assert!(shoot.probe(105.0, 100).decides);
    let (first, _) = shoot.probe_until(Verdict::Outage, 115.0, 100);
    assert!(!shoot.probe(first + 1.0, first as i64).decides);
    let then = at(first + 2.0);
    let throttled = Said::Throttled(Duration::from_secs(10));
    shoot.judge.failed(then, then, throttled);
    assert_eq!(shoot.due(first + 2.0), first + 12.0);
    let second = shoot.probe(first + 12.0, first as i64 + 11);
    assert!(second.decides);
}

/// The Nodes may be others, and leases look silent since long before the outage.
#[test]
fn leases_of_a_restored_etcd_have_nodes_read_again_and_end_no_outage() {
    let mut shoot = Shoot::new(RULES);
    let (when, _) = shoot.probe_until(Verdict::Outage, 205.0, 200);
    shoot.judge.set_protected(true);
    // A consistent list is older than the one before: a restored etcd, to which one node writes.
    shoot.revision -= 1_000;
    shoot.list_each(when + 1.0, &[100, 100, when as i64]);
    shoot.learn(when);
    assert!(shoot.judge.wants_facts(), "they were asked for before");
    shoot.learn(when + 2.0);
    assert!(!shoot.judge.wants_facts());
    assert_ne!(shoot.judge.conclude().unwrap().verdict, Verdict::Healthy);
}

/// Nobody could be heard in that time, in which machines may have been taken down.
#[test]
fn facts_from_before_a_time_without_writes_are_read_again() {
    let mut shoot = Shoot::new(RULES);
    shoot.probe(100.0, 99);
    let mut now = shoot.due(100.0);
    while now < 140.0 {
        shoot.revision -= 1;
        shoot.probe(now, 99);
        now = shoot.due(now);
    }
    assert_eq!(shoot.facts_read, 2, "at the start, and to watch");
    let (first, _) = shoot.probe_until(Verdict::Outage, now, 99);
    assert_eq!(shoot.facts_read, 3);
    assert!(first >= now + 15.0, "{first}, {now}");
}

/// The leases are read while Nodes and Machines are, so the proof may be there before they are.
#[test]
fn facts_that_come_late_are_not_acted_on() {
    let (read, came) = (125.0, 220.0);
    let mut shoot = Shoot::new(RULES);
    shoot.list(105.0, 100);
    let mut now = shoot.due(105.0);
    while now < came {
        shoot.list(now, 100);
        let late = shoot.judge.conclude().unwrap();
        assert_ne!(late.verdict, Verdict::Outage);
        now = shoot.due(now);
    }
    let usual = shoot.due(now);
    shoot.learn(read);
    assert!(
        shoot.due(now - 1.0) < usual,
        "the leases are read immediately"
    );
    shoot.list(now, 100);
    let late = shoot.judge.conclude().unwrap();
    assert_eq!(late.verdict, Verdict::Undetermined(Doubt::FactsOutdated));
    assert!(!late.decides && shoot.judge.wants_facts());
    shoot.learn(now);
    shoot.list(now, 100);
    assert_eq!(shoot.judge.conclude().unwrap().verdict, Verdict::Outage);
}

/// Seconds after the last read of Nodes and Machines, while the leases are silent or not.
#[rstest]
#[case::healthy(false, false, None)]
#[case::suspect(false, true, Some(61))]
#[case::protected(true, false, Some(61))]
#[case::in_an_outage(true, true, Some(61))]
fn nodes_and_machines_are_read_again_while_the_cluster_is_suspect_or_protected(
    #[case] protected: bool,
    #[case] silent: bool,
    #[case] expected: Option<i64>,
) {
    let mut shoot = Shoot::new(RULES);
    let (when, _) = shoot.probe_until(Verdict::Outage, 105.0, 100);
    shoot.judge.set_protected(protected);
    shoot.learn(when.ceil());
    let (read, mut wanted) = (when.ceil() as i64, None);
    for now in read + 1..read + 100 {
        let renewed = if silent { 100 } else { now };
        shoot.list(now as f64, renewed);
        wanted = wanted.or_else(|| shoot.judge.wants_facts().then_some(now - read));
    }
    assert_eq!(wanted, expected);
}

#[test]
fn a_lease_that_comes_has_nodes_and_machines_read_within_a_minute() {
    for protected in [false, true] {
        let mut shoot = Shoot::new(RULES);
        shoot.probe(105.0, 100);
        shoot.learn(105.0);
        shoot.judge.set_protected(protected);
        assert!(!shoot.judge.wants_facts());
        shoot.names.push("d");
        shoot.list(106.0, 105);
        assert!(!shoot.judge.wants_facts());
        shoot.list(166.0, 165);
        assert!(shoot.judge.wants_facts());
    }
}

/// A shoot may make its lists as large as they are taken, and have them read three times a second.
#[test]
fn lists_are_read_no_sooner_than_their_work_allows() {
    const MIB: usize = 1024 * 1024;
    let mut shoot = Shoot::new(RULES);
    shoot.probe(105.0, 100);
    let mut now = shoot.probe_until(Verdict::Outage, 120.0, 100).0;
    let usual = shoot.due(now);
    shoot.bytes = MIB;
    shoot.list(now, 100);
    assert_eq!(shoot.due(now), usual, "an honest list of 1,200 leases");
    shoot.bytes = 16 * MIB;
    let begin = now;
    for _ in 0..25 {
        shoot.list(now, 100);
        now = shoot.due(now);
    }
    assert!(now - begin >= 96.0, "{now}");
    // Nodes and Machines for which the verdict waits have come.
    shoot.learn(now - 3.0);
    assert_eq!(shoot.due(now - 3.0), now);
}

/// Its Node may be another: until that is known it is no candidate, and if it is fresh it is evidence.
#[test]
fn the_node_of_a_lease_that_is_created_anew_is_read_when_there_is_time() {
    let mut shoot = Shoot::new(RULES);
    shoot.probe(100.0, 99);
    shoot.learn(100.0);
    shoot.recreated = 1;
    let seen = shoot.probe(110.0, 109).assessment;
    let unread = seen.excluded.get(&Exclusion::NotReadYet);
    assert_eq!(
        (seen.candidates, unread, seen.counter_evidence),
        (2, Some(&1), 1)
    );
    // They were asked for before.
    shoot.learn(109.0);
    assert_eq!(shoot.probe(120.0, 119).assessment.candidates, 2);
    assert_eq!(shoot.probe(170.0, 169).assessment.candidates, 3);
}

/// What was silent when a protection was ended counts neither way until it renews; what falls silent later does.
#[test]
fn what_was_silent_before_a_cut_counts_neither_way() {
    let mut shoot = Shoot::new(RULES);
    shoot.names = vec!["a", "b", "c", "d", "e"];
    let (when, _) = shoot.probe_each_until(Verdict::Outage, 105.0, &[100, 100, 100, 100, 126]);
    shoot.judge.set_protected(true);
    let fresh = |now: f64| now as i64;
    let now = when + 60.0;
    shoot.judge.set_cut(Some(at(now)), true);
    let now = now + 5.0;
    let seen = shoot.probe_each(now, &[100, 100, 100, 100, fresh(now)]);
    let cut = seen.assessment.excluded.get(&Exclusion::Disregarded);
    assert_eq!(
        (seen.verdict, seen.assessment.candidates, cut),
        (Verdict::Healthy, 1, Some(&4))
    );
    shoot.judge.set_protected(false);
    // The last one falls silent as well, which is no outage of a network: it is one.
    let last = fresh(now);
    let (later, seen) = shoot.probe_each_until(
        Verdict::Undetermined(Doubt::TooFewSilent),
        now + 40.0,
        &[100, 100, 100, 100, last],
    );
    assert_eq!(seen.assessment.candidates, 1);
    // All renew, and fall silent again.
    let now = later + 10.0;
    let seen = shoot.probe_each(now, &[fresh(now); 5]);
    assert_eq!(
        (seen.verdict, seen.assessment.candidates),
        (Verdict::Healthy, 5)
    );
    let (_, outage) = shoot.probe_each_until(Verdict::Outage, now + 20.0, &[fresh(now); 5]);
    assert_eq!(outage.assessment.expired, 5);

    // What had not expired by then may belong to an outage that begins.
    let (mut later, names) = (Shoot::new(RULES), vec!["a", "b", "c", "d", "e"]);
    later.names = names;
    later.judge.set_cut(Some(at(500.0)), false);
    let (_, outage) = later.probe_each_until(Verdict::Outage, 505.0, &[100, 100, 495, 495, 495]);
    let cut = outage.assessment.excluded.get(&Exclusion::Disregarded);
    assert_eq!((outage.assessment.expired, cut), (3, Some(&2)));

    // Nothing but what was cut is left: there is nothing to protect.
    let mut heir = Shoot::new(RULES);
    heir.names.clone_from(&shoot.names);
    heir.judge.set_cut(Some(at(500.0)), true);
    for protected in [true, false] {
        heir.judge.set_protected(protected);
        let seen = heir.probe_each(1_000.0 + f64::from(u8::from(!protected)), &[100; 5]);
        assert_eq!(
            (seen.verdict, seen.assessment.candidates),
            (Verdict::Healthy, 0)
        );
    }
}

/// A verdict that was reached just before the protection began ends no outage, and counts towards no restore.
#[test]
fn an_outage_is_not_forgotten_by_a_verdict_of_before_its_protection() {
    for protected in [true, false] {
        let mut shoot = Shoot::new(LeaseRules {
            success_threshold: 2,
            ..RULES
        });
        shoot.names = vec!["a", "b", "c"];
        let (when, outage) = shoot.probe_each_until(Verdict::Outage, 105.0, &[100; 3]);
        assert!(outage.onset.is_some());
        let next = |later: f64, shoot: &mut Shoot| {
            let now = when + later;
            shoot.probe_each(now, &[now as i64; 3])
        };
        let before = next(3.0, &mut shoot);
        assert_eq!((before.verdict, before.onset), (Verdict::Healthy, None));
        shoot.judge.set_protected(protected);
        let after = next(6.0, &mut shoot);
        assert_eq!(after.verdict, Verdict::Healthy);
        assert_eq!(after.onset.is_some(), protected);
        assert_eq!(after.decides, !protected);
    }
}

/// By their leases and by what was read of them since the restore was allowed.
#[test]
fn nodes_that_count_are_back_when_they_are_fresh_and_ready() {
    let mut shoot = Shoot::new(RULES);
    shoot.names = vec!["a", "b", "c", "d"];
    let returning = |seen: &Conclusion| (seen.returning.back, seen.returning.all);
    // One is well, and three fall silent.
    let (when, outage) = shoot.probe_each_until(Verdict::Outage, 105.0, &[100, 100, 100, 125]);
    assert_eq!(returning(&outage), (0, 0), "nothing is protected");
    shoot.judge.set_protected(true);
    // Two are back.
    let fresh = |now: f64| now as i64;
    let some = |now: f64| [fresh(now), fresh(now), 100, fresh(now)];
    let seen = shoot.judge_each(when + 10.0, &some(when + 10.0));
    assert_eq!(seen.verdict, Verdict::Healthy);
    assert_eq!(
        returning(&seen),
        (0, 4),
        "nothing was read of the nodes since"
    );
    shoot.judge.set_awaits(Some(at(when + 10.0)));
    shoot.learn_ready(&["a", "d"], when + 12.0);
    let seen = shoot.judge_each(when + 20.0, &some(when + 20.0));
    assert_eq!(returning(&seen), (2, 4));
    assert!(shoot.judge.wants_facts());
    shoot.learn_ready(&["a", "b", "c", "d"], when + 22.0);
    let seen = shoot.judge_each(when + 30.0, &some(when + 30.0));
    assert_eq!(
        returning(&seen),
        (3, 4),
        "what is silent is not back, whatever its Node says"
    );
    // It is gone.
    shoot.nodes_gone = vec!["c"];
    shoot.learn_ready(&["a", "b", "d"], when + 32.0);
    let seen = shoot.judge_each(when + 40.0, &some(when + 40.0));
    assert_eq!(returning(&seen), (3, 3));
    assert!(seen.returning.is_complete() && !shoot.judge.wants_facts());
}

/// Nodes that died before an outage neither begin nor prolong it. Another leader, who did not see it begin, counts all.
#[test]
fn what_was_silent_before_an_outage_does_not_prolong_it() {
    const HOUR: i64 = 3_600;
    let mut shoot = Shoot::new(RULES);
    shoot.names = vec!["a", "b", "c", "d", "e", "f"];
    // Three have been dead for an hour, which count until others fall silent, and three are well.
    let start = HOUR as f64;
    let dead = |now: i64| [100, 100, 100, now, now, now];
    let (_, conclusion) = shoot.probe_each_until(Verdict::Healthy, start + 5.0, &dead(HOUR));
    assert_eq!(conclusion.assessment.candidates, 6);
    // Then these fall silent as well, and one of them comes back.
    let (when, outage) = shoot.probe_each_until(Verdict::Outage, start + 15.0, &dead(HOUR));
    let onset = outage.onset.unwrap();
    assert!((seconds(onset) - start).abs() < 3.0, "{onset:?}");
    shoot.judge.set_protected(true);
    let when = when + 1_800.0;
    let back = |now: f64| [100, 100, 100, HOUR, now as i64, now as i64];
    let mut heir = Shoot::new(RULES);
    heir.names.clone_from(&shoot.names);
    heir.judge.set_protected(true);
    heir.revision = 20_000;
    let seen = heir.probe_each(when + 5.0, &back(when + 5.0));
    assert_ne!(seen.verdict, Verdict::Healthy, "{seen:?}");
    assert_eq!(seen.assessment.candidates, 6);
    let recovered = shoot.probe_each(when + 5.0, &back(when + 5.0));
    assert_eq!(recovered.verdict, Verdict::Healthy, "{recovered:?}");
    assert_eq!(recovered.assessment.candidates, 3);
    shoot.judge.set_protected(false);
    let over = shoot.probe_each(when + 15.0, &back(when + 15.0));
    assert_eq!(over.onset, None);
}
