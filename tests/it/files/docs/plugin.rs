//! The manifest of the kubectl plugin fits what is built: version, file names, and what the archive holds.

use std::fs;

use serde_json::Value;

use super::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_manifest_names_what_a_release_holds() {
    let version = env!("CARGO_PKG_VERSION");
    let manifest: Value = serde_saphyr::from_str(&read("hack/krew.yaml")).unwrap();
    let spec = &manifest["spec"];
    assert_eq!(manifest["metadata"]["name"], "dwd");
    assert_eq!(spec["version"], format!("v{version}"));
    // krew's own index refuses longer ones.
    assert!(spec["shortDescription"].as_str().unwrap().len() <= 50);
    let platforms = spec["platforms"].as_array().unwrap();
    let architectures: Vec<&str> = platforms
        .iter()
        .map(|it| it["selector"]["matchLabels"]["arch"].as_str().unwrap())
        .collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    for (platform, architecture) in platforms.iter().zip(architectures) {
        let archive = format!("/v{version}/kubectl-dwd-{version}-linux-{architecture}.tar.gz");
        let uri = platform["uri"].as_str().unwrap();
        assert!(uri.ends_with(&archive), "{uri}");
        assert_eq!(platform["selector"]["matchLabels"]["os"], "linux");
        assert_eq!(platform["sha256"], "0".repeat(64));
        assert_eq!(platform["bin"], "kubectl-dwd");
        assert_eq!(platform["files"][0]["from"], "kubectl-dwd/*");
    }
    // As hack/dist.sh makes them, which fills in the checksum below the address.
    let script = read("hack/dist.sh");
    for part in [
        "plugin=kubectl-dwd\n",
        "archive=$plugin-$version-linux-$architecture.tar.gz\n",
        r#"install -m 755 "$static" "$scratch/$plugin/$plugin""#,
        r#"pack "$scratch/dist/$archive" "$scratch" $plugin"#,
        r#"cp hack/krew.yaml "$scratch/dist/dwd.yaml""#,
    ] {
        assert!(script.contains(part), "{part}");
    }
}
