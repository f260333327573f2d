//! Waiting for a condition, with an error that shows what was seen last.

use anyhow::{Result, bail};
use std::{fmt::Display, time::Duration};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Generous: a machine may be several times slower than the one before, and only a failing scenario
/// waits that long.
pub const LIMIT: Duration = Duration::from_secs(180);

const POLL: Duration = Duration::from_millis(100);
/// Between two looks at many objects, so that looking costs the machine little.
const SELDOM: Duration = Duration::from_secs(1);

/// What one look at the world showed.
#[derive(Debug)]
pub enum Look<T> {
    /// The condition is met.
    Met(T),
    /// It is not; this is what there is instead.
    Not(String),
    /// It never will be, for this reason: no use waiting.
    Never(String),
}

/// A look that is met or not, with what was seen.
pub fn seen(met: bool, state: impl Display) -> Result<Look<()>> {
    Ok(if met {
        Look::Met(())
    } else {
        Look::Not(state.to_string())
    })
}

/// Looks until the condition is met, at most [`LIMIT`], not counting time in which the machine stood
/// still. A look that fails is a look not met: what a scenario waits for is often that something answers
/// again.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Result<Look<T>>) -> Result<T> {
    until_within(LIMIT, what, look).await
}

/// As [`until`], with a limit of one's own.
pub async fn until_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<T> {
    let mut deadline = Instant::now() + limit;
    let mut last = String::from("nothing: the first look did not end");
    loop {
        match timeout_at(deadline, look()).await {
            Ok(Ok(Look::Met(value))) => return Ok(value),
            Ok(Ok(Look::Not(state))) => last = state,
            Ok(Ok(Look::Never(reason))) => bail!("waited for {what}: {reason}"),
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_elapsed) => {}
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain for {what}; seen last: {last}");
        }
        let asleep = Instant::now();
        sleep(POLL).await;
        // What came to pass without this process, the others have mostly missed as well.
        deadline += asleep.elapsed().saturating_sub(2 * POLL);
    }
}

/// As [`until_within`], for something that is not to be looked at too often.
pub async fn seldom<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<T> {
    let mut next = Instant::now();
    until_within(limit, what, async || {
        sleep_until(next).await;
        let seen = look().await;
        next = Instant::now() + SELDOM;
        seen
    })
    .await
}

/// Looks all through `period` and fails as soon as the condition is not met: for what must *not*
/// happen. A look that fails fails the whole.
pub async fn holds(
    period: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Look<()>>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        if let Look::Not(state) | Look::Never(state) = look().await? {
            bail!(
                "{what} should have held for {period:?}; after {:?}: {state}",
                start.elapsed()
            );
        }
        if start.elapsed() >= period {
            return Ok(());
        }
        sleep(POLL).await;
    }
}
