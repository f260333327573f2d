//! `dependency-watchdog weeder`

use clap::Args;

use super::component::{Candidate, Component, ComponentArgs};
use crate::weeder::{
    LEASE,
    instruments::Instruments,
    run::{self, Weeder},
};

/// Flags of the weeder.
#[derive(Debug, Args)]
pub(super) struct WeederArgs {
    #[command(flatten)]
    component: ComponentArgs,
}

pub(super) async fn run(args: WeederArgs) -> Result<u8, String> {
    let (instruments, registry) = Instruments::new();
    let component = Component {
        name: "weeder",
        lease: LEASE,
        policy: "WeedPolicy",
        instruments: instruments.common.clone(),
        registry,
    };
    let work = async |candidate: Candidate<'_>| {
        let dry_run = candidate.dry_run;
        let instruments = instruments.anew(candidate.instruments.clone());
        let (seed, stop) = candidate.elected().await;
        let weeder = Weeder {
            seed,
            dry_run,
            instruments: instruments.clone(),
        };
        run::run(weeder, stop).await;
    };
    component.run(&args.component, work).await
}
