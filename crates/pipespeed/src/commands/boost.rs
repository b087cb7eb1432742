//! `pipespeed boost`.

mod input;
mod output;
mod proof;
mod prove;
mod text;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, child_subreaper, getpid};

use crate::cli::BoostArgs;
use crate::commands::child::{Started, command_error, exit_as, is_over, spawn};
use crate::commands::{pipe_probe, require_process, require_processes};
use pipespeed_base::failure::{AlreadyReported, full_message, say, start_error, with_remedy};
use pipespeed_base::interrupt::{Interrupt, PassedOn};
use pipespeed_base::orphan::starts_namespace;
use pipespeed_base::output::print;
use pipespeed_base::process::{SHELL, is_any_ready};
use pipespeed_base::standard;
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_pipeline::boost::{self as sidecar, Account, Booster, PipeName, RaiseScope};
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::proc::pipe_probe::is_readable;

/// The sidecar of a command that has ended needs at most this long for its account.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a command with larger pipes, or raises those of a running process.
///
/// # Errors
/// The command can't be started or failed, the process does not exist, or a signal arrived.
pub fn run(args: &BoostArgs) -> anyhow::Result<()> {
    match (args.pid, args.proof.prove) {
        (Some(pid), _) => attend(args, pid),
        (None, Some(pairs)) => prove::run(args, pairs),
        // Without a sidecar there is nothing to report.
        (None, None) if args.report && require_processes(&Proc::default()).is_ok() => {
            run_and_report(args)
        }
        (None, None) => become_command(args),
    }
}

/// The shell for a command of one word. The login shell of a service's user runs nothing.
fn shell(args: &BoostArgs) -> OsString {
    let refuses = |shell: &OsString| {
        let names = [&b"/nologin"[..], b"/false"];
        shell.is_empty() || names.iter().any(|name| shell.as_bytes().ends_with(name))
    };
    let login = || std::env::var_os("SHELL").filter(|shell| !refuses(shell));
    let chosen = args.shell.clone().filter(|shell| !shell.is_empty());
    chosen.or_else(login).unwrap_or_else(|| SHELL.into())
}

/// The program and its arguments, which begin with its own name: one word is for the shell.
fn program(args: &BoostArgs) -> Vec<OsString> {
    match &args.command[..] {
        [line] => vec![shell(args), "-c".into(), line.clone()],
        words => words.to_vec(),
    }
}

/// Starts the sidecar and becomes the command.
fn become_command(args: &BoostArgs) -> anyhow::Result<()> {
    let words = program(args);
    let subject = RaiseScope {
        pid: getpid().as_raw_pid(),
        with_group: false,
        except: args.except.clone(),
    };
    let started = if let Err(error) = require_processes(&Proc::default()) {
        Err(error)
    } else if adopts_orphans() {
        // It would wait for the sidecar, which waits for its end.
        Err(anyhow!(
            "the sidecar would be a child of the command, which adopts orphans (process 1 or \
             PR_SET_CHILD_SUBREAPER); --report raises them"
        ))
    } else if starts_namespace() {
        // Once that ends, the command could start nothing.
        Err(anyhow!(
            "the sidecar would be process 1 of the PID namespace of the command's children (unshare --pid \
             without --fork)"
        ))
    } else {
        start_sidecar(subject, args.account.as_deref())
    };
    // A command that runs slowly is better than none.
    if let Err(error) = started {
        let reason = full_message(&error);
        say(&format!("pipespeed: pipes are not raised: {reason}"));
    }
    let error = standard::exec(&words[0], &words);
    let name = words[0].to_string_lossy();
    let option = if args.command.len() == 1 {
        " (the shell: --shell or $SHELL)"
    } else {
        ""
    };
    say(&format!("pipespeed: {name}{option}: {error}"));
    // As shells do.
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Err(AlreadyReported(if is_missing { 127 } else { 126 }).into())
}

/// Whether processes without a parent become children of this process.
fn adopts_orphans() -> bool {
    getpid() == Pid::INIT || child_subreaper().is_ok_and(|adopts| adopts.is_some())
}

fn start_sidecar(subject: RaiseScope, account: Option<&str>) -> anyhow::Result<()> {
    sidecar::start(subject, account)
        .map_err(|error| start_error("sidecar", &ProcessRunner::this_program(), error))
}

/// Runs the command as a child, and prints which pipes were raised.
fn run_and_report(args: &BoostArgs) -> anyhow::Result<()> {
    let mut receiver = AccountReceiver::new()?;
    // Before the command is started, which nobody would wait for if it failed.
    let signals = match PassedOn::block() {
        Ok(signals) => signals,
        Err(error) => {
            drop(receiver);
            say(&format!(
                "pipespeed: there will be no report: signals can't be passed on to the command: {}",
                with_remedy(&error)
            ));
            return become_command(args);
        }
    };
    let Started {
        mut child, ending, ..
    } = spawn(&mut boosted_command(args, &receiver, None)).map_err(|error| match error.kind() {
        // This program has nearly the same arguments as the command.
        io::ErrorKind::ArgumentListTooLong => {
            command_error(&program(args)[0].to_string_lossy(), error)
        }
        _ => start_error("command", &ProcessRunner::this_program(), error),
    })?;
    loop {
        let mut fds = [
            PollFd::new(&ending, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
        ];
        // Without it no signal is passed on, and the command's end is waited for below.
        let is_polled = is_any_ready(&mut fds, None);
        if is_polled.is_err() || !fds[0].revents().is_empty() {
            break;
        }
        // It is not reaped before the end of the loop.
        signals.pass_on(&child);
    }
    drop(signals);
    let status = child.wait().context("the command")?;
    match receiver.account() {
        Some(account) => {
            for line in text::describe_account(&account) {
                say(&format!("pipespeed: {line}"));
            }
        }
        None => {
            say("pipespeed: it is not known which pipes were raised: the sidecar reported nothing")
        }
    }
    exit_as(status)
}

/// This command for the same pipeline, with the account sent to `receiver`, and without the
/// pipes named `except`.
fn boosted_command(
    args: &BoostArgs,
    receiver: &AccountReceiver,
    except: Option<&PipeName>,
) -> Command {
    let mut command = Command::new(ProcessRunner::this_program());
    command.args(["boost", "--account", &receiver.path()]);
    if let Some(pipe) = except {
        command.args(["--except", &pipe.to_string()]);
    }
    if let Some(shell) = &args.shell {
        command.arg("--shell").arg(shell);
    }
    command.arg("--").args(&args.command);
    command
}

/// Raises the pipes of a running process.
fn attend(args: &BoostArgs, pid: i32) -> anyhow::Result<()> {
    let process = require_process(&Proc::default(), pid)?;
    let subject = RaiseScope {
        pid,
        with_group: true,
        except: None,
    };
    if args.follow {
        return start_sidecar(subject, None);
    }
    let interrupt = Interrupt::install().context("signal handlers")?;
    let mut booster = Booster::new(subject, pipe_probe());
    let mut pause = |within: Duration| {
        let has_ended = || process.ends_within(Duration::ZERO).unwrap_or(true);
        !is_over(&interrupt, None, Some(within)) && !has_ended()
    };
    let mut lines = text::describe_account(&booster.run_once(&mut pause));
    // The processor time.
    lines.pop();
    print(lines.join("\n") + "\n")?;
    Ok(interrupt.check()?)
}

/// Receives the account of a sidecar, which opens the other end of this pipe by its path in
/// /proc: an inherited descriptor would be the command's, too.
struct AccountReceiver {
    reader: BufReader<PipeReader>,
    writer: Option<PipeWriter>,
}

impl AccountReceiver {
    fn new() -> anyhow::Result<Self> {
        let (reader, writer) = io::pipe().context("pipe")?;
        Ok(AccountReceiver {
            reader: BufReader::new(reader),
            writer: Some(writer),
        })
    }

    fn path(&self) -> String {
        let fd = self.writer.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{fd}", std::process::id())
    }

    /// The sidecar's process id, once it is there. `None` if it can't be started.
    fn sidecar(&mut self) -> Option<i32> {
        self.line()?.trim().parse().ok()
    }

    /// The account, once the command has ended.
    fn account(&mut self) -> Option<Account> {
        // The sidecar now has the only write end, so reading ends when it does.
        self.writer = None;
        loop {
            let line = self.line()?;
            if line.starts_with('{') {
                return serde_json::from_str(&line).ok();
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let is_there = !self.reader.buffer().is_empty()
            || is_readable(&self.reader, ACCOUNT_TIMEOUT).is_ok_and(|is_there| is_there);
        let is_read = is_there && self.reader.read_line(&mut line).is_ok();
        (is_read && !line.is_empty()).then_some(line)
    }
}

/// The command without the sidecar.
fn plain_command(args: &BoostArgs) -> Command {
    let words = program(args);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
