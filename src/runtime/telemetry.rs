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

/// The filter cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "the log filter {filter:?} is not valid: {source}; write a level such as info, or \
     dependency_watchdog=debug,info"
)]
pub struct FilterError {
    filter: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Sends log lines to stderr.
///
/// # Errors
///
/// If the filter is not valid.
pub fn init(filter: &str, format: LogFormat) -> Result<(), FilterError> {
    // kube logs each failed request as an error of its own; what it means is logged here.
    let quiet = format!("kube_client=off,kube_runtime=off,tower_http=off,{filter}");
    let parsed = EnvFilter::try_new(&quiet).map_err(|source| FilterError {
        filter: filter.to_owned(),
        source,
    })?;
    let terminal = std::io::stderr().is_terminal();
    let human = match format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let builder = fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    if human {
        let builder = builder.with_target(false);
        match terminal {
            // In colours, unless NO_COLOR is set.
            true => builder.init(),
            false => builder.with_ansi(false).init(),
        }
    } else {
        builder.json().flatten_event(true).init();
    }
    Ok(())
}
