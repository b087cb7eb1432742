//! Stages that wait for their children, and workers of a pool.

use super::*;

#[test]
fn a_shell_with_short_lived_children_is_a_stage() {
    let child = on_child();
    let mut short = frozen(
        process(3, "sleep", vec![reads(0, 7), writes(1, 8)]),
        on_outside(Outside::Timer),
    );
    (short.samples, short.has_ended) = (10, true);
    let findings = found(vec![
        busy(process(1, "yes", vec![writes(1, 7)]), 0.0, 1.0, 0.0),
        frozen(process(2, "sh", vec![reads(0, 7), writes(1, 8)]), child),
        short,
        frozen(process(4, "cat", vec![reads(0, 8)]), on_input(8)),
    ]);
    let bottleneck = only_pace(&findings);
    assert_eq!(
        (bottleneck.stage.pid, Outside::longest(&bottleneck.outside)),
        (2, Some(Outside::Child))
    );
}

/// A shell that waits for its children all the time, which have these shares.
pub(super) fn shell(shares: Shares, on: Vec<OnLink>) -> Observed {
    let child = on_child();
    let process = process(2, "sh", vec![reads(0, 7), writes(1, 8)]);
    Observed {
        children: Some(Children {
            names: vec!["head".to_owned()],
            awaited: Vec::new(),
            shares,
            outside: BTreeMap::new(),
            on,
            processors: shares.runs,
            are_short: false,
            are_descendants: false,
        }),
        ..frozen(process, child)
    }
}

/// `make -O | tee`, or a node program that has started gzip: its end is an event.
#[test]
fn who_waits_for_an_event_while_its_children_work_waits_for_them() {
    let runs = |runs: f64, elsewhere: f64| Shares {
        runs,
        elsewhere,
        ..Shares::default()
    };
    let node = |children: Shares| {
        let shell = shell(children, Vec::new());
        let observed = frozen(shell.process.clone(), on_outside(Outside::Event));
        Observed {
            children: shell.children,
            ..observed
        }
    };
    let tee = || frozen(process(4, "tee", vec![reads(0, 8)]), on_input(8));
    let awaits = |children: Shares| {
        let findings = found(vec![node(children), tee()]);
        only_pace(&findings).children.is_some()
    };
    assert!(awaits(runs(1.0, 0.0)));
    // Those of a pool have nothing to do.
    assert!(!awaits(runs(0.0, 1.0)));
}

#[test]
fn shell_whose_children_wait_for_next_stage_is_not_blamed() {
    let blocked = Shares {
        blocked: 1.0,
        ..Shares::default()
    };
    let on_output = OnLink {
        pipe: LinkId::pipe(8),
        side: LinkSide::Room,
        share: 1.0,
        thread_share: 0.0,
    };
    let yes = || busy(process(1, "yes", vec![writes(1, 7)]), 0.0, 1.0, 0.0);
    let gzip = || busy(process(4, "gzip", vec![reads(0, 8)]), 1.0, 0.0, 0.0);
    let findings = found(vec![yes(), shell(blocked, vec![on_output]), gzip()]);
    assert_eq!(only_pace(&findings).stage.name, "gzip");
    let runs = Shares {
        runs: 1.0,
        ..Shares::default()
    };
    let wc = frozen(process(4, "wc", vec![reads(0, 8)]), on_input(8));
    let findings = found(vec![yes(), shell(runs, Vec::new()), wc]);
    let bottleneck = only_pace(&findings);
    assert_eq!(bottleneck.stage.name, "sh");
    assert_eq!(bottleneck.children.as_ref().unwrap().shares.runs, 1.0);
}

/// `make -j2 | cat`: make waits for the tokens of its jobs.
#[test]
fn parent_that_waits_on_a_pipe_does_not_lack_processors() {
    let queued = Shares {
        queued: 0.9,
        runs: 0.1,
        ..Shares::default()
    };
    let mut stages = chain(&[(0.0, 0.0, 0.99), (0.2, 0.0, 0.2), (0.2, 0.1, 0.2)]);
    stages[0].on = vec![OnLink {
        pipe: LinkId::pipe(9),
        side: LinkSide::Input,
        share: 0.99,
        thread_share: 0.0,
    }];
    stages[0].children = shell(queued, Vec::new()).children;
    stages[1].shares.queued = 0.6;
    stages[2].shares.queued = 0.6;
    let findings = found(stages);
    let named = findings.iter().flat_map(|finding| finding.named());
    let named: Vec<i32> = named.map(|who| who.pid).collect();
    assert_eq!(named, [2, 3], "{findings:?}");
}

/// `split --filter gzip`: it waits for room in a pipe to its own child.
#[test]
fn a_stage_waiting_for_its_child_does_what_that_does() {
    let runs = Shares {
        runs: 0.9,
        ..Shares::default()
    };
    let mut split = busy(
        process(2, "split", vec![reads(0, 1), writes(5, 9)]),
        0.1,
        0.0,
        0.0,
    );
    split.shares.blocked = 0.9;
    split.on = vec![OnLink {
        pipe: LinkId::pipe(9),
        side: LinkSide::Room,
        share: 0.9,
        thread_share: 0.0,
    }];
    split.children = shell(runs, Vec::new()).children;
    let cat = busy(process(1, "cat", vec![writes(1, 1)]), 0.02, 0.98, 0.0);
    let findings = found(vec![cat, split]);
    let bottleneck = only_pace(&findings);
    assert_eq!(bottleneck.stage.name, "split");
    assert_eq!(bottleneck.children.as_ref().unwrap().names, ["head"]);
}

#[test]
fn a_shell_does_not_set_its_own_pipelines_pace() {
    let runs = Shares {
        runs: 1.0,
        ..Shares::default()
    };
    let below = |process| child_of(2, process);
    let cat = below(process(3, "cat", vec![writes(1, 8)]));
    let findings = found(vec![
        shell(runs, Vec::new()),
        busy(cat, 0.0, 1.0, 0.0),
        busy(below(process(4, "wc", vec![reads(0, 8)])), 0.9, 0.0, 0.1),
    ]);
    assert_eq!(only_pace(&findings).stage.name, "wc");
}

/// What a shell's loop of short children did, as seen by its parent: shares of running, being queued
/// and blocked.
fn loop_of_cats(runs: f64, queued: f64, blocked: f64) -> Observed {
    let mut bash = frozen(process(9, "bash", vec![writes(1, 1)]), on_child());
    (bash.is_frozen, bash.has_reaped, bash.io) = (false, true, None);
    bash.children = Some(Children {
        names: vec!["cat".to_owned()],
        awaited: Vec::new(),
        shares: Shares {
            runs,
            queued,
            blocked,
            ..Shares::default()
        },
        outside: BTreeMap::new(),
        on: vec![OnLink {
            pipe: LinkId::pipe(1),
            side: LinkSide::Room,
            share: blocked,
            thread_share: 0.0,
        }],
        processors: runs,
        are_short: true,
        are_descendants: false,
    });
    bash
}

/// `while cat text; do :; done | tr a-z A-Z | wc -l`, whose pipes are read and written 100,000 times
/// a second: at eight looks they are anything from 17 to 98 % full.
#[test]
fn busy_stage_after_short_children_is_the_bottleneck_whatever_the_fill() {
    for (cat, tr, fills) in [
        ((0.40, 0.24, 0.36), (0.87, 0.06), [0.17, 0.36]),
        ((0.43, 0.25, 0.32), (0.88, 0.06), [0.52, 0.20]),
        ((0.42, 0.24, 0.34), (0.88, 0.04), [0.98, 0.09]),
    ] {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (tr.0, 0.03, 0.04), (0.38, 0.0, 0.38)]);
        stages[0] = loop_of_cats(cat.0, cat.1, cat.2);
        let findings = found_beside(stages, &[0.0, tr.1, 0.24], &fills, 0.87);
        let bottleneck = only_pace(&findings);
        assert_eq!(bottleneck.stage.pid, 2, "{fills:?}");
        assert_eq!(bottleneck.certainty, Certainty::Likely);
    }
    // The children run as much.
    let mut stages = chain(&[(0.0, 0.0, 0.0), (0.87, 0.03, 0.04), (0.38, 0.0, 0.38)]);
    stages[0] = loop_of_cats(0.80, 0.06, 0.14);
    let findings = found_beside(stages, &[0.0, 0.06, 0.24], &[0.5, 0.5], 0.87);
    let [Finding::Unclear { active, .. }] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(active[0].who.pid, 2);
    assert!(active[1].are_children, "{active:?}");
}

/// The same loop before two openssl and md5sum, beside two busy loops.
#[test]
fn children_that_wait_for_a_processor_count_as_their_shell() {
    let mut stages = chain(&[
        (0.0, 0.0, 0.0),
        (0.21, 0.02, 0.59),
        (0.13, 0.0, 0.78),
        (0.32, 0.0, 0.38),
    ]);
    stages[0] = loop_of_cats(0.17, 0.40, 0.40);
    let queued = [0.0, 0.18, 0.09, 0.30];
    let findings = found_beside(stages, &queued, &[0.0, 0.0, 0.0], 1.0);
    let [Finding::PingPong { stages, delay }] = &findings[..] else {
        panic!("{findings:?}");
    };
    let named = stages
        .iter()
        .map(|stage| (stage.who.pid, stage.are_children));
    assert_eq!(named.collect::<Vec<_>>(), [(9, true), (4, false)]);
    assert!(matches!(delay, Some(Delay::Others { .. })), "{delay:?}");
}

/// `script -c 'while :; do cat text; done' | tr | wc`: script waits for a child now and then.
#[test]
fn what_runs_below_a_stage_is_no_other_process() {
    let delay = |below: Vec<Observed>| {
        let mut stages = chain(&[(0.3, 0.1, 0.0), (0.2, 0.0, 0.7), (0.1, 0.0, 0.8)]);
        for stage in &mut stages[1..] {
            stage.process.parent = 9;
        }
        stages[0].children_ran_s = 0.1;
        stages.extend(below);
        let findings = found_beside(stages, &[0.6], &[0.0, 0.0], 0.7);
        only_pace(&findings).delay.clone()
    };
    let child = |pid: i32, name: &str, parent: i32, runs: f64| {
        let child = child_of(parent, process(pid, name, Vec::new()));
        busy(child, runs, 0.0, 0.0)
    };
    let Some(Delay::Others { processors, .. }) = delay(Vec::new()) else {
        panic!("{:?}", delay(Vec::new()));
    };
    assert!((processors - 0.75).abs() < 1e-9, "{processors}");
    let mut shell = child(20, "sh", 1, 0.05);
    shell.children_ran_s = 0.5;
    let mut ended = child(22, "cat", 20, 0.3);
    (ended.has_ended, ended.samples) = (true, 10);
    let all = vec![shell, child(21, "cat", 20, 0.45), ended];
    assert!(
        !matches!(delay(all.clone()), Some(Delay::Others { .. })),
        "{:?}",
        delay(all)
    );
}

/// `while head -c 1M big; do :; done | gzip`, at looks that find the pipe nearly empty.
#[test]
fn a_pipe_in_which_children_of_its_writer_wait_for_room_was_full() {
    let room = |blocked: f64| {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (0.8, 0.0, 0.2)]);
        stages[0] = loop_of_cats(0.1, 0.0, blocked);
        stages[1].io = Some(Io {
            read_bytes: 1 << 20,
            reads: 100,
            ..Io::default()
        });
        let mut observation = observation(stages);
        observation.pipes[0].capacity = Some(65536);
        observation.pipes[0].fill = Some(0.01);
        only_pace(&bottlenecks(&observation, &BTreeSet::new())).room
    };
    assert_eq!(room(0.0), Room::NeverFull);
    assert_eq!(room(0.8), Room::Usual);
}

/// The others of `xargs -P4 gzip | cat`, also those too short-lived to be observed. What a script has started
/// beside a pipeline is another process, unless the script was asked for.
#[test]
fn siblings_below_a_process_of_the_pipeline_are_no_other_processes() {
    let delay = |has_link: bool, unseen: f64, seen: f64, asked: i32| {
        let mut stages = chain(&[(0.45, 0.0, 0.0), (0.02, 0.0, 0.98)]);
        stages[0].process.parent = 20;
        let ends = if has_link {
            vec![writes(1, 1)]
        } else {
            Vec::new()
        };
        let mut xargs = busy(process(20, "xargs", ends), 0.0, 0.0, 0.0);
        xargs.process.parent = 1000;
        xargs.children_ran_s = unseen * xargs.counted_s;
        let gzip = child_of(20, process(21, "gzip", Vec::new()));
        stages.extend([xargs, busy(gzip, seen, 0.0, 0.0)]);
        let mut observation = loaded(stages, &[0.55, 0.0], &[0.0, 0.0], 0.98);
        observation.asked = Some(asked);
        only_pace(&bottlenecks(&observation, &BTreeSet::new()))
            .delay
            .clone()
    };
    let is_others = |delay: Option<Delay>| matches!(delay, Some(Delay::Others { .. }));
    assert!(is_others(delay(true, 0.45, 0.0, 1)));
    assert!(!is_others(delay(true, 1.9, 0.0, 1)));
    assert!(!is_others(delay(true, 0.45, 1.0, 1)));
    assert!(is_others(delay(false, 1.9, 1.0, 1)));
    assert!(!is_others(delay(false, 1.9, 1.0, 20)));
}

/// `x=$(script)`, whose script runs a loop beside its pipeline.
#[test]
fn what_a_command_substitution_runs_beside_the_pipeline_is_other_load() {
    let mut stages = chain(&[(0.5, 0.0, 0.0), (0.1, 0.0, 0.9)]);
    for stage in &mut stages {
        stage.process.parent = 21;
        stage.ancestors = vec![21, 20];
    }
    let mut outer = busy(process(20, "bash", vec![reads(3, 9)]), 0.0, 0.0, 1.0);
    outer.process.parent = 1000;
    outer.children_ran_s = 2.0 * outer.counted_s;
    let script = child_of(20, process(21, "bash", vec![writes(1, 9)]));
    stages.extend([outer, frozen(script, on_child())]);
    for stage in &mut stages {
        stage.process.group = 900;
    }
    let findings = found_beside(stages, &[0.5, 0.0, 0.0, 0.0], &[0.0, 0.0], 1.0);
    let delay = findings.into_iter().find_map(|finding| match finding {
        Finding::Bottleneck(found) if found.stage.pid == 1 => found.delay,
        _ => None,
    });
    assert!(matches!(delay, Some(Delay::Others { .. })), "{delay:?}");
}

/// Two of `xargs -P2 sh -c 'zcat $0 | wc'`.
#[test]
fn other_pipelines_of_the_process_group_share_its_processors() {
    let delay = |group: i32| {
        let mut stages = chain(&[(0.5, 0.0, 0.0), (0.1, 0.0, 0.9)]);
        let zcat = busy(process(11, "zcat", vec![writes(1, 11)]), 0.9, 0.0, 0.0);
        let wc = busy(process(12, "wc", vec![reads(0, 11)]), 0.1, 0.0, 0.9);
        stages.extend([zcat, wc]);
        for (at, stage) in stages.iter_mut().enumerate() {
            stage.process.parent = 1000;
            stage.process.group = if at < 2 { 900 } else { group };
        }
        let findings = found_beside(stages, &[0.5, 0.0, 0.1, 0.0], &[0.0, 0.0], 1.0);
        let first = findings.into_iter().find_map(|finding| match finding {
            Finding::Bottleneck(found) if found.stage.pid == 1 => found.delay,
            _ => None,
        });
        first.unwrap()
    };
    let own = delay(900);
    let is_own = matches!(own, Delay::OwnStages { stages: 4, .. });
    assert!(is_own, "{own:?}");
    let others = delay(901);
    assert!(matches!(others, Delay::Others { .. }), "{others:?}");
}

/// `make -j4 | tee | grep -c`, and with -j2, on two processors.
#[test]
fn children_that_lack_processors_share_them() {
    let make = |queued: f64, processors: f64, busy: f64| {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 1.0)]);
        stages[0] = loop_of_cats(0.98 - queued, queued, 0.0);
        let children = stages[0].children.as_mut().unwrap();
        (children.processors, children.are_short) = (processors, false);
        stages[0].children_ran_s = 2.0 * processors;
        let findings = found_beside(stages, &[0.0, 0.0, 0.0], &[0.0, 0.0], busy);
        only_pace(&findings).delay.clone()
    };
    let delay = make(0.45, 1.86, 0.96);
    let Some(Delay::OwnStages {
        largest,
        are_children,
        ..
    }) = &delay
    else {
        panic!("{delay:?}");
    };
    assert!(largest.pid == 9 && *are_children, "{delay:?}");
    // There is one for each.
    assert_eq!(make(0.05, 1.86, 0.96), None);
    assert_eq!(make(0.05, 0.95, 0.5), None);
    assert_eq!(make(0.05, 1.29, 0.77), None);
}

/// A shell's loop of `echo | cut` on processors that are idle for 38 % of the time.
#[test]
fn idle_processors_do_not_lack() {
    let delay = |busy: f64, runs: f64, queued: f64| {
        let mut stages = chain(&[(0.0, 0.0, 0.0), (0.01, 0.0, 0.99)]);
        stages[0] = loop_of_cats(runs, queued, 0.0);
        stages[0].children_ran_s = 2.0 * 2.0 * busy;
        let findings = found_beside(stages, &[0.03, 0.0], &[0.0], busy);
        only_pace(&findings).delay.clone()
    };
    assert_eq!(delay(0.62, 0.45, 0.31), None);
    assert_eq!(delay(0.62, 0.38, 0.40), None);
    assert!(delay(0.95, 0.45, 0.31).is_some());
}

#[test]
fn equal_workers_of_a_pool_that_fill_the_processors_are_the_bottleneck() {
    // find | python3, whose two workers take work from one pipe and give results to another | sort
    let mut parent = busy(process(2, "python3", vec![]), 0.1, 0.79, 0.0);
    let ends = vec![reads(0, 1), writes(1, 2), writes(5, 3), reads(6, 4)];
    parent.process = process(2, "python3", ends);
    parent.on = vec![OnLink {
        pipe: LinkId::pipe(3),
        side: LinkSide::Room,
        share: 0.79,
        thread_share: 0.0,
    }];
    let worker = |pid: i32| {
        let ends = vec![reads(5, 3), writes(6, 4)];
        busy(child_of(2, process(pid, "python3", ends)), 0.95, 0.0, 0.0)
    };
    let stages = |second: Observed| {
        vec![
            busy(process(1, "find", vec![writes(1, 1)]), 0.04, 0.95, 0.0),
            parent.clone(),
            worker(3),
            second,
            busy(process(5, "sort", vec![reads(0, 2)]), 0.05, 0.0, 0.9),
        ]
    };
    let findings = found(stages(worker(4)));
    assert_eq!(only_pace(&findings).stage.pid, 3, "{findings:?}");
    // Another program that runs as much: it can't be told which of them limits.
    let mut other = worker(4);
    other.process.name = "other".to_owned();
    let findings = found(stages(other));
    assert!(
        matches!(findings[..], [Finding::Unclear { .. }]),
        "{findings:?}"
    );
}

/// A server in node that starts one gzip after the other, none of which is there for long.
#[test]
fn who_waits_for_busy_children_is_not_without_a_bottleneck() {
    let mut node = busy(process(2, "node", vec![writes(19, 5)]), 0.1, 0.85, 0.0);
    let serves = |node: &Observed| {
        let findings = found(vec![node.clone()]);
        let [Finding::Bottleneck(found)] = &findings[..] else {
            return None;
        };
        Some(found.children.as_ref()?.names.concat())
    };
    assert_eq!(serves(&node), None);
    let children = |runs: f64| Children {
        names: vec!["gzip".to_owned()],
        awaited: Vec::new(),
        shares: Shares {
            runs,
            ..Shares::default()
        },
        outside: BTreeMap::new(),
        on: Vec::new(),
        processors: runs,
        are_short: false,
        are_descendants: false,
    };
    node.children = Some(children(0.1));
    assert_eq!(serves(&node), None);
    node.children = Some(children(0.96));
    assert_eq!(serves(&node).as_deref(), Some("gzip"));
}

/// `python3 x.py | wc` with two queues of multiprocessing: all have inherited all ends.
#[test]
fn worker_that_runs_between_inherited_queues_is_the_bottleneck() {
    // The queue's pipe, its lock's, and the next queue's: parent, worker and writer have all of them.
    let queues = || {
        vec![
            reads(3, 7),
            writes(4, 7),
            reads(5, 8),
            writes(6, 8),
            writes(1, 9),
        ]
    };
    let wait = |inode: u64, side, share| OnLink {
        pipe: LinkId::pipe(inode),
        side,
        share,
        thread_share: 0.0,
    };
    let stage = |pid: i32, parent: i32, shares: (f64, f64, f64), on: Vec<OnLink>| {
        let process = child_of(parent, process(pid, "python3", queues()));
        Observed {
            on,
            ..busy(process, shares.0, shares.1, shares.2)
        }
    };
    let parent = stage(2, 1, (0.04, 0.96, 0.0), vec![wait(7, LinkSide::Room, 0.96)]);
    let worker = stage(3, 2, (1.0, 0.0, 0.0), Vec::new());
    let writer = stage(
        4,
        2,
        (0.03, 0.0, 0.97),
        vec![wait(8, LinkSide::Input, 0.97)],
    );
    let wc = busy(process(5, "wc", vec![reads(0, 9)]), 0.0, 0.0, 1.0);
    let findings = found(vec![parent, worker, writer, wc]);
    assert_eq!(only_pace(&findings).stage.pid, 3, "{findings:?}");
}

/// execSync() in node: the children write to a socket of its own, and none is there for long.
#[test]
fn who_waits_for_output_of_busy_children_does_not_wait_for_another_pipeline() {
    let runs = Shares {
        runs: 0.9,
        ..Shares::default()
    };
    let named = |children: Option<Children>| {
        let mut stages = chain(&[(0.0, 1.0, 0.0), (0.0, 0.0, 0.95), (0.0, 0.0, 1.0)]);
        stages[1].on = vec![OnLink {
            pipe: LinkId::pipe(9),
            side: LinkSide::Input,
            share: 0.95,
            thread_share: 0.0,
        }];
        stages[1].process.ends = vec![reads(0, 1), writes(1, 2), reads(19, 9)].into();
        stages[1].children = children;
        for stage in &mut stages {
            stage.is_frozen = true;
        }
        let findings = found(stages);
        findings.iter().find_map(|finding| match finding {
            Finding::Bottleneck(found) => Some(found.stage.pid),
            _ => None,
        })
    };
    assert_eq!(named(shell(runs, Vec::new()).children), Some(2));
    assert_eq!(named(None), None);
}

/// `yes | timeout 9 xargs gzip -c`
#[test]
fn who_waits_for_a_stage_that_waits_for_children_is_none() {
    let mut xargs = busy(process(3, "xargs", vec![reads(0, 7)]), 0.0, 0.0, 0.0);
    (xargs.shares.elsewhere, xargs.outside) = (1.0, [(Outside::Child, 1.0)].into());
    xargs.ancestors = vec![2];
    xargs.process.parent = 2;
    xargs.on.clear();
    let timeout = process(2, "timeout", vec![reads(0, 7)]);
    let timeout = frozen(timeout, on_outside(Outside::Signal));
    let yes = frozen(process(1, "yes", vec![writes(1, 7)]), on_room(7));
    let readers = |xargs: Observed| {
        let observation = observation(vec![yes.clone(), timeout.clone(), xargs]);
        let readers = observation.users(LinkId::pipe(7), LinkSide::Input);
        let pids = readers.into_iter().map(|reader| reader.process.id.pid);
        pids.collect::<Vec<i32>>()
    };
    assert_eq!(readers(xargs.clone()), [3]);
    // A shell may read after its child.
    xargs.is_frozen = true;
    assert_eq!(readers(xargs), [2, 3]);
}
