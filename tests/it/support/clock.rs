//! Time that passes only when a test says so, while sockets go on working.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use tokio::{task::yield_now, time::Instant};

/// Steps in which time passes: far shorter than the limit of any request.
const STEP: Duration = Duration::from_millis(250);
/// The runtime is at rest after so many turns without a request. Clients, servers and operator
/// share one thread, so that each turn lets all of them go on as far as they can.
const QUIET_TURNS: usize = 40;

/// Counts what is asked and answered.
#[derive(Clone, Default)]
pub struct Activity(Arc<AtomicUsize>);

impl Activity {
    /// Something was asked or answered.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The stopped clock of the current runtime. A clock that tokio stops jumps ahead whenever nothing
/// but a socket is waited for; a blocking task that is under way keeps it from that.
pub struct Clock {
    activity: Activity,
    start: Instant,
    _hold: mpsc::Sender<()>,
}

impl Clock {
    /// Stops the clock.
    pub fn stop(activity: Activity) -> Self {
        let (hold, released) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        tokio::time::pause();
        Self {
            activity,
            start: Instant::now(),
            _hold: hold,
        }
    }

    /// The time that has passed since the clock was stopped.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Lets everything happen that can happen at this moment.
    pub async fn settle(&self) {
        let mut quiet = 0;
        let mut seen = self.activity.count();
        while quiet < QUIET_TURNS {
            yield_now().await;
            let now = self.activity.count();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
    }

    /// Lets that much time pass.
    pub async fn pass(&self, time: Duration) {
        let end = Instant::now() + time;
        self.settle().await;
        while Instant::now() < end {
            tokio::time::advance(STEP.min(end - Instant::now())).await;
            self.settle().await;
        }
    }

    /// Lets time pass until there is a value, for at most two minutes.
    pub async fn until<T>(&self, what: &str, mut value: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(120);
        self.settle().await;
        loop {
            if let Some(value) = value() {
                return value;
            }
            assert!(Instant::now() < end, "not within two minutes: {what}");
            tokio::time::advance(STEP).await;
            self.settle().await;
        }
    }

    /// As [`Self::until`], for something that ends.
    pub async fn end_of<T>(&self, what: &str, ends: impl Future<Output = T>) -> T {
        let mut ends = std::pin::pin!(ends);
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            tokio::select! {
                biased;
                value = &mut ends => return value,
                () = self.settle() => {}
            }
            assert!(Instant::now() < end, "not within two minutes: {what}");
            tokio::time::advance(STEP).await;
        }
    }
}

/// Runs one case of a table on a runtime of its own, since a clock can be stopped only once.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(case);
}
