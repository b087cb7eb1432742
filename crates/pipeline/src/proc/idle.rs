//! For how long a process has not run.
//!
//! The scheduler notes when a thread last ran by a clock of its processor that leaves out what the
//! hypervisor and interrupts took (update_rq_clock_task() in kernel/sched/core.c): the clocks of two
//! processors differ by seconds after an hour, and by more after weeks. So each is compared with what it
//! shows now.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Proc, parse_stat};

/// Of more threads only the first are looked at.
pub(super) const MAX_THREADS: usize = 64;

impl Proc {
    /// How long ago any thread of a process last ran; `None` if the kernel does not tell
    /// (CONFIG_SCHED_DEBUG), or if this process may not use the processor on which it ran. Of many
    /// threads only the first are looked at. The calling thread visits that processor for a moment.
    pub fn idle_time(&self, pid: i32) -> Option<Duration> {
        let last = |tid: i32| {
            let at = self.text_of(pid, &format!("task/{tid}/sched"));
            let stat = self.text_of(pid, &format!("task/{tid}/stat"));
            last_run(&at?).zip(parse_stat(&stat?)?.processor)
        };
        let threads = self.threads(pid).into_iter().take(MAX_THREADS);
        let times: Option<Vec<(Duration, usize)>> = threads.map(last).collect();
        let mut times = times?;
        // The last time on each processor.
        times.sort_by_key(|(at, cpu)| (*cpu, std::cmp::Reverse(*at)));
        times.dedup_by_key(|(_, cpu)| *cpu);
        let idle: Option<Vec<Duration>> = times
            .into_iter()
            .map(|(at, cpu)| Some(self.clock_of(cpu)?.saturating_sub(at)))
            .collect();
        idle?.into_iter().min()
    }

    /// What the scheduler's clock of a processor shows.
    fn clock_of(&self, cpu: usize) -> Option<Duration> {
        if cpu >= CpuSet::MAX_CPU {
            return None;
        }
        let before = sched_getaffinity(None).ok()?;
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).ok()?;
        // This thread runs right now.
        let now = self.text("proc/thread-self/sched");
        let restored = sched_setaffinity(None, &before);
        last_run(&now?).filter(|_| restored.is_ok())
    }
}

/// When a thread was last seen running by the scheduler, by the clock of its processor
/// (proc_sched_show_task() in kernel/sched/debug.c), by the text of its `sched`.
fn last_run(text: &str) -> Option<Duration> {
    let lines = text.lines();
    let mut starts = lines.filter_map(|line| line.strip_prefix("se.exec_start"));
    let value = starts.next()?.trim_start_matches([' ', ':']);
    let milliseconds: f64 = value.trim().parse().ok()?;
    // A thread that was moved to another processor while it slept has 0.
    let time = Duration::try_from_secs_f64(milliseconds / 1e3).ok();
    time.filter(|time| !time.is_zero())
}
