//! How much work one shoot may cause: all of them share the processor and the network of this process.

use std::time::Duration;

use crate::util::mono_time::MonoTime;

/// Bytes of lease lists per second, in the long run. Judgement: 10,000 leases every third of a renewal
/// period are less.
const RATE: f64 = 4.0 * 1024.0 * 1024.0;
/// Burst, as time at that rate: the largest list that is read.
const BURST: Duration = Duration::from_secs(4);
/// Lease names force reads of Nodes and Machines once in this time in the long run, ...
const FORCED: Duration = Duration::from_secs(10);
/// ... plus a burst worth this time.
const FORCED_BURST: Duration = FORCED;

/// What the work until now allows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// When the bytes read would have come at [`RATE`].
    bytes: Option<MonoTime>,
    /// When the forced reads would have come at their rate.
    forced: Option<MonoTime>,
}

impl Budget {
    /// Charges a list of this size, read by `now`.
    pub(super) fn spent(&mut self, bytes: usize, now: MonoTime) {
        let took = Duration::from_secs_f64(bytes as f64 / RATE);
        self.bytes = Some(self.bytes.max(Some(now)).unwrap_or(now) + took);
    }

    /// When the next list may be read.
    pub(super) fn next_list(&self) -> Option<MonoTime> {
        self.bytes.map(|bytes| bytes - BURST)
    }

    /// Whether Nodes and Machines may be read for the names of leases alone; if so, that is counted.
    pub(super) fn force(&mut self, now: MonoTime) -> bool {
        let before = self.forced.max(Some(now)).unwrap_or(now);
        let may = before - FORCED_BURST <= now;
        if may {
            self.forced = Some(before + FORCED);
        }
        may
    }
}
