//! What a shoot of the farm was asked for.

use super::clock::Micros;
use serde::{Deserialize, Serialize};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// The counters of one shoot. Bytes are those on the wire, TLS included.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) nodes: AtomicU64,
    pub(super) version: AtomicU64,
    pub(super) ready: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) handshakes: AtomicU64,
    leases: Mutex<Leases>,
}

#[derive(Debug, Default)]
struct Leases {
    cached: u64,
    consistent: u64,
    /// When each list was asked for: few enough to be kept.
    asked: Vec<Micros>,
}

/// The counters of one shoot at one moment, or their difference over a time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Lists of leases from the cache.
    pub cached: u64,
    /// Consistent lists of leases.
    pub consistent: u64,
    /// Lists of Nodes.
    pub nodes: u64,
    /// Requests for the version.
    pub version: u64,
    /// Requests for `/readyz`.
    pub ready: u64,
    /// Requests for anything else, or without the token.
    pub refused: u64,
    /// Bytes from the client.
    pub received: u64,
    /// Bytes to the client.
    pub sent: u64,
    /// TCP connections.
    pub connections: u64,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// When leases were listed.
    pub asked: Vec<Micros>,
}

impl Counters {
    /// A list of leases was asked for.
    pub(super) fn leases(&self, cached: bool, at: Micros) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if cached {
            leases.cached += 1;
        } else {
            leases.consistent += 1;
        }
        leases.asked.push(at);
    }

    /// What there is by now.
    pub(super) fn read(&self) -> Count {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Count {
            cached: leases.cached,
            consistent: leases.consistent,
            nodes: of(&self.nodes),
            version: of(&self.version),
            ready: of(&self.ready),
            refused: of(&self.refused),
            received: of(&self.received),
            sent: of(&self.sent),
            connections: of(&self.connections),
            handshakes: of(&self.handshakes),
            asked: leases.asked.clone(),
        }
    }
}

impl Count {
    /// What has come since an earlier count.
    pub fn since(&self, earlier: &Self) -> Self {
        let asked = self.asked.get(earlier.asked.len()..).unwrap_or_default();
        Self {
            cached: self.cached - earlier.cached,
            consistent: self.consistent - earlier.consistent,
            nodes: self.nodes - earlier.nodes,
            version: self.version - earlier.version,
            ready: self.ready - earlier.ready,
            refused: self.refused - earlier.refused,
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            connections: self.connections - earlier.connections,
            handshakes: self.handshakes - earlier.handshakes,
            asked: asked.to_vec(),
        }
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.cached + self.consistent + self.nodes + self.version + self.ready + self.refused
    }
}
