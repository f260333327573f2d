//! Logs: for people on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt};

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human on a terminal, else JSON
    #[default]
    Auto,
    /// For people
    Human,
    /// One JSON object a line
    Json,
}

/// Sends log lines to stderr.
///
/// # Errors
///
/// If the filter is not valid.
pub fn init(filter: &str, format: LogFormat) -> Result<(), String> {
    // kube logs each failed request as an error of its own; what it means is logged here.
    let quiet = format!("kube_client=off,kube_runtime=off,tower_http=off,{filter}");
    let parsed = EnvFilter::try_new(&quiet).map_err(|error| {
        format!(
            "the log filter {filter:?} is not valid: {error}; write a level such as info, or \
             dependency_watchdog=debug,info"
        )
    })?;
    let builder = fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    match (format, std::io::stderr().is_terminal()) {
        (LogFormat::Json, _) | (LogFormat::Auto, false) => {
            builder.json().flatten_event(true).init()
        }
        // In colours, unless NO_COLOR is set.
        (_, true) => builder.with_target(false).init(),
        (_, false) => builder.with_target(false).with_ansi(false).init(),
    }
    Ok(())
}
