//! Child processes, each with a log file, none left behind.
//!
//! A child ends with its [`Process`], with [`kill_all`], and on Linux also when this process dies
//! without a chance to clean up: `setpriv --pdeathsig` asks the kernel for it.

use crate::wait::{self, seen};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

/// The lines of its log that an error about a process shows.
const TAIL_LINES: usize = 15;

/// A program that runs as a child, and may be stopped and started again.
#[derive(Debug)]
pub struct Process {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    last_exit: Option<ExitStatus>,
}

/// The children that were started and not yet reaped. A child is reaped only under this lock, so
/// a number in here is never that of a stranger.
struct Living {
    pids: BTreeSet<i32>,
    closed: bool,
}

static LIVING: Mutex<Living> = Mutex::new(Living {
    pids: BTreeSet::new(),
    closed: false,
});

/// Kills every child there is and lets no other start: the last thing a run does. Once it returns
/// none of them writes a file any more.
pub fn kill_all() {
    let mut living = lock(&LIVING);
    living.closed = true;
    let pids = || living.pids.iter().copied().filter_map(Pid::from_raw);
    // The only failure is a child that is gone already.
    for pid in pids() {
        let _ = kill_process(pid, Signal::KILL);
    }
    for pid in pids() {
        // It is left to be reaped by its [`Process`].
        let _ = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
    }
}

impl Process {
    /// A program not yet started; output of every start is appended to `{directory}/{name}.log`.
    pub fn new(name: &str, path: impl Into<PathBuf>, directory: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: directory.join(format!("{name}.log")),
            state: Mutex::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable on top of those of this process.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Starts it. Fails when it runs already.
    pub fn start(&self) -> Result<()> {
        ensure!(!self.is_running(), "{} runs already", self.name);
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log);
        let log = log.with_context(|| format!("cannot open the log {}", self.log.display()))?;
        let mut command = dying_with_us(&self.path);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for this process, which then ends its children itself.
            .process_group(0);
        let mut living = lock(&LIVING);
        ensure!(
            !living.closed,
            "{} not started: everything is being torn down",
            self.name
        );
        let child = spawn_on_lasting_thread(command)
            .with_context(|| format!("cannot start {} from {}", self.name, self.path.display()))?;
        living.pids.insert(raw_pid(&child));
        *lock(&self.state) = State {
            child: Some(child),
            last_exit: None,
        };
        Ok(())
    }

    /// Ends it at once, as a crash would, and reaps it. Does nothing when it does not run.
    pub fn kill(&self) {
        let mut living = lock(&LIVING);
        let mut state = lock(&self.state);
        if let Some(mut child) = state.child.take() {
            // It fails only for a child that is gone; waiting for a killed one takes no time.
            let _ = child.kill();
            state.last_exit = child.wait().ok();
            living.pids.remove(&raw_pid(&child));
        }
    }

    /// Asks it to end (SIGTERM) and waits.
    pub async fn terminate(&self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ends(limit).await
    }

    /// Waits for its end.
    pub async fn ends(&self, limit: Duration) -> Result<ExitStatus> {
        wait::until_within(limit, &format!("the end of {}", self.name), async || {
            seen(!self.is_running(), "it still runs")
        })
        .await?;
        self.last_exit()
            .with_context(|| format!("{} never ran", self.name))
    }

    /// Freezes it (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen one go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends a signal to it. Fails when it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(
            self.is_running(),
            "{} does not run: no signal sent to it",
            self.name
        );
        // A child found under this lock is not reaped, so its number is no stranger's.
        let state = lock(&self.state);
        let child = state
            .child
            .as_ref()
            .with_context(|| format!("{} was killed", self.name))?;
        kill_process(Pid::from_child(child), signal)
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Whether it runs; a frozen one does.
    pub fn is_running(&self) -> bool {
        let mut living = lock(&LIVING);
        let mut state = lock(&self.state);
        let Some(child) = state.child.as_mut() else {
            return false;
        };
        let pid = raw_pid(child);
        match child.try_wait() {
            Ok(None) => true,
            ended => {
                living.pids.remove(&pid);
                *state = State {
                    child: None,
                    last_exit: ended.ok().flatten(),
                };
                false
            }
        }
    }

    /// How it ended the last time.
    pub fn last_exit(&self) -> Option<ExitStatus> {
        lock(&self.state).last_exit
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.state).child.as_ref().map(Child::id)
    }

    /// All it ever printed.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    /// Fails with the end of its log when it does not run: the reason why nobody answers.
    pub fn ensure_running(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let (_, tail) = lines.split_at(lines.len().saturating_sub(TAIL_LINES));
        let exit = self.last_exit();
        bail!(
            "{} has ended ({}); the end of {}:\n{}",
            self.name,
            exit.map_or("how is not known".to_owned(), |exit| exit.to_string()),
            self.log.display(),
            tail.join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raw_pid(child: &Child) -> i32 {
    Pid::from_child(child).as_raw_nonzero().get()
}

/// The command, run through setpriv where there is one.
fn dying_with_us(program: &Path) -> Command {
    static SETPRIV: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|dir| dir.join("setpriv"))
            .find(|file| file.is_file())
    });
    let Some(setpriv) = SETPRIV.as_deref() else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The parent of whose death the kernel tells is the *thread* that forked. Scenarios run on
/// threads that come and go, so one thread that lasts starts every child.
fn spawn_on_lasting_thread(command: Command) -> std::io::Result<Child> {
    type Job = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
        let (jobs, inbox) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        jobs
    });
    let (reply, answer) = mpsc::channel();
    let gone = |_| std::io::Error::other("the thread that starts children is gone");
    SPAWNER.send((command, reply)).map_err(|_| gone(()))?;
    answer.recv().map_err(|_| gone(()))?
}
