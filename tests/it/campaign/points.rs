//! Every fault at every write.

use std::{collections::BTreeMap, sync::Mutex};

use fake::chaos::Fault;

use super::{
    draw::{self, Draw},
    run::{Expected, Outcome, Point, run},
};
use crate::world::in_virtual_time;

/// Records a run without a fault.
fn undisturbed() -> Expected {
    let Outcome { problems, seen, .. } = in_virtual_time(run(None, None));
    assert!(problems.is_empty(), "undisturbed: {problems:#?}");
    seen
}

#[test]
fn every_fault_at_every_write() {
    let expected = undisturbed();
    let writes = expected.writes.iter();
    let every = writes.flat_map(|write| Fault::all().iter().map(|fault| (*fault, write.clone())));
    let draw = Draw::new("points");
    let points: Vec<Point> = match draw.again() {
        Some(point) => vec![read(point)],
        None => draw.share(every.collect()),
    };
    let unreached = Mutex::new(BTreeMap::<Fault, Vec<String>>::new());
    let count = points.len();
    draw::all(&draw, points, |point| {
        let outcome = in_virtual_time(run(Some(point), Some(&expected)));
        if outcome.is_unreached {
            let mut unreached = unreached.lock().unwrap();
            unreached.entry(point.0).or_default().push(point.1.clone());
        }
        (format!("{}@{}", point.0, point.1), outcome.problems)
    });
    let unreached = unreached.into_inner().unwrap();
    let not_reached = unreached.values().flatten();
    let of_dependents =
        not_reached.filter(|it| it.starts_with("deployments") || it.starts_with("etcds"));
    let of_dependents: Vec<_> = of_dependents.collect();
    println!("{count} points, not reached: {unreached:?}");
    assert!(of_dependents.is_empty(), "not reached: {of_dependents:?}");
}

/// A point as a failure names it.
fn read(text: &str) -> Point {
    let (fault, write) = text.split_once('@').expect("a point is FAULT@WRITE");
    let fault = Fault::all().iter().find(|it| it.to_string() == fault);
    (*fault.expect("there is no such fault"), write.to_owned())
}
