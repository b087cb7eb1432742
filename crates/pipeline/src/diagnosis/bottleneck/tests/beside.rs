//! Processes beside a pipeline that only hold its ends.

use super::*;

/// `(sha1sum /dev/zero >/dev/null & tail -f log | sed -u ...) 2>&1 | grep ...`
#[test]
fn who_only_inherited_a_standard_error_is_no_bottleneck() {
    let silent = |ends: Vec<LinkFd>| Observed {
        io: Some(Io::default()),
        ..busy(process(1, "sha1sum", ends), 1.0, 0.0, 0.0)
    };
    let named = |first: Observed, sed: Vec<LinkFd>| {
        let sed = busy(process(2, "sed", sed), 0.01, 0.0, 0.0);
        let grep = busy(process(3, "grep", vec![reads(0, 1)]), 0.01, 0.0, 0.99);
        found(vec![first, sed, grep])
            .iter()
            .any(|finding| match finding {
                Finding::Bottleneck(bottleneck) => bottleneck.stage.pid == 1,
                _ => false,
            })
    };
    let output = || vec![writes(1, 1), writes(2, 1)];
    assert!(!named(silent(vec![writes(2, 1)]), output()));
    // Its errors are all that comes.
    assert!(named(silent(vec![writes(2, 1)]), vec![writes(2, 1)]));
}

/// `(BUSY & while :; do cat piece; sleep .01; done) | wc`, and `(BUSY; cat piece) | wc`.
#[test]
fn who_is_left_in_the_background_and_writes_nothing_is_no_bottleneck() {
    let output = || vec![writes(1, 1), writes(2, 1)];
    let observation_of = |awaited: i32, silent: u64, read: u64| {
        let children = Children {
            names: vec!["sleep".into()],
            awaited: vec![awaited],
            shares: Shares {
                elsewhere: 1.0,
                ..Shares::default()
            },
            outside: BTreeMap::from([(Outside::Timer, 1.0)]),
            on: Vec::new(),
            processors: 0.0,
            are_short: false,
            are_descendants: false,
        };
        let shell = Observed {
            io: Some(Io::default()),
            has_reaped: true,
            children: Some(children),
            is_frozen: false,
            ..frozen(process(1, "sh", output()), on_child())
        };
        let in_background = Observed {
            io: Some(Io {
                writes: silent,
                ..Io::default()
            }),
            ancestors: vec![1],
            ..busy(child_of(1, process(2, "busy", output())), 1.0, 0.0, 0.0)
        };
        let reader = process(3, "wc", vec![reads(0, 1)]);
        let reader = Observed {
            is_frozen: false,
            io: Some(Io {
                read_bytes: read,
                reads: read,
                ..Io::default()
            }),
            ..frozen(reader, on_input(1))
        };
        observation(vec![shell, in_background, reader])
    };
    let found = |awaited: i32, silent: u64, read: u64| {
        bottlenecks(&observation_of(awaited, silent, read), &BTreeSet::new())
    };
    let findings = found(9, 0, 5);
    let bottleneck = only_pace(&findings);
    let (stage, certainty) = (bottleneck.stage.pid, bottleneck.certainty);
    assert_eq!((stage, certainty), (1, Certainty::Likely));
    assert_eq!(bottleneck.awaited(), Some(Outside::Timer));
    assert_eq!(bottleneck.bystanders[0].pid, 2);
    // One of several that it starts one after the other, as find(1).
    let mut observation = observation_of(9, 0, 5);
    observation.processes[1].process.name = "sleep".to_owned();
    let findings = bottlenecks(&observation, &BTreeSet::new());
    assert_eq!(only_pace(&findings).bystanders, []);
    // The shell waits for it, or it writes.
    for (awaited, writes) in [(2, 0), (9, 1)] {
        let findings = found(awaited, writes, 5);
        assert_eq!(only_pace(&findings).stage.pid, 2, "{awaited} {writes:?}");
    }
    // Nobody has written yet.
    let findings = found(9, 0, 0);
    let is_named = |finding: &Finding| matches!(finding, Finding::Bottleneck(bottleneck) if bottleneck.bystanders.is_empty());
    assert!(findings.iter().all(is_named), "{findings:?}");
}

/// `(echo GET; sleep 9) | openssl s_client | sha256sum`, and `sleep 9 | cat | sha256sum`.
#[test]
fn who_only_keeps_an_input_open_is_not_the_bottleneck() {
    let named = |starved: f64, sent: u64, looks_at_both: bool| {
        let sleeps = frozen(
            process(1, "sleep", vec![writes(1, 1)]),
            on_outside(Outside::Timer),
        );
        let client = process(2, "openssl", vec![reads(0, 1), writes(1, 2)]);
        let mut client = busy(client, 0.9 - starved, 0.1, starved);
        client.io = Some(Io {
            writes: sent,
            ..Io::default()
        });
        if looks_at_both {
            client.polled = [(LinkId::pipe(1), LinkSide::Input)].into();
        }
        let reader = busy(process(3, "sha256sum", vec![reads(0, 2)]), 0.8, 0.0, 0.2);
        let sleeps = Observed {
            io: Some(Io::default()),
            ..sleeps
        };
        let mut observation = observation(vec![sleeps, client, reader]);
        observation.pipes[0].fill = Some(0.0);
        let findings = bottlenecks(&observation, &BTreeSet::new());
        findings.iter().find_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
            _ => None,
        })
    };
    assert_ne!(named(0.1, 9, false), Some(1));
    assert_ne!(named(0.8, 9, true), Some(1));
    assert_eq!(named(0.8, 9, false), Some(1));
    assert_eq!(named(0.8, 0, true), Some(1));
}
