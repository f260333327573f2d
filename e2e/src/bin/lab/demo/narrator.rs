//! What the demo prints, and how it looks.

use anyhow::{Context as _, Result};
use dependency_watchdog_e2e::Kubectl;
use jiff::Timestamp;
use std::{
    ffi::OsStr,
    io::{IsTerminal as _, Stdout, Write, stdout},
};

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Tells a story in numbered steps, each with a clock of its own.
pub(crate) struct Narrator<W> {
    out: W,
    colour: bool,
    step: usize,
    started: Timestamp,
    /// Whether a block was printed last, from which a line keeps its distance.
    after_block: bool,
}

/// A cluster's kubectl, and what its prompt calls the cluster.
pub(crate) struct Prompt {
    pub(crate) cluster: &'static str,
    pub(crate) kubectl: Kubectl,
}

impl Narrator<Stdout> {
    /// Prints to the standard output, in colour if that is a terminal and `NO_COLOR` is not set.
    pub(crate) fn on_stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR");
        let colour = in_colour(stdout().is_terminal(), no_color.as_deref());
        Self::new(stdout(), colour)
    }
}

/// As <https://no-color.org> has it: an empty variable does not count.
fn in_colour(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

impl<W: Write> Narrator<W> {
    fn new(out: W, colour: bool) -> Self {
        Self {
            out,
            colour,
            step: 0,
            started: Timestamp::now(),
            after_block: false,
        }
    }

    /// Begins a step, whose clock starts now.
    pub(crate) fn step(&mut self, title: &str) -> Result<()> {
        self.step += 1;
        self.started = Timestamp::now();
        let heading = self.painted(BOLD, &format!("{}. {title}", self.step));
        self.block(&format!("{heading}\n"))
    }

    /// An explanation.
    pub(crate) fn note(&mut self, text: &str) -> Result<()> {
        self.block(&indented(text, 3))
    }

    /// Something that happened just now.
    pub(crate) fn now(&mut self, text: &str) -> Result<()> {
        self.at(Timestamp::now(), text)
    }

    /// Something that happened at that time.
    pub(crate) fn at(&mut self, time: Timestamp, text: &str) -> Result<()> {
        let seconds = time.duration_since(self.started).as_secs_f64();
        self.line(&format!("{seconds:7.1} s  {text}\n"))
    }

    /// The content of a file.
    pub(crate) fn file(&mut self, path: &str, content: &str) -> Result<()> {
        let path = self.painted(CYAN, path);
        self.block(&format!("   {path}\n{}", indented(content, 5)))
    }

    /// Runs kubectl with these arguments, shown as they are, and shows what it prints.
    pub(crate) async fn run(&mut self, prompt: &Prompt, command: &str) -> Result<()> {
        let args: Vec<&str> = command.split_whitespace().collect();
        let output = prompt.kubectl.run(&args).await?;
        self.ran(prompt, command, &output)
    }

    /// Shows what kubectl has printed with these arguments.
    pub(crate) fn ran(&mut self, prompt: &Prompt, command: &str, output: &str) -> Result<()> {
        let line = format!("{} $ kubectl {command}", prompt.cluster);
        let line = self.painted(CYAN, &line);
        self.block(&format!("   {line}\n"))?;
        self.print(&indented(output.trim_end(), 3))
    }

    /// A table of what was found out.
    pub(crate) fn table(&mut self, rows: &[(String, String)]) -> Result<()> {
        let width = rows.iter().map(|(what, _)| what.chars().count()).max();
        let width = width.unwrap_or_default();
        let done = self.painted(GREEN, "ok");
        let rows = rows
            .iter()
            .map(|(what, found)| format!("   {done}  {what:width$}  {found}\n"));
        self.block(&rows.collect::<String>())
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }

    fn block(&mut self, text: &str) -> Result<()> {
        self.after_block = true;
        self.print(&format!("\n{text}"))
    }

    fn line(&mut self, text: &str) -> Result<()> {
        let distance = if std::mem::take(&mut self.after_block) {
            "\n"
        } else {
            ""
        };
        self.print(&format!("{distance}{text}"))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .context("cannot write to the standard output")
    }
}

/// Each line that is not empty, moved to the right, and without spaces at its end.
fn indented(text: &str, by: usize) -> String {
    let mut moved = String::new();
    for line in text.lines().map(str::trim_end) {
        if !line.is_empty() {
            moved.extend(std::iter::repeat_n(' ', by));
            moved.push_str(line);
        }
        moved.push('\n');
    }
    moved
}
