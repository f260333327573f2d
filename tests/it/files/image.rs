//! The Dockerfile fits the rest: toolchain, user, path and ports; and `make image` makes of a binary what
//! the Dockerfile would. That what is built runs is tried by `make image-check` and `make node`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use serde_json::Value;

const DEPLOYMENTS: [&str; 2] = ["prober", "weeder"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

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
        let manifest = read(&format!("manifests/{name}/deployment.yaml"));
        let deployment: Value = serde_saphyr::from_str(&manifest).unwrap();
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
    for path in kept {
        assert!(root().join(path).exists(), "{path}");
    }
}

/// What a command prints; it must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// An archive of a binary that is only some bytes, in a directory below `root`.
fn archive(root: &Path, name: &str, variables: &[(&str, &str)]) -> PathBuf {
    let binary = root.join("binary");
    fs::write(&binary, "a binary").unwrap();
    let mut command = image(&root.join(name));
    let command = command
        .env("DWD_STATIC", binary)
        .envs(variables.iter().copied());
    PathBuf::from(run(command).trim())
}

fn image(dist: &Path) -> Command {
    let mut command = Command::new("hack/image.sh");
    command.current_dir(root()).env("DIST", dist);
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn an_archive_holds_what_the_dockerfile_says() {
    let directory = tempfile::tempdir().unwrap();
    let archive = archive(directory.path(), "dist", &[("REVISION", "abc")]);
    let layout = directory.path().join("layout");
    fs::create_dir(&layout).unwrap();
    let unpack = |file: &Path, to: &Path| {
        let mut tar = Command::new("tar");
        run(tar.args(["-x", "-f"]).arg(file).arg("-C").arg(to));
    };
    unpack(&archive, &layout);
    let blob = |descriptor: &Value| {
        let (_, digest) = descriptor["digest"]
            .as_str()
            .unwrap()
            .split_once(':')
            .unwrap();
        let path = layout.join("blobs/sha256").join(digest);
        let size = fs::metadata(&path).unwrap().len();
        assert_eq!(descriptor["size"], size, "{descriptor}");
        let sum = run(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(digest), "{descriptor}: {sum}");
        path
    };

    let index = json(&layout.join("index.json"));
    let version = env!("CARGO_PKG_VERSION");
    let annotations = &index["manifests"][0]["annotations"];
    assert_eq!(annotations["org.opencontainers.image.ref.name"], version);
    let manifest = json(&blob(&index["manifests"][0]));
    let configuration = json(&blob(&manifest["config"]));
    let config = &configuration["config"];
    assert_eq!(config["User"], said(r"(?m)^USER (\S+)$"));
    let program = said(r#"(?m)^ENTRYPOINT \["(.*)"\]$"#);
    assert_eq!(config["Entrypoint"], serde_json::json!([program]));
    let ports = config["ExposedPorts"].as_object().unwrap();
    let ports: Vec<&str> = ports.keys().map(|it| it.trim_end_matches("/tcp")).collect();
    assert_eq!(ports.join(" "), said(r"(?m)^EXPOSE (.*)$"));
    let label = |name: &str| config["Labels"][format!("org.opencontainers.image.{name}")].clone();
    assert_eq!(label("version"), version);
    assert_eq!(label("revision"), "abc");
    for name in ["title", "description", "licenses"] {
        let pattern = format!(r#"image\.{name}="(.*?)""#);
        assert_eq!(label(name), said(&pattern), "{name}");
    }
    assert_eq!(manifest["annotations"], config["Labels"]);

    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    unpack(&blob(&manifest["layers"][0]), &files);
    let listed = run(Command::new("find")
        .arg(&files)
        .args(["-type", "f", "-printf", "/%P %s"]));
    assert_eq!(listed, format!("{program} 8"));
    let mode = fs::metadata(files.join(&program[1..]))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[cfg(target_os = "linux")]
#[test]
fn the_same_commit_gives_the_same_archive() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = |name: &str, variables: &[(&str, &str)]| {
        fs::read(archive(directory.path(), name, variables)).unwrap()
    };
    let first = bytes("first", &[]);
    assert!(first == bytes("second", &[]));
    // The time is in it: otherwise the first comparison could prove nothing.
    assert!(first != bytes("older", &[("SOURCE_DATE_EPOCH", "1")]));
}

/// A toolchain that builds nothing, with or without what the other architecture needs.
#[cfg(target_os = "linux")]
struct Toolchain {
    directory: tempfile::TempDir,
}

#[cfg(target_os = "linux")]
impl Toolchain {
    /// The other architecture: as images name it, Rust's target, and the C compiler.
    fn other() -> (&'static str, &'static str, &'static str) {
        match std::env::consts::ARCH {
            "x86_64" => (
                "arm64",
                "aarch64-unknown-linux-gnu",
                "aarch64-linux-gnu-gcc",
            ),
            _ => ("amd64", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu-gcc"),
        }
    }

    fn new(has_target: bool, has_compiler: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (_, target, compiler) = Self::other();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        // All that this machine has but a compiler for the other architecture.
        for path in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if entry.file_name() != compiler {
                    // The first of a name counts.
                    let _ = std::os::unix::fs::symlink(entry.path(), bin.join(entry.file_name()));
                }
            }
        }
        let script = |name: &str, text: &str| {
            let path = bin.join(name);
            let _ = fs::remove_file(&path);
            fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let place = directory.path().display().to_string();
        script(
            "rustc",
            &format!("case $1 in -vV) echo host: this-linux-gnu ;; *) echo {place}/$4 ;; esac\n"),
        );
        script(
            "cargo",
            &format!(
                "while [ $# -gt 0 ]; do case $1 in\n\
                 metadata) echo '\"target_directory\":\"{place}\"'; exit ;;\n\
                 --target) out={place}/$2/release; mkdir -p $out; echo $2 $RUSTFLAGS >$out/dependency-watchdog ;;\n\
                 esac; shift; done\n"
            ),
        );
        if has_target {
            fs::create_dir(directory.path().join(target)).unwrap();
        }
        if has_compiler {
            script(compiler, "");
        }
        Self { directory }
    }

    /// The archives that are made, and what is said.
    fn image(&self) -> (Vec<PathBuf>, String) {
        let bin = self.directory.path().join("bin");
        let mut command = image(&self.directory.path().join("dist"));
        let command = command
            .env("PATH", &bin)
            .env("CARGO", bin.join("cargo"))
            .env_remove("PROFILE");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (printed.lines().map(PathBuf::from).collect(), said)
    }
}

#[cfg(target_os = "linux")]
#[test]
fn both_architectures_are_built_where_the_toolchain_can() {
    let toolchain = Toolchain::new(true, true);
    let (archives, said) = toolchain.image();
    let (other, target, compiler) = Toolchain::other();
    let [_, archive] = &archives[..] else {
        panic!("{archives:?} {said}");
    };
    let layout = toolchain.directory.path().join("layout");
    fs::create_dir(&layout).unwrap();
    run(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(&layout));
    let index = json(&layout.join("index.json"));
    let platform = &index["manifests"][0]["platform"];
    assert_eq!(platform["architecture"], other, "{index}");
    let built = toolchain.directory.path().join(target);
    let built = fs::read_to_string(built.join("release/dependency-watchdog")).unwrap();
    assert!(built.contains(&format!("linker={compiler}")), "{built}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_other_architecture_lacks_is_said() {
    let (other, target, compiler) = Toolchain::other();
    for (has_target, has_compiler) in [(false, false), (false, true), (true, false)] {
        let (archives, said) = Toolchain::new(has_target, has_compiler).image();
        assert_eq!(archives.len(), 1, "{said}");
        assert!(said.contains(&format!("left out linux/{other}")), "{said}");
        let remedy = said.contains(&format!("rustup target add {target}"));
        assert_eq!(remedy, !has_target, "{said}");
        assert_eq!(said.contains(compiler), !has_compiler, "{said}");
    }
}
