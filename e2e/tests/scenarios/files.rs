//! Commands that read files: what they make and what they say is what the API server takes.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{Env, Output, Seed};
use std::{fs, path::Path, process::Stdio};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_what_convert_makes_and_check_accepts_the_api_server_takes,]
}

/// Runs the product with these arguments.
async fn product(args: &[&str]) -> Result<Output> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
    let path = target.context("not run from Cargo's target directory")?;
    let output = tokio::process::Command::new(path.join("dependency-watchdog"))
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

async fn e2e_what_convert_makes_and_check_accepts_the_api_server_takes(env: Env) -> Result<()> {
    let seed = env.own_seed("convert").await?;
    a_configuration_becomes_policies(&seed).await?;
    check_says_what_the_api_server_says(&seed).await
}

async fn a_configuration_becomes_policies(seed: &Seed) -> Result<()> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/gardener");
    for name in ["prober", "weeder"] {
        let fixture = fixtures.join(format!("{name}.yaml"));
        let fixture = fixture.to_str().context("a path that is no text")?;
        let converted = product(&["convert", "-f", fixture, "--name", name]).await?;
        ensure!(converted.success, "{name}: {}", converted.stderr);
        let note = "added mode: Enforce";
        ensure!(converted.stderr.contains(note), "{}", converted.stderr);
        let file = seed.directory().join(format!("converted-{name}.yaml"));
        fs::write(&file, &converted.stdout)?;
        let file = file.to_str().context("a path that is no text")?;
        let checked = product(&["check", "-f", file]).await?;
        ensure!(checked.success, "{name}: {}", checked.stdout);
        let apply = ["apply", "--validate=strict", "-f", file];
        seed.kubectl().run(&apply).await?;
    }
    Ok(())
}

const POLICY: &str = "\
apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: WeedPolicy
metadata:
  name: checked
spec:
  mode: Enforce
  watchDuration: 5m
  servicesAndDependantSelectors:
    etcd-main-client:
      podSelectors:
      - matchLabels: {role: apiserver}
";

/// Changes of the policy in what YAML and JSON may say in several ways, and whether it is still a policy. What a
/// field may hold is in tests/fixtures.
const CASES: [(&str, &str, bool); 24] = [
    ("", "", true),
    ("5m", "null", true),
    ("5m", "5", false),
    ("mode: Enforce", "suspend: false", false),
    ("watchDuration", "watchduration", false),
    ("watchDuration: 5m", "suspend: on", true),
    ("watchDuration: 5m", "suspend: 'on'", false),
    ("watchDuration: 5m", "suspend: y", true),
    ("role: apiserver", "role: off", false),
    ("role: apiserver", "role: 010", false),
    ("role: apiserver", "role: 1.5", false),
    ("role: apiserver", "role: 2001-01-01", true),
    ("role: apiserver", "1_0: x", true),
    ("{role: apiserver}", "~", false),
    ("{role: apiserver}", "{role: apiserver, zone: ~}", true),
    ("- matchLabels: {role: apiserver}", "- ~", false),
    ("name: checked", "name: checked\n  label: {}", false),
    ("spec:", "specification:", false),
    ("gardener.cloud", "gardner.cloud", false),
    ("dependency-watchdog.gardener.cloud/", "", false),
    ("WeedPolicy", "WeedPolicys", false),
    ("spec:", "status: ~\nspec:", true),
    ("spec:", "  uid: 5\nspec:", false),
    ("spec:", "  generation: x\nspec:", false),
];

async fn check_says_what_the_api_server_says(seed: &Seed) -> Result<()> {
    let kubectl = seed.kubectl();
    for (index, (from, to, good)) in CASES.into_iter().enumerate() {
        let file = seed.directory().join(format!("checked-{index}.yaml"));
        fs::write(&file, POLICY.replacen(from, to, 1))?;
        let file = file.to_str().context("a path that is no text")?;
        let checked = product(&["check", "-f", file]).await?;
        let create = [
            "create",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            file,
        ];
        let created = kubectl.try_run(&create).await?;
        for (who, output) in [("check", checked), ("kubectl", created)] {
            let said = [output.stdout, output.stderr].concat();
            ensure!(
                output.success == good,
                "{who} on {to:?} for {from:?}: {said}"
            );
        }
    }
    Ok(())
}
