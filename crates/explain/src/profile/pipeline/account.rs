//! What the kernel's files tell of a process, and of those that it started.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// What a stage has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that read(2) and its kin took; none where the kernel does not say.
    pub taken: Option<u64>,
    /// The same of write(2).
    pub given: Option<u64>,
    /// Time running, of all threads.
    pub ran: Duration,
    /// Time waiting for a processor, of all threads.
    pub delayed: Duration,
    /// Wall time.
    pub wall: Duration,
}

impl Account {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Account) -> Account {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Account {
            taken: difference(self.taken, earlier.taken),
            given: difference(self.given, earlier.given),
            ran: self.ran.saturating_sub(earlier.ran),
            delayed: self.delayed.saturating_sub(earlier.delayed),
            wall: self.wall.saturating_sub(earlier.wall),
        }
    }

    /// Both together.
    pub fn and(&self, other: &Account) -> Account {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Account {
            taken: sum(self.taken, other.taken),
            given: sum(self.given, other.given),
            ran: self.ran + other.ran,
            delayed: self.delayed + other.delayed,
            wall: self.wall + other.wall,
        }
    }

    /// Nothing, where bytes are known.
    pub fn nothing() -> Account {
        Account {
            taken: Some(0),
            given: Some(0),
            ..Account::default()
        }
    }
}

/// Bytes that a process read and wrote, with those of the children that it
/// waited for; those of a zombie can still be read. What splice(2), tee(2) and
/// vmsplice(2) move is not counted (Documentation/filesystems/proc.rst, io;
/// fs/splice.c).
pub fn bytes(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((field("rchar:")?, field("wchar:")?))
}

/// Time running and time waiting for a processor
/// (Documentation/scheduler/sched-stats.rst, schedstat).
pub fn schedule(path: &str) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(path).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
    Some((next()?, next()?))
}

/// The numbers that are the names of a directory's entries.
pub fn numbers_in(path: &str) -> Vec<i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A process's children; none where the kernel keeps no lists of them
/// (CONFIG_PROC_CHILDREN).
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = numbers_in(&format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().map(|task| {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{task}/children"));
        list.unwrap_or_default()
    });
    let mut children = Vec::new();
    for list in lists {
        children.extend(
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    children
}

/// A process and all that descend from it, each before its children.
pub fn tree(pid: i32, children: &dyn Fn(i32) -> Vec<i32>) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let next = children(*pid);
        // While one looks, a number may come to mean somebody else.
        let new: Vec<i32> = next.into_iter().filter(|pid| !all.contains(pid)).collect();
        all.extend(new);
        at += 1;
    }
    all
}

/// Sends a signal to all that descend from this process. It has to be the one
/// to which orphans go (PR_SET_CHILD_SUBREAPER), or some may be missed.
pub fn signal_descendants(signal: Signal) {
    let own = getpid().as_raw_pid();
    // Only here the whole of /proc is worth its time.
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
        // The descriptor stands for one process; if the parent is still the
        // same it is the one that was seen.
        if let (Some(Ok(descriptor)), Some((seen, _))) = (descriptor, seen)
            && parent(pid).is_some_and(|now| now == *seen || now == own)
        {
            let _ = pidfd_send_signal(&descriptor, signal);
            // Who is stopped can't obey.
            if signal == Signal::TERM {
                let _ = pidfd_send_signal(descriptor, Signal::CONT);
            }
        }
    }
}

fn parent(pid: i32) -> Option<i32> {
    stat_field(&format!("/proc/{pid}"), 4)?.parse().ok()
}

/// A field of proc_pid_stat(5) behind the second, by its number there. That one,
/// a name in parentheses, may hold anything.
pub fn stat_field(dir: &str, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("{dir}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    fields.nth(number.checked_sub(3)?).map(str::to_owned)
}

/// The name of a process, be it dead: of its program's file, 15 bytes of it
/// (proc_pid_comm(5)).
pub fn name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_walked_once_however_strange() {
        let children = |pid: i32| match pid {
            1 => vec![2, 3],
            2 => vec![4],
            4 => vec![1, 2],
            _ => Vec::new(),
        };
        assert_eq!(tree(1, &children), [1, 2, 3, 4]);
    }

    #[test]
    fn this_process_has_accounts_and_a_parent() {
        let own = getpid().as_raw_pid();
        if let (Some(before), Some(after)) = (bytes(own), bytes(own)) {
            assert!(after.0 > before.0, "reading it was reading");
        }
        assert_eq!(
            parent(getpid().as_raw_pid()),
            Some(rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid()))
        );
    }
}
