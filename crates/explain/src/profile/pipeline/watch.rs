//! Observation of a stage's running processes in /proc.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::time::Duration;

use rustix::process::Pid;

use super::account::{Account, bytes, children, numbers_in, schedule, stat_field, tree};

/// Processes, threads and waits of a stage.
#[derive(Debug, Default)]
pub struct Watch {
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
        for pid in tree(first, &children) {
            self.processes.insert(pid);
            if let Some((read, written)) = bytes(pid) {
                let (all_read, all_written) = moved.unwrap_or_default();
                moved = Some((all_read + read, all_written + written));
            }
            for task in numbers_in(&format!("/proc/{pid}/task")) {
                let task_dir = format!("/proc/{pid}/task/{task}");
                if let Some(times) = schedule(&format!("{task_dir}/schedstat")) {
                    self.threads.insert(task, times);
                }
                match fs::read_to_string(format!("{task_dir}/wchan")).as_deref() {
                    // A running, exiting or dead thread.
                    Ok("0") => awake |= !is_dead(&task_dir),
                    Ok(function) => sleeping.push(function.to_owned()),
                    Err(_) => {}
                }
            }
        }
        self.bytes = moved;
        if !awake && let Some(wait) = reason_of_stage(&sleeping) {
            *self.waits.entry(wait).or_default() += 1;
        }
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

/// Whether a thread is dead, by the third field of proc_pid_stat(5).
fn is_dead(task_dir: &str) -> bool {
    let state = stat_field(task_dir, 3);
    state.is_none_or(|state| state == "Z" || state == "X")
}

/// What a stage waits for if its threads sleep in these kernel functions. If there
/// are several reasons, a pipe comes first and a child process last.
fn reason_of_stage(sleeping: &[String]) -> Option<String> {
    let rank = |function: &str| match reason_of_function(function) {
        Some(INPUT) => 0,
        Some(OUTPUT) => 1,
        Some(CHILD) => 3,
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

/// The reason for sleeping in a kernel function. Those of pipes are in fs/pipe.c and
/// fs/splice.c, with their names in several kernels.
fn reason_of_function(function: &str) -> Option<&'static str> {
    Some(match function.split('.').next()? {
        "pipe_read" | "anon_pipe_read" | "fifo_pipe_read" => INPUT,
        "pipe_wait_readable" | "ipipe_prep" | "splice_from_pipe_next" => INPUT,
        "pipe_write" | "anon_pipe_write" | "fifo_pipe_write" => OUTPUT,
        "pipe_wait_writable" | "opipe_prep" | "wait_for_space" => OUTPUT,
        "do_wait" | "kernel_wait4" | "do_wait4" => CHILD,
        "poll_schedule_timeout" | "do_sys_poll" | "do_select" => "poll or select",
        "ep_poll" | "do_epoll_wait" => "poll or select",
        "hrtimer_nanosleep" | "do_nanosleep" | "common_nsleep" => "a timer (sleep)",
        "futex_wait" | "futex_wait_queue" | "futex_wait_queue_me" | "__futex_wait" => {
            "another thread (futex)"
        }
        "folio_wait_bit_common" | "wait_on_page_bit" => "a file's data (disk)",
        "filemap_read" | "io_schedule" | "blk_io_schedule" => "a file's data (disk)",
        "n_tty_read" | "wait_woken" => "the terminal or a socket",
        "do_signal_stop" => "SIGCONT (it is stopped)",
        _ => return None,
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
