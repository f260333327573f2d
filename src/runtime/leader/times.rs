//! The times of leader election, and how they must fit together.

use std::time::Duration;

/// Retries are lengthened by up to this share, so that candidates do not keep step: as in client-go.
pub(super) const JITTER: f64 = 0.2;

/// The duration of a Lease, and the times of its renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub(super) lease: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry: Duration,
}

/// Times with which no replica could lead, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// The API counts the duration of a Lease in whole seconds.
    #[error("the lease duration of {0:?} must be whole seconds: set --leader-elect-lease-duration")]
    Fraction(Duration),
    /// Another replica could lead before the holder has stopped.
    #[error(
        "the lease duration of {lease:?} must be longer than the renew deadline of \
         {renew_deadline:?}: set --leader-elect-lease-duration or --leader-elect-renew-deadline"
    )]
    Lease {
        /// The duration of the Lease.
        lease: Duration,
        /// The deadline of the holder.
        renew_deadline: Duration,
    },
    /// The holder would not try often enough.
    #[error(
        "the renew deadline of {renew_deadline:?} must be longer than 1.2 times the retry period of \
         {retry:?}: set --leader-elect-renew-deadline or --leader-elect-retry-period"
    )]
    Retry {
        /// The deadline of the holder.
        renew_deadline: Duration,
        /// The time from one try to the next.
        retry: Duration,
    },
}

impl Times {
    /// A Lease of this duration, in whole seconds. A holder stops when it could not renew the Lease for
    /// the deadline. It retries after this period.
    ///
    /// # Errors
    ///
    /// If the three do not fit together, or the first has a fraction of a second.
    pub fn new(
        lease: Duration,
        renew_deadline: Duration,
        retry: Duration,
    ) -> Result<Self, TimesError> {
        if lease.subsec_nanos() != 0 {
            return Err(TimesError::Fraction(lease));
        }
        if lease <= renew_deadline {
            return Err(TimesError::Lease {
                lease,
                renew_deadline,
            });
        }
        if renew_deadline <= retry.mul_f64(1.0 + JITTER) {
            return Err(TimesError::Retry {
                renew_deadline,
                retry,
            });
        }
        Ok(Self {
            lease,
            renew_deadline,
            retry,
        })
    }

    /// How long a read of the Lease may take. One that is not answered may have been sent over a dead
    /// connection, which ends with it: two such reads leave time for a third.
    pub(super) fn read_limit(self) -> Duration {
        self.renew_deadline / 4
    }

    /// How long a write may take. It goes over the connection that has just answered, and may wait for a
    /// slow etcd.
    pub(super) fn write_limit(self) -> Duration {
        self.renew_deadline / 2
    }
}
