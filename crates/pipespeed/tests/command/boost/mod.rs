//! `boost`.

mod proof;
mod running;
mod sidecar;
mod terminal;
mod unchanged;

use std::fs::File;
use std::process::Command;

use rustix::process::Pid;

use crate::common::pipespeed;
use crate::common::procs::Mark;

/// Boosts a line for the shell.
fn boost(options: &str, line: &str) -> Command {
    let mut command = pipespeed(&format!("boost {options}"));
    command.env("SHELL", "/bin/sh").arg(line);
    command
}

/// The number of marked processes whose standard input is a raised pipe.
fn raised_inputs(mark: &Mark) -> usize {
    let is_raised = |pid: Pid| {
        let end = File::open(format!("/proc/{}/fd/0", pid.as_raw_pid())).ok()?;
        Some(fastpipe::pipe::capacity(end).ok()? == 1 << 20)
    };
    let all = mark.processes().into_iter();
    all.filter(|(pid, _)| is_raised(*pid) == Some(true)).count()
}

/// The process that raises the pipes of a marked command.
fn sidecar(mark: &Mark) -> Option<Pid> {
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let parent = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (_, after) = status.split_once("PPid:")?;
        after.lines().next()?.trim().parse::<i32>().ok()
    };
    // Not the process that forks it, which has the same name for an instant.
    let is_sidecar = |pid: Pid| {
        let pid = pid.as_raw_pid();
        let parent = parent(pid).map(name);
        name(pid) == "pipespeed-boost\n" && parent.is_some_and(|it| !it.starts_with("pipespeed"))
    };
    let mut all = mark.processes().into_iter();
    all.find_map(|(pid, _)| is_sidecar(pid).then_some(pid))
}
