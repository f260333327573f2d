//! Shares of a policy: their bounds, and how they relate.

use kube::core::Rule;

const RECOVERY_MESSAGE: &str = "must be at most nodeLeaseFailureFraction: a cluster must not be taken for recovered \
     while it would be taken for an outage";

pub(super) fn recovery_rule() -> Rule {
    let rule = "!has(self.nodeLeaseRecoveryFraction) || \
                self.nodeLeaseRecoveryFraction <= self.nodeLeaseFailureFraction";
    Rule::new(rule)
        .message(RECOVERY_MESSAGE)
        .field_path(".nodeLeaseRecoveryFraction")
}

// Written so that NaN, which YAML can express, fails both.
pub(super) fn check_jitter(factor: &f64, _: &()) -> garde::Result {
    if (0.0..=1.0).contains(factor) {
        Ok(())
    } else {
        Err(garde::Error::new(format_args!(
            "must be at least 0 and at most 1, not {factor}"
        )))
    }
}

pub(super) fn check_recovery(failure: f64) -> impl FnOnce(&Option<f64>, &()) -> garde::Result {
    move |recovery, context| {
        let Some(recovery) = recovery else {
            return Ok(());
        };
        check_fraction(recovery, context)?;
        // An invalid failure fraction is reported for its own field.
        if *recovery > failure {
            return Err(garde::Error::new(RECOVERY_MESSAGE));
        }
        Ok(())
    }
}

pub(super) fn check_fraction(fraction: &f64, _: &()) -> garde::Result {
    if *fraction > 0.0 && *fraction <= 1.0 {
        Ok(())
    } else {
        Err(garde::Error::new(format_args!(
            "must be greater than 0 and at most 1, not {fraction}"
        )))
    }
}
