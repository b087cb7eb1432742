//! Resource usage of a process and its descendants, from /proc.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// Resources used by a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Bytes read by read(2) and similar calls; `None` if the kernel does not count
    /// them.
    pub taken: Option<u64>,
    /// Bytes written by write(2) and similar calls.
    pub given: Option<u64>,
    /// Running time of all threads.
    pub ran: Duration,
    /// Time in which threads waited for a processor.
    pub delayed: Duration,
    /// Wall time.
    pub wall: Duration,
}

impl Account {
    /// The usage since `earlier`.
    pub fn since(&self, earlier: &Account) -> Account {
        self.combined(earlier, u64::saturating_sub, Duration::saturating_sub)
    }

    /// The sum of this usage and `other`.
    pub fn and(&self, other: &Account) -> Account {
        self.combined(other, u64::saturating_add, Duration::saturating_add)
    }

    fn combined(
        &self,
        other: &Account,
        bytes: fn(u64, u64) -> u64,
        time: fn(Duration, Duration) -> Duration,
    ) -> Account {
        let counts = |own: Option<u64>, other: Option<u64>| Some(bytes(own?, other?));
        Account {
            taken: counts(self.taken, other.taken),
            given: counts(self.given, other.given),
            ran: time(self.ran, other.ran),
            delayed: time(self.delayed, other.delayed),
            wall: time(self.wall, other.wall),
        }
    }
}

/// No usage, with known byte counts.
impl Default for Account {
    fn default() -> Self {
        Account {
            taken: Some(0),
            given: Some(0),
            ran: Duration::ZERO,
            delayed: Duration::ZERO,
            wall: Duration::ZERO,
        }
    }
}

/// Bytes that a process and the children it has waited for read and wrote; also of
/// a zombie. Bytes moved by splice(2), tee(2) and vmsplice(2) are not counted
/// (Documentation/filesystems/proc.rst, io; fs/splice.c).
pub fn bytes(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((field("rchar:")?, field("wchar:")?))
}

/// Running time and time waiting for a processor, from a file `schedstat`
/// (Documentation/scheduler/sched-stats.rst).
pub fn schedule(path: &str) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(path).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
    Some((next()?, next()?))
}

/// The entries of a directory whose names are numbers.
pub fn numbers_in(path: &str) -> Vec<i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The children of a process; empty without CONFIG_PROC_CHILDREN.
pub fn children(pid: i32) -> Vec<i32> {
    let mut children = Vec::new();
    for task in numbers_in(&format!("/proc/{pid}/task")) {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{task}/children"));
        let list = list.unwrap_or_default();
        let pids = list.split_ascii_whitespace();
        children.extend(pids.filter_map(|pid| pid.parse::<i32>().ok()));
    }
    children
}

/// A process and its descendants, each before its children.
pub fn tree(pid: i32, children: &dyn Fn(i32) -> Vec<i32>) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let next = children(*pid);
        // A number may be reused meanwhile.
        let new: Vec<i32> = next.into_iter().filter(|pid| !all.contains(pid)).collect();
        all.extend(new);
        at += 1;
    }
    all
}

/// Sends a signal to all descendants of this process, which must be the one that
/// adopts orphans (PR_SET_CHILD_SUBREAPER).
pub fn signal_descendants(signal: Signal) {
    let own = getpid().as_raw_pid();
    let parents: Vec<(i32, i32)> = numbers_in("/proc")
        .into_iter()
        .filter_map(|pid| Some((parent(pid)?, pid)))
        .collect();
    let children = |of: i32| {
        let own = parents.iter().filter(|(parent, _)| *parent == of);
        own.map(|(_, pid)| *pid).collect()
    };
    for pid in tree(own, &children).into_iter().skip(1) {
        let seen = parents.iter().find(|(_, child)| *child == pid);
        let descriptor = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        // The descriptor refers to one process. If its parent is still the same, it
        // is the one that was listed.
        if let (Some(Ok(descriptor)), Some((seen, _))) = (descriptor, seen)
            && parent(pid).is_some_and(|now| now == *seen || now == own)
        {
            let _ = pidfd_send_signal(&descriptor, signal);
            // A stopped process does not handle signals.
            if signal == Signal::TERM {
                let _ = pidfd_send_signal(descriptor, Signal::CONT);
            }
        }
    }
}

/// Whether a process exists and descends from this one.
pub fn is_descendant(pid: i32) -> bool {
    // The parents may change meanwhile, so the walk is bounded.
    const MAX_DEPTH: usize = 4096;
    let own = getpid().as_raw_pid();
    let parents = std::iter::successors(parent(pid), |pid| parent(*pid));
    parents.take(MAX_DEPTH).any(|pid| pid == own)
}

fn parent(pid: i32) -> Option<i32> {
    stat_field(&format!("/proc/{pid}"), 4)?.parse().ok()
}

/// A field of proc_pid_stat(5) after the second, which is a name in parentheses and
/// may contain anything.
pub fn stat_field(dir: &str, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("{dir}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    fields.nth(number.checked_sub(3)?).map(str::to_owned)
}

/// The name of a process, also of a zombie: 15 bytes of its program's file name
/// (proc_pid_comm(5)).
pub fn name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tree_with_a_loop_is_walked_once() {
        let children = |pid: i32| match pid {
            1 => vec![2, 3],
            2 => vec![4],
            4 => vec![1, 2],
            _ => Vec::new(),
        };
        assert_eq!(tree(1, &children), [1, 2, 3, 4]);
    }

    #[test]
    fn only_a_living_child_is_a_descendant() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(is_descendant(pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!is_descendant(pid));
        assert!(!is_descendant(getpid().as_raw_pid()));
        assert!(!is_descendant(1));
    }

    #[test]
    fn this_process_has_byte_counts_and_a_parent() {
        let own = getpid().as_raw_pid();
        if let (Some(before), Some(after)) = (bytes(own), bytes(own)) {
            assert!(after.0 > before.0, "reading the file is counted");
        }
        assert_eq!(
            parent(getpid().as_raw_pid()),
            Some(rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid()))
        );
    }
}
