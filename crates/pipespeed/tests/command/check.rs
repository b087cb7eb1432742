//! `check` under all sorts of conditions. What it leaves in a process is looked at in the
//! test program `check_alone`.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use libc::{EINVAL, EPERM};
use nix::sys::signal::Signal as Inherited;
use pipespeed_explain::check::CHECK_TIMEOUT;
use rustix::process::{Resource, Signal};
use serde_json::Value;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::eventually;
use crate::common::{
    Outcome, PIPESPEED, fits, json, names_in, pipespeed, run_alone, run_marked, says, start,
    start_marked,
};

const JSON: &str = "check --json -";

/// The checks of a printed record.
struct Checks(Vec<Value>);

impl Checks {
    #[track_caller]
    fn of(outcome: &Outcome) -> Self {
        let record = json(&outcome.out);
        assert_eq!(record["schema_version"], 3);
        assert_eq!(record["kind"], "check");
        assert!(record["seconds"].as_f64().unwrap() > 0.0);
        let checks = record["checks"].as_array().unwrap().clone();
        assert_eq!(record["summary"]["checks"], checks.len());
        Checks(checks)
    }

    /// The checks of a command that succeeds and leaves no process.
    #[track_caller]
    fn run(command: Command) -> Self {
        let outcome = run_marked(command).succeeded();
        assert_eq!(outcome.err, "", "{outcome:#?}");
        Checks::of(&outcome)
    }

    /// The verdict of a check, and its value with its note.
    #[track_caller]
    fn said(&self, name: &str) -> (String, String) {
        let check = self.0.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name}"));
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (
            text("verdict"),
            format!("{} ({})", text("seen"), text("note")),
        )
    }

    #[track_caller]
    fn refused(&self, name: &str, words: &[&str]) {
        let (verdict, said) = self.said(name);
        assert_eq!(verdict, "refused", "{name}: {said}");
        says(format!("{name}: {said}"), words);
    }

    /// That every pipe is as it must be, which no system refuses that lets us
    /// make one.
    #[track_caller]
    fn keep_promises(&self) {
        for name in [
            "full-pipe",
            "capacity-rounding",
            "resize-keeps-data",
            "either-end-resizes",
            "atomic-writes",
            "nonblocking-writes",
            "short-read",
            "unread-bytes",
            "end-of-file",
            "epipe",
            "poll-room",
            "poll-hang-up",
            "nonblock-shared",
        ] {
            let (verdict, said) = self.said(name);
            assert_eq!(verdict, "pass", "{name}: {said}");
        }
    }
}

#[test]
fn a_failed_save_is_said_where_nobody_reads_the_output() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = pipespeed("check --only epipe --json /dev/full");
    command.stdout(writer);
    run_alone(command).failed(1, &["/dev/full", "No space left"]);
}

#[test]
fn pipes_are_what_they_must_be() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed(JSON);
    command
        .env("TMPDIR", directory.path())
        .current_dir(&directory);
    let checks = Checks::run(command);
    assert!(names_in(directory.path()).is_empty());
    checks.keep_promises();
    for check in &checks.0 {
        for key in ["name", "group", "statement", "verdict", "seen", "reference"] {
            let text = check[key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{key}: {check:#}");
        }
    }
}

#[test]
fn ordinary_user_gets_the_same_answers_and_is_refused_frames() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let checks = Checks::run(program.command(JSON));
    checks.keep_promises();
    checks.refused("may-see-frames", &["CAP_SYS_ADMIN"]);
}

/// The loader complains about the library, and a shell about its working directory.
#[test]
fn what_a_shell_prints_by_itself_is_not_in_the_pipes() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" check --only semantics --json -";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, PIPESPEED])
        .env("LD_PRELOAD", "/no/such/library.so")
        .current_dir(&directory);
    let checks = Checks::of(&run_alone(command));
    for name in ["end-of-file-child", "sigpipe"] {
        let (verdict, said) = checks.said(name);
        assert_eq!(verdict, "pass", "{name}: {said}");
    }
}

#[test]
fn a_broken_promise_fails_the_command_with_its_name() {
    let mut command = pipespeed("check --only poll-hang-up,epipe");
    // poll(2) does nothing and reports success: no event.
    if !conditions::failing_call(&mut command, libc::SYS_ppoll, 0) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    conditions::failing_call(&mut command, libc::SYS_poll, 0);
    let outcome = run_alone(command).failed(1, &["failed: poll-hang-up"]);
    assert!(outcome.out.contains("FAIL"), "{outcome:#?}");
    says(&outcome.out, &["2 checks: 1 pass, 1 FAIL"]);
}

#[test]
fn a_check_that_finds_out_nothing_fails_the_command() {
    let mut command = pipespeed("check --only unread-bytes,epipe --quiet");
    if conditions::failing_call(&mut command, libc::SYS_ioctl, libc::ENOTTY) {
        run_alone(command).refused(1, &["not checked: unread-bytes (ioctl"]);
    }
}

#[test]
fn without_pipes_it_fails_and_says_why() {
    let mut command = pipespeed("check -q");
    if conditions::failing_call(&mut command, libc::SYS_pipe2, libc::ENOSYS) {
        let words = [
            "not checked: default-capacity",
            "more (",
            "no pipe",
            "pipe2(2)",
            "seccomp",
        ];
        run_alone(command).refused(1, &words);
    }
}

#[test]
fn few_descriptors_are_named_as_the_limit() {
    for limit in [40, 12, 9, 8, 7, 6, 5, 4] {
        let mut command = pipespeed(JSON);
        conditions::few_descriptors(&mut command, limit);
        let outcome = run_marked(command);
        let summary = &json(&outcome.out)["summary"];
        assert_eq!(summary["fail"], 0, "{outcome:#?}");
        let named = outcome.out.contains("ulimit -n");
        assert!(named || limit > 9, "{limit}: {outcome:#?}");
        if summary["error"] == 0 {
            // With fewer there are no pipes.
            assert!(limit > 4, "{outcome:#?}");
            outcome.succeeded();
        } else {
            outcome.failed(1, &["not checked: ", "ulimit -n"]);
        }
    }
}

#[test]
fn without_threads_and_processes_the_limits_are_named() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command(JSON);
    conditions::limit(&mut command, Resource::Nproc, 1);
    let checks = Checks::run(command);
    for name in ["atomic-writes", "sigpipe"] {
        checks.refused(name, &["RLIMIT_NPROC is 1", "ulimit -u", "pids.max"]);
    }
    assert_eq!(checks.said("epipe").0, "pass");
}

#[test]
fn a_refused_call_is_named_where_it_is_needed() {
    const OF_VMSPLICE: &str = "one-byte-pieces,unaligned-piece,may-vmsplice,vmsplice-refers,\
        vmsplice-to-memory,splice-to-null,outlives-drain,let-go-page-kept,gift-and-move,cow-check";
    let (filter, kernel) = (["EPERM", "seccomp"], ["EINVAL", "kernel"]);
    for (call, errno, names, words) in [
        (libc::SYS_vmsplice, EPERM, OF_VMSPLICE, filter),
        (
            libc::SYS_vmsplice,
            EINVAL,
            "may-vmsplice,one-byte-pieces,vmsplice-refers",
            kernel,
        ),
        (
            libc::SYS_perf_event_open,
            EPERM,
            "may-sample",
            ["perf_event_open(2)", "seccomp"],
        ),
        (libc::SYS_splice, EPERM, "may-splice,outlives-drain", filter),
        (libc::SYS_tee, EPERM, "may-tee", filter),
        (
            libc::SYS_memfd_create,
            EPERM,
            "spliced-file-is-live",
            filter,
        ),
        (libc::SYS_clone, EPERM, "cow-check", filter),
        (libc::SYS_io_uring_setup, EPERM, "may-use-io-uring", filter),
        (libc::SYS_io_uring_enter, EPERM, "may-use-io-uring", filter),
        (libc::SYS_mlock, EPERM, "may-lock-memory", filter),
        (libc::SYS_preadv2, EPERM, "nowait-calls", filter),
    ] {
        let all = names == OF_VMSPLICE;
        let only = if all {
            String::new()
        } else {
            format!("--only {names}")
        };
        let mut command = pipespeed(&format!("{JSON} {only}"));
        if !conditions::failing_call(&mut command, call, errno) {
            return;
        }
        let checks = Checks::run(command);
        for name in names.split(',') {
            checks.refused(name, &words);
        }
        if all {
            checks.keep_promises();
            assert_eq!(checks.said("spliced-file-is-live").0, "seen");
        }
    }
}

#[test]
fn files_in_memory_are_made_as_the_kernel_wants_them() {
    const CLOEXEC: u32 = libc::MFD_CLOEXEC;
    for (flags, errno) in [
        // vm.memfd_noexec = 2.
        (CLOEXEC, libc::EACCES),
        // A kernel before 6.3.
        (CLOEXEC | libc::MFD_NOEXEC_SEAL, libc::EINVAL),
    ] {
        let mut command = pipespeed(&format!("{JSON} --only spliced-file-is-live"));
        if !conditions::failing_call_with(&mut command, libc::SYS_memfd_create, (1, flags), errno) {
            return;
        }
        assert_eq!(Checks::run(command).said("spliced-file-is-live").0, "seen");
    }
}

#[test]
fn without_proc_or_devices_the_rest_is_found_out() {
    let without = |directory: &str| {
        let script = format!("mount -t tmpfs none {directory} && exec \"$0\" \"$@\"");
        let args = ["check", "--json", "-"];
        conditions::in_mount_namespace(&script, PIPESPEED, &args).map(|command| {
            let checks = Checks::of(&run_alone(command).succeeded());
            checks.keep_promises();
            checks
        })
    };
    if let Some(checks) = without("/proc") {
        checks.refused("nonblock-reopened", &["/proc/self/fd"]);
    }
    if let Some(checks) = without("/dev") {
        checks.refused("splice-to-null", &["/dev/null"]);
    }
}

#[test]
fn huge_pages_turned_off_for_the_process_are_named() {
    let mut command = pipespeed(JSON);
    conditions::no_huge_pages(&mut command);
    let setting = if conditions::huge_pages() {
        "PR_SET_THP_DISABLE"
    } else {
        "transparent"
    };
    Checks::run(command).refused("may-have-huge-pages", &["0 of", setting]);
}

#[test]
fn a_user_namespaces_root_is_not_exempt_from_limits() {
    let args = "check --json - --only user-page-limits,largest-capacity";
    let Some(command) = conditions::in_user_namespace(PIPESPEED, args) else {
        return;
    };
    let checks = Checks::run(command);
    let (_, limits) = checks.said("user-page-limits");
    assert!(!limits.contains("exempt"), "{limits}");
    let (verdict, largest) = checks.said("largest-capacity");
    assert!(verdict == "pass" && largest.contains("EPERM"), "{largest}");
}

#[test]
fn checks_are_chosen_by_name_and_by_group() {
    let names = |args: &str| -> Vec<String> {
        let checks = Checks::run(pipespeed(&format!("{JSON} {args}"))).0;
        let name = |check: &Value| check["name"].as_str().unwrap().to_owned();
        checks.iter().map(name).collect()
    };
    assert_eq!(names("--only epipe,full-pipe"), ["full-pipe", "epipe"]);
    let limits = names("--only limits");
    assert!(limits.contains(&"default-capacity".to_owned()) && limits.len() > 5);
    assert!(!limits.contains(&"epipe".to_owned()));
    run_alone(pipespeed("check --json /missing/x")).refused(2, &["/missing/x"]);
}

#[test]
fn every_check_is_listed_and_explained() {
    let list = run_alone(pipespeed("check --list")).succeeded().out;
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert!(names.len() > 40 && names.contains(&"epipe"), "{list}");
    let all = format!("check --explain {}", names.join(","));
    let explained = run_alone(pipespeed(&all)).succeeded().out;
    assert_eq!(explained.matches("  See ").count(), names.len());
    // One empty line between two of them, and no others.
    assert_eq!(explained.matches("\n\n").count(), names.len() - 1);
    fits(&explained, 80);
}

#[test]
fn the_table_is_printed_unless_quiet() {
    let out = run_alone(pipespeed("check --only epipe")).succeeded().out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "semantics");
    assert!(lines[1].starts_with("  pass  epipe  a write"), "{out}");
    assert!(lines[3].starts_with("1 check: 1 pass; 0."), "{out}");
    let quiet = run_alone(pipespeed("check --quiet")).succeeded();
    assert_eq!((&*quiet.out, &*quiet.err), ("", ""));
}

/// Waits until a check is under way, which shows by the name of its thread.
fn wait_for_a_check(pid: i32) {
    let tasks = format!("/proc/{pid}/task");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let under_way = || {
        let mut tasks = fs::read_dir(&tasks).ok()?;
        let check = tasks.any(|task| task.and_then(name).is_ok_and(|name| name == "check\n"));
        check.then_some(())
    };
    eventually(under_way).unwrap();
}

#[test]
fn signal_ends_it_once_nothing_of_a_check_is_left() {
    for (signal, status, name) in [
        (Signal::INT, 130, "SIGINT"),
        (Signal::TERM, 143, "SIGTERM"),
        (Signal::HUP, 129, "SIGHUP"),
    ] {
        // A signal that comes during the last check changes nothing: then once more.
        let outcome = (0..5).map(|_| {
            let (running, mark) = start_marked(pipespeed("check"));
            wait_for_a_check(running.pid().as_raw_pid());
            running.send(signal);
            let outcome = running.finish();
            mark.nobody_left();
            outcome
        });
        let mut interrupted = outcome.skip_while(|outcome| outcome.code == Some(0));
        let outcome = interrupted.next().expect("every run was completed");
        outcome.refused(status, &["interrupted by", name]);
    }
}

#[test]
fn stop_for_longer_than_a_check_may_take_changes_nothing() {
    let running = start(pipespeed("check -q --only atomic-writes"));
    wait_for_a_check(running.pid().as_raw_pid());
    running.send(Signal::STOP);
    // The subject of the test is that this time passes.
    thread::sleep(CHECK_TIMEOUT + Duration::from_millis(200));
    running.send(Signal::CONT);
    running.finish().succeeded();
}

#[test]
fn signals_that_a_parent_blocks_or_ignores_change_nothing() {
    let checks = "check -q --only semantics";
    let mut command = pipespeed(checks);
    conditions::blocked(&mut command, Inherited::SIGPIPE);
    run_alone(command).succeeded();
    // The second: the processes of a trial.
    for args in [
        checks,
        "bench --quick --rounds 1 --case write_read --no-save",
    ] {
        let mut command = pipespeed(args);
        conditions::ignored(&mut command, Inherited::SIGCHLD);
        run_marked(command).succeeded();
    }
}
