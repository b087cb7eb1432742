use super::flags::{Found, compared};
use super::null::{Ratios, verdict};
use super::*;
use crate::check::{Outcome, Verdict};

fn outcome(name: &str) -> Outcome {
    let check = CHECKS.iter().find(|check| check.name == name).unwrap();
    (check.run)().unwrap()
}

/// What the others rest on; without it they say so.
fn refers() -> bool {
    let outcome = outcome("vmsplice-refers");
    let refers = outcome.seen.starts_with("yes");
    if !refers {
        eprintln!("skipped: {outcome:?}");
    }
    refers
}

#[test]
fn pages_are_found_to_be_what_they_are_on_the_kernels_this_is_developed_on() {
    if !refers() {
        return;
    }
    for (name, begins) in [
        ("vmsplice-to-memory", "yes"),
        ("outlives-drain-splice", "yes"),
        ("outlives-drain-tee", "yes"),
        ("let-go-page-kept", "yes"),
        ("spliced-file-is-live", "yes"),
        (
            "splice-gift",
            "either way a pipe has the page, a file a copy",
        ),
        (
            "splice-move",
            "either way a pipe has the page, a file a copy",
        ),
    ] {
        let outcome = outcome(name);
        assert!(outcome.seen.starts_with(begins), "{name}: {outcome:?}");
    }
}

#[test]
fn every_check_comes_to_an_outcome_that_does_not_fail() {
    for check in CHECKS {
        let outcome = (check.run)().unwrap();
        assert_ne!(
            outcome.verdict,
            Verdict::Fail,
            "{}: {outcome:?}",
            check.name
        );
        assert!(!outcome.seen.contains('\n'), "{outcome:?}");
    }
}

#[test]
fn time_tells_looking_from_not_looking_only_where_looking_takes_time() {
    let outcome = |splice, read, slots| {
        verdict(&Ratios {
            splice,
            read,
            slots,
        })
    };
    let seen = |splice, read| outcome(splice, read, 256).seen;
    assert!(seen(1.02, 2.4).starts_with("yes"));
    assert!(seen(2.1, 2.4).starts_with("no"));
    assert!(seen(1.02, 1.1).starts_with("can't be told"));
    let note = |slots| outcome(1.02, 1.1, slots).note.unwrap();
    assert!(note(2).contains("only 2 slots") && note(256).contains("busy"));
}

#[test]
fn a_flag_that_changes_something_is_told_with_what() {
    let found = |in_file| Found {
        in_pipe: true,
        in_file,
    };
    assert!(
        compared(found(false), found(false))
            .seen
            .starts_with("either way")
    );
    assert_eq!(
        compared(found(true), found(false)).seen,
        "it does: with it a pipe has the page, a file the page; without it a pipe has the page, \
         a file a copy"
    );
}
