//! What the process uses, as Prometheus names it for every program: nothing where there is no `/proc`.

use std::{fmt, fs, time::SystemTime};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

const KIBIBYTE: f64 = 1024.0;

/// Measurements of the process when they are asked for, and when it was started.
#[derive(Debug)]
pub(super) struct Process(pub(super) SystemTime);

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name, help, value: Option<f64>| {
            let Some(value) = value else {
                return Ok(());
            };
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge);
            gauge?.encode_gauge(&value)
        };
        let name = "process_start_time_seconds";
        let help = "When the process started, in seconds since 1970.";
        let started = self.0.duration_since(SystemTime::UNIX_EPOCH);
        gauge(name, help, started.ok().map(|it| it.as_secs_f64()))?;
        let resident = field("/proc/self/status", "VmRSS:", 1).map(|it| it * KIBIBYTE);
        gauge("process_resident_memory_bytes", "Memory in use.", resident)?;
        // One of them is that of the listing.
        let open = fs::read_dir("/proc/self/fd").map(|open| open.count().saturating_sub(1) as f64);
        gauge("process_open_fds", "Open file descriptors.", open.ok())?;
        let (name, help) = ("process_max_fds", "File descriptors that may be open.");
        gauge(name, help, field("/proc/self/limits", "Max open files", 3))
    }
}

/// The number that is this word of the line that begins so.
fn field(path: &str, begins: &str, word: usize) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(begins))?;
    line.split_whitespace().nth(word)?.parse().ok()
}
