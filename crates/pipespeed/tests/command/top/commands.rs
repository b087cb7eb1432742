//! `top -- COMMAND`.

use std::process::Command;

use nix::sys::signal::Signal::SIGHUP;
use rustix::process::{Pid, Signal};

use crate::common::conditions::{ignored, in_mount_namespace, starting_pid_namespace};
use crate::common::procs::Mark;
use crate::common::terminal::Terminal;
use crate::common::{PIPESPEED, json, pipespeed, run_alone};
use crate::doctor::assert_contains;

/// The command on a terminal.
fn on(terminal: &Terminal, script: &str) -> Command {
    let mut command = pipespeed("top --");
    // Names stand next to each other without colours.
    command.arg(script).env("NO_COLOR", "1");
    command.stdin(terminal.input()).stdout(terminal.input());
    command
}

#[test]
fn a_command_that_would_write_to_the_screen_is_refused() {
    let mut terminal = Terminal::new(200);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let script = format!("touch {} | cat", file.display());
    let status = terminal.start(on(&terminal, &script)).finish();
    assert_eq!(status.code(), Some(2));
    let text = terminal.text();
    assert_contains(
        text,
        &["redirect it, as in pipespeed top -- 'COMMAND > FILE'"],
    );
    assert!(!text.contains('\x1b'), "{text:?}");
    assert!(!file.exists(), "it was not started");
}

#[test]
fn the_screen_ends_with_the_command_and_its_messages_follow() {
    let mut terminal = Terminal::new(80);
    let directory = tempfile::tempdir().unwrap();
    // What opens /dev/stderr must not empty it.
    let script = "yes | head -c 200M | cat > /dev/null; mkfifo seen; tail -n 1 seen | cat >&2; \
                  echo begun >&2; echo both | tee /dev/stderr > /dev/null; echo over >&2; exit 3";
    let mut command = on(&terminal, script);
    command.current_dir(&directory);
    let running = terminal.start(command);
    terminal.until("shown", |text| text.contains("tail | cat"));
    std::fs::write(directory.path().join("seen"), "").unwrap();
    assert_eq!(running.finish().code(), Some(3));
    let text = terminal.text();
    let (_, after) = text.rsplit_once("\x1b[?1049l").unwrap();
    assert_contains(after, &["pipespeed top: ", "begun", "both", "over"]);
    assert!(!after.contains("\x1b[?"), "{after:?}");
}

#[test]
fn output_of_command_may_be_file_and_screen_the_terminal() {
    let mut terminal = Terminal::new(80);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let script = "until [ -e seen ]; do sleep 0.1; done | cat; echo done";
    let mut command = on(&terminal, script);
    command.current_dir(&directory);
    command.stdout(std::fs::File::create(&output).unwrap());
    let running = terminal.start(command);
    terminal.until("shown", |text| text.contains("| cat"));
    std::fs::write(directory.path().join("seen"), "").unwrap();
    assert!(running.finish().success());
    assert_eq!(std::fs::read_to_string(output).unwrap(), "done\n");
}

#[test]
fn quitting_leaves_the_command_running_and_a_signal_reaches_it() {
    let mut terminal = Terminal::new(80);
    let mut command = on(&terminal, "sleep 1000 | cat > /dev/null");
    let mark = Mark::on(&mut command);
    let running = terminal.start(command);
    terminal.until("shown", |text| text.contains("sleep | cat"));
    terminal.type_in("q");
    terminal.until("left", |text| text.contains("goes on in the foreground"));
    let is_sleep = |line: &str| line.starts_with("sleep 1000");
    assert!(mark.processes().iter().any(|(_, line)| is_sleep(line)));
    running.send(Signal::TERM);
    assert_eq!(running.finish().code(), Some(143));
    // Only the shell was signalled.
    let sleep = mark
        .processes()
        .into_iter()
        .find(|(_, line)| is_sleep(line));
    if let Some((pid, _)) = sleep {
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    mark.nobody_left();
}

#[test]
fn a_command_is_awaited_when_the_terminal_is_gone() {
    for (is_ignored, status) in [(true, 7), (false, 129)] {
        let directory = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::new(80);
        let script = "until [ -e gone ]; do sleep 0.1; done | cat > /dev/null; touch over; exit 7";
        let mut command = on(&terminal, script);
        command.current_dir(&directory);
        if is_ignored {
            ignored(&mut command, SIGHUP);
        }
        let running = terminal.start(command);
        terminal.until("shown", |text| text.contains("sh | cat"));
        drop(terminal);
        if is_ignored {
            std::fs::write(directory.path().join("gone"), "").unwrap();
        }
        assert_eq!(running.finish().code(), Some(status));
        assert_eq!(directory.path().join("over").exists(), is_ignored);
    }
}

/// The same in a shell, which has the terminal for longer.
fn in_shell_on(terminal: &Terminal, script: &str) -> Command {
    let mut command = Command::new("sh");
    let shell = "\"$0\" top -- \"$1\"; echo status $?; read -r answer";
    command.args(["-c", shell, PIPESPEED, script]);
    command.env("NO_COLOR", "1");
    command.stdin(terminal.input()).stdout(terminal.input());
    command
}

#[test]
fn messages_are_printed_if_this_is_killed_and_those_of_what_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let until = |name: &str| format!("until [ -e {name} ]; do sleep 0.1; done");
    let killed = format!(
        "echo before >&2; {} | cat > /dev/null; echo after >&2",
        until("killed")
    );
    let left = format!(
        "({}; echo after >&2) & echo before >&2; sleep 0.1 | cat > /dev/null",
        until("killed")
    );
    for (script, is_killed) in [(killed, true), (left, false)] {
        let mut terminal = Terminal::new(80);
        let mut command = in_shell_on(&terminal, &script);
        command.current_dir(&directory);
        let mark = Mark::on(&mut command);
        let running = terminal.start(command);
        if is_killed {
            terminal.until("shown", |text| text.contains("sh | cat"));
            let name = |pid: Pid| std::fs::read_to_string(format!("/proc/{pid}/comm"));
            let mut all = mark.processes().into_iter();
            // The process with the messages has another name.
            let top = all.find(|(pid, line)| {
                line.contains(" top -- ") && name(*pid).is_ok_and(|name| name == "pipespeed\n")
            });
            rustix::process::kill_process(top.unwrap().0, Signal::KILL).unwrap();
        }
        terminal.until("printed", |text| text.contains("before\r\n"));
        terminal.until("ended", |text| text.contains("status "));
        std::fs::write(directory.path().join("killed"), "").unwrap();
        terminal.until("printed", |text| text.contains("after\r\n"));
        terminal.type_in("\n");
        running.finish();
        std::fs::remove_file(directory.path().join("killed")).unwrap();
    }
}

#[test]
fn a_command_needs_no_temporary_directory() {
    let mut terminal = Terminal::new(80);
    let mut command = on(&terminal, "echo over >&2; sleep 0.1 | cat > /dev/null");
    command.env("TMPDIR", "/no/such/directory");
    assert!(terminal.start(command).finish().success());
    let text = terminal.text();
    let (_, after) = text.rsplit_once("\x1b[?1049l").unwrap();
    assert_contains(after, &["over"]);
}

/// A PID namespace ends with its first process, which is the command here.
#[test]
fn in_a_namespace_that_has_no_process_yet_the_messages_disturb_the_screen() {
    let Some(mut command) = starting_pid_namespace(PIPESPEED) else {
        return;
    };
    let mut terminal = Terminal::new(80);
    command.args(["top", "--", "echo over >&2; sleep 0.1; exit 3"]);
    command.stdin(terminal.input()).stdout(terminal.input());
    assert_eq!(terminal.start(command).finish().code(), Some(3));
    assert_contains(terminal.text(), &["over"]);
}

#[test]
fn a_full_temporary_directory_takes_no_messages() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=64k none "$1" || exit 99
        export TMPDIR="$1" NO_COLOR=1
        exec "$0" top -- 'seq 20000 >&2 && sleep 0.1 | cat > /dev/null'"#;
    let here = directory.path().to_str().unwrap();
    let Some(mut command) = in_mount_namespace(script, PIPESPEED, &[here]) else {
        return;
    };
    let mut terminal = Terminal::new(80);
    command.stdin(terminal.input()).stdout(terminal.input());
    let running = terminal.start(command);
    terminal.until("shown", |text| text.contains("\n20000\r\n"));
    assert!(running.finish().success());
}

#[test]
fn a_command_is_awaited_if_its_records_cannot_be_written() {
    for (script, status) in [
        ("sleep 2 | cat; echo over", 1),
        ("sleep 2 | cat; echo over; exit 4", 4),
    ] {
        let mut command = pipespeed("top --json /dev/full --");
        command.arg(script);
        let outcome = run_alone(command);
        outcome.assert_ended(status, "over\n");
        assert_contains(&outcome.err, &["--json: cannot write /dev/full"]);
    }
}

#[test]
fn records_that_have_no_file_any_more_are_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    let mut command = pipespeed("top --json");
    let script = "until [ -s \"$0\" ]; do sleep 0.05; done; rm \"$0\"; mkdir \"$0\"; sleep 3 | cat";
    command
        .arg(&file)
        .args(["--", "sh", "-c", script])
        .arg(&file);
    let outcome = run_alone(command);
    outcome.assert_ended(1, "");
    assert_contains(&outcome.err, &["what would be written is lost until that"]);
}

#[test]
fn records_of_a_command_end_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    let mut command = pipespeed("top --json");
    let twice = r#"until [ "$(wc -l < "$0")" -ge 2 ]; do sleep 0.1; done | cat; echo out; exit 4"#;
    command
        .arg(&file)
        .args(["--", "sh", "-c", twice])
        .arg(&file);
    let outcome = run_alone(command);
    outcome.assert_ended(4, "out\n");
    let records = std::fs::read_to_string(file).unwrap();
    assert!(records.ends_with('\n'), "{records}");
    for line in records.lines() {
        assert_eq!(json(line)["kind"], "top", "{records}");
    }
    let start_fails = run_alone(pipespeed("top --once -- /no/such/program x"));
    start_fails.refused(127, &["can't start the command /no/such/program"]);
}
