//! Other people's commands: what all subcommands that start one have in common.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1};

use crate::common::conditions::{
    blocked, failing_call, failing_call_with, ignored, no_pidfd_of_others, soft_limit,
};
use crate::common::{Outcome, PIPESPEED, run_alone, says, start_marked};
use rustix::process::{Resource, Signal};

/// Those that start a command for sh.
const WAYS: [&str; 6] = [
    "doctor --",
    "doctor --if-stuck 5s --",
    "top --once --",
    "profile --quiet --no-save --",
    "boost --shell /bin/sh",
    "boost --shell /bin/sh --report",
];

/// Runs a command in one of these ways. Returns what it wrote to its file `out`.
fn run_in(way: &str, script: &str, prepare: impl Fn(&mut Command)) -> (Outcome, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = crate::common::pipespeed(way);
    command.arg(script).current_dir(&directory);
    prepare(&mut command);
    let outcome = run_alone(command);
    let out = fs::read_to_string(directory.path().join("out"));
    (outcome, out.unwrap_or_default())
}

#[test]
fn a_command_inherits_ignored_signals() {
    const SCRIPT: &str = "grep SigIgn /proc/self/status > out";
    for signal in [SIGPIPE, SIGCHLD] {
        let directory = tempfile::tempdir().unwrap();
        let mut plain = Command::new("/bin/sh");
        plain.args(["-c", SCRIPT]).current_dir(&directory);
        ignored(&mut plain, signal);
        run_alone(plain).succeeded_in_silence();
        let plain = fs::read_to_string(directory.path().join("out")).unwrap();
        let proof = "boost --shell /bin/sh --prove=1 --quiet";
        for way in WAYS.into_iter().chain([proof]) {
            let (outcome, out) = run_in(way, SCRIPT, |command| ignored(command, signal));
            assert_eq!(out, plain, "{signal} {way}: {outcome:#?}");
        }
    }
}

#[test]
fn a_command_inherits_blocked_signals() {
    // Not by a shell, which may unblock them.
    const WORDS: [&str; 3] = ["cp", "/proc/self/status", "out"];
    let mask_in = |mut command: Command| {
        let directory = tempfile::tempdir().unwrap();
        command.current_dir(&directory);
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1] {
            blocked(&mut command, signal);
        }
        let outcome = run_alone(command);
        let status = fs::read_to_string(directory.path().join("out"));
        let status = status.unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
        let mask = status.lines().find(|line| line.starts_with("SigBlk"));
        mask.unwrap().to_owned()
    };
    let mut plain = Command::new(WORDS[0]);
    plain.args(&WORDS[1..]);
    let plain = mask_in(plain);
    let proof = "boost --shell /bin/sh --prove=1 --quiet";
    for way in WAYS.into_iter().chain([proof]) {
        let mut command = crate::common::pipespeed(way);
        command.args(WORDS);
        assert_eq!(mask_in(command), plain, "{way}");
    }
}

#[test]
fn a_command_inherits_a_closed_standard_input() {
    for way in WAYS {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("exec \"$0\" {way} '[ -e /proc/self/fd/0 ] || echo closed > out' <&-");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, PIPESPEED])
            .current_dir(&directory);
        let outcome = run_alone(command);
        let out = fs::read_to_string(directory.path().join("out"));
        assert_eq!(out.unwrap_or_default(), "closed\n", "{way}: {outcome:#?}");
    }
}

#[test]
fn a_command_runs_without_pidfds_and_the_cause_is_named() {
    for (errno, cause) in [
        (libc::ENOSYS, "by Linux before 5.3"),
        (libc::EPERM, "by a seccomp filter"),
    ] {
        for way in WAYS {
            if !failing_call(&mut Command::new("true"), libc::SYS_pidfd_open, errno) {
                return;
            }
            let script = "sleep 0.3 | cat; echo ran > out; exit 3";
            let (outcome, out) = run_in(way, script, |command| {
                failing_call(command, libc::SYS_pidfd_open, errno);
            });
            assert_eq!(out, "ran\n", "{way}: {outcome:#?}");
            let has_status =
                way.starts_with("boost") || way.contains("--once") || way.contains("stuck");
            assert_eq!(
                outcome.code,
                Some(if has_status { 3 } else { 0 }),
                "{way}: {outcome:#?}"
            );
            let said = format!("pipespeed: pidfd_open(2) is refused ({cause}");
            // The sidecar lacks nothing.
            let count = if way == "boost --shell /bin/sh" { 0 } else { 1 };
            assert_eq!(
                outcome.err.matches(&said).count(),
                count,
                "{way}: {outcome:#?}"
            );
        }
    }
}

/// They are refused only once the command runs.
#[test]
fn a_command_goes_on_without_a_pidfd_of_its_own() {
    for errno in [libc::ENOMEM, libc::EPERM] {
        if !no_pidfd_of_others(&mut Command::new("true"), errno) {
            return;
        }
        for way in WAYS {
            let script = "sleep 0.3 | cat; echo ran > out; exit 3";
            let (outcome, out) = run_in(way, script, |command| {
                no_pidfd_of_others(command, errno);
            });
            let has_status = !matches!(way, "doctor --" | "profile --quiet --no-save --");
            let status = if has_status { 3 } else { 0 };
            assert_eq!(
                (outcome.code, &*out),
                (Some(status), "ran\n"),
                "{way}: {outcome:#?}"
            );
            let is_denied = outcome.err.contains("can't start the command");
            assert!(!is_denied, "{way}: {outcome:#?}");
        }
    }
}

#[test]
fn a_command_keeps_its_status_where_poll_is_refused() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        if !failing_call(&mut Command::new("true"), libc::SYS_ppoll, errno) {
            return;
        }
        // Nothing can be sampled, which ends a profile.
        for way in WAYS.iter().filter(|way| !way.starts_with("profile")) {
            let script = "sleep 0.3 | cat; echo ran > out; exit 3";
            let (outcome, out) = run_in(way, script, |command| {
                failing_call(command, libc::SYS_ppoll, errno);
            });
            let status = if *way == "doctor --" { 0 } else { 3 };
            assert_eq!(
                (outcome.code, &*out),
                (Some(status), "ran\n"),
                "{way}: {outcome:#?}"
            );
            assert!(outcome.err.contains(": poll(2): "), "{way}: {outcome:#?}");
        }
        let (outcome, _) = run_in("boost --prove=1 --quiet", "true", |command| {
            failing_call(command, libc::SYS_ppoll, errno);
        });
        outcome.succeeded();
    }
}

/// The flags of clone(2) by which glibc starts a thread (pthread_create in nptl).
const THREAD_FLAGS: u32 = 0x003d_0f00;

#[test]
fn a_command_runs_where_no_thread_can_be_started() {
    let no_threads = |command: &mut Command| {
        // Without it glibc uses clone(2), whose flags a filter can read.
        failing_call(command, libc::SYS_clone3, libc::ENOSYS)
            && failing_call_with(command, libc::SYS_clone, (0, THREAD_FLAGS), libc::EAGAIN)
    };
    if !no_threads(&mut Command::new("true")) {
        return;
    }
    for way in WAYS {
        let (outcome, out) = run_in(way, "sleep 0.3 | cat; echo ran > out", |command| {
            no_threads(command);
        });
        assert_eq!(
            (outcome.code, &*out),
            (Some(0), "ran\n"),
            "{way}: {outcome:#?}"
        );
    }
    // Its output must be read while it is observed.
    let (outcome, _) = run_in("boost --prove=1 --quiet", "echo ran > out", |command| {
        no_threads(command);
    });
    outcome.refused(
        1,
        &["a thread for the command's output", "ulimit -u", "pids.max"],
    );
}

#[test]
fn a_shell_that_is_not_in_path_runs_the_command() {
    for way in WAYS {
        let (outcome, out) = run_in(way, "echo $PATH >out", |command| {
            command.env("PATH", "/no/such/directory");
        });
        assert_eq!(out, "/no/such/directory\n", "{way}: {outcome:#?}");
    }
}

/// The command has longer arguments than this program was started with, by the options of --report.
#[test]
fn arguments_too_long_for_the_command_have_the_status_of_shells() {
    let directory = std::path::Path::new(PIPESPEED).parent().unwrap();
    let run = |bytes: usize| {
        // Short names: the program starts itself as /proc/self/exe.
        let mut command = Command::new("./pipespeed");
        command.arg0("p").current_dir(directory);
        command.args(["boost", "--report", "--", "/bin/true", "x"]);
        for at in 0..=bytes / VARIABLE {
            let length = (bytes - at * VARIABLE).min(VARIABLE);
            command.env(format!("FILL{at:04}"), "x".repeat(length));
        }
        // A quarter of it is for arguments and environment (execve(2)).
        soft_limit(&mut command, Resource::Stack, 1 << 20);
        command.stdin(std::process::Stdio::null()).output()
    };
    const VARIABLE: usize = 100_000;
    let (mut starts, mut fails) = (0, 1 << 20);
    while fails - starts > 1 {
        let middle = (starts + fails) / 2;
        match run(middle) {
            Ok(_) => starts = middle,
            Err(_) => fails = middle,
        }
    }
    let outcome = run(starts).unwrap();
    let err = String::from_utf8(outcome.stderr).unwrap();
    assert_eq!(outcome.status.code(), Some(126), "{err}");
    says(
        &err,
        &["can't start the command /bin/true: Argument list too long"],
    );
}

/// A job of the shell that became this program loses processes to it, as the command does.
#[test]
fn a_signal_ends_nothing_of_the_shells_job() {
    let sleeps: Vec<String> = (1001..=1020).map(|time| format!("sleep {time}")).collect();
    for way in ["doctor", "profile --no-save", "top --json /dev/null"] {
        let script = format!(
            "for time in $(seq 1001 1020); do (sleep $time >/dev/null 2>&1 &); sleep 0.1; done &
            exec \"$0\" {way} -- 'sleep 2000; :'"
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script, PIPESPEED]);
        let (running, mark) = start_marked(command);
        mark.running("sleep 2000");
        mark.running("sleep 1020");
        running.send(Signal::TERM);
        running.finish();
        mark.only_left(&sleeps.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
