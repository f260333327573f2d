//! The name by which the program is called: its own, or that of a plugin of kubectl.

use std::{ffi::OsStr, path::Path};

use clap::{Command, CommandFactory as _};

use super::Cli;

/// What an administrator does not start by hand, or what kubectl does in its own way.
const NOT_FOR_PLUGINS: [&str; 3] = ["prober", "weeder", "completions"];

/// How the program was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Program {
    /// By its own name, or any other.
    #[default]
    Own,
    /// As `kubectl dwd`: kubectl runs `kubectl-dwd`.
    Plugin,
    /// As `kubectl_complete-dwd`, which kubectl runs to complete the words after `kubectl dwd`.
    Completion,
}

impl Program {
    /// By the first argument of the process, a path.
    pub(super) fn called(path: Option<&OsStr>) -> Self {
        let file = path.and_then(|path| Path::new(path).file_stem());
        match file.and_then(OsStr::to_str) {
            Some("kubectl-dwd") => Self::Plugin,
            Some("kubectl_complete-dwd") => Self::Completion,
            _ => Self::Own,
        }
    }

    /// What a user types to call it.
    pub(super) fn typed(self) -> &'static str {
        match self {
            Self::Own => "dependency-watchdog",
            Self::Plugin | Self::Completion => "kubectl dwd",
        }
    }

    /// The command line, as its help shows it.
    pub(super) fn command(self) -> Command {
        let command = Cli::command();
        match self {
            Self::Own => command,
            Self::Plugin | Self::Completion => NOT_FOR_PLUGINS.into_iter().fold(
                command.name("kubectl-dwd").bin_name(self.typed()),
                |command, name| command.mut_subcommand(name, |it| it.hide(true)),
            ),
        }
    }

    /// A script of commands to paste, in which the program has its own name, as it was called.
    pub(super) fn rename(self, script: &str) -> String {
        let own = format!("{} ", Self::Own.typed());
        let lines = script
            .split('\n')
            .map(|line| match line.strip_prefix(&own) {
                Some(rest) => format!("{} {rest}", self.typed()),
                None => line.to_owned(),
            });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn printed(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let program = Program::called(args.first().map(OsString::as_os_str));
        let error = program.command().try_get_matches_from(args).unwrap_err();
        error.to_string()
    }

    #[test]
    fn the_name_of_the_file_decides() {
        for (path, expected) in [
            (Some("/usr/local/bin/dependency-watchdog"), Program::Own),
            (Some("/home/a/.krew/bin/kubectl-dwd"), Program::Plugin),
            (Some("kubectl-dwd.exe"), Program::Plugin),
            (Some("./kubectl_complete-dwd"), Program::Completion),
            (Some("/opt/kubectl-dwd/dwd"), Program::Own),
            (Some(""), Program::Own),
            (None, Program::Own),
        ] {
            assert_eq!(Program::called(path.map(OsStr::new)), expected, "{path:?}");
        }
    }

    #[test]
    fn help_names_what_was_typed() {
        let own = printed(&["/bin/dependency-watchdog", "--help"]);
        assert!(
            own.contains("Usage: dependency-watchdog <COMMAND>"),
            "{own}"
        );
        assert!(own.contains("\n  prober "), "{own}");
        let plugin = printed(&["/bin/kubectl-dwd", "--help"]);
        assert!(plugin.contains("Usage: kubectl dwd <COMMAND>"), "{plugin}");
        for command in ["explain", "restore", "check", "convert"] {
            assert!(
                plugin.contains(&format!("\n  {command} ")),
                "{command}: {plugin}"
            );
        }
        for hidden in NOT_FOR_PLUGINS {
            assert!(
                !plugin.contains(&format!("\n  {hidden} ")),
                "{hidden}: {plugin}"
            );
        }
        let wrong = printed(&["kubectl-dwd", "explain"]);
        assert!(wrong.contains("Usage: kubectl dwd explain "), "{wrong}");
    }

    #[test]
    fn commands_to_paste_begin_as_it_was_called() {
        let script = "dependency-watchdog restore a\nkubectl get lease dependency-watchdog x";
        assert_eq!(Program::Own.rename(script), script);
        assert_eq!(
            Program::Plugin.rename(script),
            "kubectl dwd restore a\nkubectl get lease dependency-watchdog x"
        );
    }
}
