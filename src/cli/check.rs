//! `check`: validates policies in files, for CI of the repository that holds them.

use std::{
    io::{self, Read},
    path::PathBuf,
};

use clap::Args;

use super::files;
use crate::check;

/// Files that are validated.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Exit codes: 0 no problem, 1 problems were found, 2 a file could not be \
                        read or the command was not understood."
)]
pub struct CheckArgs {
    /// A file, a folder of which all *.yaml, *.yml and *.json are read, or - for the standard input;
    /// may be repeated
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE|FOLDER",
        required = true
    )]
    files: Vec<PathBuf>,
}

/// Validates the files, prints what is wrong, and returns the exit code.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn run(args: &CheckArgs) -> Result<u8, String> {
    let (report, problems) = checked(&args.files, io::stdin().lock())?;
    files::print(&report)?;
    Ok(u8::from(problems > 0))
}

/// Returns one line per problem and a last one that counts, and the number of problems.
fn checked(paths: &[PathBuf], mut input: impl Read) -> Result<(String, usize), String> {
    let (mut lines, mut checked, mut passed_over) = (Vec::new(), 0, 0);
    let mut found = Vec::new();
    for path in paths {
        let below = files::below(path);
        found.extend(below.map_err(|error| format!("reading {}: {error}", files::name(path)))?);
    }
    for path in found {
        let text = files::read(&path, &mut input)?;
        let file = files::name(&path);
        let documents = check::documents(&text).unwrap_or_else(|error| {
            lines.push(format!("{file}: {error}"));
            Vec::new()
        });
        for (number, document) in (1..).zip(documents) {
            for object in check::objects(document) {
                let name = check::name(&object);
                match check::problems(&object) {
                    None => passed_over += 1,
                    Some(problems) => {
                        checked += 1;
                        let line = |problem| format!("{file}#{number} {name} {problem}");
                        lines.extend(problems.into_iter().map(line));
                    }
                }
            }
        }
    }
    let problems = lines.len();
    lines.push(format!(
        "policies: {checked}, problems: {problems}, objects of other kinds: {passed_over}\n"
    ));
    Ok((lines.join("\n"), problems))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use rstest::rstest;

    use super::*;

    const POLICY: &str = "apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: WeedPolicy
metadata:
  name: default
spec:
  mode: Enforce
  watchDuration: 5m
  servicesAndDependantSelectors:
    etcd-main-client:
      podSelectors:
      - matchLabels: {role: apiserver}
";
    const OTHER: &str = "---\napiVersion: v1\nkind: ConfigMap\n";

    fn said(text: &str) -> Vec<String> {
        let (report, problems) = checked(&["-".into()], text.as_bytes()).unwrap();
        let mut lines: Vec<_> = report.lines().map(str::to_owned).collect();
        let summary = lines.pop().unwrap();
        assert!(
            summary.contains(&format!("problems: {problems},")),
            "{report}"
        );
        assert_eq!(lines.len(), problems, "{report}");
        lines
    }

    #[rstest]
    #[case("", "", "")]
    #[case("5m", "null", "")]
    #[case("5m", "&a 5m\n  suspend: no", "")]
    #[case("{role: apiserver}", "{role: apiserver, zone: ~}", "")]
    #[case("apiVersion", "--- # nothing\n---\napiVersion", "")]
    #[case("5m", "5", "spec.watchDuration: invalid type: integer `5`, ")]
    #[case(
        "5m",
        "25h",
        "spec.watchDuration: must be a duration of at least 1s and at most 24h"
    )]
    #[case(
        "role: apiserver",
        "role: on",
        "spec.servicesAndDependantSelectors.etcd-main-client.podSelectors[0].matchLabels.role: invalid type: boolean `true`, expected a string"
    )]
    #[case(
        "etcd-main-client",
        "Etcd",
        "spec.servicesAndDependantSelectors: key \"Etcd\" must be at most 63 lower case letters"
    )]
    #[case(
        "Enforce",
        "Observe",
        "spec.mode: unknown variant `Observe`, expected `Enforce` or `DryRun`"
    )]
    #[case(
        "mode: Enforce",
        "",
        "spec.mode: must be set: write DryRun to observe only"
    )]
    #[case("watchDuration", "watchduration", "spec.watchduration: unknown field")]
    #[case(
        "podSelectors",
        "podSelector",
        "spec.servicesAndDependantSelectors.etcd-main-client.podSelectors: is required"
    )]
    #[case("name", "nmae", "metadata.nmae: unknown field")]
    #[case("spec:", "specs:", "spec: is required")]
    #[case(
        "gardener.cloud",
        "gardner.cloud",
        "apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"
    )]
    #[case(
        "v1alpha1",
        "v1",
        "apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"
    )]
    #[case(
        "apiVersion",
        "# apiVersion",
        "apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"
    )]
    #[case(
        "kind: WeedPolicy",
        "kind: WeedPolicies",
        "kind: must be ProbePolicy or WeedPolicy"
    )]
    fn names_document_object_and_field(#[case] from: &str, #[case] to: &str, #[case] says: &str) {
        let policy = POLICY.replacen(from, to, 1);
        let lines = said(&format!("kind: Other\n---\n{policy}{OTHER}"));
        if says.is_empty() {
            assert_eq!(lines, Vec::<String>::new());
        } else {
            let found = |line: &String| {
                line.starts_with("stdin#2 WeedPolic") && line.contains(&format!(" {says}"))
            };
            assert!(lines.iter().any(found), "{says}: {lines:#?}");
        }
    }

    #[rstest]
    #[case("5m", "5m\n  watchDuration: 6m", "8", "duplicate")]
    #[case("{role: apiserver}", "{role: apiserver", "11", "unclosed bracket")]
    #[case("5m", "*a", "7", "alias")]
    fn unreadable_yaml_is_named_by_its_line(
        #[case] from: &str,
        #[case] to: &str,
        #[case] line: &str,
        #[case] says: &str,
    ) {
        let lines = said(&POLICY.replacen(from, to, 1));
        assert!(
            lines[0].starts_with("stdin: ") && lines[0].contains(says),
            "{lines:?}"
        );
        assert!(lines[0].contains(&format!("line {line}")), "{lines:?}");
    }

    #[test]
    fn items_of_a_list_are_objects() {
        let item = POLICY.replace("5m", "5").replace('\n', "\n  ");
        let list = format!("kind: List\nitems:\n- {item}\n- kind: Secret\n- {item}\n");
        assert_eq!(said(&list).len(), 2);
    }

    #[test]
    fn a_folder_is_searched() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // One name in two folders is one policy of two seeds.
        write("b/policy.yaml", POLICY);
        write("a/deep/same.yml", POLICY);
        write(
            "a/config.json",
            r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#,
        );
        write("README.md", "kind: [");
        write(".git/broken.yaml", "kind: [");
        symlink(folder.path(), folder.path().join("circle.yaml")).unwrap();
        let (report, _) = checked(&[folder.path().into()], io::empty()).unwrap();
        assert_eq!(
            report,
            "policies: 2, problems: 0, objects of other kinds: 1\n"
        );
        write("a\n::error::\u{202e}.yaml", "kind: [");
        let (report, problems) = checked(&[folder.path().into()], io::empty()).unwrap();
        assert!(
            report.contains("a ::error::?.yaml") && problems == 1,
            "{report}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let latin = folder.path().join("latin.txt");
        fs::write(&latin, b"kind: \xe9").unwrap();
        for (path, says) in [
            (
                &*folder.path().join("missing.yaml"),
                "missing.yaml: No such file",
            ),
            (&latin, "latin.txt: stream did not contain valid UTF-8"),
            (Path::new("-"), "reading stdin: it is longer than 16 MiB"),
        ] {
            let error = checked(&[path.into()], io::repeat(b' ')).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
