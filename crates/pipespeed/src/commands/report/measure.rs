//! Measures what a page shows: one command after another, each in a process of its own.
//!
//! A process of its own, since `costs` times its own system calls, and since each record then
//! names the command that makes another one like it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, kill_process};

use super::recorded::{CHECK, FURTHER, PROFILE, RecordState, RecordedCommand, STEPS};
use crate::cli::ReportArgs;
use crate::commands::child::{Started, spawn};
use crate::commands::files::{DIRECTORY, new_name};
use crate::commands::load;
use crate::destination::{Destination, check_directory, create_unused, numbered};
use crate::step;
use pipespeed_base::failure::{full_message, say, start_error, usage};
use pipespeed_base::interrupt::{Interrupt, continue_stopped};
use pipespeed_explain::profile::perf::Sampling;
use pipespeed_host::placement::{self, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Busy, Root};
use pipespeed_measure::trial::ProcessRunner;

/// Directories of reports begin with this.
const PREFIX: &str = "report-";
/// A file beside the records that names the command that is running, and those that were interrupted or
/// failed, a line each: their records may have fewer rounds than planned.
const UNFINISHED: &str = "unfinished";

/// A command gets this long to end by the signal that a terminal sends to all processes.
const GRACE: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// The records of a report.
pub(super) struct MeasuredRecords {
    /// The directory of the report.
    pub directory: PathBuf,
    /// The records in it, also of an interrupted command.
    pub records: Vec<PathBuf>,
    /// The interruption, or which commands failed, if any.
    pub outcome: anyhow::Result<()>,
}

/// Measures what the directory of the report lacks.
///
/// # Errors
/// Wrong usage, or the directory can't be written.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<MeasuredRecords> {
    let directory = match &args.resume {
        None => new_directory()?,
        Some(Some(given)) if given.is_dir() => given.clone(),
        Some(Some(given)) => {
            let given = given.display();
            return Err(usage(format!("--resume: {given} is not a directory")));
        }
        Some(None) => newest_directory(args.quiet)?,
    };
    let mut steps = STEPS.to_vec();
    if args.full {
        steps.extend(FURTHER);
    }
    let report = ReportRun {
        directory,
        quiet: args.quiet,
    };
    if let Some(Some(given)) = &args.resume
        && !report.is_begun()
    {
        let given = given.display();
        return Err(usage(format!(
            "--resume: {given} holds no record of a report"
        )));
    }
    report.check_unfinished()?;
    if let Some(output) = &args.output {
        report.check_output(output)?;
    }
    // A file that can't be used must not be found out about after minutes.
    let done = report.done()?;
    let records: Vec<PathBuf> = done.iter().map(|step| report.record(*step)).collect();
    super::parse(&records, true)
        .map_err(|error| usage(format!("--resume: {}", full_message(&error))))?;
    steps.retain(|step| !done.iter().any(|done| done.name == step.name));
    if let Some(at) = steps.iter().position(|step| step.name == PROFILE)
        && let Err(refused) = Sampling::find()
    {
        steps.remove(at);
        report.say(&format!("there will be no profile: {refused}"));
    }
    let _lock = (!steps.is_empty()).then(|| report.lock()).transpose()?;
    let outcome = report.measure(&steps, args.full);
    Ok(MeasuredRecords {
        records: report.records(),
        directory: report.directory,
        outcome,
    })
}

/// Makes the directory of a new report, which no other report has.
fn new_directory() -> anyhow::Result<PathBuf> {
    let name = new_name(PREFIX.trim_end_matches('-'));
    let directory = Path::new(DIRECTORY);
    let made = fs::create_dir_all(directory).and_then(|()| {
        create_unused(|number| {
            let path = directory.join(numbered(&name, number));
            fs::create_dir(&path).map(|()| path)
        })
    });
    made.with_context(|| format!("cannot write {}", directory.join(name).display()))
}

/// The directory of the newest report, by its name.
fn newest_directory(quiet: bool) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_report = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let directory = path.clone();
        name.is_some_and(|name| name.starts_with(PREFIX))
            && ReportRun { directory, quiet }.is_begun()
    };
    let newest = paths.filter(is_report).max();
    newest.ok_or_else(|| usage(format!("--resume: there is no report in ./{DIRECTORY}")))
}

/// Whether both lead to the same file, which need not be there.
fn is_same_path(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let is_same_file = inode(one).is_some() && inode(one) == inode(other);
    let one = resolved(one);
    is_same_file || one.is_some() && one == resolved(other)
}

/// The path without links, of a file that need not be there.
fn resolved(path: &Path) -> Option<PathBuf> {
    /// As many links as the kernel follows (MAXSYMLINKS in include/linux/namei.h).
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path.parent()?.join(target);
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
    Some(directory.join(path.file_name()?))
}

/// What the record of a command is, if there is one. That of an unfinished one may be cut off.
///
/// # Errors
/// It is something else, which is not to be replaced.
fn own_record(
    step: RecordedCommand,
    path: &Path,
    is_unfinished: bool,
) -> anyhow::Result<Option<RecordState>> {
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(None);
    };
    let foreign = |is: &str| {
        let path = path.display();
        let words = step.words;
        usage(format!(
            "--resume: {path} is no {is} of 'pipespeed {words}': move it away"
        ))
    };
    ensure!(metadata.is_file(), foreign("file"));
    match step.state_of(path) {
        Ok(RecordState::Foreign) => Err(foreign("record")),
        Ok(state) => Ok(Some(state)),
        Err(error) if is_unfinished && error.problem.is_cut_off() => Ok(None),
        Err(error) => Err(usage(format!("--resume: {error}"))),
    }
}

/// A report being measured.
struct ReportRun {
    directory: PathBuf,
    quiet: bool,
}

impl ReportRun {
    fn record(&self, step: RecordedCommand) -> PathBuf {
        self.directory.join(format!("{}.json", step.name))
    }

    /// Where a command is measured again whose record is there, but not complete.
    fn second_record(&self, step: RecordedCommand) -> PathBuf {
        self.directory.join(format!("{}.again.json", step.name))
    }

    /// Checks that the page replaces nothing that belongs to the report.
    fn check_output(&self, output: &Path) -> anyhow::Result<()> {
        let steps = STEPS.iter().chain(&FURTHER);
        let own = steps.flat_map(|step| [self.record(*step), self.second_record(*step)]);
        let mut own = own.chain([self.unfinished_path()]);
        let is_own = own.any(|path| is_same_path(&path, output));
        let output = output.display();
        ensure!(
            !is_own,
            usage(format!(
                "--output: {output} is a file of the report that is measured"
            ))
        );
        Ok(())
    }

    /// Of two records of a command keeps one: the second if the command is finished, or if the first is none of it, else
    /// the larger one, which has more rounds.
    fn keep_one(&self, step: RecordedCommand, is_finished: bool) -> anyhow::Result<()> {
        let (first, second) = (self.record(step), self.second_record(step));
        let size = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if size(&second) == 0 {
            return Ok(());
        }
        let is_record =
            |path| matches!(step.state_of(path), Ok(state) if state != RecordState::Foreign);
        let is_longer = size(&second) >= size(&first) || !is_record(&first);
        let is_second = is_finished || is_record(&second) && is_longer || !first.exists();
        if is_second {
            // The first may be a link, which stays one.
            let bytes =
                fs::read(&second).with_context(|| format!("cannot read {}", second.display()))?;
            Destination::open(&first)?.save(&bytes)?;
        }
        fs::remove_file(&second).with_context(|| format!("cannot remove {}", second.display()))?;
        let (first, second) = (first.display(), second.display());
        self.say(&if is_second {
            format!("{second} is now {first}")
        } else {
            format!("{second} has fewer rounds than {first}, and was removed")
        });
        Ok(())
    }

    fn unfinished_path(&self) -> PathBuf {
        self.directory.join(UNFINISHED)
    }

    /// Checks that the file with the names of the commands that are not finished is that of a report: it is replaced.
    fn check_unfinished(&self) -> anyhow::Result<()> {
        let path = self.unfinished_path();
        let is_known = |name: &str| STEPS.iter().chain(&FURTHER).any(|step| step.name == name);
        // Reading a FIFO would wait.
        let is_file = fs::metadata(&path).map(|metadata| metadata.is_file());
        let is_list = || {
            let text = fs::read_to_string(&path);
            text.is_ok_and(|text| text.lines().all(is_known))
        };
        match is_file {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Ok(true) if is_list() => Ok(()),
            _ => Err(usage(format!(
                "--resume: {} is no list of a report's commands: move it away",
                path.display()
            ))),
        }
    }

    /// The names of the commands that are not finished.
    fn unfinished(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(self.unfinished_path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Notes which commands are not finished.
    fn note_unfinished(&self, names: &BTreeSet<String>) -> anyhow::Result<()> {
        let path = self.unfinished_path();
        if names.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("cannot remove {}", path.display()))
                }
                _ => Ok(()),
            };
        }
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        Ok(Destination::open(&path)?.save(lines.as_bytes())?)
    }

    /// The records that are there.
    fn records(&self) -> Vec<PathBuf> {
        let all = STEPS.iter().chain(&FURTHER).map(|step| self.record(*step));
        all.filter(|path| path.exists()).collect()
    }

    /// Whether something was measured, or begun to be.
    fn is_begun(&self) -> bool {
        !self.records().is_empty() || self.unfinished_path().exists()
    }

    /// The commands whose records are there and complete.
    fn done(&self) -> anyhow::Result<Vec<RecordedCommand>> {
        let unfinished = self.unfinished();
        let mut done = Vec::new();
        for step in STEPS.iter().chain(&FURTHER) {
            let is_unfinished = unfinished.contains(step.name);
            let state = own_record(*step, &self.record(*step), is_unfinished)?;
            own_record(*step, &self.second_record(*step), true)?;
            if state == Some(RecordState::Complete) && !is_unfinished {
                done.push(*step);
            }
        }
        Ok(done)
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            say(&format!("pipespeed: {line}"));
        }
    }

    /// Runs these commands, one after another. The others are run although one failed.
    fn measure(&self, steps: &[RecordedCommand], full: bool) -> anyhow::Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        check_directory(&self.directory)
            .with_context(|| format!("cannot write {}", self.directory.display()))?;
        self.announce(steps, full);
        let interrupt = Interrupt::install()?;
        let mut was_busy = false;
        let mut unfinished = self.unfinished();
        let mut failed: Vec<&str> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            was_busy = self.say_load(was_busy);
            self.say(&format!(
                "{} of {}: pipespeed {}, about {} s",
                at + 1,
                steps.len(),
                step.words,
                step.seconds
            ));
            unfinished.insert(step.name.to_owned());
            self.note_unfinished(&unfinished)?;
            // One that was killed, too, left both.
            self.keep_one(*step, false)?;
            let record = if self.record(*step).exists() {
                self.second_record(*step)
            } else {
                self.record(*step)
            };
            let before = saved_at(&record);
            let status = self
                .start(*step, &record)
                .and_then(|started| wait(started, &interrupt))?;
            // With status 1 `check` says that a statement does not hold, which is a result.
            let says_no = step.name == CHECK && status.code() == Some(1);
            let is_finished = status.success() || says_no && saved_at(&record) != before;
            self.keep_one(*step, is_finished)?;
            if is_finished {
                unfinished.remove(step.name);
                self.note_unfinished(&unfinished)?;
            } else {
                interrupt.check()?;
                failed.push(step.name);
                let record = if self.record(*step).exists() {
                    "its record may be incomplete"
                } else {
                    "it has no record, so the page will lack it"
                };
                say(&format!(
                    "pipespeed: pipespeed {} failed ({status}): {record}",
                    step.words
                ));
            }
            interrupt.check()?;
        }
        let full = if full { " --full" } else { "" };
        ensure!(
            failed.is_empty(),
            "{} failed; `pipespeed report{full} --resume={}` measures that again",
            failed.join(", "),
            self.directory.display()
        );
        Ok(())
    }

    /// Keeps others from measuring into the directory as long as the lock lives.
    fn lock(&self) -> anyhow::Result<File> {
        let directory = File::open(&self.directory)
            .with_context(|| format!("cannot read {}", self.directory.display()))?;
        // Some network file systems have no locks.
        if flock(&directory, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(usage(format!(
                "--resume: another report measures into {} (it may be stopped: see jobs, fg)",
                self.directory.display()
            )));
        }
        Ok(directory)
    }

    /// Says whether others use the machine, if that has changed, and returns it. The records of
    /// the steps have it, too.
    fn say_load(&self, was_busy: bool) -> bool {
        if self.quiet {
            return false;
        }
        let chosen = placement::choose(Placement::default(), &Topology::read(&Root::default()));
        let cpus = chosen.map_or_else(|_| Vec::new(), |chosen| load::processors(&chosen));
        let busy = Busy::look(&cpus);
        match &busy {
            Some(busy) if !was_busy => say(&busy.announcement()),
            None if was_busy => say("note: the machine is no longer busy"),
            _ => {}
        }
        busy.is_some()
    }

    /// Says what is measured, and how long it takes.
    fn announce(&self, steps: &[RecordedCommand], full: bool) {
        let seconds: u32 = steps.iter().map(|step| step.seconds).sum();
        let duration = match seconds {
            ..=90 => format!("{seconds} seconds"),
            _ => format!("{} minutes", seconds.div_ceil(60)),
        };
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        let names = names.join(", ");
        let full = if full { " --full" } else { "" };
        let directory = self.directory.display();
        self.say(&format!(
            "measuring {names}: about {duration}. Results are saved in {directory} as they finish; after an \
             interruption, `pipespeed report{full} --resume={directory}` measures the rest.",
        ));
    }

    /// Starts a command. Its tables are not shown, but its progress is.
    fn start(&self, step: RecordedCommand, record: &Path) -> anyhow::Result<Started> {
        let program = ProcessRunner::this_program();
        let mut command = Command::new(&program);
        command
            .arg0("pipespeed")
            .args(step::prefix())
            .args(step.words.split(' '))
            .arg("--json")
            .arg(record);
        // `pages` prints nothing on standard error.
        if self.quiet && step.name != "pages" {
            command.arg("--quiet");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        spawn(&mut command).map_err(|error| start_error(step.name, &program, error))
    }
}

/// When a file was saved, if it is there.
fn saved_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Waits for the end of a command. Passes a signal on to it, unless it ends by itself.
fn wait(mut started: Started, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    let mut fds = [
        PollFd::new(&started.ending, PollFlags::IN),
        PollFd::new(interrupt, PollFlags::IN),
    ];
    // If that is refused, its end is waited for all the same.
    let _ = retry_on_intr(|| poll(&mut fds, None));
    if let Some(signal) = interrupt.signal() {
        // Ctrl-C has reached it already, and a second signal would end it unsaved.
        let ended = retry_on_intr(|| poll(&mut fds[..1], Some(&GRACE)));
        if ended == Ok(0) {
            // A real-time signal has no name.
            let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
            // It is not reaped yet, so its number is not reused.
            let _ = kill_process(Pid::from_child(&started.child), signal);
            continue_stopped(&started.child);
        }
    }
    Ok(started.child.wait()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_interrupted_again_does_not_replace_the_longer_part() {
        let directory = tempfile::tempdir().unwrap();
        let report = ReportRun {
            directory: directory.path().to_owned(),
            quiet: true,
        };
        let step = STEPS[0];
        let record = |notes: &str| {
            let header = r#""kind": "check", "schema_version": 3, "interrupted": "SIGINT""#;
            format!(r#"{{{header}, "notes": "{notes}"}}"#)
        };
        let keep = |first: &str, second: &str, is_finished| {
            fs::write(report.record(step), first).unwrap();
            fs::write(report.second_record(step), second).unwrap();
            report.keep_one(step, is_finished).unwrap();
            assert!(!report.second_record(step).exists());
            fs::read_to_string(report.record(step)).unwrap()
        };
        let (long, short) = (&*record("ten rounds"), &*record("two"));
        assert_eq!(keep(long, short, false), long);
        assert_eq!(keep(short, long, false), long);
        assert_eq!(keep(long, "all", true), "all");
        // A damaged one, and one of another command, are worth less than either.
        let damaged = &long[..long.len() - 2];
        let foreign = &long.replace("\"check\"", "\"latency\"");
        for other in [damaged, foreign] {
            assert_eq!(keep(other, short, false), short);
            assert_eq!(keep(short, other, false), short);
        }
        // Only the second one is left.
        fs::remove_file(report.record(step)).unwrap();
        fs::write(report.second_record(step), "all").unwrap();
        report.keep_one(step, false).unwrap();
        // Nothing was measured again.
        report.keep_one(step, false).unwrap();
        assert_eq!(fs::read_to_string(report.record(step)).unwrap(), "all");
    }
}
