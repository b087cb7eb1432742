//! Acts on the processes that this process has started.

use std::time::{Duration, Instant};

use pipespeed_base::process::ProcessHandle;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};

use crate::proc::{Proc, tree};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(1000);
/// Timeout for the end of killed processes: one that hangs in the kernel may never end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of polling for the end of processes.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Sends a signal to all descendants of this process, which must be the one that
/// adopts orphans (PR_SET_CHILD_SUBREAPER), except to `others` and theirs.
pub fn signal_descendants(proc: &Proc, others: &[i32], signal: Signal) {
    let own = getpid().as_raw_pid();
    // Not by `stat`, whose reading may block (see `proc::silent`).
    let parent = |pid: i32| Some(proc.status(pid)?.parent);
    let parents: Vec<(i32, i32)> = proc
        .processes()
        .into_iter()
        .filter_map(|pid| Some((parent(pid)?, pid)))
        .collect();
    let children = |of: i32| {
        let own = parents.iter().filter(|(parent, _)| *parent == of);
        let own = own.map(|(_, pid)| *pid);
        own.filter(|pid| !others.contains(pid)).collect()
    };
    for pid in tree(own, &children).into_iter().skip(1) {
        let seen = parents.iter().find(|(_, child)| *child == pid);
        let process = Pid::from_raw(pid).map(ProcessHandle::open);
        // If the parent of the one process that was opened is still the same, it is the one
        // that was listed.
        if let (Some(Ok(process)), Some((seen, _))) = (process, seen)
            && parent(pid).is_some_and(|now| now == *seen || now == own)
        {
            let _ = process.send(signal);
            // A stopped process does not handle signals.
            if signal != Signal::KILL {
                let _ = process.send(Signal::CONT);
            }
        }
    }
}

/// Reaps the children of this process that have ended, except one, for which somebody else waits.
pub fn reap_others(proc: &Proc, own: Pid) {
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::All, any).is_ok_and(|ended| ended.is_some()) {
        let children = proc.children(getpid().as_raw_pid()).into_iter();
        for child in children
            .filter_map(Pid::from_raw)
            .filter(|child| *child != own)
        {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Ends all descendants of this process, except `others` and theirs: by SIGTERM after `grace`,
/// and those that still run a second later by SIGKILL. Reaps them. Returns whether none is left.
pub fn end_descendants(proc: &Proc, others: &[i32], grace: Duration) -> bool {
    let own = getpid().as_raw_pid();
    let start = Instant::now();
    let mut next = (start + grace, Signal::TERM);
    while start.elapsed() < KILL_TIMEOUT {
        while waitpid(None, WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some()) {}
        let is_childless = waitpid(None, WaitOptions::NOHANG).is_err();
        // The helper that opens pipes ends without being waited for.
        let is_left = |pid: &i32| !others.contains(pid) && proc.runs(*pid);
        if is_childless || !others.is_empty() && !proc.children(own).iter().any(is_left) {
            return true;
        }
        if Instant::now() >= next.0 {
            signal_descendants(proc, others, next.1);
            let pause = if next.1 == Signal::KILL {
                GRACE / 10
            } else {
                GRACE
            };
            next = (Instant::now() + pause, Signal::KILL);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}
