//! Parse, run, exit code.

use std::{io, process::ExitCode, thread};

use clap::Parser as _;
use dependency_watchdog::cli::{self, Cli};
use tokio::runtime::Builder;

/// A thousand shoots make and drop lists of leases all the time, among what is kept for ever: of 300
/// shoots, glibc's allocator holds half as much again.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Worker threads: 1,000 shoots need a tenth of one core, and each thread keeps memory of its own.
const THREADS: usize = 2;

fn main() -> io::Result<ExitCode> {
    let cli = Cli::parse();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread()
        .worker_threads(cores.min(THREADS))
        .enable_all()
        .build()?;
    let code = runtime.block_on(cli::run(cli));
    // To look up the name of a host cannot be given up, and may take minutes: it holds up no exit.
    runtime.shutdown_background();
    Ok(code)
}
