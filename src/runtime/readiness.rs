//! Whether the process is ready for its work: named checks, which whoever knows registers.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks that there are. Clones are the same.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<&'static str, Check>>>);

impl Checks {
    /// Adds a check, or replaces the one of that name. It tells why it fails, for everybody who
    /// can reach the endpoint: no more than a reason and a remedy, and nothing that was read. It is
    /// asked often, and must not wait.
    pub fn register(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.lock().insert(name, Box::new(check));
    }

    /// Takes the check of that name away.
    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Adds the check that fails from the moment on at which the process is told to stop.
    pub fn stopped_by(&self, stop: CancellationToken) {
        self.register("shutdown", move || match stop.is_cancelled() {
            true => Err("shutting down".to_owned()),
            false => Ok(()),
        });
    }

    /// How each check ends now, by name.
    pub fn results(&self) -> Vec<(&'static str, Result<(), String>)> {
        let checks = self.lock();
        checks
            .iter()
            .map(|(name, check)| (*name, check()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Check>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
