//! `check` where it is started in odd ways, or where something that it needs is
//! lacking.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{Outcome, json, names_in, pipespeed, run_alone, start};
use nix::sys::signal::Signal as Inherited;
use pipespeed::check::PATIENCE;
use rustix::fs::inotify;
use rustix::process::{Resource, Signal, geteuid};

/// The verdict of a check of a record that was printed, and all that it says.
#[track_caller]
fn said(outcome: &Outcome, name: &str) -> (String, String) {
    let record = json(&outcome.out);
    let mut checks = record["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == name).unwrap();
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let said = format!("{} ({})", text("seen"), text("note"));
    (text("verdict"), said)
}

/// Checks that this one is refused, and says these words.
#[track_caller]
fn refused(outcome: &Outcome, name: &str, words: &[&str]) {
    let (verdict, said) = said(outcome, name);
    assert_eq!(verdict, "refused", "{name}: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {name}: {said}");
    }
}

#[test]
fn a_signal_ends_it_once_nothing_of_a_check_is_left() {
    let signals = [
        (Signal::INT, 130, "SIGINT"),
        (Signal::TERM, 143, "SIGTERM"),
        (Signal::HUP, 129, "SIGHUP"),
    ];
    for (signal, status, name) in signals.into_iter().cycle().take(12) {
        let directory = tempfile::tempdir().unwrap();
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, directory.path(), inotify::WatchFlags::CREATE).unwrap();
        let mut command = pipespeed("check");
        command.env("TMPDIR", directory.path());
        let mark = Mark::on(&mut command);
        let running = start(command);
        // A FIFO is being made, with many checks to come.
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        events.next().unwrap();
        running.send(signal);
        let outcome = running.finish().refused(status, &["interrupted by", name]);
        assert!(names_in(directory.path()).is_empty(), "{outcome:#?}");
        mark.nobody_left();
    }
}

#[test]
fn what_a_parent_blocks_or_ignores_changes_nothing() {
    let checks = "check -q --only semantics,may-read-processes";
    let mut command = pipespeed(checks);
    conditions::blocked(&mut command, Inherited::SIGPIPE);
    run_alone(command).succeeded();
    // Neither for the processes of a trial.
    for args in [
        checks,
        "bench --quick --rounds 1 --case write_read --no-save",
    ] {
        let mut command = pipespeed(args);
        conditions::ignored(&mut command, Inherited::SIGCHLD);
        let mark = Mark::on(&mut command);
        run_alone(command).succeeded();
        mark.nobody_left();
    }
}

#[test]
fn one_that_was_stopped_for_longer_than_a_check_may_take_goes_on() {
    let running = start(pipespeed("check -q --only atomic-small,atomic-pipe-buf"));
    // In the middle of a check: its thread is there, told by its name from
    // those that are there all the time.
    let tasks = format!("/proc/{}/task", running.pid().as_raw_pid());
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let under_way = || {
        let mut tasks = fs::read_dir(&tasks).ok()?;
        let checks = tasks.any(|task| task.and_then(name).is_ok_and(|name| name == "check\n"));
        checks.then_some(())
    };
    eventually(under_way).unwrap();
    running.send(Signal::STOP);
    // What is tried out is that this time passes.
    thread::sleep(PATIENCE + Duration::from_millis(200));
    running.send(Signal::CONT);
    running.finish().succeeded();
}

#[test]
fn without_pipes_it_fails_and_says_why() {
    let without = |args: &str| {
        let mut command = pipespeed(args);
        conditions::failing_call(&mut command, libc::SYS_pipe2, libc::ENOSYS).then_some(command)
    };
    let Some(command) = without("check -q") else {
        return;
    };
    let words = [
        "could not be found out: ",
        "default-capacity",
        "more (",
        "pipe2(2) is refused",
        "seccomp",
    ];
    run_alone(command).refused(1, &words);
    // What is allowed has been found out.
    run_alone(without("check -q --only permissions").unwrap()).succeeded();
}

#[test]
fn without_threads_or_processes_what_needs_them_is_refused_with_the_limits() {
    let Some(program) = ForAll::new() else { return };
    let mut command = program.pipespeed("check --json -");
    conditions::limit(&mut command, Resource::Nproc, 1);
    let outcome = run_alone(command).succeeded();
    for name in ["atomic-small", "sigpipe-kills", "may-read-processes"] {
        refused(&outcome, name, &["ulimit -u", "now 1", "pids.max"]);
    }
    assert_eq!(said(&outcome, "epipe").0, "pass");
}

#[test]
fn vmsplice_that_does_not_take_a_plain_page_is_a_refusal() {
    let mut command = pipespeed("check --json -");
    if !conditions::failing_call(&mut command, libc::SYS_vmsplice, libc::EINVAL) {
        return;
    }
    let outcome = run_alone(command).succeeded();
    for name in ["may-vmsplice", "one-byte-pieces"] {
        refused(&outcome, name, &["EINVAL", "plain page"]);
    }
    refused(
        &outcome,
        "vmsplice-refers",
        &["vmsplice(2) is refused (EINVAL)"],
    );
}

#[test]
fn without_devices_what_needs_them_is_refused() {
    let script = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";
    let args = ["check", "--json", "-"];
    let Some(command) = conditions::in_mount_namespace(script, &args) else {
        return;
    };
    let outcome = run_alone(command).succeeded();
    refused(&outcome, "splice-to-null", &["/dev/null"]);
    refused(&outcome, "sigpipe-kills", &["/dev/null"]);
}

#[test]
fn a_fifo_that_is_not_to_be_had_is_no_answer() {
    let checks = || pipespeed("check --json - --only nowait-calls");
    let mut command = checks();
    command.env("TMPDIR", "/missing");
    let outcome = run_alone(command).succeeded();
    refused(&outcome, "nowait-calls", &["pipe: ", "FIFO: no", "TMPDIR"]);
    let mut command = checks();
    conditions::limit(&mut command, Resource::Nofile, 6);
    run_alone(command).failed(1, &["nowait-calls", "ulimit -n"]);
    let mut command = checks();
    if conditions::without_call(&mut command, libc::SYS_preadv2) {
        let outcome = run_alone(command).succeeded();
        refused(&outcome, "nowait-calls", &["EPERM", "preadv2(2)"]);
    }
}

#[test]
fn a_filter_that_refuses_nothing_is_not_blamed() {
    let Some(program) = ForAll::new() else { return };
    if !geteuid().is_root() {
        return eprintln!("skipped: only root has a program that others can't read");
    }
    let command = program.pipespeed("check --json - --only permissions");
    let closed = fs::Permissions::from_mode(0o711);
    fs::set_permissions(command.get_program(), closed).unwrap();
    let innocent = |mut command: Command| {
        // A call that is never made.
        conditions::without_call(&mut command, libc::SYS_acct).then_some(command)
    };
    refused(
        &run_alone(command).succeeded(),
        "may-read-processes",
        &["not dumpable"],
    );
    if let Some(command) = innocent(program.pipespeed("check --json - --only permissions")) {
        let outcome = run_alone(command).succeeded();
        let words = ["not dumpable", "filter is in force, too"];
        refused(&outcome, "may-read-processes", &words);
        assert_eq!(said(&outcome, "may-tee").0, "pass");
    }
}

#[test]
fn the_limits_hold_for_the_root_of_a_user_namespace() {
    let args = "check --json - --only user-page-limits,capacity-above-limit";
    let Some(command) = conditions::in_user_namespace(args) else {
        return;
    };
    let outcome = run_alone(command).succeeded();
    let (_, limits) = said(&outcome, "user-page-limits");
    let known =
        limits.contains("within its user namespace only") || limits.contains("can't be read");
    assert!(known, "{limits}");
    let (_, above) = said(&outcome, "capacity-above-limit");
    assert!(!above.contains("in spite of"), "{above}");
}
