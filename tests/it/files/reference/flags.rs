//! docs/flags.md: what each command is given, by the definitions that `--help` shows.

use std::{collections::BTreeSet, fs, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use dependency_watchdog::cli::Cli;

use super::page::{self, Part, plain, row};

const FILE: &str = "docs/flags.md";
/// Two commands that have most of their flags in common.
const COMPONENTS: [&str; 2] = ["prober", "weeder"];
/// Which every command has.
const COMMON: [&str; 2] = ["help", "version"];

/// The command line, with what clap adds to it.
fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn subcommand(name: &str) -> Command {
    command().find_subcommand(name).unwrap().clone()
}

/// What is not hidden, of this command alone.
fn own(command: &Command) -> Vec<&Arg> {
    let arguments = command.get_arguments();
    let own = arguments.filter(|it| !it.is_hide_set() && !COMMON.contains(&it.get_id().as_str()));
    own.collect()
}

/// `-o`, `--output`; or `CLUSTER`.
fn name(argument: &Arg) -> String {
    let short = argument.get_short().map(|it| format!("`-{it}`"));
    let long = argument.get_long().map(|it| format!("`--{it}`"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    match (&names[..], argument.get_value_names()) {
        ([], Some([value])) => format!("`{value}`"),
        ([], other) => panic!("{other:?}"),
        (names, _) => names.join(", "),
    }
}

fn default(argument: &Arg) -> String {
    match (argument.get_action(), argument.get_default_values()) {
        (ArgAction::SetTrue, _) => "off".to_owned(),
        (_, [default]) => format!("`{}`", default.to_str().unwrap()),
        _ if argument.is_required_set() => "required".to_owned(),
        _ => String::new(),
    }
}

/// What `--help` says, and which values there are.
fn help(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.unwrap_or_else(|| panic!("nothing is said of {argument}"));
    let help = help.to_string().replace("\n\n", ". ");
    let values = argument.get_possible_values();
    let values = values.iter().filter(|it| !it.is_hide_set());
    let mut lines = vec![plain(&help)];
    // Of true and false there is nothing to tell.
    if !argument.get_action().takes_values() || default(argument) == "`false`" {
        return lines.remove(0);
    }
    lines.extend(values.map(|value| match value.get_help() {
        Some(help) => format!("`{}`: {}", value.get_name(), plain(&help.to_string())),
        None => format!("`{}`", value.get_name()),
    }));
    lines.join("<br>")
}

fn table<'a>(arguments: impl IntoIterator<Item = &'a Arg>) -> String {
    let rows = arguments.into_iter().map(|argument| {
        let variable = argument.get_env().map(|it| it.to_str().unwrap());
        let variable = variable.map(|it| format!("`{it}`")).unwrap_or_default();
        row(&[
            &name(argument),
            &variable,
            &default(argument),
            &help(argument),
        ])
    });
    let head = "| flag | variable | default | |\n|---|---|---|---|\n".to_owned();
    [head].into_iter().chain(rows).collect()
}

/// How it is called, what it does, what it is given, and how it ends.
fn describe(command: &mut Command, flags: &str) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = plain(&command.get_about().unwrap().to_string());
    let after = command.get_after_help().map(ToString::to_string);
    let after: Vec<String> = after.unwrap_or_default().split("\n\n").map(plain).collect();
    let after = after.join("\n\n");
    format!("{about}.\n\n```text\n{usage}\n```\n\n{flags}\n{after}")
}

/// Two commands that have these flags, and each others.
fn components() -> Vec<Part> {
    let both = COMPONENTS.map(subcommand);
    let of = |index: usize| own(&both[index]);
    let known = |list: &[&Arg], argument: &Arg| list.contains(&argument);
    let shared = of(0).into_iter().filter(|it| known(&of(1), it));
    let mut parts = vec![Part {
        name: COMPONENTS.join(" and "),
        text: table(shared),
    }];
    for (index, name) in COMPONENTS.into_iter().enumerate() {
        let alone: Vec<&Arg> = of(index)
            .into_iter()
            .filter(|it| !known(&of(1 - index), it))
            .collect();
        let flags = match &alone[..] {
            [] => "It has the flags above, and no others.".to_owned(),
            alone => table(alone.iter().copied()),
        };
        parts.push(Part {
            name: name.to_owned(),
            text: describe(&mut both[index].clone(), &flags),
        });
    }
    parts
}

#[test]
fn every_flag_is_described() {
    let command = command();
    let commands = command.get_subcommands().map(Command::get_name);
    let others = commands.filter(|name| !COMPONENTS.contains(name) && *name != "help");
    let others = others.map(|name| {
        let mut command = subcommand(name);
        let table = table(own(&command));
        Part {
            name: name.to_owned(),
            text: describe(&mut command, &table),
        }
    });
    let common = command.get_arguments();
    let common = common.filter(|it| COMMON.contains(&it.get_id().as_str()));
    let mut parts = vec![Part {
        name: "every command".to_owned(),
        text: table(common),
    }];
    parts.extend(components());
    parts.extend(others);
    page::has(FILE, &parts);
}

/// Those that are taken from what was deployed before are not in the tables.
#[test]
fn every_hidden_flag_is_mentioned() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap();
    let commands = command();
    let arguments = commands.get_subcommands().flat_map(Command::get_arguments);
    let hidden = arguments.filter(|it| it.is_hide_set());
    let hidden: BTreeSet<String> = hidden.map(name).collect();
    assert!(!hidden.is_empty());
    for flag in hidden {
        assert!(page.contains(&flag), "{FILE} does not mention {flag}");
    }
}
