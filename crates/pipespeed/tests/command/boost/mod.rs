//! `boost`.

mod proof;
mod running;
mod sidecar;
mod terminal;
mod unchanged;

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

/// The process that raises the pipes of a marked command.
fn sidecar(mark: &Mark) -> Option<Pid> {
    let is_sidecar = |pid: Pid| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()));
        name.is_ok_and(|name| name == "pipespeed-boost\n")
    };
    let mut all = mark.processes().into_iter();
    all.find_map(|(pid, _)| is_sidecar(pid).then_some(pid))
}
