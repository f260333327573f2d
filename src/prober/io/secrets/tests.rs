use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::{
    runtime::{
        metrics::RequestMetrics,
        watch::cause,
        wire::{Access, Wire},
    },
    shoot::MAX_KUBECONFIG_BYTES,
};

#[test]
fn nothing_but_the_kubeconfig_is_kept() {
    for (length, kept) in [
        (0, 0),
        (MAX_KUBECONFIG_BYTES, MAX_KUBECONFIG_BYTES),
        (MAX_KUBECONFIG_BYTES + 9, MAX_KUBECONFIG_BYTES + 1),
    ] {
        let encoded = STANDARD.encode(vec![b'x'; length]);
        let secret = json!({
            "metadata": {"name": "dwd", "namespace": "a"},
            "data": {"kubeconfig": encoded, "other": "aHVzaA=="},
        });
        let (namespace, found) = kubeconfig_of(serde_json::from_value(secret).unwrap());
        assert_eq!((&*namespace, found.unwrap().len()), ("a", kept));
    }
}

#[test]
fn trouble_quotes_nothing_that_was_not_understood() {
    let error = serde_json::from_str::<Secret>(r#"{"metadata": "hush"}"#).unwrap_err();
    assert!(error.to_string().contains("hush"));
    let error = kube::runtime::watcher::Error::InitialListFailed(kube::Error::SerdeError(error));
    let told = cause(error).to_string();
    assert!(told.contains("cannot be read at line 1"), "{told}");
    assert!(!told.contains("hush"), "{told}");
}

/// A seed that fills each page with Secrets as large as an API server takes them.
fn full_pages() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        let limit = query.split('&').find_map(|it| it.strip_prefix("limit="));
        let limit: usize = limit.map_or(0, |it| it.parse().unwrap());
        let full = STANDARD.encode(vec![0; 1024 * 1024]);
        let secrets = (0..limit).map(|number| {
            json!({
                "metadata": {"name": "dwd", "namespace": format!("n{number}")},
                "data": {"kubeconfig": "aHVzaA==", "full": full},
            })
        });
        let list = json!({
            "kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": secrets.collect::<Vec<_>>(),
        });
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
    });
    Wire::over(move || service, &RequestMetrics::default()).client(Access::Reads)
}

#[tokio::test]
async fn a_page_of_full_secrets_is_within_the_bound_of_an_answer() {
    let named = Secrets::new(full_pages(), Watches::default()).named(&"dwd".into());
    assert_eq!(named.kubeconfig("n0").await.unwrap()[..], *b"hush");
}
