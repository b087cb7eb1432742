//! Which processes use the processors, also those that have nothing to do with a pipeline.

use std::collections::BTreeMap;
use std::time::Instant;

use pipespeed_host::CpuList;

use crate::proc::{Proc, ProcessId, ticks};

/// What uses fewer processors explains no wait for one.
const MIN_USED: f64 = 0.1;
/// The processes of which more is read.
const MAX_USERS: usize = 16;
/// The parent of all threads of the kernel, kthreadd (rest_init() in init/main.c).
const KERNEL: i32 = 2;

/// Processor time of all processes so far, in ticks.
pub(crate) struct UsedTimes {
    read_at: Instant,
    ticks: BTreeMap<ProcessId, u64>,
}

/// A process that used processors. What ended earlier is none.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorUser {
    pub(crate) id: ProcessId,
    pub(crate) name: String,
    /// How many it used.
    pub(crate) processors: f64,
    /// The nearest first.
    pub(crate) ancestors: Vec<i32>,
    /// The processors that it may use; `None` if not known.
    pub(crate) allowed: Option<CpuList>,
    /// Whether it is a thread of the kernel.
    pub(crate) is_kernel: bool,
}

impl UsedTimes {
    /// Reads the times of the processes that are listed.
    pub(crate) fn read(proc: &Proc) -> Self {
        let pids = proc.processes().into_iter();
        let used = pids.filter_map(|pid| {
            let stat = proc.stat(pid)?;
            let id = ProcessId {
                pid,
                start: stat.start,
            };
            Some((id, stat.ran_ticks))
        });
        UsedTimes {
            ticks: used.collect(),
            read_at: Instant::now(),
        }
    }

    /// The processes that used most since an earlier reading, the busiest first.
    pub(crate) fn since(&self, proc: &Proc, earlier: &UsedTimes) -> Vec<ProcessorUser> {
        let seconds = self.read_at.duration_since(earlier.read_at).as_secs_f64();
        let used = self.ticks.iter().map(|(id, now)| {
            let before = earlier.ticks.get(id).copied().unwrap_or_default();
            let used = ticks(now.saturating_sub(before)).as_secs_f64();
            (*id, used / seconds.max(f64::MIN_POSITIVE))
        });
        let mut used: Vec<(ProcessId, f64)> = used.filter(|(_, used)| *used >= MIN_USED).collect();
        used.sort_by(|a, b| b.1.total_cmp(&a.1));
        let users = used.into_iter().take(MAX_USERS);
        let users = users.filter_map(|(id, processors)| ProcessorUser::new(proc, id, processors));
        users.collect()
    }
}

impl ProcessorUser {
    fn new(proc: &Proc, id: ProcessId, processors: f64) -> Option<Self> {
        let ancestors: Vec<i32> = proc.ancestors(id.pid).collect();
        let is_below_2 = ancestors.contains(&KERNEL);
        Some(ProcessorUser {
            id,
            name: proc.name(id.pid)?,
            processors,
            allowed: proc.allowed_processors(id.pid),
            // In a PID namespace, 2 is a process like others.
            is_kernel: is_below_2 && proc.name(KERNEL).as_deref() == Some("kthreadd"),
            ancestors,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pipespeed_host::Root;

    use super::*;

    #[test]
    fn the_busiest_come_first_and_those_that_have_ended_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let proc = Proc::below(Root(directory.path().to_owned()));
        let write = |pid: i32, parent: i32, start: u64, ticks: u64| {
            let at = directory.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&at).unwrap();
            let stat = format!(
                "{pid} (p) R {parent} 5 9 0 -1 0 1 0 0 0 {ticks} 0 3 4 20 0 1 0 {start} 1 1"
            );
            fs::write(at.join("stat"), stat).unwrap();
            fs::write(at.join("comm"), if pid == 2 { "kthreadd" } else { "p" }).unwrap();
        };
        write(2, 0, 1, 0);
        write(7, 1, 1, 100);
        write(8, 2, 1, 1000);
        write(9, 1, 1, 50);
        let before = UsedTimes::read(&proc);
        write(7, 1, 1, 160);
        write(8, 2, 1, 1200);
        fs::remove_dir_all(directory.path().join("proc/9")).unwrap();
        // A number that is used again.
        write(9, 1, 3, 90);
        let mut after = UsedTimes::read(&proc);
        after.read_at = before.read_at + std::time::Duration::from_secs(2);
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        let users = after.since(&proc, &before);
        let found: Vec<(i32, f64, bool)> = users
            .iter()
            .map(|user| (user.id.pid, user.processors * per_s, user.is_kernel))
            .collect();
        assert_eq!(
            found,
            [(8, 100.0, true), (9, 45.0, false), (7, 30.0, false)]
        );
    }
}
