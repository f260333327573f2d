//! The EndpointSlices of services, as kube-controller-manager writes them.

use fake::farm::namespace;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, now};

const CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// How an endpoint is not ready.
#[derive(Clone, Copy, Debug)]
pub enum Unready {
    Told,
    Terminating,
    Empty,
}

/// Writes a slice since a pod became ready, or not ready.
pub fn tell(world: &World, place: usize, service: &str, slice: usize, unready: Option<Unready>) {
    let second = Timestamp::from_second(now().as_second()).unwrap_or_default();
    let endpoint = |ready: bool, terminating: bool| {
        json!([{
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": ready, "serving": ready, "terminating": terminating},
        }])
    };
    let endpoints = match unready {
        None => endpoint(true, false),
        Some(Unready::Told) => endpoint(false, false),
        Some(Unready::Terminating) => endpoint(true, true),
        Some(Unready::Empty) => json!([]),
    };
    world.put(&json!({
        "kind": "EndpointSlice",
        "metadata": {
            "name": name(service, slice), "namespace": namespace(place),
            "labels": {"kubernetes.io/service-name": service},
            "annotations": {CHANGED: second},
        },
        "addressType": if slice == 0 { "IPv4" } else { "IPv6" },
        "endpoints": endpoints,
    }));
}

/// Writes a slice for a reason that is no pod's.
pub fn touch(world: &World, place: usize, service: &str) {
    let change = |it: &mut Value| {
        it["metadata"]["annotations"] = json!({"touched": now().to_string()});
    };
    world.edit(
        "endpointslices",
        &namespace(place),
        &name(service, 0),
        change,
    );
}

/// Removes a slice.
pub fn remove(world: &World, place: usize, service: &str, slice: usize) {
    let key = fake::store::Key::new("endpointslices", &namespace(place), &name(service, slice));
    world.seed.store(|store, now| store.remove(&key, now));
}

fn name(service: &str, slice: usize) -> String {
    format!("{service}-{slice}")
}
