//! What pipes are like here: the command under all sorts of conditions.

use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::Mark;
use crate::common::{Outcome, json, names_in, pipespeed, run, run_alone, start, start_into};
use rustix::process::Resource;
use serde_json::Value;

/// The checks of a record, and that none of them failed.
#[track_caller]
fn checks(outcome: Outcome) -> Vec<Value> {
    let outcome = outcome.succeeded();
    assert_eq!(outcome.err, "", "{outcome:#?}");
    let record = json(&outcome.out);
    assert_eq!(record["schema_version"], 1);
    assert_eq!(record["kind"], "check");
    assert_eq!(record["summary"]["fail"], 0, "{record:#}");
    assert_eq!(record["summary"]["error"], 0, "{record:#}");
    // It was timed. How long it may take is nothing to be sure of beside other tests.
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    let checks = record["checks"].as_array().unwrap().clone();
    assert_eq!(record["summary"]["checks"], checks.len());
    checks
}

#[track_caller]
fn verdict<'a>(checks: &'a [Value], name: &str) -> &'a str {
    let mut those = checks.iter().filter(|check| check["name"] == name);
    let check = those.next().unwrap_or_else(|| panic!("no {name}"));
    check["verdict"].as_str().unwrap()
}

/// What every pipe must be like, and no system refuses that lets us make one.
const PROMISED: [&str; 12] = [
    "capacity-as-told",
    "first-byte-to-wait",
    "capacity-smallest",
    "capacity-busy",
    "atomic-small",
    "atomic-pipe-buf",
    "nonblocking-atomic",
    "end-of-file",
    "epipe",
    "poll-room",
    "poll-hang-up",
    "nonblock-dup",
];

#[track_caller]
fn all_promised(checks: &[Value]) {
    for name in PROMISED {
        assert_eq!(verdict(checks, name), "pass", "{name}");
    }
}

#[test]
fn pipes_are_here_what_they_must_be() {
    let checks = checks(run_alone(pipespeed("check --json -")));
    all_promised(&checks);
    for check in &checks {
        for key in ["name", "group", "statement", "verdict", "seen", "reference"] {
            let text = check[key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{key}: {check:#}");
        }
    }
}

#[test]
fn an_ordinary_user_sees_the_same() {
    let Some(program) = ForAll::new() else { return };
    all_promised(&checks(run_alone(program.pipespeed("check --json -"))));
}

#[test]
fn nothing_is_left_in_the_file_system_and_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed("check");
    command
        .env("TMPDIR", directory.path())
        .current_dir(&directory);
    let mark = Mark::on(&mut command);
    run_alone(command).succeeded();
    assert_eq!(mark.processes(), []);
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn where_vmsplice_is_refused_the_rest_is_found_out() {
    let mut command = pipespeed("check --json -");
    if !conditions::no_vmsplice(&mut command) {
        return;
    }
    let checks = checks(run_alone(command));
    all_promised(&checks);
    for name in ["one-byte-pieces", "unaligned-piece"] {
        assert_eq!(verdict(&checks, name), "refused");
    }
}

#[test]
fn what_is_not_as_it_must_be_makes_the_command_fail_with_its_name() {
    let fails = |errno| {
        let mut command = pipespeed("check --only no-seek,epipe");
        conditions::failing_call(&mut command, libc::SYS_lseek, errno).then_some(command)
    };
    let Some(command) = fails(libc::EINVAL) else {
        return;
    };
    let outcome = run_alone(command).failed(1, &["not as every pipe must be: no-seek"]);
    assert!(outcome.out.contains("FAIL"), "{outcome:#?}");
    assert!(
        outcome.out.contains("2 checks: 1 pass, 1 FAIL"),
        "{outcome:#?}"
    );
    // That one is how filters refuse: it tells nothing of pipes.
    let outcome = run_alone(fails(libc::EPERM).unwrap()).succeeded();
    assert!(
        outcome.out.contains("2 checks: 1 pass, 1 refused"),
        "{outcome:#?}"
    );
}

#[test]
fn what_could_not_be_found_out_makes_the_command_fail_too() {
    let mut command = pipespeed("check --only unread-bytes,epipe --quiet");
    if !conditions::failing_call(&mut command, libc::SYS_ioctl, libc::ENOTTY) {
        return;
    }
    run_alone(command).refused(1, &["could not be found out: unread-bytes (ioctl"]);
}

#[test]
fn few_descriptors_are_named_as_the_limit() {
    for limit in [40, 12, 8, 6, 5, 4] {
        let mut command = pipespeed("check --json - --soft-limit");
        conditions::limit(&mut command, Resource::Nofile, limit);
        let outcome = run_alone(command);
        let summary = &json(&outcome.out)["summary"];
        assert_eq!(summary["fail"], 0, "{outcome:#?}");
        // What every pipe must be like is not found out without pipes.
        let errors = summary["error"].as_u64().unwrap();
        assert!(limit > 8 || errors > 0, "{limit}: {outcome:#?}");
        match errors {
            0 => outcome.succeeded(),
            _ => outcome.failed(1, &["could not be found out: ", "ulimit -n"]),
        };
    }
}

#[test]
fn without_proc_and_temporary_files_the_rest_is_found_out() {
    let script = "mount -t tmpfs none /proc && TMPDIR=/missing exec \"$0\" \"$@\"";
    let args = ["check", "--json", "-"];
    let Some(command) = conditions::in_mount_namespace(script, &args) else {
        return;
    };
    let checks = checks(run_alone(command));
    all_promised(&checks);
    assert_eq!(verdict(&checks, "nonblock-reopened"), "refused");
    assert_eq!(verdict(&checks, "fifo-capacity"), "refused");
}

#[test]
fn closed_standard_descriptors_change_nothing() {
    let closed = |which: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" check {which}")]);
        command.arg(env!("CARGO_BIN_EXE_pipespeed"));
        run(command)
    };
    closed("<&- 2>&-").succeeded();
    closed(">&-").refused(1, &["standard output is closed"]);
}

#[test]
fn a_reader_that_leaves_ends_it_well() {
    let unread = std::io::pipe().unwrap().1;
    let outcome = start_into(pipespeed("check"), unread).finish().succeeded();
    assert_eq!(outcome.err, "");
}

#[test]
fn checks_are_chosen_by_name_and_by_group() {
    let names = |args: &str| -> Vec<String> {
        let checks = checks(run_alone(pipespeed(&format!("check --json - {args}"))));
        let name = |check: &Value| check["name"].as_str().unwrap().to_owned();
        checks.iter().map(name).collect()
    };
    assert_eq!(names("--only epipe,page-size"), ["page-size", "epipe"]);
    let limits = names("--only limits");
    assert!(limits.contains(&"default-capacity".to_owned()) && limits.len() > 10);
    assert!(!limits.contains(&"epipe".to_owned()));
    assert!(!limits.contains(&"soft-limit".to_owned()));
    let known = ["epipe", "soft-limit", "zero-copy"];
    run_alone(pipespeed("check --only nope")).refused(2, &[&["--only nope"], &known[..]].concat());
    run_alone(pipespeed("check --only soft-limit")).refused(2, &["--soft-limit"]);
    run_alone(pipespeed("check --explain nope")).refused(2, &["--explain nope", "soft-limit"]);
    run_alone(pipespeed("check --json /missing/x")).refused(1, &["/missing/x"]);
}

#[test]
fn every_check_is_listed_and_explained() {
    let list = run_alone(pipespeed("check --list")).succeeded().out;
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert!(names.len() > 60 && names.contains(&"soft-limit"), "{list}");
    let all = format!("check --explain {}", names.join(","));
    let told = run_alone(pipespeed(&all)).succeeded().out;
    assert_eq!(told.matches("  See ").count(), names.len());
    // A line is empty between two of them, and nowhere else.
    assert_eq!(told.matches("\n\n").count(), names.len() - 1);
    for line in told.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_table_goes_by_the_terminal_or_the_file() {
    let out = start(pipespeed("check --only epipe"))
        .finish()
        .succeeded()
        .out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "semantics");
    assert!(
        lines[1].starts_with("  pass     epipe  writing where"),
        "{out}"
    );
    assert!(lines[3].starts_with("1 check: 1 pass; 0."), "{out}");
    let quiet = run_alone(pipespeed("check --quiet")).succeeded();
    assert_eq!((&*quiet.out, &*quiet.err), ("", ""));
}
