//! `check`: validates policies in files, for CI of the repository that holds them.

use std::{
    fmt, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};

use super::source::{self, SourceError};
use crate::validate::{Checker, Report};

/// What of a folder is read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What is validated, and how that is told.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Exit codes: 0 no problem, 1 problems were found, 2 a file could not \
                        be read or the command was not understood."
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

    /// How the result is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How the result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line a problem, as compilers write them
    #[default]
    Text,
    /// One object with problems, omitted, warnings, checked and passedOver
    Json,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Good,
    Problems,
    Unread,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Good => Self::SUCCESS,
            Ended::Problems => Self::from(1),
            Ended::Unread => Self::from(2),
        }
    }
}

/// Validates what is named, and writes what is wrong with it.
pub(super) fn run(
    args: &CheckArgs,
    mut input: impl Read,
    output: &mut impl Write,
    errors: &mut impl Write,
) -> Ended {
    let mut checker = Checker::new();
    let mut unread = Vec::new();
    for path in &args.files {
        match files(path) {
            Ok(files) if files.is_empty() => unread.push(format!(
                "{}: there is no *.yaml, *.yml or *.json in this folder",
                path.display()
            )),
            Ok(files) => {
                for file in files {
                    match source::read(&file, &mut input) {
                        Ok(text) => checker.check(&source::name(&file), &text),
                        Err(error) => unread.push(error.to_string()),
                    }
                }
            }
            Err(error) => unread.push(error.to_string()),
        }
    }
    let report = checker.report();
    let mut ended = match (unread.is_empty(), report.problems.is_empty()) {
        (false, _) => Ended::Unread,
        (true, false) => Ended::Problems,
        (true, true) => Ended::Good,
    };
    if let Err(error) = write(&report, args.output, output) {
        unread.push(format!("writing to the standard output: {error}"));
        ended = Ended::Unread;
    }
    for error in unread {
        // There is nobody left to tell.
        let _ = writeln!(errors, "error: {error}");
    }
    ended
}

fn write(report: &Report, how: Output, output: &mut impl Write) -> io::Result<()> {
    match how {
        Output::Text => {
            for problem in &report.problems {
                writeln!(output, "{problem}")?;
            }
            for warning in &report.warnings {
                writeln!(output, "{warning} (a warning)")?;
            }
            writeln!(output, "{}", Summary(report))?;
        }
        Output::Json => {
            serde_json::to_writer_pretty(&mut *output, report)?;
            writeln!(output)?;
        }
    }
    output.flush()
}

struct Summary<'a>(&'a Report);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        let plural = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {many}"),
        };
        let problems = match (report.problems.len(), report.omitted) {
            (0, _) => "no problem".to_owned(),
            (count, 0) => plural(count, "problem", "problems"),
            (count, omitted) => format!("{count} problems and {omitted} more"),
        };
        let warnings = match report.warnings.len() {
            0 => String::new(),
            count => format!(", {}", plural(count, "warning", "warnings")),
        };
        write!(
            f,
            "{} checked, {problems}{warnings}; {} of other kinds passed over",
            plural(report.checked, "policy", "policies"),
            plural(report.passed_over, "document", "documents"),
        )
    }
}

/// The files that a path stands for, in order. A folder that begins with a dot is passed over, such
/// as .git, and so are links to folders, which may lead in circles, and pipes, which may never end.
fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| SourceError::Io { path, error }
    };
    if source::is_input(path) || !fs::metadata(path).map_err(failed(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let path = entry.path();
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let kind = entry.file_type().map_err(failed(&path))?;
            if kind.is_dir() {
                if !hidden {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known))
                && (kind.is_file() || kind.is_symlink() && !path.is_dir())
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(files: &[&Path], output: Output) -> CheckArgs {
        CheckArgs {
            files: files.iter().map(|it| it.to_path_buf()).collect(),
            output,
        }
    }

    fn outcome(args: &CheckArgs, input: &str) -> (Ended, String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let ended = run(args, input.as_bytes(), &mut output, &mut errors);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended, text(output), text(errors))
    }

    const GOOD: &str = "apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: WeedPolicy
metadata: {name: default}
spec:
  servicesAndDependantSelectors:
    etcd: {podSelectors: [{matchLabels: {role: apiserver}}]}
  mode: Enforce
";

    #[test]
    fn the_standard_input_is_a_file() {
        let args = arguments(&[Path::new("-")], Output::Text);
        let (ended, output, errors) = outcome(&args, GOOD);
        assert_eq!((ended, errors.as_str()), (Ended::Good, ""));
        assert_eq!(
            output,
            "1 policy checked, no problem; 0 documents of other kinds passed over\n"
        );
        let bad = GOOD.replace("role: ", "-role: ");
        let (ended, output, _) = outcome(&args, &bad);
        assert_eq!(ended, Ended::Problems);
        assert!(
            output.starts_with("stdin:6:41: WeedPolicy/default: spec."),
            "{output}"
        );
        assert!(
            output
                .ends_with("1 policy checked, 1 problem; 0 documents of other kinds passed over\n")
        );
    }

    #[test]
    fn what_the_probe_needs_is_warned_of_and_no_problem() {
        let policy = include_str!("../../docs/examples/probe-policy.yaml");
        let policy = policy.replacen("name: kube-controller-manager", "name: kube-apiserver", 1);
        let args = arguments(&[Path::new("-")], Output::Text);
        let (ended, output, _) = outcome(&args, &policy);
        assert_eq!(ended, Ended::Good, "{output}");
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 2, "{output}");
        let field = "spec.dependentResourceInfos[0].ref.name: the probe needs kube-apiserver";
        assert!(
            lines[0].starts_with("stdin:") && lines[0].contains(field),
            "{output}"
        );
        assert!(lines[0].ends_with("(a warning)"), "{output}");
        assert!(
            lines[1].starts_with("1 policy checked, no problem, 1 warning; "),
            "{output}"
        );
        let (_, output, _) = outcome(&arguments(&[Path::new("-")], Output::Json), &policy);
        let report: serde_json::Value = serde_json::from_str(&output).unwrap();
        assert_eq!(
            (&report["problems"], report["warnings"][0]["line"].is_u64()),
            (&serde_json::json!([]), true)
        );
    }

    #[test]
    fn tools_get_one_object() {
        let bad = GOOD.replace("default", "Default");
        let (ended, output, _) = outcome(&arguments(&[Path::new("-")], Output::Json), &bad);
        let report: serde_json::Value = serde_json::from_str(&output).unwrap();
        assert_eq!(ended, Ended::Problems);
        assert_eq!(report["checked"], 1);
        assert_eq!(report["passedOver"], 0);
        let problem = &report["problems"][0];
        assert_eq!(
            (&problem["line"], &problem["column"]),
            (&3.into(), &18.into())
        );
        assert_eq!(problem["field"], "metadata.name");
        assert_eq!(problem["object"], "WeedPolicy/Default");
    }

    #[test]
    fn a_folder_is_searched() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("b/policy.yaml", GOOD);
        write("a/deep/same.yml", GOOD);
        write(
            "a/config.json",
            r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#,
        );
        write("README.md", "kind: [");
        write(".git/broken.yaml", "kind: [");
        std::os::unix::fs::symlink(folder.path(), folder.path().join("circle.yaml")).unwrap();
        std::os::unix::net::UnixListener::bind(folder.path().join("socket.yaml")).unwrap();
        let (ended, output, errors) = outcome(&arguments(&[folder.path()], Output::Text), "");
        assert_eq!((ended, errors.as_str()), (Ended::Problems, ""), "{output}");
        let place = folder.path().display();
        assert_eq!(
            output,
            format!(
                "{place}/b/policy.yaml:3:18: WeedPolicy/default: metadata.name: there is another \
                 WeedPolicy of this name at {place}/a/deep/same.yml:3\n\
                 2 policies checked, 1 problem; 1 document of other kinds passed over\n"
            )
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.yaml");
        let latin = folder.path().join("latin.txt");
        fs::write(&latin, b"kind: \xe9").unwrap();
        let args = arguments(
            &[&missing, &latin, folder.path(), Path::new("-")],
            Output::Text,
        );
        let (ended, output, errors) = outcome(&args, GOOD);
        assert_eq!(ended, Ended::Unread);
        assert!(output.starts_with("1 policy checked"), "{output}");
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 3, "{errors}");
        assert!(lines[0].contains("missing.yaml"), "{errors}");
        assert!(
            lines[1].contains("latin.txt") && lines[1].contains("UTF-8"),
            "{errors}"
        );
        assert!(lines[2].contains("no *.yaml"), "{errors}");
    }
}
