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
    for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
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
    for errno in [Errno::PERM, Errno::NOSYS] {
        let both = said(errno, ordinary);
        assert!(both.contains("perf_event_paranoid is 2"), "{both}");
        assert!(both.contains("may refuse it, too"), "{both}");
    }
    // Nor where there is none.
    let free = Facts {
        filtered: false,
        ..root
    };
    assert!(said(Errno::PERM, free).contains("no seccomp filter is in place"));
}

#[test]
fn capabilities_of_a_user_namespace_are_none() {
    let within = Facts {
        paranoid: Some(2),
        capable: true,
        within: true,
        ..Facts::default()
    };
    let said = said(Errno::ACCESS, within);
    assert!(said.contains("within a user namespace") && said.contains("is 2"));
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
        Refusal::Seccomp { errno },
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
