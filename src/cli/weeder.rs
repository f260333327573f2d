//! `dependency-watchdog weeder`

use clap::Args;

use super::component::{Component, ComponentArgs, Context};
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
        instruments: instruments.common.clone(),
        registry,
    };
    let work = async |context: Context| {
        instruments.stand_by();
        context.leadership.begun().await;
        let weeder = Weeder {
            seed: context.seed,
            dry_run: context.dry_run,
            instruments: instruments.clone(),
        };
        run::run(weeder, context.stop).await;
    };
    component.run(&args.component, work).await
}
