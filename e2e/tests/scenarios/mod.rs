//! The scenarios, one file a subject. Each file lists its own at its top.

mod access;
mod acting;
mod bench;
mod candidates;
mod checks;
mod clocks;
mod control_plane;
mod dependents;
mod docs_commands;
mod endpoints;
mod events;
mod evidence;
mod explain;
mod failover;
mod faults;
mod files;
mod fleet;
mod garden;
mod hostile;
mod install;
mod kinds;
mod letting_go;
mod lifecycle;
mod migration;
mod observer;
mod policies;
mod prober;
mod restore;
mod rights;
mod roles;
mod silence;
mod status;
mod steps;
mod uninstall;
mod weeder;

use anyhow::Result;
use dependency_watchdog_e2e::Env;
use futures::future::LocalBoxFuture;

/// A story that starts from what scenarios share.
pub(crate) struct Scenario {
    /// The name of its function.
    pub(crate) name: &'static str,
    /// How many API servers it uses at once.
    pub(crate) api_servers: u32,
    pub(crate) run: fn(Env) -> LocalBoxFuture<'static, Result<()>>,
}

/// Scenarios out of `async fn(Env) -> Result<()>`, with one API server unless told otherwise:
/// `scenarios![e2e_one_shoot, e2e_two_shoots: 2]`.
macro_rules! scenarios {
    ($($name:ident $(: $api_servers:literal)?),* $(,)?) => {
        vec![$($crate::scenarios::Scenario {
            name: stringify!($name),
            api_servers: [$($api_servers,)? 1u32][0],
            run: |env| Box::pin($name(env)),
        }),*]
    };
}
use scenarios;

pub(crate) fn all() -> Vec<Scenario> {
    [
        // The longest: others run beside them.
        fleet::all(),
        faults::all(),
        access::all(),
        acting::all(),
        bench::all(),
        candidates::all(),
        checks::all(),
        clocks::all(),
        control_plane::all(),
        dependents::all(),
        docs_commands::all(),
        endpoints::all(),
        events::all(),
        explain::all(),
        failover::all(),
        files::all(),
        hostile::all(),
        install::all(),
        kinds::all(),
        letting_go::all(),
        lifecycle::all(),
        migration::all(),
        observer::all(),
        policies::all(),
        prober::all(),
        restore::all(),
        rights::all(),
        roles::all(),
        silence::all(),
        status::all(),
        uninstall::all(),
        weeder::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
