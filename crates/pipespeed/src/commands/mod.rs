//! The subcommands, one thin file each.

pub mod article;
pub mod bench;
pub mod boost;
pub mod check;
mod child;
pub mod compare;
pub mod costs;
pub mod doctor;
mod ends;
mod files;
pub mod fizzbuzz;
pub mod latency;
mod load;
pub mod meta;
pub mod meter;
pub mod pages;
pub mod pinning;
pub mod profile;
mod progress;
pub mod read;
pub mod report;
pub mod top;
pub mod write;
pub mod yes;

use std::time::SystemTime;

use anyhow::{Context, anyhow};
use fastpipe::wait::Wait;
use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::geteuid;

use self::ends::Rules;
use crate::cli::{Cli, Command, EndArgs};
use crate::step::arguments;
use pipespeed_base::failure::{Closed, Interrupted, full_message, require_memory, say, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::limits::check_descriptors;
use pipespeed_base::process::{ProcessHandle, require_own_proc};
use pipespeed_base::size;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, Warning, WarningKind, check_memory};
use pipespeed_measure::record::{Kind, RecordHeader};
use pipespeed_measure::rounds::why_nothing_measured;
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_measure::spec::{Case, PageKind, Waiting};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_pipeline::boost::open_process;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::proc::pipe_probe::{self, PipeProbe};
use pipespeed_pipeline::supervise::{Supervisor, Unanswered};

/// Runs the subcommand of the command line.
///
/// # Errors
/// The failure of the subcommand, which is printed in one line.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Bench(args) => bench::run(args),
        Command::Profile(args) => profile::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Costs(args) if args.pinning.pinning => pinning::run(&args),
        Command::Costs(args) => costs::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(&args),
        Command::Pages(args) => pages::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Boost(args) => boost::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Meter(args) => meter::run(*args),
        Command::Write(args) => {
            check_published(&args.end)?;
            write::run(&args, Rules::Subcommand)
        }
        Command::Read(args) => {
            check_published(&args.end)?;
            read::run(&args.end, args.data, Rules::Subcommand)
        }
        Command::Fizzbuzz(args) => fizzbuzz::run(&args),
        Command::Yes(args) => yes::run(&args),
        Command::Completions { shell } => meta::completions(shell),
        Command::Man { dir } => meta::man(dir.as_deref()),
    }
}

/// Checks that processes can be seen at all, by the numbers that they have here.
fn require_processes(proc: &Proc) -> anyhow::Result<()> {
    if proc.processes().is_empty() {
        let entries = std::fs::read_dir("/proc");
        // A seccomp filter may refuse getdents64(2).
        return Err(match entries.and_then(|mut all| all.next().transpose()) {
            Ok(_) => anyhow!("no process can be seen: is /proc mounted?"),
            Err(error) => anyhow!("no process can be seen: reading /proc: {error}"),
        });
    }
    require_own_proc()
}

/// Files that doctor and top have open at a time to look at a pipeline of a few stages, or at many in turn.
const MIN_DESCRIPTORS: usize = 24;

/// What looks at hundreds of pipelines, and the names of the kernel's functions, take of the address space and of
/// private memory, with some reserve: where memory is refused, a command that was started would be left alone.
const MIN_ADDRESS_SPACE: u64 = 128 << 20;
const MIN_PRIVATE: u64 = 32 << 20;

/// Checks that processes can be watched.
fn require_looks() -> anyhow::Result<()> {
    require_memory(MIN_ADDRESS_SPACE, MIN_PRIVATE)?;
    let takes = || format!("looks at pipelines take {MIN_DESCRIPTORS} file descriptors");
    check_descriptors(MIN_DESCRIPTORS).with_context(takes)?;
    require_processes(&Proc::default())
}

/// What may show more of a process: nothing if this is root already.
fn as_root() -> &'static str {
    if geteuid().is_root() {
        ""
    } else {
        "; try as root"
    }
}

/// Checks that a process exists and can be examined.
fn require_process(proc: &Proc, pid: i32) -> anyhow::Result<ProcessHandle> {
    require_looks()?;
    // /proc shows threads, too.
    let process = open_process(pid).map_err(|error| {
        match Errno::from_io_error(&error) {
            // A thread is no process.
            Some(Errno::SRCH | Errno::INVAL | Errno::NOENT) => {
                usage(format!("process {pid}: no such process"))
            }
            _ => error.into(),
        }
    })?;
    process.say_refusal();
    let shown = proc.stat(pid);
    let stat =
        shown.ok_or_else(|| anyhow!("process {pid}: /proc hides it (hidepid){}", as_root()))?;
    // Other threads may live on without the first one.
    if stat.state == 'Z' && proc.threads(pid).len() <= 1 {
        return Err(usage(format!(
            "process {pid} has ended, and its parent has not waited for it (a zombie): examine \
             process {}",
            stat.parent
        )));
    }
    if let Err(error) = proc.ends(pid) {
        // Without a number it names a sandbox, which binds root, too.
        let way_out = match error.raw_os_error() {
            Some(_) => as_root(),
            None => "",
        };
        return Err(anyhow!("process {pid}: {error}{way_out}"));
    }
    Ok(process)
}

/// Checks that a process is not left out because it does not answer.
fn require_answer(supervisor: &Supervisor, pid: i32) -> anyhow::Result<()> {
    match supervisor.silent().find(pid) {
        Some(process) => Err(anyhow!(
            "process {pid} ({}) does not answer: reading it in /proc blocks, as while execve(2) waits for a \
             dead file system",
            process.name
        )),
        None => Ok(()),
    }
}

/// Returns the error of a read without an answer.
fn unanswered(error: Unanswered) -> anyhow::Error {
    match error {
        Unanswered::Interrupted(signal) => Interrupted(signal).into(),
        error => anyhow!(error),
    }
}

/// Supervises threads that read processes, with this program as the helper process.
fn supervisor(interrupt: &Interrupt) -> Supervisor {
    Supervisor::new(interrupt.clone(), helper)
}

/// Asks this program as the helper process.
fn pipe_probe() -> PipeProbe {
    PipeProbe::new(helper)
}

/// This program as the helper process.
fn helper() -> std::process::Command {
    let mut command = std::process::Command::new(ProcessRunner::this_program());
    command.args([SUBCOMMAND, pipe_probe::ROLE]);
    command
}

/// Returns how a producer waits for room in the pipe. By default it spins before it
/// sleeps, since waking it takes longer than draining a pipe.
fn producer_wait(busy_loop: bool) -> Wait {
    if busy_loop {
        Wait::Spin
    } else {
        Wait::Adaptive
    }
}

/// Checks that the limit allows the size of --pipe-size.
fn pipe_size_allowed(bytes: usize) -> anyhow::Result<()> {
    let limit = fastpipe::pipe::Limits::read().max_size;
    if let Some(limit) = limit
        && bytes > limit
        && fastpipe::pipe::create()
            .map(|(_, end)| fastpipe::pipe::set_capacity(end, bytes).is_err())
            .unwrap_or(true)
    {
        return Err(usage(format!(
            "--pipe-size {}: the limit is {} (/proc/sys/fs/pipe-max-size)",
            size::format(bytes as u64),
            size::format(limit as u64)
        )));
    }
    Ok(())
}

/// Checks that a requested size leaves memory for other processes. `needed` is the memory of
/// all buffers of that size, those of the other end included.
fn memory_suffices(option: &str, bytes: usize, needed: u64) -> anyhow::Result<()> {
    check_memory(&Root::default(), needed).map_err(|error| {
        let bytes = size::format(bytes as u64);
        usage(format!("{option} {bytes}: {error}: choose a smaller size"))
    })
}

/// Checks that cases leave memory for other processes, if a size is requested by one of
/// these options.
fn cases_fit(cases: &[Case], requested: &[(&str, Option<usize>)]) -> anyhow::Result<()> {
    let given = requested
        .iter()
        .filter_map(|(option, bytes)| Some((option, (*bytes)?)));
    let needed = cases.iter().map(|case| case.subject.memory_bytes()).max();
    match given.max_by_key(|(_, bytes)| *bytes).zip(needed) {
        Some(((option, bytes), needed)) => memory_suffices(option, bytes, needed),
        None => Ok(()),
    }
}

/// Returns the header of a new record.
fn header(kind: Kind, machine: Machine) -> RecordHeader {
    RecordHeader::new(kind, command_line(), now(), machine)
}

/// The time in UTC, RFC 3339.
fn now() -> String {
    timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time; of a clock that is set beyond the year 9999, the last one that has a name.
fn timestamp() -> Timestamp {
    SystemTime::now().try_into().unwrap_or(Timestamp::MAX)
}

fn command_line() -> Vec<String> {
    arguments()
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned())
        .enumerate()
        // Without the program's directory, since records may be published.
        .map(|(at, word)| match (at, word.rsplit('/').next()) {
            (0, Some(name)) => name.to_owned(),
            _ => word,
        })
        .collect()
}

/// Returns the processors of --cpus, or those of the placement.
fn place(
    cpus: Option<(usize, usize)>,
    placement: Placement,
    topology: &Topology,
) -> anyhow::Result<Chosen> {
    let chosen = match cpus {
        Some((first, second)) => placement::pin_to(first, second, topology),
        None => placement::choose(placement, topology),
    };
    chosen.map_err(|error| usage(error.to_string()))
}

/// What the *interrupted* of a record says that is saved while its run goes on: should that end at once, as by
/// SIGKILL, the record does not look complete.
const UNFINISHED: &str = "unfinished";

/// Returns the signal that interrupted the run, if one did.
fn interrupted_by(outcome: &anyhow::Result<()>) -> Option<i32> {
    let interrupted: Option<&Interrupted> = outcome.as_ref().err()?.downcast_ref();
    interrupted.map(|interrupted| interrupted.0)
}

/// Returns the error of a run that measured nothing: that of `outcome`, or why trials are missing.
fn nothing_measured(outcome: anyhow::Result<()>, warnings: &[Warning]) -> anyhow::Error {
    match outcome {
        Err(error) if error.is::<Interrupted>() => error.context("nothing was measured"),
        Err(error) => error,
        Ok(()) => why_nothing_measured(warnings).unwrap_or_else(|| anyhow!("nothing was measured")),
    }
}

/// Returns the seed of --seed, or one from the clock: it only has to differ between
/// runs. It has few digits, so that it is easy to type.
fn seed(requested: Option<u64>) -> u64 {
    requested.unwrap_or(timestamp().as_microsecond().rem_euclid(1_000_000_000) as u64)
}

/// Returns the first of these errors and prints the others. That nobody reads the output any more is one only
/// if nothing else failed.
fn first_error(outcomes: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let errors = outcomes.into_iter().filter_map(Result::err);
    let (closed, errors): (Vec<_>, Vec<_>) = errors.partition(|error| error.is::<Closed>());
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else {
        return closed.into_iter().next().map_or(Ok(()), Err);
    };
    for error in errors {
        say(&format!("pipespeed: {}", full_message(&error)));
    }
    Err(first)
}

/// Replaces the value of --pipe-size by the size that the kernel grants, and warns
/// if they differ: a capacity is a power of two of pages (round_pipe_size() in
/// fs/pipe.c). Does nothing if the kernel refuses the size.
fn settle_pipe_size(requested: &mut Option<usize>) -> Option<Warning> {
    let bytes = (*requested)?;
    let (_, end) = fastpipe::pipe::create().ok()?;
    let granted = fastpipe::pipe::set_capacity(end, bytes).ok()?;
    *requested = Some(granted);
    rounding_warning(bytes, granted)
}

/// Returns a warning if the kernel rounded --pipe-size.
fn rounding_warning(requested: usize, granted: usize) -> Option<Warning> {
    (granted != requested).then(|| {
        let message = format!(
            "--pipe-size {}: the kernel rounds the size to {}, a power of two of pages",
            size::exact(requested as u64),
            size::format(granted as u64)
        );
        Warning::new(WarningKind::Configuration, message)
    })
}

/// Rejects a combination of options that the published programs silently accept.
fn check_published(end: &EndArgs) -> anyhow::Result<()> {
    if end.check_huge_page && !end.huge_page {
        return Err(usage("--check-huge-page requires --huge-page"));
    }
    Ok(())
}

impl EndArgs {
    /// Checks that the buffers of both ends leave memory for other processes. The other end is
    /// assumed to have buffers of the same size: a writer has at most two, a reader one.
    fn buffers_fit(&self) -> anyhow::Result<()> {
        let needed = (self.buf_size as u64).saturating_mul(3);
        memory_suffices("--buf-size", self.buf_size, needed)
    }

    fn waiting(&self) -> Waiting {
        match (self.poll, self.busy_loop) {
            (true, _) => Waiting::Poll,
            (false, true) => Waiting::Spin,
            (false, false) => Waiting::Block,
        }
    }

    fn pages(&self) -> PageKind {
        if self.huge_page {
            PageKind::Huge
        } else {
            PageKind::Base
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounding_warning_shows_the_exact_requested_size() {
        let warning = rounding_warning(100_000, 131_072).unwrap();
        assert!(
            warning.message.starts_with("--pipe-size 100000B: "),
            "{warning}"
        );
        assert!(warning.message.contains("128KiB"), "{warning}");
        assert_eq!(rounding_warning(131_072, 131_072), None);
    }
}
