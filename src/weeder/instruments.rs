//! Everything by which others see how the weeder fares.

use super::metrics::WeederMetrics;
use crate::{
    report::WriterMetrics,
    runtime::{
        instruments::Common,
        metrics::{self, Registry},
    },
};

/// What the weeder tells its metrics and its health to. Clones are the same.
#[derive(Clone)]
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
        let mut all = Registry::default();
        let registry = metrics::own(&mut all);
        let common = Common::register(registry);
        let instruments = Self {
            weeder: WeederMetrics::default(),
            writer: WriterMetrics::default(),
            common,
        };
        instruments.weeder.register(registry);
        instruments.writer.register(registry, &["WeedPolicy"]);
        drop(instruments.common.watches.one_of("Pods", String::new()));
        (instruments, all)
    }

    /// Shows what a weeder shows that does not lead.
    pub fn stand_by(&self) {
        self.weeder.stand_by();
        self.writer.stand_by();
    }
}
