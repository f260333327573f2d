//! Commands in documents: their own are understood, and those of kubectl name what there is.
//! What they do is seen by scenarios: each script in `sh` is in a document that
//! e2e/tests/scenarios/docs_commands.rs reads, which fails if it has not run all of them, or in
//! migration.md; or it is found by a word of it, or all its commands are quoted.

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _, error::ErrorKind};
use dependency_watchdog::{api::crds, cli::Cli};
use regex::Regex;

use super::{documents, root};

const OURS: &str = "dependency-watchdog";
const KUBECTL: &str = "kubectl";

/// Its scenario fails if it has not run all scripts.
const FOLLOWED: &str = "docs/migration.md";
/// Scenarios find its scripts by words of theirs.
const FOUND: &str = "docs/install.md";

/// What is not ours and is named: plural, what else it is called, and after a space its group.
const OTHERS: &str = "
clusterrolebindings,clusterrolebinding rbac.authorization.k8s.io
clusterroles,clusterrole rbac.authorization.k8s.io
clusters,cluster extensions.gardener.cloud
configmaps,configmap,cm
customresourcedefinitions,customresourcedefinition,crd,crds apiextensions.k8s.io
deployments,deployment,deploy apps
endpointslices,endpointslice discovery.k8s.io
events,event,ev
leases,lease coordination.k8s.io
managedresources,managedresource,mr resources.gardener.cloud
namespaces,namespace,ns
nodes,node,no
pods,pod,po
replicasets,replicaset,rs apps
rolebindings,rolebinding rbac.authorization.k8s.io
secrets,secret
serviceaccounts,serviceaccount,sa
services,service,svc
";

/// Flags of kubectl whose value is the next word.
const VALUED: [&str; 12] = [
    "--as",
    "--duration",
    "--field-selector",
    "--from-file",
    "--kubeconfig",
    "--type",
    "-f",
    "-k",
    "-l",
    "-n",
    "-o",
    "-p",
];

/// What stands before a command: of the shell, and of `kubectl exec`.
const BEFORE: [&str; 7] = ["!", "--", "do", "if", "then", "until", "while"];

/// A command of a document, in words.
struct Invocation {
    program: &'static str,
    words: Vec<String>,
    /// Files that the document has had written so far.
    written: Vec<String>,
}

/// The commands of a script, each as one line, without what here-documents hold.
fn lines(script: &str) -> Vec<String> {
    let script = script.replace("\\\n", " ");
    let mut lines = script.lines();
    let mut commands = Vec::new();
    while let Some(line) = lines.next() {
        let mut command = line.to_owned();
        // A quote may span lines.
        while shlex::split(&command).is_none() {
            command += lines
                .next()
                .unwrap_or_else(|| panic!("a quote is not closed: {command}"));
        }
        commands.push(command);
        if let Some((_, rest)) = line.split_once("<<") {
            let end = rest.split_whitespace().next().unwrap_or_default();
            let end = end.trim_matches(['\'', '"']);
            while lines.next().is_some_and(|line| line != end) {}
        }
    }
    commands
}

/// The calls of our program and of kubectl in a line of a script.
fn calls(line: &str, written: &mut Vec<String>) -> Vec<Invocation> {
    let words = shlex::split(line).unwrap_or_default();
    let mut found = Vec::new();
    for words in words.split(|word| ["|", "&&", "||", ";"].contains(&&**word)) {
        // Redirections are the last words.
        let end = words.iter().position(|word| word.starts_with(['>', '<']));
        let (words, redirected) = words.split_at(end.unwrap_or(words.len()));
        for program in [OURS, KUBECTL] {
            let called = |place: &usize| match words[*place].rsplit_once('(') {
                // VARIABLE=$(kubectl …), and eval (…) of another shell.
                Some((_, name)) => name == program,
                None => {
                    let first = *place == 0 || BEFORE.contains(&&*words[place - 1]);
                    words[*place] == program && first
                }
            };
            if let Some(place) = (0..words.len()).find(called) {
                let inside = words[place].contains('(');
                let mut words = words[place + 1..].to_vec();
                if let Some(last) = words.last_mut().filter(|_| inside) {
                    *last = last.trim_end_matches(')').to_owned();
                }
                found.push(Invocation {
                    program,
                    words,
                    written: written.clone(),
                });
            }
        }
        written.extend(
            redirected
                .iter()
                .map(|it| it.trim_start_matches('>').to_owned()),
        );
    }
    found
}

/// The scripts of a document: those in fences of this kind.
///
/// What is in `sh` is run by a scenario, as it stands. What is in `shell` is for the reader alone.
pub(crate) fn scripts(text: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}");
    let mut scripts = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == fence {
            let indent = line.len() - line.trim_start().len();
            let script = lines.by_ref().take_while(|it| it.trim() != "```");
            let script = script.map(|it| it.get(indent..).unwrap_or_default());
            scripts.push(script.collect::<Vec<_>>().join("\n"));
        }
    }
    scripts
}

/// The command line, whatever the environment says.
fn command() -> Command {
    Cli::command().mut_subcommands(|it| it.mut_args(|flag| flag.env(None::<&'static str>)))
}

fn understood(words: &[String], whole: bool) -> Result<(), String> {
    let words = [OURS.to_owned()].into_iter().chain(words.iter().cloned());
    match command().try_get_matches_from(words) {
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
    let (name, group) = name.split_once('.').unwrap_or((name, ""));
    let other = OTHERS.lines().any(|line| {
        let (names, of) = line.split_once(' ').unwrap_or((line, ""));
        names.split(',').any(|it| it == name) && (group.is_empty() || group == of)
    });
    other
        || crds().iter().any(|crd| {
            let (names, of) = (&crd.spec.names, &crd.spec.group);
            let short = names.short_names.iter().chain(&names.categories).flatten();
            let mut known = short.chain([&names.plural]).chain(&names.singular);
            known.any(|it| it == name) && (group.is_empty() || group == of)
        })
}

/// Of the words of kubectl: the values of flags for files, and what is no flag.
fn parts(words: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            // What runs in a container is no resource.
            "--" => break,
            "-f" | "-k" => files.extend(words.next()),
            flag if VALUED.contains(&flag) => _ = words.next(),
            flag if flag.starts_with('-') => (),
            other => others.push(other),
        }
    }
    (files, others)
}

/// Whether what was written to this name may be the file: a variable in it stands for anything.
fn is_written(file: &str, name: &str) -> bool {
    let Some((before, rest)) = name.split_once('$') else {
        return file == name;
    };
    let after = rest.trim_start_matches(|it: char| it.is_ascii_alphanumeric() || it == '_');
    file.starts_with(before) && file.ends_with(after)
}

/// Whether the words after `kubectl` name what there is.
fn named(words: &[String], written: &[String], whole: bool) -> Result<(), String> {
    let (files, words) = parts(words);
    let there = |file: &&str| {
        let known = *file == "-" || written.iter().any(|name| is_written(file, name));
        known || Path::new(file).is_relative() && root().join(file).exists()
    };
    if let Some(file) = files.iter().find(|file| !there(file)) {
        return Err(format!("there is no file {file}"));
    }
    let resources = match &words[..] {
        ["create", "token", ..] => "",
        ["create" | "delete" | "replace"] if !files.is_empty() => "",
        // By labels, or the name of a pod.
        ["logs"] => "",
        ["exec" | "logs" | "port-forward", pod, ..] if !pod.contains('/') => "",
        [_] if !whole => "",
        ["explain", field, ..] => field.split('.').next().unwrap_or_default(),
        ["rollout", _, resources, ..] | ["auth", "can-i", _, resources] => resources,
        [
            "annotate" | "create" | "delete" | "describe" | "exec" | "get" | "label" | "logs"
            | "patch" | "port-forward" | "scale" | "wait",
            resources,
            ..,
        ] => resources,
        // What else kubectl does is for the writer to know.
        _ => "",
    };
    let resources = resources.split(',').filter(|it| !it.is_empty());
    let mut kinds = resources.map(|it| it.split('/').next().unwrap_or_default());
    match kinds.find(|kind| !is_resource(kind)) {
        Some(kind) => Err(format!("there is no resource {kind}")),
        None => Ok(()),
    }
}

/// How many commands a line has, if nothing is amiss with any of them.
fn check(line: &str, whole: bool, written: &mut Vec<String>) -> Result<usize, String> {
    let calls = calls(line, written);
    for Invocation {
        program,
        words,
        written,
    } in &calls
    {
        match *program {
            OURS => understood(words, whole)?,
            // Our plugin.
            _ if words.len() > 1 && words[0] == "dwd" => understood(&words[1..], whole)?,
            _ => named(words, written, whole)?,
        }
    }
    Ok(calls.len())
}

#[test]
fn commands_in_scripts_name_what_there_is() {
    let placeholder = Regex::new("<[a-z][a-z ]*>").unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        for kind in ["sh", "shell"] {
            let mut written = Vec::new();
            let scripts = scripts(&text, kind);
            for line in scripts.iter().flat_map(|script| lines(script)) {
                let filled = placeholder.replace_all(&line, "filled");
                seen += check(&filled, true, &mut written)
                    .unwrap_or_else(|error| panic!("{}: {line}\n{error}", path.display()));
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// What the scenarios say, each string in one line.
fn scenarios() -> String {
    let mut folders = vec![root().join("e2e/tests/scenarios")];
    let mut sources = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => sources += &fs::read_to_string(path).unwrap(),
            }
        }
    }
    let continued = Regex::new("\\\\\n *").unwrap();
    continued.replace_all(&sources, "").into_owned()
}

/// Each script in `sh`, not only one of each document.
#[test]
fn scripts_are_run_by_scenarios() {
    let sources = scenarios();
    let words = sources.split("script(\"").skip(1);
    let words: Vec<&str> = words.filter_map(|it| Some(it.split_once('"')?.0)).collect();
    let read = fs::read_to_string(root().join("e2e/tests/scenarios/docs_commands.rs")).unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        let name = path.to_str().unwrap();
        let is_read = name == FOLLOWED || read.contains(&format!("\"{name}\""));
        let scripts = scripts(&text, "sh");
        for (index, script) in scripts.iter().enumerate() {
            let is_first =
                |word: &&str| scripts.iter().position(|it| it.contains(word)) == Some(index);
            let is_found = name == FOUND && words.iter().any(is_first);
            let is_quoted = |line: &String| {
                let words: Vec<&str> = line.split_whitespace().collect();
                sources.contains(&format!("\"{}\"", words.join(" ")))
            };
            let is_run = is_read || is_found || lines(script).iter().all(is_quoted);
            assert!(is_run, "no scenario runs this of {name}:\n{script}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn commands_in_sentences_name_what_there_is() {
    let command = Regex::new(&format!("`((?:{OURS}|{KUBECTL}) [^`]+)`")).unwrap();
    let placeholder = Regex::new("<[a-z][a-z ]*>|\\b[A-Z]{2,}\\b").unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        for command in command.captures_iter(&super::prose(&text)) {
            let line = command[1].replace('\n', " ");
            let filled = placeholder.replace_all(&line, "filled");
            seen += check(&filled, false, &mut Vec::new())
                .unwrap_or_else(|error| panic!("{}: {line}\n{error}", path.display()));
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn what_there_is_not_is_noticed() {
    for (line, expected) in [
        ("dependency-watchdog explian a", "unrecognized subcommand"),
        (
            "dependency-watchdog explain a --outptu json",
            "unexpected argument",
        ),
        ("dependency-watchdog check", "required"),
        ("X=$(dependency-watchdog crd x)", "unexpected argument"),
        (
            "kubectl get pods | dependency-watchdog convert -g -",
            "unexpected argument",
        ),
        ("kubectl get probepolicys", "no resource probepolicys"),
        ("kubectl get probepol,cx -o wide", "no resource cx"),
        (
            "kubectl get deployments.batch",
            "no resource deployments.batch",
        ),
        (
            "kubectl -n a annotate deploymint/b c=d",
            "no resource deploymint",
        ),
        (
            "kubectl apply -f docs/examples/probes.yaml",
            "no file docs/examples/probes.yaml",
        ),
        ("kubectl delete -k manifest", "no file manifest"),
        ("while ! kubectl get cx", "no resource cx"),
        (
            "kubectl exec deploy/a -- dependency-watchdog explain",
            "required",
        ),
        ("kubectl dwd tpo", "unrecognized subcommand"),
    ] {
        let error = check(line, true, &mut Vec::new()).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}
