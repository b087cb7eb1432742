//! Both processes of a trial: what they say, and whether they hang.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fastpipe::shared::SharedWords;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::deadlock::{Detector, Look};
use super::port::WRITING;
use super::process::Role;
use super::spec::{Mode, Said, Spec};
use super::trial::TrialError;
use crate::endpoint::control::Control;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_base::size;

/// A trial in which nothing moves for so long has gone wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often both processes are looked at where they may deadlock.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long an end that saw the other one leave is not blamed for it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One process, killed and reaped when it is dropped.
#[derive(Debug)]
pub(super) struct End {
    pub(super) role: Role,
    pub(super) child: Child,
    pub(super) control: Control,
}

impl End {
    /// What to say of one that does not answer any more.
    pub(super) fn gone(&mut self, error: &io::Error) -> TrialError {
        // It can't be waiting for us, but might hang elsewhere.
        let _ = self.child.kill();
        let how = match self.child.wait() {
            Ok(status) => ended(status),
            Err(error) => error.to_string(),
        };
        TrialError::Failed(anyhow!("the {} {how} ({error})", self.role.name()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}

/// Both processes of a trial.
pub(super) struct Pair<'a> {
    pub(super) ends: [End; 2],
    words: SharedWords,
    interrupt: &'a Interrupt,
    deadline: Instant,
    /// Whether the deadline is put off while something moves.
    patient: bool,
    /// What both had moved when it was put off last.
    moved: u64,
    detector: Option<Detector>,
    limit: Duration,
}

impl<'a> Pair<'a> {
    /// The sender and the echo, which have been started.
    pub(super) fn new(
        ends: [End; 2],
        words: SharedWords,
        interrupt: &'a Interrupt,
        spec: &Spec,
        limit: Duration,
    ) -> Self {
        Pair {
            ends,
            words,
            interrupt,
            deadline: Instant::now() + PATIENCE,
            patient: true,
            moved: 0,
            detector: (spec.mode == Mode::Naive).then(Detector::default),
            limit,
        }
    }

    /// The next thing that either says. Where they may deadlock, both are
    /// looked at in between.
    pub(super) fn next(&mut self) -> Result<(Role, Said), TrialError> {
        self.next_of(&[Role::Sender, Role::Echo])
    }

    pub(super) fn next_of(&mut self, roles: &[Role]) -> Result<(Role, Said), TrialError> {
        let said = self.said_in_time(roles)?;
        said.ok_or_else(|| TrialError::Failed(anyhow!("the trial hangs")))
    }

    /// The same; none if nothing is said before the deadline.
    fn said_in_time(&mut self, roles: &[Role]) -> Result<Option<(Role, Said)>, TrialError> {
        loop {
            if let Some(signal) = self.interrupt.signal() {
                return Err(TrialError::Interrupted(signal));
            }
            let now = Instant::now();
            if now >= self.deadline && !self.put_off(now) {
                return Ok(None);
            }
            let mut left = self.deadline - now;
            if let Some(mut detector) = self.detector.take() {
                left = left.min(LOOK_EVERY);
                let stuck = detector.look(self.looks(), now);
                self.detector = Some(detector);
                if stuck.is_some_and(|time| time >= self.limit) {
                    return Err(TrialError::Deadlock(String::new()));
                }
            }
            let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
            fds.extend(
                roles
                    .iter()
                    .map(|role| self.ends[*role as usize].control.as_fd()),
            );
            fds.push(self.interrupt.as_fd());
            let ready = readable(&fds, left).context("poll")?;
            let Some(role) = ready.and_then(|at| roles.get(at)) else {
                continue;
            };
            let end = &mut self.ends[*role as usize];
            return match end.control.receive() {
                Ok(said) => Ok(Some((*role, said))),
                Err(error) => Err(match self.interrupt.signal() {
                    // A terminal sends Ctrl-C to all of us.
                    Some(signal) => TrialError::Interrupted(signal),
                    None => end.gone(&error),
                }),
            };
        }
    }

    /// From now on only last words are waited for.
    pub(super) fn hurry(&mut self) {
        self.detector = None;
        self.patient = false;
        self.deadline = Instant::now() + LAST_WORDS;
    }

    /// Puts off the deadline if something has moved since the last time.
    fn put_off(&mut self, now: Instant) -> bool {
        let moved = self.looks().iter().map(|look| look.moved).sum();
        let goes_on = self.patient && moved != self.moved;
        if goes_on {
            self.moved = moved;
            self.deadline = now + PATIENCE;
        }
        goes_on
    }

    fn looks(&self) -> [Look; 2] {
        [Role::Sender, Role::Echo].map(|role| {
            let at = role as usize;
            let word = |offset: usize| self.words.words()[at * 2 + offset].load(Ordering::Relaxed);
            Look::at(self.ends[at].child.id(), word(0), word(1) == WRITING)
        })
    }

    /// The error of a trial in which `role` said something else than it
    /// should. One that only found the other gone is not to blame: what the
    /// other says, or how it ended, is the error.
    pub(super) fn blame(&mut self, role: Role, said: Said) -> TrialError {
        if let Said::Left(_) = said {
            let other = match role {
                Role::Sender => Role::Echo,
                Role::Echo => Role::Sender,
            };
            self.hurry();
            loop {
                match self.said_in_time(&[other]) {
                    // Said before it went.
                    Ok(Some((_, Said::Ready))) => {}
                    // If it says nothing, the complaint is all there is.
                    Ok(None | Some((_, Said::Left(_) | Said::Done(_)))) => break,
                    Ok(Some((other, said))) => return complaint(other, said),
                    Err(error) => return error,
                }
            }
        }
        complaint(role, said)
    }

    /// A deadlock in words.
    pub(super) fn explained(&self, spec: &Spec, holds: &str) -> TrialError {
        let looks = self.detector.as_ref().and_then(Detector::last);
        let place = |role: Role| {
            let end = &self.ends[role as usize];
            let look = looks.map(|looks| &looks[role as usize]);
            let state = look.and_then(|look| look.state).unwrap_or('?');
            let place = look.map_or_else(String::new, Look::place);
            format!(
                "the {} (process {}) sleeps {place}, state {state}",
                role.name(),
                end.child.id()
            )
        };
        TrialError::Deadlock(format!(
            "deadlock: {}; {}. Neither has moved a byte for {:.1} s: each writes its message of {} first and reads \
             only then, but {holds}; what is beyond waits for a reader, who is writing too. Both were ended.",
            place(Role::Sender),
            place(Role::Echo),
            self.limit.as_secs_f64(),
            size::exact(spec.size as u64),
        ))
    }
}

fn complaint(role: Role, said: Said) -> TrialError {
    match said {
        Said::NotRun(not_run) => not_run.into(),
        Said::Failed(reason) | Said::Left(reason) => {
            TrialError::Failed(anyhow!("the {}: {reason}", role.name()))
        }
        Said::Ready | Said::Done(_) => {
            TrialError::Failed(anyhow!("the {} spoke out of turn", role.name()))
        }
    }
}

/// The index of the first descriptor with something to read; none when the
/// time is over.
fn readable(fds: &[BorrowedFd<'_>], time: Duration) -> io::Result<Option<usize>> {
    let timeout = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => Ok(None),
        Ok(_) => Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        Err(errno) => Err(errno.into()),
    }
}
