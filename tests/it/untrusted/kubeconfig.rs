//! Kubeconfigs of shoots, in Secrets.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dependency_watchdog::shoot::parse;
use proptest::{prelude::*, test_runner::TestCaseResult};
use serde_json::{Value, json};

use super::{
    fuzz::fuzzed,
    mutate::{bytes, changed, text},
};
use crate::support::authority;

const TOKEN: &str = "s3cr3t-t0k3n";

/// What makes YAML of text.
const YAML: &[&str] = &[
    "",
    " ",
    "\n",
    "\n  ",
    ": ",
    "? ",
    "- ",
    "-",
    "|",
    "|2-\n",
    ">+\n",
    "'",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    " #",
    "&a ",
    "*a",
    "<<: *a\n",
    "---\n",
    "%YAML 1.2\n",
    "!!binary ",
    "!x ",
    "~",
    "null",
    "\t",
    "\r",
    "\u{feff}",
    "\u{85}",
    "\u{0}",
    "exec:",
    "tokenFile: /etc/passwd\n",
    "insecure-skip-tls-verify: true\n",
];

static AUTHORITY: LazyLock<[String; 2]> = LazyLock::new(|| {
    let authority = authority();
    [authority.pem(), authority.key().serialize_pem()]
});

fn kubeconfig() -> Value {
    let [certificate, key] = &*AUTHORITY;
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "a",
        "contexts": [
            {"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "default"}},
            {"name": "b", "context": {"cluster": "a", "user": "b"}},
        ],
        "clusters": [{"name": "a", "cluster": {
            "server": "https://api.shoot.example:6443", "tls-server-name": "kubernetes",
            "certificate-authority-data": STANDARD.encode(certificate),
            "insecure-skip-tls-verify": false, "proxy-url": "",
        }}],
        "users": [
            {"name": "a", "user": {"token": TOKEN, "exec": null}},
            {"name": "b", "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key), "tokenFile": "", "as-groups": [],
            }},
        ],
    })
}

fn is_parsed_or_refused(bytes: &[u8]) -> TestCaseResult {
    match parse(bytes) {
        Ok(access) => prop_assert_eq!(access.server.scheme_str(), Some("https")),
        Err(error) => {
            let told = error.to_string();
            prop_assert!(told.chars().count() <= 400, "{}", told);
            prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
            prop_assert!(!told.contains(TOKEN), "{}", told);
        }
    }
    Ok(())
}

fuzzed!(
    any_kubeconfig_is_parsed_or_refused_without_its_secrets,
    400,
    bytes(vec![kubeconfig()], 4),
    |bytes| is_parsed_or_refused(&bytes)
);

fuzzed!(
    any_yaml_of_a_kubeconfig_is_parsed_or_refused,
    300,
    text(vec![serde_saphyr::to_string(&kubeconfig()).unwrap()], YAML),
    |text| is_parsed_or_refused(text.as_bytes())
);

/// What runs, reads or trusts more than the kubeconfig itself.
const REFUSED: [&str; 8] = [
    "/users/0/user/exec",
    "/users/0/user/auth-provider",
    "/users/0/user/tokenFile",
    "/users/0/user/client-certificate",
    "/users/0/user/as",
    "/clusters/0/cluster/certificate-authority",
    "/clusters/0/cluster/insecure-skip-tls-verify",
    "/clusters/0/cluster/proxy-url",
];

fuzzed!(
    nothing_of_a_kubeconfig_runs_or_leads_elsewhere,
    400,
    changed(vec![kubeconfig()], 4),
    |config| {
        let Ok(document) = serde_json::from_str::<Value>(&config.text) else {
            return Ok(());
        };
        // The only context leads to the first entries.
        let context = json!([{"name": "a", "context": {"cluster": "a", "user": "a"}}]);
        let one = ["clusters", "users"].iter().all(|it| {
            document[it]
                .as_array()
                .is_some_and(|all| !all.is_empty() && all[0]["name"] == "a")
        });
        if config.repeats || !one || document["contexts"].as_array().is_none() {
            return Ok(());
        }
        let mut document = document;
        document["contexts"] = context;
        document["current-context"] = json!("a");
        let given = |at: &&str| match document.pointer(at) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if REFUSED.iter().any(given) {
            prop_assert!(parse(document.to_string().as_bytes()).is_err());
        }
        Ok(())
    }
);
