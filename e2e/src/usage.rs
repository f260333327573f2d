//! What processes and the machine use, as /proc says.

use anyhow::{Context as _, Result};
use rustix::param::clock_ticks_per_second;
use std::{
    fs,
    time::{Duration, Instant},
};

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that was ever resident.
    pub peak: u64,
}

/// A moment, and the time that each of some processes, and the machine, had computed until then.
pub struct Usage {
    at: Instant,
    computed: Vec<Duration>,
    machine: Duration,
}

impl Usage {
    /// Of these processes, now.
    pub fn of(pids: &[u32]) -> Result<Self> {
        let computed: Result<Vec<_>> = pids.iter().map(|pid| computed(*pid)).collect();
        Ok(Self {
            at: Instant::now(),
            computed: computed?,
            machine: busy(&read("/proc/stat")?)?,
        })
    }

    /// How many cores each process has used since then, and the machine as a whole.
    pub fn cores_since(&self, earlier: &Self) -> (Vec<f64>, f64) {
        let passed = self.at.duration_since(earlier.at).as_secs_f64();
        let cores = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / passed;
        let each = self.computed.iter().zip(&earlier.computed);
        (
            each.map(|(now, then)| cores(*now, *then)).collect(),
            cores(self.machine, earlier.machine),
        )
    }
}

/// The time that a process has computed so far, for itself and in the kernel.
fn computed(pid: u32) -> Result<Duration> {
    ticks_of_process(&read(&format!("/proc/{pid}/stat"))?).map(duration)
}

/// The memory of a process now.
pub fn memory(pid: u32) -> Result<Memory> {
    parse_memory(&read(&format!("/proc/{pid}/status"))?)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

/// utime and stime, the 14th and 15th field; the second, a name in brackets, may hold anything.
fn ticks_of_process(stat: &str) -> Result<u64> {
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
    let fields = fields.context("no line of /proc/PID/stat")?;
    let ticks: Result<Vec<u64>, _> = fields.skip(11).take(2).map(str::parse).collect();
    Ok(ticks.context("no times in /proc/PID/stat")?.iter().sum())
}

/// All that was computed on the machine: of user, nice, system, idle, iowait, irq, softirq and
/// steal all but the fourth, the fifth and the last.
fn busy(stat: &str) -> Result<Duration> {
    let line = stat.lines().next().and_then(|it| it.strip_prefix("cpu "));
    let line = line.context("no first line of /proc/stat")?;
    let ticks: Result<Vec<u64>, _> = line.split_whitespace().take(7).map(str::parse).collect();
    let ticks = ticks.context("no times in /proc/stat")?;
    let busy = ticks.iter().enumerate();
    Ok(duration(
        busy.filter(|(place, _)| !matches!(place, 3 | 4))
            .map(|(_, ticks)| ticks)
            .sum(),
    ))
}

fn parse_memory(status: &str) -> Result<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let context = || format!("no {name} in /proc/PID/status");
        anyhow::Ok(kib.with_context(context)? * 1024)
    };
    Ok(Memory {
        resident: field("VmRSS:")?,
        peak: field("VmHWM:")?,
    })
}
