//! Observation of a stage's running processes in /proc.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::wait::{Asleep, asleep};
use rustix::process::{Pid, getpid};

use super::account::Account;

/// Processes, threads and waits of a stage.
#[derive(Debug, Default)]
pub struct Watch {
    proc: Proc,
    /// Running time of each thread, and its time waiting for a processor.
    threads: HashMap<i32, (Duration, Duration)>,
    /// Bytes that all processes have read and written, if known.
    bytes: Option<(u64, u64)>,
    /// All processes seen.
    pub processes: BTreeSet<i32>,
    /// How often all threads were seen asleep, by what they waited for.
    pub waits: BTreeMap<String, u64>,
}

impl Watch {
    /// Examines the stage with this first process.
    pub fn look(&mut self, first: Pid) {
        let first = first.as_raw_pid();
        let mut sleeping = Vec::new();
        let mut awake = false;
        let mut moved = None;
        for pid in self.tree(first) {
            self.processes.insert(pid);
            if let Some(io) = self.proc.io(pid) {
                let (all_read, all_written) = moved.unwrap_or_default();
                moved = Some((all_read + io.read_bytes, all_written + io.written_bytes));
            }
            for task in self.proc.threads(pid) {
                if let Some(times) = self.proc.schedule(pid, task) {
                    self.threads.insert(task, times);
                }
                match self.proc.sleeps_in(pid, task) {
                    Some(function) => sleeping.push(function),
                    // A running, exiting or dead thread.
                    None => {
                        let state = self.proc.thread_state(pid, task);
                        awake |= state.is_some_and(|state| !matches!(state, 'Z' | 'X'));
                    }
                }
            }
        }
        self.bytes = moved;
        if !awake && let Some(wait) = reason_of_stage(&sleeping) {
            *self.waits.entry(wait).or_default() += 1;
        }
    }

    /// The living processes of the stage with this first process. Those that lost their
    /// parent are children of this process; one that was never seen before that is missed.
    fn tree(&self, first: i32) -> Vec<i32> {
        let children = self.proc.children(getpid().as_raw_pid());
        let orphans = children
            .into_iter()
            .filter(|pid| *pid != first && self.processes.contains(pid));
        let roots = orphans.chain([first]);
        roots.flat_map(|pid| self.proc.tree(pid)).collect()
    }

    /// The usage when last examined, `wall` after the start.
    pub fn account(&self, wall: Duration) -> Account {
        let (ran, delayed): (Vec<Duration>, Vec<Duration>) = self.threads.values().copied().unzip();
        Account {
            taken: self.bytes.map(|(taken, _)| taken),
            given: self.bytes.map(|(_, given)| given),
            ran: ran.iter().sum(),
            delayed: delayed.iter().sum(),
            wall,
        }
    }
}

/// What a stage waits for if its threads sleep in these kernel functions. If there
/// are several reasons, a pipe comes first and a child process or a signal last.
fn reason_of_stage(sleeping: &[String]) -> Option<String> {
    let rank = |function: &str| match reason_of_function(function) {
        Some(INPUT) => 0,
        Some(OUTPUT) => 1,
        Some(CHILD | SIGNAL) => 3,
        _ => 2,
    };
    let function = sleeping.iter().min_by_key(|function| rank(function))?;
    let plain = function.split('.').next().unwrap_or(function);
    Some(reason_of_function(function).unwrap_or(plain).to_owned())
}

/// The reason of waiting for the stage before.
pub const INPUT: &str = "input (pipe empty)";
/// The reason of waiting for the stage after.
pub const OUTPUT: &str = "room for output (pipe full)";
/// The reason of waiting for a child.
const CHILD: &str = "a child process";
/// The reason of waiting for a signal: often for that of a child.
const SIGNAL: &str = "a signal";

/// The reason for sleeping in a kernel function.
fn reason_of_function(function: &str) -> Option<&'static str> {
    Some(match asleep(function)? {
        Asleep::Input => INPUT,
        Asleep::Room => OUTPUT,
        Asleep::FifoPeer => "the other end of a FIFO",
        Asleep::Child => CHILD,
        Asleep::Poll => "poll or select",
        Asleep::Timer => "a timer (sleep)",
        Asleep::Signal => SIGNAL,
        Asleep::Futex => "another thread (futex)",
        Asleep::Disk => "a file's data (disk)",
        Asleep::TerminalOrSocket => "the terminal or a socket",
        Asleep::Stopped => "SIGCONT (it is stopped)",
        Asleep::Traced => "a debugger",
        Asleep::Frozen => "its frozen control group",
        Asleep::KernelLock => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_comes_before_a_shell_that_waits_for_its_child() {
        for (functions, reason) in [
            ("do_wait anon_pipe_read", Some(INPUT)),
            ("futex_wait_queue pipe_write", Some(OUTPUT)),
            ("do_wait unheard_of.isra.0", Some("unheard_of")),
            ("do_wait", Some(CHILD)),
            ("sigsuspend hrtimer_nanosleep", Some("a timer (sleep)")),
            ("", None),
        ] {
            let functions = functions.split_ascii_whitespace().map(str::to_owned);
            let functions: Vec<String> = functions.collect();
            assert_eq!(
                reason_of_stage(&functions).as_deref(),
                reason,
                "{functions:?}"
            );
        }
    }
}
