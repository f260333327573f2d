//! What the log says: each window that opens or closes, and each pod.

use super::case::{Case, Deed, News};

/// Says what has happened.
pub(super) fn happened(news: &News) {
    match news {
        News::Opened(window) => tracing::info!(
            namespace = &*window.namespace,
            service = &*window.service,
            policy = &*window.policy.name,
            seconds = window.policy.lasts().as_secs_f64(),
            "the service is ready: a window opens"
        ),
        News::Closed(window) => tracing::info!(
            namespace = &*window.namespace,
            service = &*window.service,
            policy = &*window.policy.name,
            "the window closes"
        ),
        News::Pod(case, deed) => pod(case, deed),
    }
}

fn pod(case: &Case, deed: &Deed) {
    let owner = case.pod.controller.as_ref();
    let owner = owner.map(|owner| format!("{}/{}", owner.kind, owner.name));
    macro_rules! say {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                namespace = &*case.namespace,
                pod = &*case.pod.name,
                owner,
                service = &*case.service,
                policy = &*case.policy.name,
                $($field = $value,)*
                $message
            )
        };
    }
    let containers = case.pod.containers.join(",");
    let looped = case.pod.since.elapsed().as_secs_f64();
    let ready = case.ready_since.elapsed().as_secs_f64();
    match deed {
        Deed::Weeded => say!(
            info,
            "the pod was deleted, to restart at once",
            containers = containers,
            looping_seconds = looped,
            ready_seconds = ready
        ),
        Deed::WouldWeed => say!(
            info,
            "the pod would be deleted, were the mode not DryRun",
            containers = containers,
            looping_seconds = looped,
            ready_seconds = ready
        ),
        Deed::LeftAlone(reason) => say!(
            info,
            "the pod is left alone",
            reason = reason.as_str(),
            why = reason.message()
        ),
        Deed::Refused(message) => say!(
            warn,
            "the pod was not deleted; it is tried again",
            error = message
        ),
    }
}
