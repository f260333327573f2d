//! Ports on the loopback interface.

use anyhow::{Result, bail};
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
    sync::{LazyLock, Mutex, PoisonError},
};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up): a
/// server that is away for a while finds its port free when it comes back.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Enough to find a free one on any machine that is not full.
const ATTEMPTS: usize = 200;

/// A port nobody listens on, and that this process never hands out twice.
pub fn free_port() -> Result<u16> {
    static TAKEN: LazyLock<Mutex<BTreeSet<u16>>> = LazyLock::new(Mutex::default);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ATTEMPTS {
        let port = fastrand::u16(RANGE);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && taken.insert(port) {
            return Ok(port);
        }
    }
    bail!(
        "no free port found on 127.0.0.1 between {} and {}",
        RANGE.start,
        RANGE.end
    )
}
