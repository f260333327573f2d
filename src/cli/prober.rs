//! `dependency-watchdog prober`

use clap::Args;

use super::component::{self, ComponentArgs, Context};
use crate::{
    checks::{FeatureGates, Runner},
    prober::{
        LEASE,
        fleet::{self, Prober},
        instruments::Instruments,
    },
    runtime::names::Names,
};

/// Flags of the prober.
#[derive(Debug, Args)]
pub(super) struct ProberArgs {
    #[command(flatten)]
    component: ComponentArgs,

    /// Switches features, as ExecProbeTimeout=false: a command of a check that takes longer than its
    /// timeout passes, and is reported
    #[arg(
        long,
        env = "DWD_FEATURE_GATES",
        value_name = "GATE=BOOL",
        default_value = "ExecProbeTimeout=true",
        help_heading = "Checks"
    )]
    feature_gates: FeatureGates,
}

pub(super) async fn run(args: ProberArgs) -> Result<u8, String> {
    let (instruments, registry) = Instruments::new();
    let gates = args.feature_gates;
    let work = async |context: Context| {
        instruments.stand_by();
        let counted = instruments.checks.clone();
        let checks = Runner::new(context.seed.clone(), gates, counted, Names::default());
        let prober = Prober {
            reads: context.reads,
            seed: context.seed,
            dry_run: context.dry_run,
            checks,
            dial: Default::default(),
            instruments: instruments.clone(),
        };
        fleet::run(prober, context.leadership.begun(), context.stop).await;
    };
    component::run(&args.component, LEASE, &instruments.common, registry, work).await
}
