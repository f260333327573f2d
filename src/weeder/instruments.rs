//! Everything by which others see how the weeder fares.

use super::metrics::WeederMetrics;
use crate::{
    runtime::{instruments::Common, metrics::Registry},
    status::WriterMetrics,
};

/// What the weeder tells its metrics, its liveness and its readiness to. Clones are the same.
#[derive(Clone, Debug)]
pub struct Instruments {
    /// Services, windows and pods.
    pub weeder: WeederMetrics,
    /// Statuses and events.
    pub writer: WriterMetrics,
    /// What every component has.
    pub common: Common,
}

impl Instruments {
    /// Instruments, and the registry that shows all of them.
    pub fn new() -> (Self, Registry) {
        let mut registry = Registry::default();
        let (common, []) = Common::register(&mut registry, []);
        let instruments = Self {
            weeder: WeederMetrics::default(),
            writer: WriterMetrics::default(),
            common,
        };
        instruments.weeder.register(&mut registry);
        instruments.writer.register(&mut registry);
        (instruments, registry)
    }

    /// What a replica shows that does not lead.
    pub fn stand_by(&self) {
        self.common.stand_by();
        self.weeder.stand_by();
        self.writer.stand_by();
    }
}
