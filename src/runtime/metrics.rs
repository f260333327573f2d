//! What is counted, and how it is shown.
//!
//! Each module has a small struct of its own metrics, which it gets by value and which is registered once. One
//! that is not registered counts for nobody, which is what tests want.

mod gauges;
mod probes;
mod process;
mod requests;

pub use prometheus_client::registry::Registry;

pub(crate) use self::gauges::{InFlight, InState, States};
pub use self::{
    probes::{LEASES, ProbeMetrics, is_past},
    requests::RequestMetrics,
};

use prometheus_client::{encoding::text, metrics::info::Info};

/// Name and value of a label.
pub(crate) type Label = (&'static str, &'static str);

/// Adds what is measured of every process, and returns the part for what is the operator's own.
pub fn own(registry: &mut Registry) -> &mut Registry {
    registry.register_collector(Box::new(process::Process::default()));
    let own = registry.sub_registry_with_prefix("dependency_watchdog");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    own.register("build", "The operator's version", version);
    own
}

/// All metrics as OpenMetrics text.
///
/// # Errors
///
/// If a metric cannot be put into text.
pub fn text(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}
