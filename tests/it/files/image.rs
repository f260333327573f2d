//! The Dockerfile fits the rest: toolchain, user, path and ports. That what `make image` builds runs is tried by
//! `make node`.

use regex::Regex;

use super::{path, read, yaml};

const DEPLOYMENTS: [&str; 2] = ["prober", "weeder"];

/// The one match of the pattern's group in the Dockerfile.
fn said(pattern: &str) -> String {
    let dockerfile = read("Dockerfile");
    let pattern = Regex::new(pattern).unwrap();
    let found: Vec<_> = pattern.captures_iter(&dockerfile).collect();
    assert_eq!(found.len(), 1, "{pattern}");
    found[0][1].to_owned()
}

/// Another version would be downloaded in the build.
#[test]
fn it_is_built_by_the_toolchain_of_the_repository() {
    let version = said(r"(?m)^ARG RUST_IMAGE=\S*rust:([\d.]+)-slim-[a-z]+$");
    let toolchain = read("rust-toolchain.toml");
    assert!(
        toolchain.contains(&format!("channel = \"{version}\"")),
        "{version}: {toolchain}"
    );
}

#[test]
fn it_is_what_the_manifests_run() {
    let user = said(r"(?m)^USER (\d+:\d+)$");
    let program = said(r#"(?m)^ENTRYPOINT \["(.*)"\]$"#);
    let copied = said(r"(?m)^COPY --from=build \S+ (\S+)$");
    assert_eq!(copied, program);
    let exposed = said(r"(?m)^EXPOSE (.*)$");
    for name in DEPLOYMENTS {
        let deployment = yaml(&format!("manifests/{name}/deployment.yaml"));
        let pod = &deployment["spec"]["template"]["spec"];
        let context = &pod["securityContext"];
        let of_manifest = format!("{}:{}", context["runAsUser"], context["runAsGroup"]);
        assert_eq!(user, of_manifest, "{name}");
        let container = &pod["containers"][0];
        assert_eq!(container["command"][0], *program, "{name}");
        let ports = container["ports"].as_array().unwrap().iter();
        let ports: Vec<String> = ports.map(|it| it["containerPort"].to_string()).collect();
        assert_eq!(exposed, ports.join(" "), "{name}");
    }
}

/// What is left out of the build is named by what is not, so a name that is gone is a mistake.
#[test]
fn what_it_is_built_of_is_there() {
    let ignored = read(".dockerignore");
    let kept: Vec<&str> = ignored
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    assert!(kept.contains(&"src"), "{kept:?}");
    for file in kept {
        assert!(path(file).exists(), "{file}");
    }
}
