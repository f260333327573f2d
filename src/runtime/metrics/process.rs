//! What the process uses, as Prometheus names it for every program: nothing where there is no `/proc`.

use std::{fmt, fs, time::SystemTime};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

const KIBIBYTE: f64 = 1024.0;

/// What is measured when it is asked for.
#[derive(Debug)]
pub(super) struct Process {
    started: SystemTime,
}

impl Default for Process {
    fn default() -> Self {
        let started = SystemTime::now();
        Self { started }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH);
        let resident = field("/proc/self/status", "VmRSS:", 1);
        // One of them is that of the listing.
        let open = fs::read_dir("/proc/self/fd").map(|open| open.count().saturating_sub(1) as f64);
        for (name, help, value) in [
            (
                "process_start_time_seconds",
                "When the process started, in seconds since 1970.",
                started.ok().map(|since| since.as_secs_f64()),
            ),
            (
                "process_resident_memory_bytes",
                "Memory in use.",
                resident.map(|it| it * KIBIBYTE),
            ),
            ("process_open_fds", "Open file descriptors.", open.ok()),
            (
                "process_max_fds",
                "File descriptors that may be open.",
                field("/proc/self/limits", "Max open files", 3),
            ),
        ] {
            if let Some(value) = value {
                let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge);
                gauge?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

/// The number that is this word of the line that begins so.
fn field(path: &str, begins: &str, word: usize) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(begins))?;
    line.split_whitespace().nth(word)?.parse().ok()
}
