use rstest::rstest;

use super::*;
use crate::{prober::fixtures::at, shoot::List};

/// Our moment 0 by the server's clock.
const EPOCH: i64 = 1_700_000_000;

/// The lease "n", written at `revision`, stamped at that second after the epoch.
fn lease(revision: u64, stamp: impl Into<Option<i64>>) -> Lease {
    Lease {
        name: "n".into(),
        uid: "u".into(),
        resource_version: revision,
        renew_time: Timestamp::from_microsecond(revision as i64).ok(),
        stamp: stamp.into().map(|second| EPOCH + second),
        duration_seconds: Some(40),
    }
}

/// A cached read that starts and ends at that moment, with a `Date` of its own.
fn read(seconds: f64, revision: u64, leases: &[Lease]) -> LeaseRead {
    LeaseRead {
        started: at(seconds),
        finished: at(seconds),
        date: Some(EPOCH + seconds.floor() as i64),
        consistency: Consistency::Cached,
        bytes: 0,
        list: List {
            resource_version: revision,
            items: leases.to_vec(),
        },
    }
}

fn consistent(read: LeaseRead) -> LeaseRead {
    LeaseRead {
        consistency: Consistency::Consistent,
        ..read
    }
}

fn window(beats: &Leases) -> (Option<MonoTime>, MonoTime) {
    let window = beats.get("n".into()).and_then(Beat::renewed).unwrap();
    (window.earliest, window.latest)
}

#[rstest]
#[case(None, 10.0)]
#[case(Some(40), 10.0)]
#[case(Some(15), 3.75)]
#[case(Some(1), 1.0)]
#[case(Some(0), 1.0)]
#[case(Some(-40), 1.0)]
#[case(Some(240), 60.0)]
#[case(Some(i32::MAX), 60.0)]
fn periods(#[case] duration_seconds: Option<i32>, #[case] seconds: f64) {
    let mut beats = Leases::default();
    let lease = Lease {
        duration_seconds,
        ..lease(5, None)
    };
    beats.take(&read(10.0, 5, &[lease]));
    let period = beats.get("n".into()).unwrap().period();
    assert_eq!(period, Duration::from_secs_f64(seconds));
}

#[test]
fn a_restored_etcd_is_told_by_a_lease_that_went_back() {
    let mut beats = Leases::default();
    beats.take(&read(10.0, 9, &[lease(9, 9)]));
    // Meanwhile its revision has caught up.
    let restored = [lease(8, 18)];
    assert_eq!(beats.take(&read(20.0, 11, &restored)), Intake::Stale);
    let read_again = consistent(read(20.0, 11, &restored));
    assert_eq!(beats.take(&read_again), Intake::RolledBack);
    assert_eq!(beats.get("n".into()).unwrap().resource_version(), 8);
}

#[test]
fn a_lease_without_a_readable_version_is_no_restored_etcd() {
    let mut beats = Leases::default();
    beats.take(&read(10.0, 9, &[lease(9, 9)]));
    let unreadable = Lease {
        resource_version: 0,
        renew_time: None,
        ..lease(9, 9)
    };
    assert_eq!(beats.take(&read(20.0, 11, &[unreadable])), Intake::Taken);
}

#[test]
fn a_new_uid_is_another_lease() {
    let mut beats = Leases::default();
    beats.take(&consistent(read(10.0, 5, &[lease(5, None)])));
    let reborn = Lease {
        uid: "v".into(),
        ..lease(7, None)
    };
    beats.take(&read(20.0, 7, &[reborn]));
    assert_eq!(window(&beats), (Some(at(10.0)), at(20.0)));
}

/// The server that wrote it has another clock than the one that is read, and drift widens what it may mean.
#[test]
fn a_stamp_that_contradicts_what_was_seen_is_never_used() {
    let mut beats = Leases::default();
    let leases = [lease(5, 1)];
    beats.take(&consistent(read(10.005, 5, &leases)));
    let renewed = [lease(7, 9)];
    for second in 13..60 {
        beats.take(&consistent(read(f64::from(second), 7, &renewed)));
        let seen = (Some(at(10.005)), at(13.0));
        assert_eq!(window(&beats), seen, "at {second}");
    }
}

#[test]
fn a_stamp_gives_a_window_on_our_clock() {
    let mut beats = Leases::default();
    beats.take(&read(100.0, 5, &[lease(5, 90)]));
    let (earliest, latest) = window(&beats);
    // Stamp and Date are each rounded down to a second; drift adds 500 ppm of 10 s.
    assert!(earliest.unwrap() <= at(89.0) && earliest.unwrap() >= at(88.99));
    assert!(latest >= at(91.0) && latest <= at(91.01));
    // A second Date tells more of the server's clock, and so of the same stamp.
    let leases = [lease(5, 90)];
    let closer = LeaseRead {
        date: Some(EPOCH + 100),
        ..read(100.9, 5, &leases)
    };
    beats.take(&closer);
    let (earliest, latest) = window(&beats);
    assert!(latest.since(earliest.unwrap()) <= Duration::from_millis(1_120));
}

#[rstest]
#[case::no_stamp(lease(6, None), Some(EPOCH + 20))]
#[case::no_date(lease(6, 19), None)]
#[case::stamp_beyond_the_date(lease(6, 22), Some(EPOCH + 20))]
#[case::date_strays(lease(6, 19), Some(EPOCH + 3_600))]
fn without_the_servers_word_what_we_saw_counts(#[case] renewal: Lease, #[case] date: Option<i64>) {
    let mut beats = Leases::default();
    beats.take(&consistent(read(10.0, 5, &[lease(5, None)])));
    let leases = [renewal];
    beats.take(&LeaseRead {
        date,
        finished: at(20.5),
        ..read(20.0, 6, &leases)
    });
    // Not before the last consistent read with the old value, not after the first with the new.
    assert_eq!(window(&beats), (Some(at(10.0)), at(20.5)));
}

#[test]
fn a_stamp_a_second_beyond_the_date_is_used() {
    let mut beats = Leases::default();
    beats.take(&read(10.0, 5, &[lease(5, None)]));
    beats.take(&read(20.0, 6, &[lease(6, 21)]));
    // Of [20, 22] what lies before the end of the read.
    let (earliest, latest) = window(&beats);
    assert!(earliest.unwrap() >= at(19.9));
    assert_eq!(latest, at(20.0));
}

#[test]
fn a_late_cache_shows_stamps_from_before_a_step() {
    let mut beats = Leases::default();
    fn stepped(seconds: f64, revision: u64, leases: &[Lease]) -> LeaseRead {
        LeaseRead {
            date: Some(EPOCH + 60 + seconds as i64),
            ..read(seconds, revision, leases)
        }
    }
    beats.take(&read(10.0, 5, &[]));
    beats.take(&stepped(20.0, 5, &[]));
    // Renewed before the step, seen after: a minute older by its stamp than it is.
    beats.take(&stepped(30.0, 6, &[lease(6, 19)]));
    assert_eq!(window(&beats), (None, at(30.0)));
    // Renewed after the step: its stamp can be read.
    beats.take(&stepped(40.0, 7, &[lease(7, 60 + 35)]));
    let (earliest, latest) = window(&beats);
    assert!(earliest.unwrap() >= at(33.9) && latest <= at(36.1));
}

/// There is one for each of a hundred thousand nodes.
#[test]
fn what_is_known_of_a_lease_takes_little_room() {
    assert!(size_of::<Beat>() <= 136, "{}", size_of::<Beat>());
}

/// By the moments of reads that show no Node, in seconds.
#[rstest]
#[case::one(&[0.0], false)]
#[case::twice_the_same(&[0.0, 0.0], false)]
#[case::too_close(&[0.0, 14.0], false)]
#[case::a_proof_apart(&[0.0, 15.0], true)]
fn two_reads_show_that_no_node_is_meant_to_be_alive(#[case] reads: &[f64], #[case] expected: bool) {
    let mut leases = Leases::default();
    for read in reads {
        leases.learn(&Facts::new(at(*read)));
    }
    assert_eq!(leases.are_abandoned(), expected);
    leases.doubt_nodes();
    assert!(!leases.are_abandoned());
}
