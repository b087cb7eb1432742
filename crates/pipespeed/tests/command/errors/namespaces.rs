//! Files of the system that are missing, and /proc of other processes.

use std::process::Command;

use crate::common::{PIPESPEED, conditions, run_alone};

/// Runs a command in a directory of its own. Checks its status, whether it ran `touch ran`, and
/// that it says one line with these words.
#[track_caller]
fn check(mut command: Command, code: i32, runs: bool, words: &str) {
    let directory = tempfile::tempdir().unwrap();
    command.current_dir(&directory).env("SHELL", "/bin/sh");
    let outcome = run_alone(command);
    let has_run = directory.path().join("ran").exists();
    assert_eq!(has_run, runs, "{outcome:#?}");
    outcome.refused(code, &[words]);
}

#[test]
fn proc_of_another_pid_namespace_is_not_ones_own() {
    for (args, code, runs) in [
        // Its status 1 means that something is stuck.
        (&["doctor", "--all", "--time", "0.1"][..], 2, false),
        (&["doctor", "1"], 2, false),
        (&["doctor", "--if-stuck", "1", "--", "touch ran"], 2, false),
        (&["top", "--once"], 1, false),
        (&["top", "--json", "/dev/null", "--", "touch ran"], 1, false),
        (&["profile", "-q", "--no-save", "--", "touch ran"], 1, false),
        (
            &["boost", "--prove=1", "-q", "--yes", "touch ran"],
            1,
            false,
        ),
        (&["boost", "--pid", "1"], 1, false),
        (&["boost", "touch ran; exit 7"], 7, true),
        (&["boost", "--report", "touch ran; exit 7"], 7, true),
        (&["pages", "--pid", "1", "--address", "0x1000"], 1, false),
    ] {
        let Some(command) = conditions::in_pid_namespace(PIPESPEED, args) else {
            return;
        };
        check(command, code, runs, "/proc shows another PID namespace");
    }
}

#[test]
fn without_proc_a_boosted_command_runs_as_it_is() {
    for options in ["", "--report"] {
        let script = "mount -t tmpfs none /proc && exec \"$0\" boost $1 'touch ran; exit 7'";
        let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &[options]) else {
            return;
        };
        check(
            command,
            7,
            true,
            "pipes are not raised: no process can be seen",
        );
    }
}

#[test]
fn a_missing_dev_null_is_named() {
    let script = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";
    for (args, words) in [
        (
            &["profile", "-q", "--no-save", "--", "touch ran"][..],
            "/dev/null does not exist",
        ),
        (
            &["profile", "-q", "--no-save", "vmsplice_splice_huge"],
            "the reader: /dev/null does not exist",
        ),
        (&["pages", "--pipe"], "--pipe: /dev/null does not exist"),
    ] {
        let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, args) else {
            return;
        };
        check(command, 1, false, words);
    }
}
