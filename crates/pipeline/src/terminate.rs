//! Acts on the processes that this process has started.

use std::fmt;
use std::time::{Duration, Instant};

use pipespeed_base::process::ProcessHandle;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, wait, waitid, waitpid,
};

use crate::others::OtherProcesses;
use crate::proc::{Proc, tree};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(1000);
/// Timeout for the end of killed processes: one that hangs in the kernel may never end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Processes that may not be signalled get this long to end by themselves once no others are
/// left, as sudo does after its command.
const REFUSED_GRACE: Duration = Duration::from_millis(500);
/// Interval of polling for the end of processes.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A process that could not be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Whether it may not be signalled.
    pub is_refused: bool,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Survivor { pid, name, .. } = self;
        let why = if self.is_refused {
            "is another user's, which may not be signalled (setuid?)"
        } else {
            "does not end, even by SIGKILL"
        };
        write!(f, "process {pid} ({name}) is left running: it {why}")
    }
}

/// A descendant of this process.
struct Descendant {
    pid: i32,
    parent: i32,
}

/// The parent of a process. Not by `stat`, whose reading may block (see `proc::silent`).
fn parent(proc: &Proc, pid: i32) -> Option<i32> {
    Some(proc.status(pid)?.parent)
}

/// All descendants of this process, except `others` and theirs.
fn descendants(proc: &Proc, others: &OtherProcesses) -> Vec<Descendant> {
    let parents: Vec<(i32, i32)> = proc
        .processes()
        .into_iter()
        .filter_map(|pid| Some((parent(proc, pid)?, pid)))
        .collect();
    let children = |of: i32| {
        let own = parents.iter().filter(|(parent, _)| *parent == of);
        let own = own.map(|(_, pid)| *pid);
        own.filter(|pid| !others.contains(*pid)).collect()
    };
    let tree = tree(getpid().as_raw_pid(), &children);
    let below = tree.into_iter().skip(1);
    let found = below.filter_map(|pid| {
        let (parent, _) = *parents.iter().find(|(_, child)| *child == pid)?;
        Some(Descendant { pid, parent })
    });
    found.collect()
}

/// Sends a signal to all descendants of this process, which must be the one that
/// adopts orphans (PR_SET_CHILD_SUBREAPER), except to `others` and theirs. Returns those that
/// may not be signalled.
pub fn signal_descendants(proc: &Proc, others: &OtherProcesses, signal: Signal) -> Vec<i32> {
    others.update(proc);
    let own = getpid().as_raw_pid();
    let mut refused = Vec::new();
    for Descendant { pid, parent: seen } in descendants(proc, others) {
        // If the parent of the one process that was opened is still the same, it is the one
        // that was listed.
        if let Some(Ok(process)) = Pid::from_raw(pid).map(ProcessHandle::open)
            && parent(proc, pid).is_some_and(|now| now == seen || now == own)
        {
            if let Err(error) = process.send(signal)
                && Errno::from_io_error(&error) == Some(Errno::PERM)
            {
                refused.push(pid);
            }
            // A stopped process does not handle signals.
            if signal != Signal::KILL {
                let _ = process.send(Signal::CONT);
            }
        }
    }
    refused
}

/// Reaps the children of this process that have ended, except one, for which somebody else waits,
/// and those to `leave`.
pub fn reap_others(proc: &Proc, own: Pid, leave: &OtherProcesses) {
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::All, any).is_ok_and(|ended| ended.is_some()) {
        let children = leave.command_children(proc).into_iter();
        for child in children
            .filter_map(Pid::from_raw)
            .filter(|child| *child != own)
        {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Ends all descendants of this process, except `others` and theirs: by SIGTERM after `grace`,
/// and those that still run a second later by SIGKILL. Reaps them. Returns those that are left.
#[must_use]
pub fn end_descendants(proc: &Proc, others: &OtherProcesses, grace: Duration) -> Vec<Survivor> {
    let start = Instant::now();
    let mut next = (start + grace, Signal::TERM);
    let mut refused: Vec<i32> = Vec::new();
    // Since when no others are left.
    let mut only_refused: Option<Instant> = None;
    while start.elapsed() < KILL_TIMEOUT {
        others.update(proc);
        while wait(WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some()) {}
        let is_childless = wait(WaitOptions::NOHANG).is_err();
        // The helper that opens pipes ends without being waited for. Of one that /proc hides nothing is known.
        let is_left = |pid: &i32| proc.runs(*pid) || proc.status(*pid).is_none();
        if is_childless || !others.is_empty() && !others.command_children(proc).iter().any(is_left)
        {
            return Vec::new();
        }
        if !refused.is_empty() {
            let all = running(proc, others);
            if all.iter().any(|pid| !refused.contains(pid)) {
                only_refused = None;
            } else if only_refused.get_or_insert_with(Instant::now).elapsed() >= REFUSED_GRACE {
                break;
            }
        }
        if Instant::now() >= next.0 {
            refused = signal_descendants(proc, others, next.1);
            let pause = if next.1 == Signal::KILL {
                GRACE / 10
            } else {
                GRACE
            };
            next = (Instant::now() + pause, Signal::KILL);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let left = running(proc, others).into_iter().map(|pid| Survivor {
        pid,
        name: proc.name(pid).unwrap_or_default(),
        is_refused: refused.contains(&pid),
    });
    let mut left: Vec<Survivor> = left.collect();
    let has_children = wait(WaitOptions::NOHANG).is_ok();
    if left.is_empty() && has_children {
        left.extend(hidden_children(proc, others));
    }
    left
}

/// The children of this process that /proc hides, as those of another user, by setuid (hidepid); except
/// `others`.
fn hidden_children(proc: &Proc, others: &OtherProcesses) -> impl Iterator<Item = Survivor> {
    let children = others.command_children(proc).into_iter();
    children
        .filter(|pid| proc.status(*pid).is_none())
        .map(|pid| Survivor {
            pid,
            name: "hidden by /proc".to_owned(),
            is_refused: true,
        })
}

/// The descendants of this process that run, except `others` and theirs.
fn running(proc: &Proc, others: &OtherProcesses) -> Vec<i32> {
    let all = descendants(proc, others).into_iter();
    let pids = all.map(|descendant| descendant.pid);
    pids.filter(|pid| proc.runs(*pid)).collect()
}
