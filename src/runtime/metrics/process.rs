//! What the process uses: as Prometheus names it for every program, nothing of which is shown where there is
//! no `/proc`, and its tasks.

use std::{fs, time::SystemTime};

use tokio::runtime::Handle;

use super::{Computed, Registry};

/// Linux counts the time of a process in this unit towards programs, whatever it does within.
const TICKS_PER_SECOND: f64 = 100.0;
const KIBIBYTE: f64 = 1024.0;

/// Shows what this process uses.
pub fn register(registry: &mut Registry) {
    registry.register_common(
        "process_cpu_seconds",
        "Processor time used",
        Computed::counter(cpu_seconds),
    );
    registry.register_common(
        "process_resident_memory_bytes",
        "Memory in use",
        Computed::gauge(|| Some(status("VmRSS")? * KIBIBYTE)),
    );
    registry.register_common(
        "process_virtual_memory_bytes",
        "Address space in use",
        Computed::gauge(|| Some(status("VmSize")? * KIBIBYTE)),
    );
    registry.register_common(
        "process_threads",
        "Threads",
        Computed::gauge(|| status("Threads")),
    );
    registry.register_common(
        "process_open_fds",
        "Open file descriptors",
        Computed::gauge(open_fds),
    );
    registry.register_common(
        "process_max_fds",
        "File descriptors that may be open",
        Computed::gauge(max_fds),
    );
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started = started.ok().map(|since| since.as_secs_f64());
    registry.register_common(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970",
        Computed::gauge(move || started),
    );
    registry.register(
        "tasks",
        &[],
        "Tasks of the asynchronous runtime that have not ended",
        Computed::gauge(tasks),
    );
}

/// Of the runtime in which it is asked for.
fn tasks() -> Option<f64> {
    let runtime = Handle::try_current().ok()?;
    Some(runtime.metrics().num_alive_tasks() as f64)
}

/// A number of `/proc/self/status`.
fn status(field: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then(|| value.split_whitespace().next())?
    });
    value?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name of the program, which may hold anything; utime and stime are
    // the 14th and 15th.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn open_fds() -> Option<f64> {
    // One of them is that of the listing.
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(count.saturating_sub(1) as f64)
}

fn max_fds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// One that is left behind is told, too.
    #[tokio::test]
    async fn tasks_are_counted_until_they_end() {
        assert_eq!(tasks(), Some(0.0));
        let (end, ended) = oneshot::channel::<()>();
        let task = tokio::spawn(ended);
        drop(tokio::spawn(std::future::pending::<()>()));
        assert_eq!(tasks(), Some(2.0));
        drop(end);
        let _ = task.await;
        assert_eq!(tasks(), Some(1.0));
        let elsewhere = std::thread::spawn(tasks).join().unwrap();
        assert_eq!(elsewhere, None, "there is no runtime");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_is_measured() {
        assert!(status("VmRSS").unwrap() > 100.0);
        assert!(status("Threads").unwrap() >= 1.0);
        assert_eq!(status("NoSuchField"), None);
        assert!(open_fds().unwrap() >= 3.0);
        assert!(max_fds().unwrap() >= open_fds().unwrap());
        let before = cpu_seconds().unwrap();
        while cpu_seconds().unwrap() == before {
            std::hint::black_box(fs::read_to_string("/proc/self/status").unwrap());
        }
        assert!(cpu_seconds().unwrap() < 3600.0);
    }
}
