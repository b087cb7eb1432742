//! What checks leave in the process that runs them: looked at with nothing
//! beside it, so this file has one test only.

use nix::sys::signal::SigSet;
use pipespeed::check::{self, Group, PATIENCE, SOFT_LIMIT, Verdict};
use rustix::process::{Resource, getrlimit};

/// The open descriptors, with what they are.
fn descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut open: Vec<String> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            format!("{} {:?}", path.display(), std::fs::read_link(&path))
        })
        // The directory that is being read itself.
        .filter(|line| !line.contains("/proc/"))
        .collect();
    open.sort();
    open
}

#[test]
fn no_descriptor_signal_or_limit_is_changed_and_pipes_are_as_before() {
    // The first thread and the first pipe may open something once.
    check::run(check::all().take(1), PATIENCE);
    let state = || {
        let limit = getrlimit(Resource::Nofile);
        (
            descriptors(),
            limit.current,
            limit.maximum,
            SigSet::thread_get_mask().unwrap(),
        )
    };
    let before = state();
    let limits = || check::all().filter(|check| check.group == Group::Limits);
    let first = check::run(limits(), PATIENCE);
    let soft = check::run([&SOFT_LIMIT], PATIENCE);
    let again = check::run(limits(), PATIENCE);
    check::run(check::all(), PATIENCE);
    assert!(state() == before, "{:#?} {:#?}", before, state());
    let verdict = soft[0].outcome.verdict;
    assert!(
        matches!(verdict, Verdict::Seen | Verdict::Refused),
        "{soft:#?}"
    );
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.outcome, again.outcome, "{}", first.name);
    }
}
