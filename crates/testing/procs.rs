//! Other processes, seen through /proc.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::TIMEOUT;

const VARIABLE: &str = "PIPESPEED_TEST_MARK";

/// An environment variable by which a command and its descendants are found.
#[derive(Debug)]
pub struct Mark(String);

impl Mark {
    /// Marks a command.
    pub fn on(command: &mut Command) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", std::process::id());
        command.env(VARIABLE, &value);
        Mark(format!("{VARIABLE}={value}"))
    }

    /// The living processes with the mark, and their command lines.
    pub fn processes(&self) -> Vec<(Pid, String)> {
        let entries = std::fs::read_dir("/proc").unwrap();
        entries
            .filter_map(|entry| {
                let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
                // Empty for zombies, unreadable for processes of other users.
                let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
                let marked = environ.split(|b| *b == 0).any(|e| e == self.0.as_bytes());
                let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                let line = String::from_utf8_lossy(&words).replace('\0', " ");
                marked.then_some((Pid::from_raw(pid)?, line))
            })
            .collect()
    }

    /// Waits until a process with this command line runs, and returns it.
    #[track_caller]
    pub fn running(&self, line: &str) -> Pid {
        let found = eventually(|| {
            let mut all = self.processes().into_iter();
            all.find_map(|(pid, found)| (found.trim() == line).then_some(pid))
        });
        found.unwrap_or_else(|| panic!("no {line:?}: {:?}", self.processes()))
    }

    /// The process at one end of a running trial: `writer` or `reader`.
    pub fn endpoint(&self, role: &str) -> Option<Pid> {
        let wanted = format!("__endpoint {role}");
        let mut all = self.processes().into_iter();
        all.find_map(|(pid, line)| line.contains(&wanted).then_some(pid))
    }

    /// As [`endpoint`](Self::endpoint), but `None` until the process has its instructions:
    /// before that, it may not yet be set to die with its parent.
    pub fn instructed_endpoint(&self, role: &str) -> Option<Pid> {
        let pid = self.endpoint(role)?;
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).ok()?;
        let mut targets = descriptors.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        // The memory that both ends share comes with the instructions, after that.
        let words =
            |target: std::path::PathBuf| target.starts_with("/memfd:pipespeed-words (deleted)");
        targets.any(words).then_some(pid)
    }

    /// Checks that no process is left; waits for those that are ending.
    #[track_caller]
    pub fn nobody_left(&self) {
        self.only_left(&[]);
    }

    /// Checks that only processes with these sorted command lines are left; waits for those that
    /// are ending.
    #[track_caller]
    pub fn only_left(&self, lines: &[&str]) {
        let are_left = || {
            let all = self.processes().into_iter();
            let mut found: Vec<String> = all.map(|(_, line)| line.trim().to_owned()).collect();
            found.sort();
            (found == lines).then_some(())
        };
        let left = eventually(are_left);
        assert!(left.is_some(), "left over: {:?}", self.processes());
    }
}

impl Drop for Mark {
    /// Kills the processes that a failed test left.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// What tests use of /proc/PID/stat.
#[derive(Debug)]
pub struct Stat {
    /// `S` sleeps, `T` is stopped.
    pub state: char,
    /// Its process group. 0 if that has its leader outside of the PID namespace.
    pub group: i32,
    /// Its session; 0 as above.
    pub session: i32,
    /// The group in the foreground of its terminal.
    pub foreground: i32,
}

impl Stat {
    /// Of a process; `None` if it has ended.
    pub fn of(pid: Pid) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.parse().ok()?;
        let mut numbers = fields.skip(1).map_while(|field| field.parse().ok());
        let (group, session) = (numbers.next()?, numbers.next()?);
        Some(Stat {
            state,
            group,
            session,
            foreground: numbers.nth(1)?,
        })
    }
}

/// Calls `find` until it returns something; `None` after the deadline.
pub fn eventually<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        // Most look through /proc, which takes as long.
        thread::sleep(Duration::from_millis(5));
    }
}
