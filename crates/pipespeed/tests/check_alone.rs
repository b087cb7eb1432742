//! What checks leave in the process that runs them. The only test of its file,
//! since others have descriptors, threads and processes of their own.

use nix::sys::signal::SigSet;
use pipespeed_explain::check::{self, CHECK_TIMEOUT, CheckGroup};
use rustix::process::{Resource, WaitOptions, getrlimit, wait};

/// The entries of a directory with what they link to.
fn entries(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut named: Vec<String> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            format!("{} {:?}", path.display(), std::fs::read_link(&path).ok())
        })
        // The directory that is being read itself.
        .filter(|line| !line.contains("\"/proc/"))
        .collect();
    named.sort();
    named
}

#[test]
fn checks_leave_process_and_the_users_pipes_as_they_were() {
    // The first thread and the first pipe may open something once.
    check::run(check::all(), CHECK_TIMEOUT);
    let state = || {
        let limit = getrlimit(Resource::Nofile);
        (
            entries("/proc/self/fd"),
            entries("/proc/self/task"),
            (limit.current, limit.maximum),
            SigSet::thread_get_mask().unwrap(),
        )
    };
    let before = state();
    let limits = || check::all().filter(|check| check.group == CheckGroup::Limits);
    let first = check::run(limits(), CHECK_TIMEOUT);
    let again = check::run(limits(), CHECK_TIMEOUT);
    check::run(check::all(), CHECK_TIMEOUT);
    assert!(state() == before, "{before:#?} {:#?}", state());
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.outcome, again.outcome, "{}", first.name);
    }
    let none = wait(WaitOptions::NOHANG);
    assert_eq!(none.unwrap_err(), rustix::io::Errno::CHILD);
}
