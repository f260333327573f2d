//! Commands in documents: our own are understood, and those of kubectl name what there is. What they do is seen by
//! scenarios.

use clap::{CommandFactory as _, error::ErrorKind};
use dependency_watchdog::{api::crds, cli::Cli};
use regex::Regex;

use super::{documents, prose, root, scripts};

/// What is not ours and is named.
const OTHERS: &str = "clusterrolebindings clusterroles clusters cluster configmaps configmap crd crds deployments \
    deployment deploy endpointslices events event leases lease managedresources managedresource mr namespaces \
    namespace ns nodes node no pods pod po replicasets replicaset rs rolebindings secrets secret serviceaccounts \
    serviceaccount sa services service svc customresourcedefinitions";
/// Flags of kubectl whose value is the next word.
const VALUED: [&str; 10] = [
    "--as",
    "--duration",
    "--field-selector",
    "--from-file",
    "--type",
    "-f",
    "-k",
    "-l",
    "-n",
    "-o",
];
const VERBS: [&str; 10] = [
    "annotate", "delete", "describe", "exec", "explain", "get", "label", "patch", "scale", "wait",
];

/// Fails unless clap takes these words.
fn is_understood(words: &[String], whole: bool) -> Result<(), String> {
    let command = Cli::command();
    let command = command.mut_subcommands(|it| it.mut_args(|flag| flag.env(None::<&'static str>)));
    let program = ["dependency-watchdog".to_owned()];
    match command.try_get_matches_from(program.iter().chain(words)) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(()),
            // In a sentence a command may stand without what it is given.
            ErrorKind::MissingRequiredArgument if !whole => Ok(()),
            _ => Err(error.to_string()),
        },
    }
}

/// `deployments.apps`, `deploy`, `probepol`.
fn is_resource(name: &str) -> bool {
    let name = name.split(['.', '/']).next().unwrap_or_default();
    let ours = crds().into_iter().any(|crd| {
        let names = crd.spec.names;
        let short = names
            .short_names
            .into_iter()
            .chain(names.categories)
            .flatten();
        let mut known = short.chain([names.plural]).chain(names.singular);
        known.any(|it| it == name)
    });
    ours || OTHERS.split_whitespace().any(|it| it == name)
}

/// Fails unless the words after `kubectl` name files and resources that there are.
fn is_there(words: &[String]) -> Result<(), String> {
    let mut plain = Vec::new();
    let mut words = words
        .iter()
        .map(String::as_str)
        .take_while(|it| *it != "--");
    while let Some(word) = words.next() {
        match word {
            flag if VALUED.contains(&flag) => {
                let value = words.next().unwrap_or_default();
                let of_ours = ["-f", "-k"].contains(&flag) && value.contains('/');
                if of_ours && !value.starts_with(['/', '$', 'h']) && !root().join(value).exists() {
                    return Err(format!("there is no file {value}"));
                }
            }
            flag if flag.starts_with('-') => {}
            other => plain.push(other),
        }
    }
    match plain[..] {
        // The name of a pod.
        ["exec", pod, ..] if !pod.contains('/') => Ok(()),
        [verb, resources, ..] if VERBS.contains(&verb) => {
            match resources.split(',').find(|it| !is_resource(it)) {
                Some(kind) => Err(format!("there is no resource {kind}")),
                None => Ok(()),
            }
        }
        // What else kubectl does is for the writer to know.
        _ => Ok(()),
    }
}

/// How many commands a line has, if nothing is amiss with any of them.
fn check(line: &str, whole: bool) -> Result<usize, String> {
    let call =
        Regex::new(r"(?:^|[|;&(] *|! |-- )(dependency-watchdog|kubectl dwd|kubectl) ([^|;&<>)]*)")
            .unwrap();
    let mut seen = 0;
    for call in call.captures_iter(line) {
        // A quote that goes on in the next line is no words.
        let Some(words) = shlex::split(&call[2]) else {
            continue;
        };
        match &call[1] {
            "kubectl" => is_there(&words)?,
            _ => is_understood(&words, whole)?,
        }
        seen += 1;
    }
    Ok(seen)
}

#[test]
fn commands_name_what_there_is() {
    let placeholder = Regex::new(r"<[a-z][a-z ]*>|\b[A-Z]{2,}\b").unwrap();
    let quoted = Regex::new("`((?:dependency-watchdog|kubectl) [^`]+)`").unwrap();
    let (mut in_scripts, mut in_sentences) = (0, 0);
    for (path, text) in documents() {
        let check = |line: &str, whole| {
            check(&placeholder.replace_all(line, "filled"), whole)
                .unwrap_or_else(|error| panic!("{}: {line}\n{error}", path.display()))
        };
        for script in ["sh", "shell"].iter().flat_map(|kind| scripts(&text, kind)) {
            let script = script.replace("\\\n", " ");
            in_scripts += script.lines().map(|line| check(line, true)).sum::<usize>();
        }
        for command in quoted.captures_iter(&prose(&text)) {
            in_sentences += check(&command[1].replace('\n', " "), false);
        }
    }
    assert!(
        in_scripts > 60 && in_sentences > 20,
        "{in_scripts}, {in_sentences}"
    );
}

#[test]
fn what_there_is_not_is_noticed() {
    for (line, expected) in [
        ("dependency-watchdog explian a", "unrecognized subcommand"),
        ("X=$(dependency-watchdog crd x)", "unexpected argument"),
        ("kubectl get pods | dependency-watchdog check", "required"),
        ("kubectl dwd tpo", "unrecognized subcommand"),
        ("kubectl get probepol,cx -o wide", "no resource cx"),
        (
            "kubectl -n a annotate deploymint/b c=d",
            "no resource deploymint/b",
        ),
        (
            "kubectl apply -f docs/examples/probes.yaml",
            "no file docs/examples/probes.yaml",
        ),
    ] {
        let error = check(line, true).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}
