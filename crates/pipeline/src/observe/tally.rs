//! What the samples of one process add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Observed, OnPipe, Shares};
use crate::find::{Process, ProcessId};
use crate::proc::{Io, PipeId, Proc};
use crate::wait::{Outside, PipeWait, Side, State, Wait, examine};

/// What a process did at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Working,
    Disk,
    Blocked,
    Starved,
    Elsewhere(Outside),
    Stopped,
}

/// What a process does if its threads are in these states.
fn activity(threads: &[State]) -> Activity {
    let any = |wanted: &State| threads.contains(wanted);
    let waits = || {
        threads.iter().filter_map(|state| match state {
            State::Waiting(wait) => Some(wait),
            _ => None,
        })
    };
    let on_side = |wanted: Side| {
        waits().any(|wait| match wait {
            Wait::Pipes { any_of, .. } => any_of.iter().any(|on| on.side == wanted),
            _ => false,
        })
    };
    if any(&State::Working) {
        Activity::Working
    } else if any(&State::Disk) {
        Activity::Disk
    } else if any(&State::Stopped) {
        Activity::Stopped
    } else if on_side(Side::Room) {
        Activity::Blocked
    } else if on_side(Side::Input) {
        Activity::Starved
    } else {
        let outside = waits().map(|wait| match wait {
            Wait::Outside(outside) => *outside,
            Wait::Child(_) => Outside::Child,
            Wait::Thread => Outside::Lock,
            _ => Outside::Other,
        });
        // A thread that waits for another one says least.
        let first = outside.min_by_key(|outside| *outside == Outside::Lock);
        Activity::Elsewhere(first.unwrap_or(Outside::Other))
    }
}

/// Counts of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counters {
    ran: Duration,
    delayed: Duration,
    io: Option<Io>,
    switches: BTreeMap<i32, u64>,
}

impl Counters {
    pub(super) fn read(proc: &Proc, pid: i32) -> Self {
        let mut counters = Counters {
            io: proc.io(pid),
            ..Counters::default()
        };
        for tid in proc.threads(pid) {
            if let Some((ran, delayed)) = proc.schedule(pid, tid) {
                counters.ran += ran;
                counters.delayed += delayed;
            }
            // 0 twice would look like a thread that never ran.
            let unknown = counters.switches.len() as u64 + 1;
            let switches = proc.switches(pid, tid).unwrap_or(unknown);
            counters.switches.insert(tid, switches);
        }
        counters
    }
}

/// The samples of a process.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) process: Process,
    /// Refers to this process, even if its number is reused. `None` if there are too few
    /// descriptors.
    pub(super) pidfd: Option<OwnedFd>,
    is_from_start: bool,
    pub(super) samples: u32,
    working: u32,
    disk: u32,
    blocked: u32,
    starved: u32,
    stopped: u32,
    outside: BTreeMap<Outside, u32>,
    on: BTreeMap<(PipeId, Side), u32>,
    pub(super) threads: Vec<State>,
    pub(super) splices: bool,
    first: (Instant, Counters),
    last: (Instant, Counters),
}

impl Tally {
    pub(super) fn new(proc: &Proc, process: Process, is_from_start: bool, may_hold: bool) -> Self {
        let first = (Instant::now(), Counters::read(proc, process.id.pid));
        let pid = Pid::from_raw(process.id.pid).filter(|_| may_hold);
        let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // It may have been opened after the number was reused.
        let is_same = process.id.is_running(proc);
        Tally {
            pidfd: pidfd.filter(|_| is_same),
            last: first.clone(),
            first,
            process,
            is_from_start,
            samples: 0,
            working: 0,
            disk: 0,
            blocked: 0,
            starved: 0,
            stopped: 0,
            outside: BTreeMap::new(),
            on: BTreeMap::new(),
            threads: Vec::new(),
            splices: false,
        }
    }

    pub(super) fn is_running(&self, proc: &Proc) -> bool {
        match &self.pidfd {
            // It is readable once the process has ended (pidfd_open(2)).
            Some(pidfd) => {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
            }
            None => self.process.id.is_running(proc),
        }
    }

    pub(super) fn sample(&mut self, proc: &Proc) {
        if !self.is_running(proc) {
            return;
        }
        let pid = self.process.id.pid;
        let tids = proc.threads(pid);
        let ends = &self.process.ends;
        let seen = tids.iter().filter_map(|tid| examine(proc, pid, *tid, ends));
        let (threads, splices): (Vec<State>, Vec<bool>) = seen.unzip();
        if threads.is_empty() {
            return;
        }
        // It may have ended meanwhile, and its number been reused.
        if self.is_running(proc) {
            self.count(&threads);
            self.splices |= splices.contains(&true);
            self.threads = threads;
        }
    }

    pub(super) fn count(&mut self, threads: &[State]) {
        self.samples += 1;
        match activity(threads) {
            Activity::Working => self.working += 1,
            Activity::Disk => self.disk += 1,
            Activity::Blocked => self.blocked += 1,
            Activity::Starved => self.starved += 1,
            Activity::Stopped => self.stopped += 1,
            Activity::Elsewhere(outside) => *self.outside.entry(outside).or_default() += 1,
        }
        let mut on: BTreeSet<(PipeId, Side)> = BTreeSet::new();
        for state in threads {
            if let State::Waiting(Wait::Pipes { any_of, .. }) = state {
                on.extend(any_of.iter().map(|wait: &PipeWait| (wait.pipe, wait.side)));
            }
        }
        for one in on {
            *self.on.entry(one).or_default() += 1;
        }
    }

    /// Reads the counters of a process that still runs.
    pub(super) fn update(&mut self, proc: &Proc) {
        self.last = (Instant::now(), Counters::read(proc, self.process.id.pid));
    }

    pub(super) fn finish(
        mut self,
        proc: &Proc,
        now: Option<Process>,
        asked: &BTreeSet<ProcessId>,
    ) -> Observed {
        let id = self.process.id;
        let same = now.filter(|process| process.id == id);
        if same.is_some() {
            self.update(proc);
        }
        let ((began_at, first), (ended_at, last)) = (&self.first, &self.last);
        let share = |count: u32| f64::from(count) / f64::from(self.samples.max(1));
        let elsewhere: u32 = self.outside.values().sum();
        let since = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
        let on = |((pipe, side), count): (&(PipeId, Side), &u32)| OnPipe {
            pipe: *pipe,
            side: *side,
            share: share(*count),
        };
        Observed {
            is_asked: asked.contains(&id),
            has_ended: same.is_none(),
            samples: self.samples,
            shares: Shares {
                working: share(self.working),
                disk: share(self.disk),
                blocked: share(self.blocked),
                starved: share(self.starved),
                elsewhere: share(elsewhere),
                stopped: share(self.stopped),
            },
            outside: self.outside.iter().map(|(k, n)| (*k, share(*n))).collect(),
            on: self.on.iter().map(on).collect(),
            is_frozen: same.is_some()
                && self.is_from_start
                && self.samples > 0
                && self.working == 0
                && first.switches == last.switches,
            counted_s: ended_at.duration_since(*began_at).as_secs_f64(),
            ran_s: since(last.ran, first.ran),
            delayed_s: since(last.delayed, first.delayed),
            io: first.io.zip(last.io).map(|(before, now)| Io {
                read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
                written_bytes: now.written_bytes.saturating_sub(before.written_bytes),
                reads: now.reads.saturating_sub(before.reads),
                writes: now.writes.saturating_sub(before.writes),
            }),
            splices: self.splices,
            handled_signals: proc.handled_signals(id.pid).unwrap_or(0),
            threads: self.threads,
            process: same.unwrap_or(self.process),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{on_input, on_room};

    #[test]
    fn a_stage_works_if_any_thread_does_and_room_comes_before_input() {
        let lock = || State::Waiting(Wait::Thread);
        let socket = || State::Waiting(Wait::Outside(Outside::Socket));
        for (threads, expected) in [
            (vec![on_input(1), State::Working], Activity::Working),
            (vec![on_room(1), State::Disk], Activity::Disk),
            (vec![on_input(1), on_room(2)], Activity::Blocked),
            (vec![lock(), on_input(1)], Activity::Starved),
            (vec![lock(), socket()], Activity::Elsewhere(Outside::Socket)),
            (vec![State::Stopped], Activity::Stopped),
        ] {
            assert_eq!(activity(&threads), expected, "{threads:?}");
        }
    }
}
