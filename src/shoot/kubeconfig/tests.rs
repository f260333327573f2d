use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMAMCAQI=\n-----END PRIVATE KEY-----\n";
const TOKEN: &str = "s3cr3t-t0k3n";

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
            "certificate-authority-data": base64(CERTIFICATE),
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

fn parse_json(config: &Value) -> Result<Access, KubeconfigError> {
    parse(config.to_string().as_bytes())
}

#[test]
fn what_is_needed_is_kept() {
    let both = user(json!({
        "token": TOKEN,
        "client-certificate-data": base64(CERTIFICATE),
        "client-key-data": base64(KEY),
    }));
    let access = parse_json(&both).unwrap();
    let parts = access.parts();
    assert_eq!(
        parts.server.to_string(),
        "https://api.shoot.internal.example:6443/"
    );
    assert_eq!(parts.roots, [vec![0x30, 3, 2, 1, 1]]);
    assert_eq!(parts.token.as_deref(), Some(TOKEN));
    let identity = parts.identity.as_ref().unwrap();
    assert_eq!(
        (&identity.certificate[..], &identity.key[..]),
        (CERTIFICATE.as_bytes(), KEY.as_bytes())
    );
}

#[test]
fn accepted() {
    let folded = base64(&CERTIFICATE.repeat(2)).replace('M', "M\n");
    let certificates = json!({
        "client-certificate-data": base64(CERTIFICATE), "client-key-data": base64(KEY),
    });
    let empty = json!({
        "token": TOKEN, "exec": null, "tokenFile": "", "username": "", "as-groups": [],
    });
    let (user, cluster) = ("/users/0/user", "/clusters/0/cluster");
    for (pointer, value) in [
        (user, json!({"token": "12345"})),
        (user, certificates),
        (user, empty),
        ("/current-context", json!("")),
        ("/current-context", json!(null)),
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
        let parsed = parse_json(&with(pointer, value.clone()));
        assert!(parsed.is_ok(), "{pointer} {value}: {parsed:?}");
    }
}

/// As kubectl writes them.
fn yaml() -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- context:\n    cluster: c\n    \
         user: u\n  name: a\nclusters:\n- name: c\n  cluster:\n    certificate-authority-data: {}\n    \
         server: https://api:6443\nusers:\n- name: u\n  user:\n    token: {TOKEN}\n",
        base64(CERTIFICATE)
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
        assert_eq!(access.server().to_string(), read_as);
    }
    let contexts =
        "contexts:\n- name: other\n  context: {cluster: c, user: runs}\n- context:\n- ~\n";
    let users = "users:\n- name: runs\n  user: {exec: {command: evil}, tokenFile: /t}\n- user: ~\n";
    let empty = "    proxy-url: ''\n    tls-server-name:\n    server";
    let verified = "    insecure-skip-tls-verify: no\n    server";
    for text in [
        format!("{yaml}---\n"),
        format!("{yaml}---\n# nothing\n---\n~\n...\n"),
        format!("\u{feff}# a comment\n---\n{yaml}"),
        yaml.replace('\n', "\r\n"),
        changed("contexts:\n", contexts),
        changed("users:\n", users),
        changed("    server", empty),
        changed("    server", verified),
        changed("current-context: a", "current-context:"),
    ] {
        assert_eq!(parse(text.as_bytes()), parse(yaml.as_bytes()), "{text}");
    }
    for (text, says) in [
        (
            changed("    token", "    token: a\n    token"),
            "a key twice at line 18, column 5",
        ),
        (
            changed("users:", "users: []\nusers:"),
            "a key twice at line 15, column 1",
        ),
        (
            format!("{yaml}---\nkind: Config\n"),
            "several YAML documents",
        ),
        (changed("contexts:", "contexts"), "cannot be read at line"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
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
        let error = parse_json(&config).unwrap_err();
        assert!(
            matches!(error, KubeconfigError::Refused { .. }),
            "{field}: {error}"
        );
        assert_eq!(error.reason(), "KubeconfigRefused");
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
    let several = json!([
        {"name": "shoot", "context": {"cluster": "api", "user": "dwd"}},
        {"name": "other", "context": {"cluster": "api", "user": "dwd"}},
    ]);
    let several = {
        let mut config = with("/contexts", several);
        config["current-context"] = Value::Null;
        config
    };
    let twice = {
        let mut config = valid();
        let again = config["users"][0].clone();
        config["users"].as_array_mut().unwrap().push(again);
        config
    };
    let (certificate, key) = (base64(CERTIFICATE), base64(KEY));
    for (config, says) in [
        (json!({}), "lacks contexts"),
        (json!(null), "lacks contexts"),
        (json!({"contexts": []}), "lacks contexts"),
        (
            with("/contexts", json!([])),
            "current-context names \"shoot\", of which there are 0",
        ),
        (several, "lacks current-context"),
        (
            with("/current-context", json!("gone")),
            "current-context names \"gone\", of which there are 0",
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
            "contexts[].context.cluster names \"api\", of which there are 0",
        ),
        (
            with("/users", json!([])),
            "contexts[].context.user names \"dwd\", of which there are 0",
        ),
        (twice, "of which there are 2"),
        (
            cluster("server", json!(null)),
            "lacks clusters[].cluster.server",
        ),
        (server("http://api"), "only https"),
        (server("api.example.com/path"), "only https"),
        (server("user@api:443"), "no user or password"),
        (server("https:api"), "the port"),
        (server("ftp://api"), "only https"),
        (server("https://"), "not a URL"),
        (server("https://a b"), "not a URL"),
        (server("https://user:pass@api"), "no user or password"),
        (server("https://api:99999"), "the port"),
        (server("https://api?x=y"), "remove the query"),
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
            "lacks users[].user.client-key-data",
        ),
        (
            user(json!({"client-key-data": key})),
            "lacks users[].user.client-certificate-data",
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
        (json!([]), "cannot be read"),
        (json!("x"), "cannot be read"),
        (
            with("/users/0/user/token", json!({"a": TOKEN})),
            "cannot be read",
        ),
        (
            with("/users/0/name", json!(null)),
            "contexts[].context.user names \"dwd\", of which there are 0",
        ),
    ] {
        let error = parse_json(&config).unwrap_err();
        assert_eq!(error.reason(), "KubeconfigInvalid");
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
            matches!(error, KubeconfigError::Malformed { .. }),
            "{case}: {error}"
        );
    }
    assert!(matches!(
        parse(&[0xff, 0xfe]),
        Err(KubeconfigError::Malformed { .. })
    ));
    let large = vec![b' '; MAX_KUBECONFIG_BYTES + 1];
    assert_eq!(parse(&large), Err(KubeconfigError::TooLarge));
}

#[test]
fn equal_when_nothing_changed_that_matters() {
    let access = parse_json(&valid()).unwrap();
    let yaml = serde_saphyr::to_string(&valid()).unwrap();
    assert_eq!(parse(yaml.as_bytes()).unwrap(), access);
    assert_eq!(
        parse_json(&with("/preferences", json!({"colors": true}))).unwrap(),
        access
    );
    for (pointer, value) in [
        ("/users/0/user/token", json!("another")),
        ("/clusters/0/cluster/server", json!("https://elsewhere")),
        ("/clusters/0/cluster/tls-server-name", json!("elsewhere")),
        (
            "/clusters/0/cluster/certificate-authority-data",
            json!(base64(&CERTIFICATE.repeat(2))),
        ),
    ] {
        assert_ne!(
            parse_json(&with(pointer, value)).unwrap(),
            access,
            "{pointer}"
        );
    }
}

#[test]
fn secrets_do_not_show() {
    let access = parse_json(&valid()).unwrap();
    assert!(!format!("{access:?}").contains(TOKEN));
    for config in [
        with("/users/0/user/token", json!([TOKEN])),
        with("/users/0/user/token", json!(format!("{TOKEN} "))),
        with("/users/0", json!(TOKEN)),
        with("/users", json!(TOKEN)),
        with("/users/0/user/client-key-data", json!(TOKEN)),
        with("/users/0/user/password", json!(TOKEN)),
    ] {
        let error = parse_json(&config).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(TOKEN), "{error}");
    }
}

#[test]
fn names_from_the_document_are_bounded_and_printable() {
    let error =
        parse_json(&with("/current-context", json!("\u{1b}[2J\n".repeat(500)))).unwrap_err();
    let text = error.to_string();
    assert!(
        text.chars().count() <= 300 && !text.chars().any(char::is_control),
        "{text:?}"
    );
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,16}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z-]{1,12}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[ \\n:\\-\\[\\]{}&*!|>'\"a-z0-9]{0,200}") {
        prop_assert!(parse(text.as_bytes()).is_err());
    }

    #[test]
    fn any_value_anywhere_is_accepted_or_refused_in_bounds(
        place in prop::sample::select(vec![
            "/current-context", "/contexts", "/contexts/0/context", "/clusters/0/cluster/server",
            "/clusters/0/cluster/certificate-authority-data", "/clusters/0/cluster/proxy-url",
            "/clusters/0/cluster/tls-server-name", "/users/0/user", "/users/0/user/token",
            "/users/0/user/exec", "/users/0/user/client-key-data",
        ]),
        value in arbitrary_json(),
    ) {
        if let Err(error) = parse_json(&with(place, value)) {
            let text = error.to_string();
            prop_assert!(text.chars().count() <= 300 && !text.chars().any(char::is_control));
        }
    }
}
