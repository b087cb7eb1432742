//! One trial: spawn both ends, start them together, collect, reap.
//!
//! Each trial is a new pair of processes: where the kernel places their pages
//! differs from launch to launch, so the launch is what is repeated.

mod end;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use fastpipe::shared::SharedWords;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::case::{Case, Durations};
use crate::channel::{self, OpenError};
use crate::endpoint::control::{Control, Outcome, Report, Setup};
use crate::endpoint::counters::process_time;
use crate::endpoint::process::{Role, SHARED_WORDS, SUBCOMMAND};
use crate::endpoint::spec::EndSpec;
use crate::runner::{Runner, Timed, Trial, TrialError};
use pipespeed_base::failure::{out_of_descriptors, start_error};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::noise::NoiseProbe;

use self::end::End;

/// A trial that takes so much longer than it should has gone wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs trials in real processes.
#[derive(Debug)]
pub struct ProcessRunner {
    /// The program that knows the hidden subcommand: this one.
    program: PathBuf,
    writer_cpu: Option<usize>,
    reader_cpu: Option<usize>,
    durations: Durations,
    interrupt: Interrupt,
    noise: NoiseProbe,
}

impl ProcessRunner {
    /// Trials whose ends stay on the processors given and last as told.
    pub fn new(
        program: PathBuf,
        writer_cpu: Option<usize>,
        reader_cpu: Option<usize>,
        durations: Durations,
        interrupt: Interrupt,
    ) -> Self {
        ProcessRunner {
            program,
            writer_cpu,
            reader_cpu,
            durations,
            interrupt,
            noise: NoiseProbe::new(),
        }
    }

    /// The program of this very process, even if its file has been replaced.
    pub fn this_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }
}

impl Runner for ProcessRunner {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        self.run_watched(case, &mut |_, _| Ok(()))
    }
}

impl Timed for ProcessRunner {
    fn set_durations(&mut self, durations: Durations) {
        self.durations = durations;
    }
}

impl ProcessRunner {
    /// Runs one trial of the case. `attach` is shown each end's process once
    /// both are set up, and before either starts.
    ///
    /// # Errors
    /// [`TrialError`]; an error of `attach` is its `Failed`.
    pub fn run_watched(
        &mut self,
        case: &Case,
        attach: &mut dyn FnMut(Role, u32) -> anyhow::Result<()>,
    ) -> Result<Trial, TrialError> {
        if let Some(signal) = self.interrupt.signal() {
            return Err(TrialError::Interrupted(signal));
        }
        let (before, used_before) = (self.noise.take(), own_processor_time());
        let channel = channel::open(case).map_err(|error| match error {
            OpenError::NotRun(not_run) => not_run.into(),
            OpenError::Failed(error) => TrialError::Failed(error),
        })?;
        let margin_bytes = channel.granted.pipe_bytes.unwrap_or(0);
        let words = SharedWords::create(SHARED_WORDS).map_err(failed("shared memory"))?;
        let (writer_cpu, reader_cpu) = match case.cpus {
            Some((writer, reader)) => (Some(writer), Some(reader)),
            None => (self.writer_cpu, self.reader_cpu),
        };
        let writer_spec = case.writer_spec(writer_cpu, margin_bytes, self.durations);
        let reader_spec = case.reader_spec(reader_cpu, margin_bytes, self.durations);
        let mut writer = writer_spec
            .map(|spec| self.spawn(Role::Writer, channel.write_end, &spec, &words))
            .transpose()?;
        let mut reader = reader_spec
            .map(|spec| self.spawn(Role::Reader, channel.read_end, &spec, &words))
            .transpose()?;
        let mut ends = Ends {
            writer: writer.as_mut(),
            reader: reader.as_mut(),
            interrupt: &self.interrupt,
            deadline: Instant::now() + PATIENCE + case.longest(self.durations),
        };

        let mut setup = Setup::default();
        let mut waiting = ends.count();
        while waiting > 0 {
            match ends.next_report()? {
                (role, Report::Ready(ready)) => {
                    if role == Role::Writer {
                        setup = ready;
                    }
                    waiting -= 1;
                }
                (role, report) => return Err(ends.blame(role, report)),
            }
        }
        for end in ends.iter_mut() {
            attach(end.role, end.child.id()).map_err(|error| end.lost(error))?;
        }
        ends.each(|end| end.control.send_go())?;
        let mut outcomes: [Option<Outcome>; 2] = [None, None];
        let mut waiting = ends.count();
        while waiting > 0 {
            match ends.next_report()? {
                (role, Report::Done(outcome)) => {
                    outcomes[role as usize] = Some(*outcome);
                    waiting -= 1;
                }
                (role, report) => return Err(ends.blame(role, report)),
            }
        }
        ends.each(End::reap)?;
        let [writer, reader] = outcomes;
        let (after, used_after) = (self.noise.take(), own_processor_time());
        let own_cpu_s = used_after.saturating_sub(used_before).as_secs_f64();
        let cpus: Vec<usize> = [writer_cpu, reader_cpu].into_iter().flatten().collect();
        Ok(Trial {
            setup,
            granted: channel.granted,
            noise: after.since(&before, &cpus, own_cpu_s),
            writer,
            reader,
        })
    }
}

impl ProcessRunner {
    fn spawn(
        &self,
        role: Role,
        channel: Option<OwnedFd>,
        spec: &EndSpec,
        words: &SharedWords,
    ) -> Result<End, TrialError> {
        let (ours, theirs) = UnixStream::pair().map_err(failed("a control socket"))?;
        let control = Stdio::from(OwnedFd::from(theirs));
        let channel = channel.map_or_else(Stdio::null, Stdio::from);
        let (stdin, stdout) = match role {
            Role::Writer => (control, channel),
            Role::Reader => (channel, control),
        };
        let child = Command::new(&self.program)
            .args([SUBCOMMAND, role.name()])
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .map_err(|error| TrialError::Failed(start_error(role.name(), &self.program, error)))?;
        let mut end = End {
            role,
            child,
            control: Control::new(ours),
            reported: false,
            reaped: false,
        };
        match end.control.send_spec(spec, words.as_fd()) {
            Ok(()) => Ok(end),
            Err(error) => Err(end.gone(error)),
        }
    }
}

/// The ends that take part in a trial.
struct Ends<'a> {
    writer: Option<&'a mut End>,
    reader: Option<&'a mut End>,
    interrupt: &'a Interrupt,
    deadline: Instant,
}

impl Ends<'_> {
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut End> {
        [self.writer.as_deref_mut(), self.reader.as_deref_mut()]
            .into_iter()
            .flatten()
    }

    fn count(&self) -> usize {
        usize::from(self.writer.is_some()) + usize::from(self.reader.is_some())
    }

    fn each(&mut self, act: impl Fn(&mut End) -> io::Result<()>) -> Result<(), TrialError> {
        for end in self.iter_mut() {
            if let Err(error) = act(end) {
                return Err(end.gone(error));
            }
        }
        Ok(())
    }

    /// The error of a trial in which `role` reported something else than its
    /// outcome. An end that only found the other one gone is not to blame:
    /// what the other says of itself, or how it ended, is the error.
    fn blame(&mut self, role: Role, report: Report) -> TrialError {
        if matches!(report, Report::Left(_)) && self.iter_mut().any(|end| !end.reported) {
            self.deadline = self.deadline.min(Instant::now() + Duration::from_secs(1));
            loop {
                match self.report_in_time() {
                    // Said before it went.
                    Ok(Some((_, Report::Ready(_)))) => {}
                    // If it says nothing, the complaint is all there is.
                    Ok(None | Some((_, Report::Left(_) | Report::Done(_)))) => break,
                    Ok(Some((other, report))) => return unexpected(other, report),
                    Err(error) => return error,
                }
            }
        }
        unexpected(role, report)
    }

    /// The next message of any end that has not said its last.
    fn next_report(&mut self) -> Result<(Role, Report), TrialError> {
        if let Some(report) = self.report_in_time()? {
            return Ok(report);
        }
        let silent = self.iter_mut().filter(|end| !end.reported);
        let silent: Vec<&str> = silent.map(|end| end.role.name()).collect();
        Err(TrialError::Failed(anyhow!(
            "the trial hangs: no answer from the {}",
            silent.join(" and the ")
        )))
    }

    /// The same; none if nobody says anything before the deadline.
    fn report_in_time(&mut self) -> Result<Option<(Role, Report)>, TrialError> {
        loop {
            if let Some(signal) = self.interrupt.signal() {
                return Err(TrialError::Interrupted(signal));
            }
            let interrupt = self.interrupt.clone();
            let deadline = self.deadline;
            let mut open: Vec<&mut End> = self.iter_mut().filter(|end| !end.reported).collect();
            let mut fds: Vec<BorrowedFd<'_>> = open.iter().map(|end| end.control.as_fd()).collect();
            fds.push(interrupt.as_fd());
            let ready = readable(&fds, deadline).map_err(failed("poll"))?;
            match ready {
                None => return Ok(None),
                Some(at) if at == open.len() => {}
                Some(at) => {
                    let end = &mut *open[at];
                    return match end.control.receive::<Report>() {
                        Ok(report) => {
                            end.reported = !matches!(report, Report::Ready(_));
                            Ok(Some((end.role, report)))
                        }
                        Err(error) => Err(match interrupt.signal() {
                            // A terminal sends Ctrl-C to all of us.
                            Some(signal) => TrialError::Interrupted(signal),
                            None => end.gone(error),
                        }),
                    };
                }
            }
        }
    }
}

/// The index of the first descriptor with something to read, or `None` after
/// the deadline.
fn readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<Option<usize>> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Processor time of this process and of all children it has reaped.
pub fn own_processor_time() -> Duration {
    let children = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(time.num_microseconds() as u64)
    });
    process_time() + children
}

fn unexpected(role: Role, report: Report) -> TrialError {
    match report {
        Report::NotRun(not_run) => not_run.into(),
        Report::Failed(reason) | Report::Left(reason) => {
            TrialError::Failed(anyhow!("the {}: {reason}", role.name()))
        }
        Report::Ready(_) | Report::Done(_) => {
            TrialError::Failed(anyhow!("the {} spoke out of turn", role.name()))
        }
    }
}

fn failed<E: Into<anyhow::Error>>(what: &'static str) -> impl Fn(E) -> TrialError {
    move |error| {
        let error = error.into();
        let cause = error.downcast_ref::<io::Error>();
        TrialError::Failed(match cause.and_then(out_of_descriptors) {
            Some(hint) => anyhow!("{what}: {hint}"),
            None => error.context(what),
        })
    }
}
