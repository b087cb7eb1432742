//! Looking at a stage's processes now and then: what the kernel tells only of
//! the living.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::time::Duration;

use rustix::process::Pid;

use super::account::{Account, bytes, children, numbers_in, schedule, stat_field, tree};

/// What was seen of a stage.
#[derive(Debug, Default)]
pub struct Watch {
    /// How long each thread has run, and waited for a processor, by its number.
    threads: HashMap<i32, (Duration, Duration)>,
    /// Bytes that all have read and written, as far as that is known.
    bytes: Option<(u64, u64)>,
    /// Every process that belonged to it.
    pub processes: BTreeSet<i32>,
    /// How often the whole stage slept, by what it waited for.
    pub waits: BTreeMap<String, u64>,
}

impl Watch {
    /// Looks at a stage by its first process.
    pub fn look(&mut self, first: Pid) {
        let first = first.as_raw_pid();
        let mut sleeping = Vec::new();
        let mut awake = false;
        let mut moved = None;
        for pid in tree(first, &children) {
            self.processes.insert(pid);
            if let Some((taken, given)) = bytes(pid) {
                let (all_taken, all_given) = moved.unwrap_or_default();
                moved = Some((all_taken + taken, all_given + given));
            }
            for task in numbers_in(&format!("/proc/{pid}/task")) {
                let task_dir = format!("/proc/{pid}/task/{task}");
                if let Some(times) = schedule(&format!("{task_dir}/schedstat")) {
                    self.threads.insert(task, times);
                }
                match fs::read_to_string(format!("{task_dir}/wchan")).as_deref() {
                    // Running, or dead, or about to do either.
                    Ok("0") => awake |= !is_dead(&task_dir),
                    Ok(function) => sleeping.push(function.to_owned()),
                    Err(_) => {}
                }
            }
        }
        self.bytes = moved;
        if !awake && let Some(wait) = foremost(&sleeping) {
            *self.waits.entry(wait).or_default() += 1;
        }
    }

    /// What it had used when it was last looked at, `wall` being the time until
    /// then.
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

/// By the state, proc_pid_stat(5)'s third field.
fn is_dead(task_dir: &str) -> bool {
    let state = stat_field(task_dir, 3);
    state.is_none_or(|state| state == "Z" || state == "X")
}

/// What a stage waits for whose threads sleep in these functions, in words:
/// what concerns a pipe, if anything does, before waiting for a child.
fn foremost(sleeping: &[String]) -> Option<String> {
    let rank = |function: &str| match said(function) {
        Some(INPUT) => 0,
        Some(OUTPUT) => 1,
        Some(CHILD) => 3,
        _ => 2,
    };
    let function = sleeping.iter().min_by_key(|function| rank(function))?;
    let plain = function.split('.').next().unwrap_or(function);
    Some(said(function).unwrap_or(plain).to_owned())
}

/// Waiting for the stage before.
pub const INPUT: &str = "input (pipe empty)";
/// Waiting for the stage behind.
pub const OUTPUT: &str = "room for output (pipe full)";
/// Waiting for a child.
const CHILD: &str = "a child process";

/// What sleeping in a function of the kernel means. Those of pipes are in
/// fs/pipe.c and fs/splice.c, under the names that they have and had.
fn said(function: &str) -> Option<&'static str> {
    Some(match function.split('.').next()? {
        "pipe_read"
        | "anon_pipe_read"
        | "fifo_pipe_read"
        | "pipe_wait_readable"
        | "ipipe_prep"
        | "splice_from_pipe_next" => INPUT,
        "pipe_write" | "anon_pipe_write" | "fifo_pipe_write" | "pipe_wait_writable"
        | "opipe_prep" | "wait_for_space" => OUTPUT,
        "do_wait" | "kernel_wait4" | "do_wait4" => CHILD,
        "poll_schedule_timeout" | "do_sys_poll" | "do_select" | "ep_poll" | "do_epoll_wait" => {
            "poll or select"
        }
        "hrtimer_nanosleep" | "do_nanosleep" | "common_nsleep" => "a timer (sleep)",
        "futex_wait" | "futex_wait_queue" | "futex_wait_queue_me" | "__futex_wait" => {
            "another thread (futex)"
        }
        "folio_wait_bit_common"
        | "wait_on_page_bit"
        | "filemap_read"
        | "io_schedule"
        | "blk_io_schedule" => "a file's data (disk)",
        "n_tty_read" | "wait_woken" => "the terminal or a socket",
        "do_signal_stop" => "SIGCONT (it is stopped)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_comes_before_the_shell_that_waits_for_its_child() {
        let waits = |functions: &[&str]| {
            let functions: Vec<String> = functions.iter().map(|f| (*f).to_owned()).collect();
            foremost(&functions)
        };
        assert_eq!(
            waits(&["do_wait", "anon_pipe_read"]).as_deref(),
            Some(INPUT)
        );
        assert_eq!(
            waits(&["futex_wait_queue", "pipe_write"]).as_deref(),
            Some(OUTPUT)
        );
        assert_eq!(
            waits(&["do_wait", "unheard_of.isra.0"]).as_deref(),
            Some("unheard_of")
        );
        assert_eq!(waits(&["do_wait"]).as_deref(), Some(CHILD));
        assert_eq!(waits(&[]), None);
    }
}
