//! The counters of a process and of its threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::graph::HeldEnds;
use crate::proc::files::{FdBudget, ProcessFiles, SchedStat, ThreadFiles};
use crate::proc::ticks;
use crate::proc::{Io, Proc};
use crate::wait::{Outside, ThreadSample, ThreadState, examine_files};

/// The running time of a thread is counted at each tick of a processor, up to 10 ms apart. If it
/// has not changed for this long, the thread does not run.
pub(super) const MIN_PENDING: Duration = Duration::from_millis(20);

/// Counters of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counters {
    pub(super) ran: Duration,
    pub(super) delayed: Duration,
    /// The running time in which the kernel worked for it.
    pub(super) in_kernel: Duration,
    pub(super) io: Option<OwnIo>,
    /// Processor time of the children that it has waited for.
    pub(super) children_ran: Duration,
    /// Their page faults.
    pub(super) children_faults: u64,
    /// Where its stack begins; 0 if that may not be read.
    pub(super) stack: u64,
    /// What each thread has done.
    pub(super) threads: BTreeMap<i32, SchedStat>,
}

impl Counters {
    /// Whether these are of another program than those of before, since the process has called execve(2).
    pub(super) fn is_other_program(&self, before: &Counters) -> bool {
        self.stack != before.stack && self.stack > 0 && before.stack > 0
    }

    /// How often each thread got a processor.
    pub(super) fn turns(&self) -> impl Iterator<Item = (i32, u64)> {
        let threads = self.threads.iter();
        threads.map(|(tid, schedule)| (*tid, schedule.turns))
    }
}

/// What a process has read and written itself. The kernel adds what its children have moved once
/// it has waited for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnIo {
    io: Io,
    /// The page faults of the children that are included; `None` if none are.
    children_faults: Option<u64>,
}

impl OwnIo {
    /// Those of a new process.
    pub(super) const NONE: OwnIo = OwnIo {
        io: Io {
            read_bytes: 0,
            written_bytes: 0,
            reads: 0,
            writes: 0,
        },
        children_faults: None,
    };

    /// What it has moved itself since then. `None` if that can't be told from what its children
    /// have.
    pub(super) fn since(self, then: OwnIo) -> Option<Io> {
        if self.children_faults != then.children_faults {
            return None;
        }
        Some(Io {
            read_bytes: self.io.read_bytes.checked_sub(then.io.read_bytes)?,
            written_bytes: self.io.written_bytes.checked_sub(then.io.written_bytes)?,
            reads: self.io.reads.checked_sub(then.io.reads)?,
            writes: self.io.writes.checked_sub(then.io.writes)?,
        })
    }
}

/// A thread that is sampled.
#[derive(Debug)]
pub(super) struct WatchedThread {
    pub(super) files: ThreadFiles,
    /// How often it had got a processor when its state was read.
    pub(super) turns: Option<u64>,
    pub(super) seen: Option<ThreadSample>,
    /// Whether that is to be read again, even if it has been asleep since.
    pub(super) is_outdated: bool,
    /// When it was last seen to have run.
    pub(super) ran_at: Instant,
    /// When it was first seen awake with these counts, which have not changed since.
    pub(super) awake: Option<(SchedStat, Instant)>,
    /// Its bytes and calls when they were read first.
    pub(super) first_io: Option<Io>,
    /// The number of samples in which it waited for what outside of pipes.
    pub(super) outside: BTreeMap<Outside, u32>,
    /// Its running time as counted for a processor last.
    counted: Option<Duration>,
    /// Its counts when the look began, and when that was.
    first: Option<(SchedStat, Instant)>,
    /// Its counts when it was sampled last.
    latest: SchedStat,
    /// How much of a wait for a processor lay before that: the kernel counts a wait when it ends
    /// (sched_info_arrive() in kernel/sched/stats.h).
    carried: Duration,
}

impl WatchedThread {
    pub(super) fn new(tid: i32) -> Self {
        WatchedThread {
            files: ThreadFiles::new(tid),
            turns: None,
            seen: None,
            is_outdated: false,
            ran_at: Instant::now(),
            awake: None,
            first_io: None,
            outside: BTreeMap::new(),
            counted: None,
            first: None,
            latest: SchedStat::default(),
            carried: Duration::ZERO,
        }
    }

    /// For how long it ran since the look began, as far as it was seen.
    pub(super) fn ran(&self) -> Duration {
        let first = self.first.map_or(Duration::ZERO, |(first, _)| first.ran);
        self.latest.ran.saturating_sub(first)
    }

    /// For how long it waited for a processor since the look began, as far as it was seen.
    pub(super) fn delayed(&self) -> Duration {
        let first = self
            .first
            .map_or(Duration::ZERO, |(first, _)| first.delayed);
        self.latest.delayed.saturating_sub(first + self.carried)
    }

    /// Starts to count at `since`, when its counts were `first`; `None` for a thread that is younger than the
    /// look. Returns the carried time that was left out of these.
    pub(super) fn restart(&mut self, first: Option<SchedStat>, since: Instant) -> Duration {
        let carried = std::mem::take(&mut self.carried);
        let first = first.map(|first| SchedStat {
            delayed: first.delayed + carried,
            ..first
        });
        self.first = first.map(|first| (first, since));
        carried
    }

    /// Its running time since this was called last, as far as it is awake.
    pub(super) fn take_ran(&mut self) -> Duration {
        let now = self.awake.map(|(schedule, _)| schedule.ran);
        let before = std::mem::replace(&mut self.counted, now);
        let times = now.zip(before);
        times.map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before))
    }

    /// Notes how much of a wait lay before the look: it can't be longer than the look so far.
    fn note_carried(&mut self, schedule: SchedStat) {
        if let Some((first, since)) = self.first {
            let delayed = schedule.delayed.saturating_sub(first.delayed);
            self.carried = self.carried.max(delayed.saturating_sub(since.elapsed()));
        }
    }

    /// For how long it has been waiting for a processor, which the kernel counts only once it
    /// gets one. `schedule` is its state now.
    fn pending(&self, schedule: SchedStat) -> Duration {
        let waits = self.awake.filter(|(before, _)| *before == schedule);
        let time = waits.map_or(Duration::ZERO, |(_, since)| since.elapsed());
        if time < MIN_PENDING {
            Duration::ZERO
        } else {
            time
        }
    }

    /// How often it got a processor; from its switches if the kernel doesn't count that.
    fn turns(&self, proc: &Proc, pid: i32, schedule: SchedStat) -> Option<u64> {
        match schedule.turns {
            0 => proc.switches(pid, self.files.tid),
            turns => Some(turns),
        }
    }

    /// Reads its state, unless it has been asleep since that was read. Returns whether it may
    /// have run; `None` if it has ended.
    pub(super) fn sample(&mut self, at: &At<'_>, ends: &HeldEnds) -> Option<bool> {
        let schedule = self.files.schedule(at.files, Some(at.fd_budget))?;
        self.note_carried(schedule);
        self.latest = schedule;
        let turns = schedule.turns;
        let has_slept = turns > 0 && self.turns == Some(turns);
        let is_awake =
            |seen: &ThreadSample| matches!(seen.state, ThreadState::Working | ThreadState::Disk);
        let is_outdated = std::mem::take(&mut self.is_outdated);
        let was_awake = self.seen.as_ref().is_some_and(is_awake);
        if has_slept && !is_outdated && !was_awake && self.seen.is_some() {
            return Some(false);
        }
        // Most processes are asleep all the time, and their files are read once.
        let fd_budget = self.seen.is_some().then_some(at.fd_budget);
        let seen = examine_files(at.files, &mut self.files, ends, fd_budget)?;
        let waits_on = self.awake.filter(|(before, _)| *before == schedule);
        let is_ready = seen.state == ThreadState::Working;
        self.awake = is_ready.then(|| waits_on.unwrap_or_else(|| (schedule, Instant::now())));
        let is_awake = is_awake(&seen);
        self.seen = Some(seen);
        self.turns = Some(turns);
        // It may have run on in the same turn.
        let has_run = is_awake || was_awake || !has_slept;
        if has_run {
            self.ran_at = Instant::now();
        }
        Some(has_run)
    }
}

/// Where the files of a process are.
pub(super) struct At<'a> {
    pub(super) proc: &'a Proc,
    pub(super) files: ProcessFiles<'a>,
    pub(super) fd_budget: &'a FdBudget,
}

/// What a process has read and written itself, as far as that is known.
fn own_io(at: &At<'_>, pid: i32, children_faults: u64, watches: &[WatchedThread]) -> Option<OwnIo> {
    let io = match watches {
        // It never waited for a child.
        _ if children_faults == 0 => at.proc.io(pid),
        [only] => only.files.io(at.files),
        _ => {
            return Some(OwnIo {
                io: at.proc.io(pid)?,
                children_faults: Some(children_faults),
            });
        }
    };
    Some(OwnIo {
        io: io?,
        children_faults: None,
    })
}

pub(super) fn counters(at: &At<'_>, pid: i32, watches: &mut [WatchedThread]) -> Counters {
    let stat = at.files.stat().map(|(stat, _)| stat).unwrap_or_default();
    let mut counters = Counters {
        io: own_io(at, pid, stat.children_faults, watches),
        in_kernel: ticks(stat.kernel_ticks),
        children_ran: ticks(stat.children_ticks),
        children_faults: stat.children_faults,
        stack: stat.stack,
        ..Counters::default()
    };
    for watch in watches {
        if let Some(schedule) = watch.files.schedule(at.files, Some(at.fd_budget)) {
            watch.note_carried(schedule);
            let delayed = schedule.delayed + watch.pending(schedule);
            let schedule = SchedStat {
                delayed: delayed.saturating_sub(watch.carried),
                ..schedule
            };
            counters.ran += schedule.ran;
            counters.delayed += schedule.delayed;
            // 0 twice would look like a thread that never ran.
            let unknown = counters.threads.len() as u64 + 1;
            let turns = watch.turns(at.proc, pid, schedule).unwrap_or(unknown);
            let schedule = SchedStat { turns, ..schedule };
            counters.threads.insert(watch.files.tid, schedule);
        }
    }
    // Those that have ended ran, too.
    counters.ran = counters.ran.max(ticks(stat.ran_ticks));
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_wait_that_began_before_the_look_only_the_rest_counts() {
        let seconds = Duration::from_secs;
        let delayed = |delayed| SchedStat {
            delayed,
            ..SchedStat::default()
        };
        let mut watch = WatchedThread::new(1);
        watch.restart(Some(delayed(seconds(100))), Instant::now());
        watch.note_carried(delayed(seconds(100)));
        assert_eq!(watch.carried, Duration::ZERO);
        // It ends when the look has just begun, and lasted for 5 seconds.
        watch.note_carried(delayed(seconds(105)));
        assert!(watch.carried > seconds(4) && watch.carried <= seconds(5));
        // The next look begins with the kernel's own count.
        let left_out = delayed(seconds(105) - watch.carried);
        let carried = watch.restart(Some(left_out), Instant::now());
        assert!(carried > seconds(4));
        watch.note_carried(delayed(seconds(105)));
        assert_eq!(watch.carried, Duration::ZERO);
    }
}
