//! `completions`: writes what a shell needs to complete this command line.

use std::io::{self, Write};

use clap::{Args, CommandFactory as _};
use clap_complete::{Generator as _, Shell};

use super::Cli;

/// For whom the script is.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell that is to read it
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes the script to `output`.
///
/// # Errors
///
/// When the output takes no more.
pub fn run(args: &CompletionsArgs, output: &mut impl Write) -> io::Result<()> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // The scripts call the program by this.
    command.set_bin_name(name);
    command.build();
    args.shell.try_generate(&command, output)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::process::{Command, Stdio};

    fn script(shell: Shell) -> String {
        let mut output = Vec::new();
        run(&CompletionsArgs { shell }, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    /// Whether the text has the word, alone.
    fn has(text: &str, word: &str) -> bool {
        let inside = |it: char| it.is_alphanumeric() || ['-', '_'].contains(&it);
        text.split(|it: char| !inside(it)).any(|it| it == word)
    }

    #[test]
    fn each_script_completes_each_command_and_its_flags() {
        let command = Cli::command();
        for shell in Shell::value_variants() {
            let script = script(*shell);
            assert!(has(&script, "dependency-watchdog"), "{shell}");
            for subcommand in command.get_subcommands() {
                let name = subcommand.get_name();
                assert!(has(&script, name), "{shell}: {name}");
                let flags = subcommand.get_arguments().filter(|it| !it.is_hide_set());
                for flag in flags.filter_map(|it| it.get_long()) {
                    // fish has the name alone, after `-l`.
                    let there = has(&script, flag) || has(&script, &format!("--{flag}"));
                    assert!(there, "{shell}: {name} --{flag}");
                }
            }
        }
    }

    #[test]
    fn bash_completes_by_its_script() {
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // What is offered after `dependency-watchdog completions `, by the function that the script
        // has registered.
        let asked = "
            [[ $(complete -p dependency-watchdog) =~ -F' '([^' ']+) ]] || exit
            COMP_WORDS=(dependency-watchdog completions '') COMP_CWORD=2
            ${BASH_REMATCH[1]} dependency-watchdog '' completions
            echo \"${COMPREPLY[*]}\"
        ";
        let text = script(Shell::Bash) + asked;
        let mut stdin = bash.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        let output = bash.wait_with_output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{offered}");
        for shell in Shell::value_variants() {
            assert!(has(&offered, &shell.to_string()), "{shell}: {offered}");
        }
    }
}
