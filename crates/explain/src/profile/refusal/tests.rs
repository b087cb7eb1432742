use super::*;

fn said(errno: Errno, facts: Facts) -> String {
    opening(errno.into(), &facts).to_string()
}

#[test]
fn the_paranoid_level_is_blamed_only_where_it_decides() {
    let ordinary = Facts {
        paranoid: Some(2),
        ..Facts::default()
    };
    assert!(said(Errno::ACCESS, ordinary).contains("perf_event_paranoid is 2"));
    let debian = Facts {
        paranoid: Some(3),
        ..ordinary
    };
    assert!(said(Errno::ACCESS, debian).contains("perf_event_paranoid is 3"));
    let root = Facts {
        capable: true,
        ..ordinary
    };
    assert!(said(Errno::PERM, root).contains("lockdown"));
    let lenient = Facts {
        paranoid: Some(1),
        ..ordinary
    };
    assert!(said(Errno::PERM, lenient).contains("lockdown"));
}

#[test]
fn a_filter_is_suspected_only_where_all_else_allows_it() {
    let container = Facts {
        paranoid: Some(1),
        filtered: true,
        ..Facts::default()
    };
    let suspected = "is in place and may be the cause";
    for errno in [Errno::PERM, Errno::ACCESS] {
        assert!(said(errno, container).contains(suspected));
    }
    let root = Facts {
        paranoid: Some(2),
        capable: true,
        ..container
    };
    assert!(said(Errno::PERM, root).contains(suspected));
    // The level will do, and its answer is EACCES.
    let ordinary = Facts {
        capable: false,
        ..root
    };
    let level = said(Errno::ACCESS, ordinary);
    assert!(level.contains("perf_event_paranoid is 2") && !level.contains("seccomp"));
    let both = said(Errno::PERM, ordinary);
    assert!(both.contains("perf_event_paranoid is 2"), "{both}");
    assert!(both.contains("may refuse it, too"), "{both}");
    // Nor where there is none.
    let free = Facts {
        filtered: false,
        ..root
    };
    assert!(said(Errno::PERM, free).contains("no seccomp filter is in place"));
}

#[test]
fn only_a_filter_says_there_is_no_such_call_where_there_is_one() {
    let lenient = Facts {
        paranoid: Some(1),
        filtered: true,
        ..Facts::default()
    };
    let text = said(Errno::NOSYS, lenient);
    assert!(text.contains("by a seccomp filter"), "{text}");
    assert!(!text.contains("asks for"), "{text}");
    // The level doesn't answer so, but would refuse next.
    let strict = Facts {
        paranoid: Some(2),
        ..lenient
    };
    let text = said(Errno::NOSYS, strict);
    assert!(text.contains("by a seccomp filter"), "{text}");
    assert!(text.contains("is 2, which asks for CAP_PERFMON"), "{text}");
    assert!(!text.contains("namespace"), "{text}");
    let capable = Facts {
        capable: true,
        ..strict
    };
    let text = said(Errno::NOSYS, capable);
    assert!(!text.contains("asks for"), "{text}");
    let within = Facts {
        within: true,
        ..capable
    };
    let text = said(Errno::NOSYS, within);
    assert!(text.contains("asks for CAP_PERFMON"), "{text}");
    assert!(text.contains("namespace don't count"), "{text}");
}

#[test]
fn a_capability_is_recommended_to_those_without_it() {
    let without = Facts {
        paranoid: Some(1),
        filtered: true,
        ..Facts::default()
    };
    let with = Facts {
        capable: true,
        ..without
    };
    for errno in [Errno::PERM, Errno::NOSYS] {
        let [without, with] = [without, with].map(|facts| said(errno, facts));
        assert!(without.contains("--cap-add PERFMON"), "{without}");
        assert!(!without.contains("--security-opt"), "{without}");
        assert!(with.contains("--security-opt seccomp="), "{with}");
        assert!(!with.contains("--cap-add"), "{with}");
    }
}

#[test]
fn capabilities_of_a_user_namespace_are_none() {
    let within = Facts {
        paranoid: Some(2),
        capable: true,
        within: true,
        ..Facts::default()
    };
    for capable in [true, false] {
        let said = said(Errno::ACCESS, Facts { capable, ..within });
        assert!(said.contains("within a user namespace") && said.contains("is 2"));
        assert!(!said.contains("be root"), "{said}");
    }
}

#[test]
fn what_can_t_be_read_is_no_cause() {
    let unread = said(Errno::ACCESS, Facts::default());
    assert!(unread.contains("can't be read") && !unread.contains("seccomp"));
    let filtered = Facts {
        filtered: true,
        ..Facts::default()
    };
    assert!(said(Errno::PERM, filtered).contains("seccomp"));
    assert!(said(Errno::NOSYS, filtered).contains("seccomp"));
    // A kernel that has the other settings would have this one.
    let not_built = Facts {
        kptr_restrict: Some(0),
        ..filtered
    };
    assert!(said(Errno::NOSYS, not_built).contains("CONFIG_PERF_EVENTS"));
    assert!(said(Errno::NOSYS, Facts::default()).contains("CONFIG_PERF_EVENTS"));
}

#[test]
fn whoever_runs_out_of_descriptors_hears_of_their_limit() {
    let said = said(Errno::MFILE, Facts::default());
    assert!(said.contains("ulimit -n"), "{said}");
    let within = |errno: Errno| {
        let error = anyhow::Error::new(io::Error::from(errno)).context("a pipe");
        if_out_of_files(error).to_string()
    };
    assert_eq!(within(Errno::MFILE), said);
    assert_eq!(within(Errno::NOENT), "a pipe");
}

#[test]
fn hidden_symbols_name_the_setting_that_hides_them() {
    let facts = Facts {
        paranoid: Some(2),
        kptr_restrict: Some(1),
        ..Facts::default()
    };
    let said = symbols(SymbolsError::Hidden, &facts).to_string();
    assert!(said.contains("kptr_restrict is 1"), "{said}");
    let said = symbols(SymbolsError::Empty, &facts).to_string();
    assert!(said.contains("no names"), "{said}");
}

#[test]
fn hidden_symbols_are_shown_by_what_is_recommended() {
    let said = |kptr_restrict, paranoid, within| {
        let facts = Facts {
            paranoid: Some(paranoid),
            kptr_restrict: Some(kptr_restrict),
            within,
            ..Facts::default()
        };
        let text = symbols(SymbolsError::Hidden, &facts).to_string();
        assert!(text.ends_with(INSTEAD) && !text.contains('\n'), "{text}");
        text
    };
    let ordinary = said(1, 2, false);
    let both = "set kptr_restrict to 0 and perf_event_paranoid to 1";
    assert!(ordinary.contains("give the program CAP_SYSLOG, be root, or"));
    assert!(ordinary.contains(both), "{ordinary}");
    // Only what is not so yet.
    let level = said(0, 2, false);
    assert!(level.contains("or set perf_event_paranoid to 1"), "{level}");
    let restricted = said(1, 1, false);
    assert!(
        restricted.contains("or set kptr_restrict to 0;"),
        "{restricted}"
    );
    // Hidden from root, too.
    let strict = said(2, 2, false);
    assert!(
        strict.contains("set kptr_restrict to 1 and be root"),
        "{strict}"
    );
    assert!(strict.contains(both), "{strict}");
    // Who is root in a user namespace is not for this.
    let within = said(1, 2, true);
    assert!(
        within.contains(both) && within.contains("run it outside"),
        "{within}"
    );
    assert!(!within.contains("be root"), "{within}");
    let strict_within = said(2, 2, true);
    assert!(strict_within.contains(both), "{strict_within}");
    assert!(!strict_within.contains("root"), "{strict_within}");
    assert!(!strict_within.contains("outside"), "{strict_within}");
}

#[test]
fn every_refusal_is_one_line_and_offers_a_way_that_works() {
    let errno = Errno::PERM;
    let refusals = [
        Refusal::Paranoid {
            level: 2,
            and_filter: true,
        },
        Refusal::Within {
            level: 2,
            and_filter: false,
        },
        Refusal::Unread {
            errno,
            and_filter: true,
        },
        Refusal::Elsewhere { errno },
        Refusal::Seccomp {
            errno,
            capable: true,
        },
        Refusal::Filter {
            capable: false,
            level: Some(2),
            within: true,
        },
        Refusal::NotBuilt,
        Refusal::Memory,
        Refusal::NoSymbols(SymbolsError::Empty),
        Refusal::Other(errno.into()),
    ];
    for refusal in refusals {
        let said = refusal.to_string();
        assert!(said.ends_with(INSTEAD) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn facts_are_read_from_the_files_that_hold_them() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/sys/kernel/perf_event_paranoid", "3\n");
    write("proc/sys/kernel/kptr_restrict", "1\n");
    write(
        "proc/self/status",
        "CapEff:\t0000004000000000\nSeccomp:\t2\n",
    );
    let facts = Facts::read(&Root(dir.path().to_owned()));
    let expected = Facts {
        paranoid: Some(3),
        kptr_restrict: Some(1),
        capable: true,
        within: false,
        filtered: true,
    };
    assert_eq!(facts, expected);
}
