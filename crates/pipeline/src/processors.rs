//! How busy the processors were, and what keeps a process from one that it is ready to use.

mod users;

use std::collections::{BTreeMap, BTreeSet};

use pipespeed_host::{CpuList, Throttling};
use serde::Serialize;

pub(crate) use self::users::{ProcessorUser, UsedTimes};
use crate::proc::Proc;

/// Time of one processor since boot, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    total: u64,
    busy: u64,
    steal: u64,
    iowait: u64,
}

/// Times of all processors since boot (proc_stat(5)), by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessorTimes(BTreeMap<usize, Ticks>);

impl ProcessorTimes {
    /// Reads the times. None are known where the file is replaced by another one (lxcfs), which
    /// shows the load of one container only.
    pub(crate) fn read(proc: &Proc) -> Self {
        let root = proc.root();
        let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
        let is_mount = |line: &str| line.split(' ').nth(4) == Some("/proc/stat");
        if mounts.lines().any(is_mount) {
            return ProcessorTimes::default();
        }
        let text = root.text("proc/stat").unwrap_or_default();
        ProcessorTimes(text.lines().filter_map(parse_line).collect())
    }

    /// The load between an earlier reading and this one.
    pub(crate) fn since(&self, earlier: &ProcessorTimes) -> Load {
        let each = self.0.iter().filter_map(|(cpu, now)| {
            let before = earlier.0.get(cpu)?;
            let total = now
                .total
                .checked_sub(before.total)
                .filter(|total| *total > 0)?;
            let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / total as f64;
            let usage = ProcessorUsage {
                busy: share(now.busy, before.busy).min(1.0),
                steal: share(now.steal, before.steal).min(1.0),
                iowait: share(now.iowait, before.iowait).min(1.0),
            };
            Some((*cpu, usage))
        });
        Load(each.collect())
    }
}

/// Parses `cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`. Guest times, which follow, are
/// part of the first two.
fn parse_line(line: &str) -> Option<(usize, Ticks)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    let cpu = words.next()?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq + steal;
    let total = busy + idle + iowait;
    let ticks = Ticks {
        total,
        busy,
        steal,
        iowait,
    };
    Some((cpu, ticks))
}

/// How a processor was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ProcessorUsage {
    /// Share of the time in which it was not idle.
    pub busy: f64,
    /// Share of the time in which the hypervisor ran something else.
    pub steal: f64,
    /// Share of the time in which it was idle, and something on it waited for a disk.
    pub iowait: f64,
}

/// How each processor was used, by number; empty if not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load(pub BTreeMap<usize, ProcessorUsage>);

impl Load {
    /// The processors among those that a process may use.
    pub fn among<'a>(
        &'a self,
        allowed: Option<&'a CpuList>,
    ) -> impl Iterator<Item = &'a ProcessorUsage> {
        let is_allowed = move |cpu: &usize| allowed.is_none_or(|allowed| allowed.contains(*cpu));
        let all = self.0.iter();
        all.filter(move |(cpu, _)| is_allowed(cpu))
            .map(|(_, usage)| usage)
    }

    /// Whether these are all processors.
    pub(crate) fn are_all(&self, place: &CpuList) -> bool {
        self.0.keys().all(|cpu| place.contains(*cpu))
    }

    /// The mean share of the time in which the processors were busy; 0 if not known.
    pub(crate) fn mean_busy(&self) -> f64 {
        let busy: f64 = self.0.values().map(|usage| usage.busy).sum();
        busy / self.0.len().max(1) as f64
    }

    /// The mean share of the time in which the processors that a process may use were idle while
    /// something waited for a disk; 0 if not known.
    pub(crate) fn mean_iowait(&self, allowed: Option<&CpuList>) -> f64 {
        let waits: Vec<f64> = self.among(allowed).map(|usage| usage.iowait).collect();
        waits.iter().sum::<f64>() / waits.len().max(1) as f64
    }

    /// The largest share of the time in which a process may have had to wait while others used all
    /// of its processors; 1 if not known. A process that is ready for longer waits for an idle
    /// processor to wake up, which in a guest takes some 30 us each time.
    pub(crate) fn max_contention(&self, allowed: Option<&CpuList>) -> f64 {
        let busy = self.among(allowed).map(|usage| usage.busy);
        busy.reduce(f64::min).unwrap_or(1.0)
    }
}

/// A CPU quota that stopped a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quota {
    /// CPU time per second, in processors.
    pub processors: f64,
    /// Share of the quota's periods in which it was used up.
    pub throttled: f64,
    /// For how long processes were stopped by it, in seconds, summed over the processors
    /// (unthrottle_cfs_rq() in kernel/sched/fair.c).
    pub stopped_s: f64,
}

/// The quotas of the control groups of the processes observed: their counts at the beginning, and as last read.
#[derive(Debug, Default)]
pub(crate) struct Quotas(BTreeMap<String, [Vec<Throttling>; 2]>);

impl Quotas {
    /// Begins to count for the groups of a process, given as the text of proc_pid_cgroup(5).
    pub(crate) fn add(&mut self, proc: &Proc, groups: &str) {
        if !self.0.contains_key(groups) {
            let counts = Throttling::read(proc.root(), groups);
            self.0.insert(groups.to_owned(), [counts.clone(), counts]);
        }
    }

    /// Reads the counts of all groups again: a group may be removed with its last process, and a quota
    /// may be set after its start. Such a group is counted from now on.
    pub(crate) fn update(&mut self, proc: &Proc) {
        for (groups, [before, last]) in &mut self.0 {
            let now = Throttling::read(proc.root(), groups);
            if now.len() > before.len() {
                before.clone_from(&now);
            }
            if now.len() == before.len() {
                *last = now;
            }
        }
    }

    /// The quota that was used up most often, of those of the groups that a process was in, since they
    /// were added or [`restart`](Self::restart)ed.
    pub(crate) fn used_up_most(&self, proc: &Proc, groups: &[String]) -> Option<Quota> {
        let used_up = groups
            .iter()
            .filter_map(|groups| self.used_up(proc, groups));
        used_up.max_by(|a, b| a.throttled.total_cmp(&b.throttled))
    }

    fn used_up(&self, proc: &Proc, groups: &str) -> Option<Quota> {
        let [before, last] = self.0.get(groups)?;
        if before.is_empty() {
            return None;
        }
        let now = Throttling::read(proc.root(), groups);
        // The inner ones come first, and may have been removed. One that was set since the counts were
        // updated has no counterpart.
        let now = if now.len() == before.len() {
            &now
        } else {
            last
        };
        let pairs = now.iter().zip(before);
        let used_up = pairs.filter_map(|(now, before)| {
            let periods = now.periods.checked_sub(before.periods)?;
            let throttled = now.throttled.saturating_sub(before.throttled);
            (throttled > 0).then(|| Quota {
                processors: now.quota,
                throttled: throttled as f64 / periods.max(throttled) as f64,
                stopped_s: now.stopped.saturating_sub(before.stopped).as_secs_f64(),
            })
        });
        used_up.max_by(|a, b| a.throttled.total_cmp(&b.throttled))
    }

    /// Counts anew from now on, for these groups.
    pub(crate) fn restart(&mut self, proc: &Proc, groups: &BTreeSet<&str>) {
        self.0.retain(|known, _| groups.contains(&**known));
        self.update(proc);
        for [before, last] in self.0.values_mut() {
            before.clone_from(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pipespeed_host::Root;

    use super::*;

    fn usage(busy: f64) -> ProcessorUsage {
        ProcessorUsage {
            busy,
            ..ProcessorUsage::default()
        }
    }

    #[test]
    fn the_load_is_that_between_two_readings() {
        let directory = tempfile::tempdir().unwrap();
        let proc = Proc::below(Root(directory.path().to_owned()));
        fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        let read = |text: &str| {
            fs::write(directory.path().join("proc/stat"), text).unwrap();
            ProcessorTimes::read(&proc)
        };
        let before = read(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 0 90 0 0 0 0 0 0\ncpu2 1 0 0 0 0 0 0 0 0 0\n",
        );
        let after = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 30 1 9 150 5 2 3 10 30 0\ncpu1 7 0 0 0 0 0 0 0 0 0\nintr 1\n";
        let load = read(after).since(&before);
        let expected = ProcessorUsage {
            busy: 45.0 / 110.0,
            steal: 10.0 / 110.0,
            iowait: 5.0 / 110.0,
        };
        assert_eq!(load, Load([(0, expected)].into()));
        // lxcfs
        let mounts = "1 2 0:3 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n";
        fs::write(directory.path().join("proc/self/mountinfo"), mounts).unwrap();
        assert_eq!(read(after), ProcessorTimes::default());
    }

    #[test]
    fn a_process_waits_only_while_its_processors_are_busy() {
        let load = Load([(0, usage(1.0)), (1, usage(0.2)), (2, usage(0.6))].into());
        let only = |text: &str| load.max_contention(CpuList::parse(text).as_ref());
        assert_eq!((only("0"), only("0-1"), only("0,2")), (1.0, 0.2, 0.6));
        assert_eq!(load.max_contention(None), 0.2);
        assert_eq!(Load::default().max_contention(None), 1.0);
    }

    /// The group `/a/b`, in `/a`, which has a quota, below a directory.
    struct Groups {
        directory: tempfile::TempDir,
        proc: Proc,
        is_v2: bool,
    }

    impl Groups {
        fn in_both_versions() -> [Self; 2] {
            [true, false].map(|is_v2| {
                let directory = tempfile::tempdir().unwrap();
                let proc = Proc::below(Root(directory.path().to_owned()));
                let groups = Groups {
                    directory,
                    proc,
                    is_v2,
                };
                if is_v2 {
                    groups.write("cgroup.controllers", "cpu");
                }
                groups.set_quota("a", 20_000);
                groups.write(&format!("{}/x", groups.path("a/b")), "");
                groups
            })
        }

        /// As the text of proc_pid_cgroup(5).
        fn text(&self) -> &'static str {
            if self.is_v2 {
                "0::/a/b\n"
            } else {
                "3:cpuset:/\n2:cpu:/a/b\n0::/\n"
            }
        }

        fn path(&self, group: &str) -> String {
            let mount = if self.is_v2 { "" } else { "cpu/" };
            format!("{mount}{group}")
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.directory.path().join("sys/fs/cgroup").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn set_quota(&self, group: &str, us: u32) {
            let path = self.path(group);
            if self.is_v2 {
                self.write(&format!("{path}/cpu.max"), &format!("{us} 100000"));
            } else {
                self.write(&format!("{path}/cpu.cfs_quota_us"), &us.to_string());
                self.write(&format!("{path}/cpu.cfs_period_us"), "100000");
            }
        }

        /// Each throttled period stops the group for a second.
        fn count(&self, group: &str, periods: u32, throttled: u32) {
            let time = if self.is_v2 {
                format!("throttled_usec {throttled}000000")
            } else {
                format!("throttled_time {throttled}000000000")
            };
            let text = format!("nr_periods {periods}\nnr_throttled {throttled}\n{time}\n");
            self.write(&format!("{}/cpu.stat", self.path(group)), &text);
        }
    }

    #[test]
    fn quota_that_was_used_up_is_found_in_both_versions() {
        for groups in Groups::in_both_versions() {
            let (proc, text) = (&groups.proc, groups.text());
            let mut quotas = Quotas::default();
            groups.count("a", 100, 90);
            quotas.add(proc, text);
            assert_eq!(quotas.used_up(proc, text), None);
            groups.count("a", 120, 105);
            let expected = Quota {
                processors: 0.2,
                throttled: 0.75,
                stopped_s: 15.0,
            };
            assert_eq!(quotas.used_up(proc, text), Some(expected));
            // The group is removed with its last process.
            quotas.update(proc);
            let group = groups.directory.path().join("sys/fs/cgroup");
            let group = group.join(groups.path("a"));
            let away = group.with_file_name("removed");
            fs::rename(&group, &away).unwrap();
            assert_eq!(quotas.used_up(proc, text), Some(expected));
            fs::rename(&away, &group).unwrap();
            quotas.restart(proc, &BTreeSet::from([text]));
            assert_eq!(quotas.used_up(proc, text), None);
            assert_eq!(quotas.used_up(proc, "0::/other"), None);
            quotas.restart(proc, &BTreeSet::new());
            assert!(quotas.0.is_empty());
        }
    }

    #[test]
    fn a_quota_that_is_set_later_counts_from_then_on() {
        for groups in Groups::in_both_versions() {
            let (proc, text) = (&groups.proc, groups.text());
            let mut quotas = Quotas::default();
            groups.count("a", 100, 90);
            quotas.add(proc, text);
            groups.set_quota("a/b", 10_000);
            groups.count("a/b", 7, 7);
            assert_eq!(quotas.used_up(proc, text), None);
            quotas.update(proc);
            assert_eq!(quotas.used_up(proc, text), None);
            groups.count("a/b", 17, 16);
            let both = [text.to_owned(), "0::/other".to_owned()];
            let expected = Quota {
                processors: 0.1,
                throttled: 0.9,
                stopped_s: 9.0,
            };
            assert_eq!(quotas.used_up_most(proc, &both), Some(expected));
        }
    }
}
