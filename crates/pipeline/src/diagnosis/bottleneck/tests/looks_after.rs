//! Programs that wake up by a timer beside children, and may look after these.

use super::children::shell;
use super::*;

/// GNU parallel sleeps, and asks after its jobs.
#[test]
fn who_polls_busy_children_is_not_said_to_wait_for_a_timer() {
    let parallel = |children_ran_s: f64| Observed {
        has_reaped: true,
        has_reaped_late: true,
        children_ran_s,
        ..frozen(
            process(2, "parallel", vec![reads(0, 1), writes(1, 2)]),
            on_outside(Outside::Timer),
        )
    };
    let found = |children_ran_s: f64| {
        let observation = observation(vec![
            busy(process(1, "cat", vec![writes(1, 1)]), 0.05, 0.95, 0.0),
            parallel(children_ran_s),
            busy(process(3, "wc", vec![reads(0, 2)]), 0.05, 0.0, 0.95),
        ]);
        bottlenecks(&observation, &BTreeSet::new())
    };
    assert!(matches!(&found(0.0)[..], [Finding::Bottleneck(_)]));
    let busy_children = found(1.8);
    assert!(
        !busy_children
            .iter()
            .any(|finding| matches!(finding, Finding::Bottleneck(_))),
        "{busy_children:?}"
    );
    // Its children live all the time; or it sleeps for two thirds of it, without any.
    // Or it runs itself, too, on full processors. Or it sleeps beside one that works, and the children whose end
    // it noticed were those of the wrapper that it was before.
    for (runs, alive, in_wait, is_late, is_child) in [
        (0.0, 0.95, 0.0, true, true),
        (0.0, 0.33, 0.33, true, false),
        (0.27, 0.95, 0.0, true, true),
        (0.0, 0.95, 0.0, false, false),
    ] {
        let mut parallel = parallel(0.66);
        parallel.has_reaped_late = is_late;
        let timer = 1.0 - in_wait - 2.0 * runs;
        parallel.shares = Shares {
            runs,
            queued: runs,
            elsewhere: 1.0 - 2.0 * runs,
            ..Shares::default()
        };
        parallel.outside = BTreeMap::from([(Outside::Timer, timer), (Outside::Child, in_wait)]);
        parallel.children = Some(Children {
            names: vec!["gzip".to_owned()],
            awaited: Vec::new(),
            shares: Shares {
                runs: alive,
                ..Shares::default()
            },
            outside: BTreeMap::new(),
            on: Vec::new(),
            processors: 0.33,
            are_short: true,
            are_descendants: false,
        });
        let sort = busy(process(3, "sort", vec![reads(0, 2)]), 0.0, 0.0, 1.0);
        let found = bottlenecks(&observation(vec![parallel, sort]), &BTreeSet::new());
        let [Finding::Bottleneck(found)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(found.children.is_some(), is_child, "{found:?}");
    }
}

/// `yes | parallel gzip | wc`, and scripts that sleep: what children do beside a timer counts only for one that
/// looks after them.
#[test]
fn who_sleeps_while_children_work_waits_for_them_if_it_looks_after_them() {
    let runs = Shares {
        runs: 0.2,
        queued: 0.8,
        ..Shares::default()
    };
    let sleeper = |handled_signals: u64, written: u64, is_frozen: bool| {
        let timer = on_outside(Outside::Timer);
        let parallel = frozen(process(2, "parallel", vec![writes(1, 8)]), timer);
        let io = Io {
            writes: written,
            ..Io::default()
        };
        Observed {
            children: shell(runs, Vec::new()).children,
            children_ran_s: 0.4,
            handled_signals,
            is_frozen,
            io: Some(io),
            ..parallel
        }
    };
    let wc = || frozen(process(4, "wc", vec![reads(0, 8)]), on_input(8));
    let handles = 1 << (libc::SIGCHLD - 1);
    // GNU parallel looks whether there is room for its files.
    let mut writes_files = sleeper(handles, 9, false);
    writes_files.process.others.writes = true;
    for looks_after in [sleeper(handles, 0, false), writes_files] {
        let findings = found(vec![looks_after, wc()]);
        let children = only_pace(&findings).children.as_ref();
        assert_eq!(children.map(|children| children.shares), Some(runs));
    }
    // It writes at its own pace, or sleeps for a long time.
    for sleeps in [
        sleeper(handles, 9, false),
        sleeper(0, 9, false),
        sleeper(0, 0, true),
    ] {
        let findings = found(vec![sleeps, wc()]);
        assert_eq!(only_pace(&findings).awaited(), Some(Outside::Timer));
    }
    // As Python, for a wait with a timeout.
    let findings = found(vec![sleeper(0, 0, false), wc()]);
    assert!(
        matches!(findings[..], [Finding::Unclear { .. }]),
        "{findings:?}"
    );
}

/// `parallel "flock lock echo"`, and a wait with a timeout in Python; not a program beside a child that sleeps.
#[test]
fn who_may_look_after_children_that_wait_is_not_said_to_wait_for_a_timer() {
    let found_beside = |awaited: Outside, written: u64, has_reaped_late: bool| {
        let waits = Shares {
            elsewhere: 1.0,
            ..Shares::default()
        };
        let timer = on_outside(Outside::Timer);
        let parallel = frozen(process(2, "parallel", vec![writes(1, 8)]), timer);
        let children = shell(waits, Vec::new()).children.map(|children| Children {
            outside: BTreeMap::from([(awaited, 1.0)]),
            ..children
        });
        let parallel = Observed {
            children,
            handled_signals: 1 << (libc::SIGCHLD - 1),
            has_reaped_late,
            is_frozen: false,
            io: Some(Io {
                writes: written,
                ..Io::default()
            }),
            ..parallel
        };
        let wc = frozen(process(4, "wc", vec![reads(0, 8)]), on_input(8));
        found(vec![parallel, wc])
    };
    for (written, has_reaped_late) in [(0, false), (5, true)] {
        let findings = found_beside(Outside::FileLock, written, has_reaped_late);
        let is_unclear = matches!(findings[..], [Finding::Unclear { .. }]);
        assert!(is_unclear, "{findings:?}");
    }
    for (awaited, written) in [(Outside::FileLock, 5), (Outside::Timer, 0)] {
        let findings = found_beside(awaited, written, false);
        assert_eq!(only_pace(&findings).awaited(), Some(Outside::Timer));
    }
}
