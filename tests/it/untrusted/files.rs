//! Files and Secrets: kubeconfigs, configurations for `convert`, policies for `check`.

use std::{env, fs, process};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dependency_watchdog::{check, convert::convert, runtime::seed, shoot::parse};
use proptest::{prelude::*, sample::select, test_runner::TestCaseResult};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    fuzz::fuzzed,
    mutate::{bytes, changed, text},
};

const TOKEN: &str = "s3cr3t-t0k3n";

/// What makes YAML of text.
const YAML: &[&str] = &[
    "",
    "",
    " ",
    "\n",
    "\n  ",
    "\n- ",
    ": ",
    "? ",
    "- ",
    "-",
    "|",
    "|\n",
    "|2-\n",
    ">+\n",
    "'",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    " #",
    "&a ",
    "*a",
    "<<: *a\n",
    "<<: [*a, *a]\n",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "!!str ",
    "!!int ",
    "!!binary ",
    "!!null ",
    "! ",
    "!x ",
    "~",
    "null",
    "on",
    "0o7",
    "1e3",
    ".inf",
    "0x",
    "1_0",
    "\t",
    "\r",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\u{0}",
    "exec:",
    "tokenFile: /etc/passwd\n",
    "insecure-skip-tls-verify: true\n",
    "kind: List\n",
    "items:\n",
];

fn kubeconfig() -> Value {
    let certificate = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nMAMCAQI=\n-----END PRIVATE KEY-----\n";
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
        Ok(access) => {
            prop_assert_eq!(access.server().scheme_str(), Some("https"));
            let shown = format!("{access:?}");
            prop_assert!(!shown.contains(TOKEN), "{}", shown);
        }
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

/// As editors of some systems begin a file: UTF-16 of either order, and UTF-8.
const MARKS: [&[u8]; 4] = [b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];

#[test]
fn any_kubeconfig_of_the_seed_is_used_or_refused() {
    let runtime = Runtime::new().unwrap();
    let path = env::temp_dir().join(format!("kubeconfig-of-the-seed-{}", process::id()));
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_kubeconfig_of_the_seed_is_used_or_refused",
        300,
        (
            select(&MARKS[..]),
            bytes(vec![kubeconfig()], 4),
            any::<bool>(),
        ),
        |(mark, bytes, wide)| {
            let text: Vec<u8> = match wide {
                true => bytes.iter().flat_map(|byte| [*byte, 0]).collect(),
                false => bytes,
            };
            fs::write(&path, [mark, &text].concat()).unwrap();
            if let Err(error) = runtime.block_on(seed::config(Some(&path))) {
                let told = error.to_string();
                prop_assert!(told.contains(&path.display().to_string()), "{}", told);
                prop_assert!(!told.contains(TOKEN), "{}", told);
                prop_assert!(told.chars().count() <= 2_000, "{}", told);
            }
            Ok(())
        },
    );
    fs::remove_file(&path).unwrap();
}

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

fn configurations() -> Vec<String> {
    let prober = include_str!("../../fixtures/gardener/prober.yaml");
    let weeder = include_str!("../../fixtures/gardener/weeder.yaml");
    vec![format!("{prober}---\n{weeder}")]
}

fuzzed!(
    what_is_converted_is_valid,
    80,
    text(configurations(), YAML),
    |text| {
        if let Ok(converted) = convert(&text, "default") {
            for policy in check::documents(&converted.yaml).unwrap() {
                prop_assert_eq!(check::problems(&policy), Some(vec![]));
            }
        }
        Ok(())
    }
);

fn policies() -> Vec<String> {
    let files = [
        include_str!("../../../docs/examples/probe-policy.yaml"),
        include_str!("../../../docs/examples/weed-policy.yaml"),
        include_str!("../../../docs/examples/checks.yaml"),
    ];
    files.iter().map(|it| (*it).to_owned()).collect()
}

fuzzed!(any_file_is_checked, 60, text(policies(), YAML), |text| {
    let said = match check::documents(&text) {
        Err(error) => vec![error],
        Ok(documents) => {
            let objects = documents.into_iter().flat_map(check::objects);
            let said = objects.flat_map(|it| check::problems(&it).unwrap_or_default());
            said.collect()
        }
    };
    for line in said {
        prop_assert!(line.chars().count() <= 400, "{}", line);
        prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
    }
    Ok(())
});
