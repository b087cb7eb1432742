//! What `check` says of pages and permissions, where all is allowed and where
//! it is not.

use std::process::Command;

use crate::common::conditions::{self, ForAll};
use crate::common::procs::Mark;
use crate::common::{json, pipespeed, run_alone};
use rustix::process::Resource;
use serde_json::Value;

const CHECK: &str = "check --only zero-copy,permissions --json -";

/// What came of the checks. Whatever is refused, the command succeeds, and no
/// process is left.
#[track_caller]
fn checked(mut command: Command) -> Vec<Value> {
    let mark = Mark::on(&mut command);
    let record = json(&run_alone(command).succeeded().out);
    mark.nobody_left();
    let checks = record["checks"].as_array().unwrap().clone();
    assert!(checks.len() >= 20, "{record:#}");
    checks
}

/// The verdict of a check, and all that it says.
#[track_caller]
fn said(checks: &[Value], name: &str) -> (String, String) {
    let check = checks.iter().find(|check| check["name"] == name).unwrap();
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (
        text("verdict"),
        format!("{} ({})", text("seen"), text("note")),
    )
}

/// Checks that this one is refused, and says these words.
#[track_caller]
fn refused(checks: &[Value], name: &str, words: &[&str]) {
    let (verdict, said) = said(checks, name);
    assert_eq!(verdict, "refused", "{name}: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {name}: {said}");
    }
}

#[test]
fn with_everything_allowed_pages_are_found_to_be_referred_to_or_copied() {
    let checks = checked(pipespeed(CHECK));
    let (verdict, refers) = said(&checks, "vmsplice-refers");
    if verdict != "seen" || !refers.starts_with("yes") {
        return eprintln!("skipped: {refers}");
    }
    for name in [
        "outlives-drain-splice",
        "outlives-drain-tee",
        "vmsplice-to-memory",
    ] {
        let (verdict, said) = said(&checks, name);
        assert!(
            verdict == "seen" && said.starts_with("yes"),
            "{name}: {said}"
        );
    }
    let (verdict, said) = said(&checks, "let-go-page-kept");
    assert_eq!(verdict, "pass", "{said}");
}

#[test]
fn an_ordinary_user_is_told_what_is_not_for_him() {
    let Some(program) = ForAll::new() else { return };
    let checks = checked(program.pipespeed(CHECK));
    refused(&checks, "may-see-frames", &["CAP_SYS_ADMIN"]);
    let (verdict, said) = said(&checks, "may-read-processes");
    assert!(verdict == "pass" || said.contains("(E"), "{said}");
}

#[test]
fn where_a_filter_refuses_vmsplice_all_that_needs_it_says_so() {
    let mut command = pipespeed(CHECK);
    if !conditions::no_vmsplice(&mut command) {
        return;
    }
    let checks = checked(command);
    for name in [
        "may-vmsplice",
        "vmsplice-refers",
        "vmsplice-to-memory",
        "splice-to-null",
        "outlives-drain-splice",
        "let-go-page-kept",
        "splice-gift",
        "kernel-referees",
    ] {
        refused(&checks, name, &["(EPERM); a seccomp filter", "vmsplice(2)"]);
    }
    let (verdict, said) = said(&checks, "spliced-file-is-live");
    assert_eq!(verdict, "seen", "{said}");
}

#[test]
fn a_filter_that_refuses_another_call_is_named_where_that_call_is_needed() {
    for (call, name) in [
        (libc::SYS_splice, "may-splice"),
        (libc::SYS_splice, "outlives-drain-splice"),
        (libc::SYS_tee, "may-tee"),
        (libc::SYS_memfd_create, "spliced-file-is-live"),
        (libc::SYS_clone, "kernel-referees"),
        (libc::SYS_io_uring_setup, "may-use-io-uring"),
        (libc::SYS_io_uring_enter, "may-use-io-uring"),
        (libc::SYS_process_vm_readv, "may-read-processes"),
        (libc::SYS_mlock, "may-lock-memory"),
    ] {
        let mut command = pipespeed(CHECK);
        if !conditions::without_call(&mut command, call) {
            return;
        }
        refused(&checked(command), name, &["seccomp"]);
    }
}

#[test]
fn a_filter_that_refuses_sampling_is_named_unless_the_level_refuses_first() {
    let mut command = pipespeed(CHECK);
    if conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        let checks = checked(command);
        let (_, said) = said(&checks, "may-sample");
        if !said.contains("perf_event_paranoid, which is") {
            refused(&checks, "may-sample", &["seccomp", "pipespeed costs"]);
        }
    }
}

#[test]
fn the_limit_of_locked_memory_is_named_with_its_value() {
    let Some(program) = ForAll::new() else { return };
    for (limit, shown) in [(0, "0B"), (65_536, "64KiB")] {
        let mut command = program.pipespeed(CHECK);
        conditions::limit(&mut command, Resource::Memlock, limit);
        let words = ["RLIMIT_MEMLOCK", shown, "ulimit -l"];
        let checks = checked(command);
        refused(&checks, "may-lock-memory", &words);
        // A ring's memory counts too on some kernels, and may fit.
        let (verdict, said) = said(&checks, "may-use-io-uring");
        assert!(
            verdict == "pass" || limit > 0 || said.contains("(E"),
            "{said}"
        );
    }
}

#[test]
fn huge_pages_turned_off_for_the_process_are_told_from_others() {
    let mut command = pipespeed(CHECK);
    conditions::no_huge_pages(&mut command);
    let checks = checked(command);
    let setting = match conditions::huge_pages() {
        true => "PR_SET_THP_DISABLE",
        false => "transparent",
    };
    refused(&checks, "may-have-huge-pages", &["0 of", setting]);
    // It does without.
    let (_, said) = said(&checks, "kernel-referees");
    assert!(
        said.starts_with("yes") || said.starts_with("no") || said.contains("told"),
        "{said}"
    );
}

#[test]
fn without_descriptors_checks_are_refused_with_the_limit() {
    for descriptors in [5, 7, 9, 12] {
        let mut command = pipespeed(CHECK);
        conditions::limit(&mut command, Resource::Nofile, descriptors);
        let checks = checked(command);
        let told = |check: &&Value| check["note"].to_string().contains("ulimit -n");
        let count = checks.iter().filter(told).count();
        assert!(count > 0 || descriptors > 7, "{descriptors}: {checks:#?}");
    }
}
