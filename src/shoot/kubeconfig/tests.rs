use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::generate_simple_self_signed;
use serde_json::json;

use super::*;

const TOKEN: &str = "s3cr3t-t0k3n";

/// A certificate and its key.
static IDENTITY: LazyLock<[String; 2]> = LazyLock::new(|| {
    let made = generate_simple_self_signed(["api".to_owned()]).unwrap();
    [made.cert.pem(), made.signing_key.serialize_pem()]
});

fn certificate() -> &'static str {
    &IDENTITY[0]
}

fn key() -> &'static str {
    &IDENTITY[1]
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// As Gardener writes them: one of each, everything inline.
fn valid() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {},
        "current-context": "shoot",
        "contexts": [{"name": "shoot", "context": {"cluster": "api", "user": "dwd"}}],
        "clusters": [{"name": "api", "cluster": {
            "server": "https://api.shoot.internal.example:6443",
            "certificate-authority-data": base64(certificate()),
        }}],
        "users": [{"name": "dwd", "user": {"token": TOKEN}}],
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut config = valid();
    if let Some(there) = config.pointer_mut(pointer) {
        *there = value;
    } else {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[key] = value;
    }
    config
}

fn user(user: Value) -> Value {
    with("/users/0/user", user)
}

fn parse_json(config: &Value) -> Result<Access, Unread> {
    parse(config.to_string().as_bytes())
}

#[test]
fn accepted() {
    let folded = base64(&certificate().repeat(2)).replace('M', "M\n");
    let certificates = json!({
        "client-certificate-data": base64(certificate()), "client-key-data": base64(key()),
    });
    let empty = json!({
        "token": TOKEN, "exec": null, "tokenFile": "", "username": "", "as-groups": [],
    });
    let (user, cluster) = ("/users/0/user", "/clusters/0/cluster");
    for (pointer, value) in [
        (user, json!({"token": "12345"})),
        (user, certificates),
        (user, empty),
        (&format!("{cluster}/server"), json!("https://p/clusters/a")),
        (&format!("{cluster}/server"), json!("https://10.0.0.1:443")),
        (&format!("{cluster}/server"), json!("https://[fd00::1]:443")),
        (&format!("{cluster}/server"), json!("https://[fd00::1]")),
        (&format!("{cluster}/server"), json!("HTTPS://api")),
        (
            &format!("{cluster}/certificate-authority-data"),
            json!(folded),
        ),
        (&format!("{cluster}/tls-server-name"), json!("kubernetes")),
        (&format!("{cluster}/tls-server-name"), json!("10.0.0.1")),
        (&format!("{cluster}/insecure-skip-tls-verify"), json!(false)),
        (&format!("{cluster}/disable-compression"), json!(true)),
    ] {
        let error = parse_json(&with(pointer, value.clone())).err();
        assert_eq!(error, None, "{pointer} {value}");
    }
}

/// As kubectl writes them.
fn yaml() -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- context:\n    cluster: c\n    \
         user: u\n  name: a\nclusters:\n- name: c\n  cluster:\n    certificate-authority-data: {}\n    \
         server: https://api:6443\nusers:\n- name: u\n  user:\n    token: {TOKEN}\n",
        base64(certificate())
    )
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let yaml = yaml();
    let changed = |from: &str, to: &str| {
        assert!(yaml.contains(from), "{from}");
        yaml.replacen(from, to, 1)
    };
    for (server, read_as) in [
        ("kube-apiserver:443", "https://kube-apiserver:443/"),
        ("api.example", "https://api.example/"),
        ("'[fd00::1]:443'", "https://[fd00::1]:443/"),
    ] {
        let access = parse(changed("https://api:6443", server).as_bytes()).unwrap();
        assert_eq!(access.server.to_string(), read_as);
    }
    let contexts =
        "contexts:\n- name: other\n  context: {cluster: c, user: runs}\n- context:\n- ~\n";
    let users = "users:\n- name: runs\n  user: {exec: {command: evil}, tokenFile: /t}\n- user: ~\n";
    let empty = "    proxy-url: ''\n    tls-server-name:\n    server";
    let verified = "    insecure-skip-tls-verify: no\n    server";
    for text in [
        format!("\u{feff}# a comment\n---\n{yaml}"),
        yaml.replace('\n', "\r\n"),
        changed("contexts:\n", contexts),
        changed("users:\n", users),
        changed("    server", empty),
        changed("    server", verified),
    ] {
        let access = parse(text.as_bytes()).unwrap();
        assert_eq!(access.server, "https://api:6443/", "{text}");
    }
    for (text, says) in [
        (
            changed("    token", "    token: a\n    token"),
            "cannot be read at line 18, column 5",
        ),
        (
            changed("users:", "users: []\nusers:"),
            "cannot be read at line 15, column 1",
        ),
        (
            format!("{yaml}---\nkind: Config\n"),
            "it must be one document",
        ),
        (changed("contexts:", "contexts"), "cannot be read at line"),
    ] {
        let error = parse(text.as_bytes()).err().unwrap().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn refused_with_the_field_and_the_remedy() {
    let cluster = |field: &str, value| with(&format!("/clusters/0/cluster/{field}"), value);
    let user = |field: &str, value| with(&format!("/users/0/user/{field}"), value);
    for (config, field, remedy) in [
        (
            cluster("insecure-skip-tls-verify", json!(true)),
            "insecure-skip-tls-verify",
            "certificate-authority-data",
        ),
        (
            cluster("certificate-authority", json!("/etc/passwd")),
            "certificate-authority",
            "the field of the same name with -data",
        ),
        (
            cluster("proxy-url", json!("http://proxy")),
            "proxy-url",
            "reachable server",
        ),
        (user("exec", json!({"command": "sh"})), "exec", "token"),
        (user("exec", json!({})), "exec", "token"),
        (
            user("auth-provider", json!({"name": "oidc"})),
            "auth-provider",
            "token",
        ),
        (
            user("tokenFile", json!("/var/run/token")),
            "tokenFile",
            "token",
        ),
        (
            user("client-certificate", json!("/a.crt")),
            "client-certificate",
            "the field of the same name with -data",
        ),
        (
            user("client-key", json!("/a.key")),
            "client-key",
            "the field of the same name with -data",
        ),
        (user("username", json!("admin")), "username", "token"),
        (user("password", json!("hunter2")), "password", "token"),
        (
            user("as", json!("system:admin")),
            "users[].user.as",
            "own token",
        ),
        (user("as-uid", json!("0")), "as-uid", "own token"),
        (
            user("as-groups", json!(["system:masters"])),
            "as-groups",
            "own token",
        ),
        (
            user("as-user-extra", json!({"a": ["b"]})),
            "as-user-extra",
            "own token",
        ),
    ] {
        let error = parse_json(&config).err().unwrap();
        assert_eq!(error.reason, "KubeconfigRefused", "{field}: {error}");
        let text = error.to_string();
        assert!(text.contains(field) && text.contains(remedy), "{text}");
    }
}

#[test]
fn broken_ones_are_told_what_is_wrong() {
    let cluster = |field: &str, value| with(&format!("/clusters/0/cluster/{field}"), value);
    let server = |value: &str| cluster("server", json!(value));
    let identity = |certificate: &str, key: &str| {
        user(json!({"client-certificate-data": certificate, "client-key-data": key}))
    };
    let (certificate, key) = (base64(certificate()), base64(key()));
    let none = base64("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n");
    let another = base64(
        &generate_simple_self_signed([])
            .unwrap()
            .signing_key
            .serialize_pem(),
    );
    for (config, says) in [
        (
            json!({}),
            "lacks current-context: set the name of a context",
        ),
        (json!(null), "lacks current-context"),
        (with("/current-context", json!("")), "lacks current-context"),
        (
            with("/current-context", json!(null)),
            "lacks current-context",
        ),
        (
            with("/contexts", json!([])),
            "current-context is invalid: there is no context \"shoot\"",
        ),
        (
            with("/current-context", json!("gone")),
            "current-context is invalid: there is no context \"gone\"",
        ),
        (
            with("/contexts/0/context", json!({})),
            "lacks contexts[].context.cluster",
        ),
        (
            with("/contexts/0/context/user", json!("")),
            "lacks contexts[].context.user",
        ),
        (
            with("/clusters", json!(null)),
            "contexts[].context.cluster is invalid: there is no cluster \"api\"",
        ),
        (
            with("/users", json!([])),
            "contexts[].context.user is invalid: there is no user \"dwd\"",
        ),
        (
            cluster("server", json!(null)),
            "lacks clusters[].cluster.server",
        ),
        (server("http://api"), "server is invalid: not"),
        (server("api.example.com/path"), "server is invalid: not"),
        (server("user@api:443"), "server is invalid: not"),
        (server("https:api"), "server is invalid: not"),
        (server("ftp://api"), "server is invalid: not"),
        (server("https://"), "server is invalid: not"),
        (server("https://a b"), "server is invalid: not"),
        (server("https://user:pass@api"), "server is invalid: not"),
        (server("https://api:99999"), "server is invalid: not"),
        (server("https://api?x=y"), "server is invalid: not"),
        (
            cluster("tls-server-name", json!("no name")),
            "tls-server-name is invalid",
        ),
        (
            cluster("certificate-authority-data", json!(null)),
            "lacks clusters[].cluster.certificate-authority-data",
        ),
        (
            cluster("certificate-authority-data", json!("%%%")),
            "not base64",
        ),
        (
            cluster("certificate-authority-data", json!(base64("hello"))),
            "not a PEM bundle",
        ),
        (
            cluster("certificate-authority-data", json!(key)),
            "not a PEM bundle",
        ),
        (
            cluster(
                "certificate-authority-data",
                json!(base64(
                    "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n"
                )),
            ),
            "not a PEM bundle",
        ),
        (
            cluster(
                "certificate-authority-data",
                json!(base64("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n")),
            ),
            "not a PEM bundle",
        ),
        (user(json!({})), "lacks users[].user.token"),
        (user(json!({"token": ""})), "lacks users[].user.token"),
        (
            user(json!({"token": "a b"})),
            "users[].user.token is invalid",
        ),
        (
            user(json!({"token": "a\n"})),
            "users[].user.token is invalid",
        ),
        (user(json!({"token": "ä"})), "users[].user.token is invalid"),
        (
            user(json!({"client-certificate-data": certificate})),
            "lacks users[].user.client-certificate-data or client-key-data: set both",
        ),
        (
            user(json!({"token": TOKEN, "client-key-data": key})),
            "lacks users[].user.client-certificate-data or client-key-data: set both",
        ),
        (
            identity("?", &key),
            "client-certificate-data is invalid: not base64",
        ),
        (
            identity(&certificate, "?"),
            "client-key-data is invalid: not base64",
        ),
        (
            identity(&key, &key),
            "client-certificate-data is invalid: not a PEM",
        ),
        (
            identity(&certificate, &certificate),
            "client-key-data is invalid: no unencrypted",
        ),
        (
            identity(&certificate, &another),
            "client-key-data is invalid: keys may not be consistent",
        ),
        (
            cluster("certificate-authority-data", json!(none)),
            "certificate-authority-data is invalid: invalid peer certificate",
        ),
        (json!([]), "the kubeconfig lacks current-context"),
        (json!("x"), "the kubeconfig lacks current-context"),
        (
            with("/users/0/user/token", json!({"a": TOKEN})),
            "users[].user.token is invalid: no text",
        ),
        (
            with("/users/0/name", json!(null)),
            "contexts[].context.user is invalid: there is no user \"dwd\"",
        ),
    ] {
        let error = parse_json(&config).err().unwrap();
        assert_eq!(error.reason, "KubeconfigInvalid");
        assert!(error.to_string().contains(says), "expected {says}: {error}");
    }
}

#[test]
fn hostile_documents_are_refused() {
    let bomb = {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            text += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        text
    };
    for (case, text) in [
        ("deep", format!("contexts: {}", "[".repeat(200_000))),
        (
            "deep blocks",
            (0..700).map(|i| format!("{}a:\n", " ".repeat(i))).collect(),
        ),
        ("aliases", bomb),
        ("control characters", "a: \u{1}\n".to_owned()),
        ("open quote", "a: \"".to_owned()),
    ] {
        let error = parse(text.as_bytes()).map(|_| case).unwrap_err();
        assert!(
            error.to_string().contains("cannot be read"),
            "{case}: {error}"
        );
    }
    for (bytes, says) in [
        (vec![0xff, 0xfe], "cannot be read"),
        (
            vec![b' '; MAX_KUBECONFIG_BYTES + 1],
            "more than 262144 bytes",
        ),
    ] {
        let error = parse(&bytes).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn secrets_do_not_show() {
    for config in [
        with("/users/0/user/token", json!([TOKEN])),
        with("/users/0/user/token", json!(format!("{TOKEN} "))),
        with("/users/0", json!(TOKEN)),
        with("/users", json!(TOKEN)),
        with("/users/0/user/client-key-data", json!(TOKEN)),
        with("/users/0/user/password", json!(TOKEN)),
    ] {
        let error = parse_json(&config).err().unwrap();
        assert!(!format!("{error} {error:?}").contains(TOKEN), "{error}");
    }
}

#[test]
fn names_from_the_document_are_bounded_and_printable() {
    let config = with("/current-context", json!("\u{1b}[2J\n".repeat(500)));
    let text = parse_json(&config).err().unwrap().to_string();
    assert!(
        text.chars().count() <= 300 && !text.chars().any(char::is_control),
        "{text:?}"
    );
}
