//! Log lines of windows that open or close.

use super::case::News;

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
        // Its event is the line.
        News::Pod(..) => {}
    }
}
