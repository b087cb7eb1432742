//! Job control in interactive shells.

use std::process::Command;

use crate::common::procs::{Mark, eventually};
use crate::common::terminal::Terminal;
use crate::common::{PIPESPEED, skip};

/// The states of the marked processes of a pipeline by name.
fn states(mark: &Mark, name: &str) -> Vec<char> {
    let all = mark.processes().into_iter();
    let named = all.filter(|(_, line)| line.starts_with(name));
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    named
        .filter_map(|(pid, _)| state(pid.as_raw_pid()))
        .collect()
}

fn job_control(shell: &str, options: &[&str]) {
    let found = Command::new(shell).arg("-c").arg("true").status();
    if found.is_err() {
        skip(format!("{shell} is not installed"));
        return;
    }
    let mut terminal = Terminal::new(80);
    let mut command = Command::new(shell);
    command.args(options).arg("-i");
    command
        .env("SHELL", "/bin/sh")
        .env("PS1", "ready> ")
        .env("TERM", "dumb")
        .env("ENV", "");
    command.stdin(terminal.input()).stdout(terminal.input());
    let mark = Mark::on(&mut command);
    let running = terminal.start(command);
    let is = |wanted: fn(char) -> bool| {
        eventually(|| {
            let states = states(&mark, "sleep 1001");
            (states.len() == 1 && states.into_iter().all(wanted)).then_some(())
        })
        .unwrap_or_else(|| panic!("{shell}: {:?}", mark.processes()));
    };
    terminal.type_in(&format!("{PIPESPEED} boost 'sleep 1001 | cat'\n"));
    is(|state| state == 'S');
    terminal.type_in("\x1a");
    is(|state| state == 'T');
    terminal.type_in("bg\n");
    is(|state| state == 'S');
    terminal.type_in("fg\n");
    terminal.type_in("echo not read by the job\n");
    is(|state| state == 'S');
    terminal.type_in("\x03");
    let gone = eventually(|| states(&mark, "sleep 1001").is_empty().then_some(()));
    assert!(gone.is_some(), "{shell}: {:?}", mark.processes());
    let status = if shell == "fish" { "$status" } else { "$?" };
    terminal.type_in(&format!(
        "{PIPESPEED} boost 'exit 42'; echo status={status}.\n"
    ));
    terminal.until("shown", |text| text.contains("status=42."));
    terminal.type_in(&format!("{PIPESPEED} boost 'sleep 1002 | cat'\n"));
    eventually(|| (states(&mark, "sleep 1002") == ['S']).then_some(())).unwrap();
    terminal.type_in("\x03");
    terminal.type_in("exit 0\n");
    running.finish();
    mark.nobody_left();
}

#[test]
fn jobs_of_bash_are_stopped_continued_and_interrupted() {
    job_control("bash", &["--norc", "--noprofile"]);
}

#[test]
fn jobs_of_dash_are_stopped_continued_and_interrupted() {
    job_control("dash", &[]);
}

#[test]
fn jobs_of_zsh_are_stopped_continued_and_interrupted() {
    job_control("zsh", &["-f"]);
}

#[test]
fn jobs_of_fish_are_stopped_continued_and_interrupted() {
    job_control("fish", &["--no-config"]);
}
