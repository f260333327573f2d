//! Completion of the words after `kubectl dwd`, in the form that kubectl asks of its plugins: one
//! candidate per line, then a directive for the shell.

use clap::{Arg, Command, ValueHint};

/// Cobra's ShellCompDirectiveDefault: the shell may offer files.
const FILES: &str = ":0";
/// Cobra's ShellCompDirectiveNoFileComp.
const NO_FILES: &str = ":4";

/// What may stand in place of the last of these words.
pub(super) fn complete(command: &Command, words: &[String]) -> String {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    let mut at = command;
    for word in before {
        at = at.find_subcommand(word).unwrap_or(at);
    }
    let (flag, typed) = match last.split_once('=') {
        Some((flag, typed)) if flag.starts_with("--") => (Some(flag), typed),
        _ => (before.last().map(String::as_str), last),
    };
    let valued = flag.and_then(|flag| {
        let named = |arg: &&Arg| {
            let long = arg.get_long().is_some_and(|it| flag == format!("--{it}"));
            long || arg.get_short().is_some_and(|it| flag == format!("-{it}"))
        };
        let mut flags = at.get_arguments();
        flags.find(|arg| named(arg) && arg.get_action().takes_values())
    });
    let positional = || at.get_positionals().find(|it| !it.is_hide_set());
    let (candidates, files) = match valued {
        Some(arg) => of_argument(arg),
        None if last.starts_with('-') => (flags(at), false),
        None if at.has_subcommands() => (subcommands(at), false),
        None => positional().map_or_else(Default::default, of_argument),
    };
    let fitting = candidates.iter().filter(|it| it.starts_with(typed));
    let lines = fitting.map(|it| match (valued, last.split_once('=')) {
        (Some(_), Some((flag, _))) => format!("{flag}={it}\n"),
        _ => format!("{it}\n"),
    });
    lines.collect::<String>() + if files { FILES } else { NO_FILES } + "\n"
}

/// The values that an argument may have, and whether it names a file.
fn of_argument(arg: &Arg) -> (Vec<String>, bool) {
    let values = arg.get_possible_values();
    let values = values.iter().filter(|it| !it.is_hide_set());
    let hint = arg.get_value_hint();
    let files = matches!(
        hint,
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
    );
    (values.map(|it| it.get_name().to_owned()).collect(), files)
}

fn flags(command: &Command) -> Vec<String> {
    let flags = command.get_arguments().filter(|it| !it.is_hide_set());
    flags
        .filter_map(Arg::get_long)
        .map(|it| format!("--{it}"))
        .collect()
}

fn subcommands(command: &Command) -> Vec<String> {
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    commands.map(|it| it.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::program::Program;

    #[test]
    fn words_are_completed() {
        let mut command = Program::Completion.command();
        command.build();
        for (line, expected) in [
            ("ex", "explain\n:4\n"),
            ("pro", ":4\n"),
            ("explain ", ":4\n"),
            ("check -f ", ":0\n"),
            ("check --file=po", ":0\n"),
            ("restore --al", "--all\n:4\n"),
            ("nonsense --x", ":4\n"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(complete(&command, &words), expected, "{line}");
        }
        let all = complete(&command, &[]);
        for name in ["explain", "restore", "check", "convert"] {
            assert!(all.lines().any(|it| it == name), "{all}");
        }
        assert!(!all.contains("prober"), "{all}");
    }
}
