//! Job control in interactive shells.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::boost;
use crate::common::procs::{Mark, Stat, eventually};
use crate::common::terminal::Terminal;
use crate::common::{PIPESPEED, skip};

/// The states of the marked processes of this name, and whether they are in the foreground
/// of their terminal.
fn states(mark: &Mark, name: &str) -> Vec<(char, bool)> {
    let all = mark.processes().into_iter();
    let named = all.filter(|(_, line)| line.starts_with(name));
    named
        .filter_map(|(pid, _)| Stat::of(pid))
        .map(|stat| (stat.state, stat.group == stat.foreground))
        .collect()
}

fn job_control(shell: &str, options: &str) {
    let found = Command::new(shell).arg("-c").arg("true").status();
    if found.is_err() {
        skip(format!("{shell} is not installed"));
        return;
    }
    let mut terminal = Terminal::new(80);
    let mut command = Command::new(shell);
    command.args(options.split_whitespace()).arg("-i");
    command
        .env("SHELL", "/bin/sh")
        .env("PS1", "ready> ")
        .env("TERM", "dumb")
        .env("ENV", "");
    command.stdin(terminal.input()).stdout(terminal.input());
    let mark = Mark::on(&mut command);
    let running = terminal.start(command);
    let wait_for = |name: &str, state: char, in_foreground: bool| {
        let is_so = || (states(&mark, name) == [(state, in_foreground)]).then_some(());
        eventually(is_so).unwrap_or_else(|| panic!("{shell}: {:?}", states(&mark, name)));
    };
    terminal.type_in(&format!("{PIPESPEED} boost 'sleep 1001 | cat'\n"));
    wait_for("sleep 1001", 'S', true);
    terminal.type_in("\x1a");
    wait_for("sleep 1001", 'T', false);
    terminal.type_in("bg\n");
    wait_for("sleep 1001", 'S', false);
    terminal.type_in("fg\n");
    wait_for("sleep 1001", 'S', true);
    terminal.type_in("\x03");
    let gone = eventually(|| states(&mark, "sleep 1001").is_empty().then_some(()));
    assert!(gone.is_some(), "{shell}: {:?}", mark.processes());
    let status = if shell == "fish" { "$status" } else { "$?" };
    terminal.type_in(&format!(
        "{PIPESPEED} boost 'exit 42'; echo status={status}.\n"
    ));
    terminal.until("shown", |text| text.contains("status=42."));
    terminal.type_in(&format!("{PIPESPEED} boost 'sleep 1002 | cat'\n"));
    wait_for("sleep 1002", 'S', true);
    terminal.type_in("\x03");
    terminal.type_in("exit 0\n");
    running.finish();
    mark.nobody_left();
}

#[test]
fn jobs_of_every_shell_are_stopped_continued_and_interrupted() {
    job_control("bash", "--norc --noprofile");
    job_control("dash", "");
    job_control("zsh", "-f");
    job_control("fish", "--no-config");
}

#[test]
fn under_report_the_command_decides_what_ctrl_c_does() {
    let mut terminal = Terminal::new(80);
    // Longer than a second Ctrl-C would be taken for the first.
    let line = "n=0; trap 'n=$((n + 1)); sleep 0.3; echo got $n.; [ $n = 3 ] && exit 7' INT; \
         echo ready.; while :; do sleep 0.1; done";
    let mut command = boost("--report", line);
    command.stdin(terminal.input()).stdout(terminal.input());
    let mark = Mark::on(&mut command);
    let running = terminal.start(command);
    for shown in ["ready.", "got 1.", "got 2."] {
        terminal.until(shown, |text| text.contains(shown));
        terminal.type_in("\x03");
    }
    terminal.until("reported", |text| text.contains("no pipe was raised"));
    assert_eq!(running.finish().code(), Some(7));
    mark.nobody_left();
}

#[test]
fn closing_the_terminal_ends_the_command() {
    for (options, code, signal) in [("", None, Some(1)), ("--report", Some(129), None)] {
        let mut terminal = Terminal::new(80);
        let mut command = boost(options, "echo ready.; sleep 1003 | cat");
        command.stdin(terminal.input()).stdout(terminal.input());
        let mark = Mark::on(&mut command);
        let running = terminal.start(command);
        terminal.until("started", |text| text.contains("ready."));
        let is_sleep = |(_, line): &(_, String)| line.starts_with("sleep 1003");
        eventually(|| mark.processes().iter().any(is_sleep).then_some(())).unwrap();
        drop(terminal);
        let status = running.finish();
        assert_eq!(
            (status.code(), status.signal()),
            (code, signal),
            "{options}"
        );
        mark.nobody_left();
    }
}
