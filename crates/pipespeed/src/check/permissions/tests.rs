use std::io;

use rustix::io::Errno;

use super::calls::disabled;
use super::memory::{none_left, over_limit};
use super::others::{Rules, by_rules};
use super::sampling::in_short;
use super::*;
use crate::check::{Outcome, Verdict};
use crate::profile::refusal::Refusal;

fn outcome(name: &str) -> Outcome {
    let check = CHECKS.iter().find(|check| check.name == name).unwrap();
    (check.run)().unwrap()
}

#[test]
fn every_permission_is_given_or_refused_by_something() {
    // Starts the program once more, which is not this one.
    let all = CHECKS.iter();
    for check in all.filter(|check| check.name != "may-read-processes") {
        let outcome = (check.run)().unwrap();
        let verdicts = [Verdict::Pass, Verdict::Refused];
        assert!(
            verdicts.contains(&outcome.verdict),
            "{}: {outcome:?}",
            check.name
        );
        assert!(!outcome.seen.contains('\n'), "{outcome:?}");
    }
}

#[test]
fn without_a_filter_the_calls_of_pipes_are_allowed() {
    if crate::check::refusal::is_filtered(&crate::machine::Root::default()) {
        return eprintln!("skipped: a filter is in force here");
    }
    for name in ["may-splice", "may-tee", "may-vmsplice"] {
        assert_eq!(outcome(name), Outcome::pass("yes"), "{name}");
    }
}

#[test]
fn io_urings_setting_is_blamed_only_where_it_refuses() {
    let eperm: io::Error = Errno::PERM.into();
    let seen = |setting| disabled(&eperm, Some(setting)).unwrap().seen;
    assert!(seen(2).contains("io_uring_disabled, which is 2"));
    assert!(seen(1).contains("io_uring_disabled, which is 1"));
    assert_eq!(disabled(&eperm, Some(0)), None);
    assert_eq!(disabled(&eperm, None), None);
    assert_eq!(disabled(&Errno::NOSYS.into(), Some(2)), None);
    let old = disabled(&Errno::NOMEM.into(), None).unwrap();
    assert!(old.seen.contains("RLIMIT_MEMLOCK"));
}

#[test]
fn the_limit_of_locked_memory_is_blamed_only_where_it_refuses() {
    let over = |errno: Errno, limit| over_limit(&errno.into(), limit).map(|outcome| outcome.seen);
    assert!(
        over(Errno::PERM, Some(0))
            .unwrap()
            .contains("RLIMIT_MEMLOCK, which is 0B")
    );
    assert!(
        over(Errno::NOMEM, Some(65_536))
            .unwrap()
            .contains("is 64KiB")
    );
    // A filter's.
    assert_eq!(over(Errno::PERM, Some(65_536)), None);
    assert_eq!(over(Errno::NOMEM, None), None);
}

#[test]
fn a_rule_of_ptrace_is_blamed_only_where_it_keeps_a_parent_out() {
    let rules = Rules {
        yama: Some(1),
        dumpable: true,
        capable: false,
        filtered: false,
    };
    let said = |rules: Rules| {
        by_rules(Errno::PERM, &rules).map(|it| format!("{} ({})", it.seen, it.note.unwrap()))
    };
    assert_eq!(said(rules), None);
    let yama = |scope| Rules {
        yama: Some(scope),
        ..rules
    };
    assert!(said(yama(2)).unwrap().contains("CAP_SYS_PTRACE"));
    assert!(said(yama(3)).unwrap().contains("which is 3"));
    let hidden = Rules {
        dumpable: false,
        ..rules
    };
    assert!(said(hidden).unwrap().contains("not dumpable"));
    for rules in [yama(2), yama(3), hidden] {
        let filtered = Rules {
            filtered: true,
            ..rules
        };
        assert!(said(filtered).unwrap().contains("filter is in force, too"));
        assert!(by_rules(Errno::NOSYS, &rules).is_none());
        let capable = Rules {
            capable: true,
            ..rules
        };
        assert_eq!(said(capable).is_some(), rules.yama == Some(3));
    }
}

#[test]
fn an_empty_pool_is_told_from_one_that_is_used_up() {
    assert!(none_left(Some(0)).seen.ends_with("nr_hugepages is 0"));
    assert!(none_left(Some(8)).seen.starts_with("all 8"));
}

#[test]
fn what_keeps_from_sampling_fits_into_a_table() {
    for refusal in [
        Refusal::Paranoid {
            level: 2,
            and_filter: false,
        },
        Refusal::Within {
            level: 2,
            and_filter: false,
        },
        Refusal::Unread {
            errno: Errno::PERM,
            and_filter: false,
        },
        Refusal::Elsewhere { errno: Errno::PERM },
        Refusal::Seccomp {
            errno: Errno::PERM,
            capable: false,
        },
        Refusal::Filter {
            capable: false,
            level: None,
            within: false,
        },
        Refusal::NotBuilt,
        Refusal::Memory,
        Refusal::SymbolsHidden {
            kptr_restrict: 1,
            paranoid: 2,
            within: false,
        },
    ] {
        let short = in_short(&refusal);
        assert!(
            short.len() < 50 && refusal.to_string().len() > short.len(),
            "{short}"
        );
    }
}
