//! What is counted, and how it is shown.
//!
//! Each module has a small struct of its own metrics, which it gets by value and which is registered once. One
//! that is not registered counts for nobody, which is what tests want.

mod gauges;
mod probes;
mod process;
mod requests;

use std::time::SystemTime;

pub use prometheus_client::registry::Registry;

pub(crate) use self::gauges::{InFlight, States, in_state};
pub use self::{
    probes::{LEASES, ProbeMetrics, is_past},
    requests::RequestMetrics,
};

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
};

/// Name and value of a label.
pub(crate) type Label = (&'static str, &'static str);
pub(crate) type Counters<const N: usize> = Family<[Label; N], Counter>;
pub(crate) type Gauges<const N: usize> = Family<[Label; N], Gauge>;
pub(crate) type Histograms<const N: usize> = Family<[Label; N], Histogram, fn() -> Histogram>;

/// Defines a struct of metrics, its default, and `show`, which adds them to a registry. The doc comment of a metric is
/// its help. A field without a name has other means to be shown.
macro_rules! metrics {
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (@show $registry:ident, $metric:expr, $help:expr,) => {};
    (@show $registry:ident, $metric:expr, $help:expr, $shown:literal) => {
        $registry.register($shown, $help.trim().trim_end_matches('.'), $metric.clone());
    };
    (
        $(#[$outer:meta])*
        $public:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $visible:vis $field:ident: $type:ty $(as $shown:literal)? $(= $new:expr)?,
            )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone)]
        $public struct $name {
            $($(#[doc = $help])+ $visible $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::runtime::metrics::metrics!(@new $($new)?),)+ }
            }
        }

        impl $name {
            pub(crate) fn show(&self, registry: &mut $crate::runtime::metrics::Registry) {
                $($crate::runtime::metrics::metrics!(
                    @show registry, self.$field, concat!($($help),+), $($shown)?
                );)+
            }
        }
    };
}
pub(crate) use metrics;

/// Adds what is measured of every process, and returns the part for what is the operator's own.
pub fn own(registry: &mut Registry) -> &mut Registry {
    registry.register_collector(Box::new(process::Process(SystemTime::now())));
    let own = registry.sub_registry_with_prefix("dependency_watchdog");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    own.register("build", "The operator's version", version);
    own
}

/// Returns all metrics as OpenMetrics text.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // To write into a string cannot fail.
    let _ = text::encode(&mut text, registry);
    text
}
