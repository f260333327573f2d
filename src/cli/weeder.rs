//! `dependency-watchdog weeder`

use super::component::{self, ComponentArgs, Context};
use crate::weeder::{
    LEASE,
    instruments::Instruments,
    run::{self, Weeder},
};

pub(super) async fn run(args: ComponentArgs) -> Result<u8, String> {
    let (instruments, registry) = Instruments::new();
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
    component::run(&args, LEASE, &instruments.common, registry, work).await
}
