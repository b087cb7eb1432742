//! Stages that wait for processors, or use up a quota.

use super::*;
use crate::diagnosis::bottleneck::delay::delay;
use crate::proc::ProcessId;
use crate::processors::ProcessorUser;

#[test]
fn stages_that_lack_processors_do_not_take_turns() {
    let mut stages = chain(&[(0.3, 0.2, 0.0), (0.3, 0.1, 0.2), (0.3, 0.0, 0.2)]);
    for stage in &mut stages {
        stage.shares.queued = 0.4;
    }
    let mut observation = observation(stages);
    let usage = ProcessorUsage {
        busy: 1.0,
        ..ProcessorUsage::default()
    };
    observation.load = Load([(0, usage)].into());
    let findings = bottlenecks(&observation, &BTreeSet::new());
    let [Finding::PingPong { delay, .. }] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert!(
        matches!(delay, Some(Delay::OwnStages { stages: 3, .. })),
        "{delay:?}"
    );
}

/// However full the pipe between them is.
#[test]
fn of_two_stages_that_only_lack_processors_none_is_named() {
    let mut stages = chain(&[(0.5, 0.0, 0.0), (0.5, 0.0, 0.0)]);
    for stage in &mut stages {
        stage.shares.queued = 0.5;
    }
    let mut observation = observation(stages);
    observation.pipes[0].fill = Some(0.01);
    let findings = bottlenecks(&observation, &BTreeSet::new());
    assert!(
        matches!(findings[..], [Finding::PingPong { delay: Some(_), .. }]),
        "{findings:?}"
    );
}

#[test]
fn of_other_processes_the_one_that_uses_most_is_named() {
    let mut stages = chain(&[(0.1, 0.9, 0.0), (0.1, 0.0, 0.9)]);
    stages[0].shares.queued = 0.9;
    for stage in &mut stages {
        stage.allowed = CpuList::parse("1");
        stage.process.parent = 99;
        stage.ancestors = vec![99, 1];
    }
    let mut observation = observation(stages);
    let busy = ProcessorUsage {
        busy: 1.0,
        ..ProcessorUsage::default()
    };
    observation.load = Load([(0, busy), (1, busy)].into());
    let user = |pid: i32, ancestors: &[i32], allowed: &str| ProcessorUser {
        id: ProcessId { pid, start: 1 },
        name: format!("p{pid}"),
        processors: 0.4,
        ancestors: ancestors.to_vec(),
        allowed: CpuList::parse(allowed),
        is_kernel: false,
    };
    let all = observation.processes.iter();
    let pids: Vec<i32> = all.map(|one| one.process.id.pid).collect();
    let below = user(50, &[pids[0], 99], "1");
    let sibling = user(51, &[99], "1");
    let wanders = user(52, &[90], "0-1");
    let foreign = user(53, &[90], "1");
    let stages = pids.iter().map(|pid| user(*pid, &[99], "1"));
    // The server of tmux(1), which starts the stages.
    let above = user(99, &[1], "1");
    let others = [below, above, sibling, wanders, foreign];
    observation.users = stages.chain(others).collect();
    // The one that is named, and whether the same program may have started it.
    let named = |observation: &Observation, asked: Option<i32>| {
        let observation = Observation {
            asked,
            ..observation.clone()
        };
        let stages: Vec<&Observed> = observation.processes.iter().collect();
        let delay = delay(&observation, &stages, stages[0], 0.9);
        let Delay::Others {
            largest,
            may_be_siblings,
            ..
        } = delay
        else {
            panic!("{delay:?}");
        };
        (largest.map(|largest| largest.who.pid), may_be_siblings)
    };
    assert_eq!(named(&observation, Some(99)), (Some(53), false));
    let of_stage = Some(pids[0]);
    assert_eq!(named(&observation, of_stage), (Some(51), false));
    observation.processes[0].starters = vec![99];
    assert_eq!(named(&observation, of_stage), (Some(51), true));
    // Those that may run elsewhere may have done so.
    observation.users.retain(|user| user.id.pid == 52);
    assert_eq!(named(&observation, None), (None, true));
    for process in &mut observation.processes {
        process.allowed = CpuList::parse("0-1");
    }
    assert_eq!(named(&observation, None), (Some(52), false));
}

/// `zcat | jq | gzip` beside a daemon, and beside what a script runs one after the other.
#[test]
fn a_single_other_process_explains_a_wait_and_short_lived_ones_do_not() {
    let mut stages = chain(&[(0.6, 0.3, 0.0), (0.83, 0.0, 0.0), (0.1, 0.0, 0.7)]);
    stages[1].shares.queued = 0.17;
    for stage in &mut stages {
        stage.allowed = CpuList::parse("0-1");
        stage.ran_s = stage.shares.runs * stage.counted_s;
        stage.delayed_s = stage.shares.queued * stage.counted_s;
    }
    let mut short = stages[0].clone();
    short.process.id.pid = 60;
    (short.has_ended, short.counted_s, short.age_s) = (true, 0.2, 2.0);
    short.ran_s = 0.2;
    let cause = |processes: Vec<Observed>, busy: f64, users: Vec<ProcessorUser>| {
        let mut observation = observation(processes);
        let usage = ProcessorUsage {
            busy: busy / 2.0,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage), (1, usage)].into());
        observation.users = users;
        let stages: Vec<&Observed> = observation.processes.iter().collect();
        delay(&observation, &stages, stages[1], 0.17)
    };
    let daemon = ProcessorUser {
        id: ProcessId { pid: 50, start: 1 },
        name: "daemon".to_owned(),
        processors: 0.35,
        ancestors: vec![90],
        allowed: CpuList::parse("0-1"),
        is_kernel: false,
    };
    let found = cause(stages.clone(), 1.95, vec![daemon.clone()]);
    let Delay::Others {
        processors: others, ..
    } = found
    else {
        panic!("{found:?}");
    };
    assert!(others < 0.6, "{others}");
    // Two that were counted themselves use more than what the stages leave.
    let second = ProcessorUser {
        id: ProcessId { pid: 51, start: 1 },
        ..daemon.clone()
    };
    let Delay::Others {
        processors: both, ..
    } = cause(stages.clone(), 1.95, vec![daemon.clone(), second])
    else {
        panic!();
    };
    assert!((both - 0.7).abs() < 0.01, "{both}");
    let kernel = ProcessorUser {
        is_kernel: true,
        ..daemon
    };
    for users in [vec![kernel], Vec::new()] {
        let own = cause(stages.clone(), 1.95, users);
        let Delay::OwnStages { largest, next, .. } = &own else {
            panic!("{own:?}");
        };
        assert_eq!((largest.pid, next.len()), (2, 2));
    }
    stages.push(short);
    let Delay::OwnStages { largest, next, .. } = cause(stages, 1.95, Vec::new()) else {
        panic!();
    };
    let named: Vec<i32> = next.iter().map(|who| who.pid).collect();
    assert_eq!((largest.pid, named), (2, vec![1, 3]));
}

/// Stages with these shares of running, being queued, blocked and starved, on two busy processors.
fn on_busy_processors(shares: &[(f64, f64, f64, f64)]) -> Vec<Finding> {
    let others = shares
        .iter()
        .map(|(runs, _, blocked, starved)| (*runs, *blocked, *starved));
    let mut stages = chain(&others.collect::<Vec<_>>());
    for (stage, (_, queued, ..)) in stages.iter_mut().zip(shares) {
        stage.shares.queued = *queued;
    }
    let mut observation = observation(stages);
    let usage = ProcessorUsage {
        busy: 1.0,
        ..ProcessorUsage::default()
    };
    observation.load = Load([(0, usage), (1, usage)].into());
    bottlenecks(&observation, &BTreeSet::new())
}

#[test]
fn stage_that_never_waits_on_pipes_is_the_bottleneck_whoever_else_is_queued() {
    for (shares, expected) in [
        // yes | jq | uniq, and a shell's loop | wc.
        (
            &[
                (0.0, 0.64, 0.36, 0.0),
                (0.3, 0.7, 0.0, 0.0),
                (0.0, 0.05, 0.0, 0.95),
            ][..],
            2,
        ),
        (&[(0.22, 0.71, 0.0, 0.0), (0.1, 0.53, 0.0, 0.37)][..], 1),
        // It runs, and needs no processor time of one that hardly runs.
        (
            &[
                (0.01, 0.32, 0.67, 0.0),
                (0.97, 0.03, 0.0, 0.0),
                (0.0, 1.0, 0.0, 0.0),
            ],
            2,
        ),
    ] {
        let findings = on_busy_processors(shares);
        assert_eq!(only_pace(&findings).stage.pid, expected);
    }
}

/// `openssl enc </dev/zero | cat | wc -c` on two processors: without cat it is as fast.
#[test]
fn stage_that_runs_all_the_time_is_named_before_one_that_is_queued() {
    let (cat, wc) = ((0.57, 0.38, 0.02, 0.03), (0.3, 0.2, 0.0, 0.5));
    let findings = on_busy_processors(&[(0.91, 0.03, 0.06, 0.0), cat, wc]);
    assert_eq!(only_pace(&findings).stage.pid, 1);
    // Held up for longer, it would gain from a faster cat.
    let findings = on_busy_processors(&[(0.7, 0.02, 0.28, 0.0), cat, wc]);
    let named = findings.iter().find_map(|finding| match finding {
        Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
        _ => None,
    });
    assert_ne!(named, Some(1), "{findings:?}");
}

#[test]
fn stage_that_uses_up_its_quota_is_the_bottleneck() {
    let quota = |processors, throttled| {
        let mut stages = chain(&[(0.02, 0.88, 0.0), (0.55, 0.07, 0.0), (0.29, 0.0, 0.31)]);
        (stages[1].shares.queued, stages[2].shares.queued) = (0.38, 0.4);
        for (stage, ran_s) in stages.iter_mut().zip([0.02, 0.55, 0.29]) {
            (stage.counted_s, stage.ran_s) = (1.0, ran_s);
        }
        stages[2].quota = Some(Quota {
            processors,
            throttled,
            stopped_s: 0.1,
        });
        let usage = ProcessorUsage {
            busy: 1.0,
            ..ProcessorUsage::default()
        };
        let mut observation = observation(stages);
        observation.load = Load([(0, usage), (1, usage)].into());
        bottlenecks(&observation, &BTreeSet::new())
    };
    // Others may leave it less than the quota does.
    for (processors, throttled, expected) in [
        (0.3, 0.95, (3, true)),
        (0.3, 0.55, (3, true)),
        (0.6, 0.2, (2, false)),
    ] {
        let findings = quota(processors, throttled);
        let bottleneck = only_pace(&findings);
        let is_quota = matches!(bottleneck.delay, Some(Delay::Quota(_)));
        assert_eq!((bottleneck.stage.pid, is_quota), expected);
    }
}

#[test]
fn only_stages_with_a_quota_are_said_to_lack_it() {
    let mut stages = chain(&[(0.3, 0.2, 0.0), (0.3, 0.1, 0.2), (0.1, 0.0, 0.2)]);
    for stage in &mut stages {
        stage.shares.queued = 0.4;
    }
    stages[2].shares.queued = 0.7;
    stages[2].quota = Some(Quota {
        processors: 0.5,
        throttled: 0.4,
        stopped_s: 9.0,
    });
    let findings = found(stages);
    let [Finding::PingPong { stages, delay }] = &findings[..] else {
        panic!("{findings:?}");
    };
    let pids: Vec<i32> = stages.iter().map(|stage| stage.who.pid).collect();
    assert!(matches!(delay, Some(Delay::Quota(_))), "{delay:?}");
    assert_eq!(pids, [3]);
}

/// `out=$(xz -dc file | sort)` with a quota: the shell's children use it up, and it waits for what they print.
#[test]
fn shell_whose_children_use_up_a_quota_is_not_the_bottleneck() {
    let mut stages = chain(&[(0.17, 0.3, 0.0), (0.13, 0.0, 0.35), (0.0, 0.0, 1.0)]);
    (stages[0].shares.queued, stages[1].shares.queued) = (0.5, 0.5);
    stages[2].children_ran_s = 0.3 * stages[2].counted_s;
    for stage in &mut stages {
        stage.quota = Some(Quota {
            processors: 0.3,
            throttled: 1.0,
            stopped_s: 1.4,
        });
    }
    let findings = found(stages);
    let [Finding::PingPong { stages, delay }] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert!(matches!(delay, Some(Delay::Quota(_))), "{delay:?}");
    assert_eq!(stages.len(), 2);
}

/// Other processes on both processors, each of which has a stage of its own.
#[test]
fn only_those_that_may_use_a_processor_wait_for_it() {
    let named = |places: [&str; 2]| {
        let mut stages = chain(&[(0.4, 0.1, 0.0), (0.4, 0.0, 0.1)]);
        for (stage, place) in stages.iter_mut().zip(places) {
            stage.shares.queued = 0.5;
            stage.allowed = CpuList::parse(place);
        }
        let mut observation = observation(stages);
        let usage = ProcessorUsage {
            busy: 1.0,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage), (1, usage)].into());
        let findings = bottlenecks(&observation, &BTreeSet::new());
        let [Finding::PingPong { stages, delay }] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert!(matches!(delay, Some(Delay::Others { .. })), "{delay:?}");
        stages.len()
    };
    assert_eq!(named(["0", "1"]), 1);
    assert_eq!(named(["0-1", "0-1"]), 2);
}

#[test]
fn what_keeps_a_stage_from_running_is_named() {
    let allowed = CpuList::parse("1");
    let cause = |change: &dyn Fn(&mut [Observed]), busy_share: f64, steal: f64| {
        let mut stages = chain(&[(0.08, 0.92, 0.0), (0.2, 0.0, 0.0), (0.08, 0.0, 0.92)]);
        stages[1].shares.queued = 0.8;
        for stage in &mut stages {
            stage.allowed.clone_from(&allowed);
        }
        change(&mut stages);
        let mut observation = observation(stages);
        let usage = |busy, steal| ProcessorUsage {
            busy,
            steal,
            iowait: 0.0,
        };
        observation.load = Load([(0, usage(0.1, 0.0)), (1, usage(busy_share, steal))].into());
        let findings = bottlenecks(&observation, &BTreeSet::new());
        only_pace(&findings).delay.clone().unwrap()
    };
    let unchanged = |_: &mut [Observed]| {};
    let Delay::Others { processors, .. } = cause(&unchanged, 1.0, 0.0) else {
        panic!("{:?}", cause(&unchanged, 1.0, 0.0));
    };
    assert!((processors - 0.64).abs() < 1e-9, "{processors}");
    // What a stage does on another processor takes nothing from this one.
    let elsewhere = |stages: &mut [Observed]| {
        stages[0].allowed = CpuList::parse("0");
        stages[0].ran_s = 0.9 * stages[0].counted_s;
    };
    let Delay::Others { processors, .. } = cause(&elsewhere, 1.0, 0.0) else {
        panic!("{:?}", cause(&elsewhere, 1.0, 0.0));
    };
    assert!((processors - 0.72).abs() < 1e-9, "{processors}");
    // What a stage has started may be a stage, too.
    let started = |stages: &mut [Observed]| {
        stages[1].process.parent = 1;
        stages[0].children_ran_s = stages[1].ran_s;
    };
    let Delay::Others { processors, .. } = cause(&started, 1.0, 0.0) else {
        panic!("{:?}", cause(&started, 1.0, 0.0));
    };
    assert!((processors - 0.64).abs() < 1e-9, "{processors}");
    let hypervisor = Delay::Hypervisor { steal: 0.7 };
    assert_eq!(cause(&unchanged, 1.0, 0.7), hypervisor);
    // What runs when the hypervisor stops the processor is not queued.
    let runs = |stages: &mut [Observed]| {
        (stages[1].shares.runs, stages[1].shares.queued) = (1.0, 0.0);
        stages[1].ran_s = 0.3 * stages[1].counted_s;
    };
    assert_eq!(cause(&runs, 1.0, 0.7), hypervisor);
    // Nothing is known of the processors, as where a container hides /proc/stat.
    assert!(!matches!(
        cause(&unchanged, 0.0, 0.0),
        Delay::Hypervisor { .. }
    ));
    let works = |stages: &mut [Observed]| stages[1].ran_s = 0.5 * stages[1].counted_s;
    let own = Delay::OwnStages {
        stages: 3,
        largest: Who {
            pid: 2,
            name: "s2".to_owned(),
        },
        used: 0.5,
        next: Vec::new(),
        are_children: false,
        allowed: allowed.clone().unwrap(),
        processors: 1,
    };
    assert_eq!(cause(&works, 0.8, 0.0), own);
    // The others may use any processor, or sleep.
    let alone = |stages: &mut [Observed]| {
        works(stages);
        stages[0].allowed = None;
        stages[2].shares.runs = 0.0;
    };
    assert_eq!(cause(&alone, 0.8, 0.0), Delay::Unknown);
    let by_threads = |stages: &mut [Observed]| {
        alone(stages);
        stages[1].ran_s = 0.7 * stages[1].counted_s;
        stages[1].threads = vec![ThreadState::Working; 3];
    };
    let Delay::OwnStages { stages, used, .. } = cause(&by_threads, 0.8, 0.0) else {
        panic!("{:?}", cause(&by_threads, 0.8, 0.0));
    };
    assert_eq!((stages, used), (1, 0.7));
    // Both processors are mostly idle.
    let anywhere = |stages: &mut [Observed]| stages[1].allowed = CpuList::parse("0-3");
    assert_eq!(cause(&anywhere, 0.15, 0.0), Delay::Unknown);
    // It had ended before its processors were read.
    let unknown = |stages: &mut [Observed]| stages[1].allowed = None;
    assert_eq!(cause(&unknown, 1.0, 0.0), Delay::Unknown);
    let quota = Quota {
        processors: 0.2,
        throttled: 0.9,
        stopped_s: 2.0,
    };
    let limited = |stages: &mut [Observed]| stages[1].quota = Some(quota);
    assert_eq!(cause(&limited, 1.0, 0.0), Delay::Quota(quota));
}

/// `while :; do head -c 120M /dev/zero | sha256sum; done` on processor 0, in whose look one pipeline follows the other.
#[test]
fn pipelines_of_a_loop_are_not_added_up() {
    let cause = |generations: i32, head: f64, sha: f64| {
        let life = 2.0 / f64::from(generations);
        let stages = (0..generations).flat_map(|nth| {
            let (pid, link) = (2 * nth + 1, nth as u64 + 1);
            let of_this = |process: Process, runs: f64| Observed {
                has_ended: nth + 1 < generations,
                age_s: 2.0 - f64::from(nth) * life,
                counted_s: life,
                ran_s: runs * life,
                allowed: CpuList::parse("0"),
                ..busy(process, runs, 0.0, 0.0)
            };
            let mut sum = of_this(process(pid + 1, "sha256sum", vec![reads(0, link)]), sha);
            sum.shares.queued = 1.0 - sha;
            [
                of_this(process(pid, "head", vec![writes(1, link)]), head),
                sum,
            ]
        });
        let mut observation = observation(stages.collect());
        observation.seconds = 2.0;
        let usage = ProcessorUsage {
            busy: 1.0,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage), (1, ProcessorUsage::default())].into());
        let [.., head, sum] = &observation.processes[..] else {
            unreachable!("there is at least one");
        };
        delay::delay(&observation, &[head, sum], sum, 0.6)
    };
    // As of `top`, whose stages were counted for longer or shorter than its load.
    let live = |ran_s: f64| {
        let mut stages = chain(&[(0.5, 0.0, 0.0), (0.0, 0.0, 0.9)]);
        for (stage, (counted_s, ran_s)) in stages.iter_mut().zip([(5.0, ran_s), (10.0, 0.0)]) {
            (stage.age_s, stage.counted_s, stage.ran_s) = (60.0, counted_s, ran_s);
            (stage.allowed, stage.shares.queued) = (CpuList::parse("0"), 0.5);
        }
        let mut observation = observation(stages);
        let usage = ProcessorUsage {
            busy: 1.0,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage)].into());
        let stages: Vec<&Observed> = observation.processes.iter().collect();
        delay::delay(&observation, &stages, stages[0], 0.5)
    };
    assert!(matches!(live(5.0), Delay::OwnStages { .. }));
    assert!(matches!(live(2.5), Delay::Others { .. }));
    for generations in [1, 2, 4] {
        let others = cause(generations, 0.1, 0.4);
        assert!(
            matches!(others, Delay::Others { processors, .. } if (processors - 0.5).abs() < 0.01),
            "{generations}: {others:?}"
        );
        let own = cause(generations, 0.4, 0.6);
        assert!(
            matches!(own, Delay::OwnStages { stages: 2, .. }),
            "{generations}: {own:?}"
        );
    }
}

/// `cat big | zstd -T2 -12 | wc -c` beside two busy processes: one of its threads always runs, the other one waits.
#[test]
fn threads_of_which_one_always_waits_lack_a_processor() {
    let cause = |ran_s: f64, delayed_s: f64| {
        let mut stages = chain(&[(0.0, 0.9, 0.0), (0.95, 0.0, 0.0), (0.0, 0.0, 0.9)]);
        (stages[1].ran_s, stages[1].delayed_s) = (ran_s, delayed_s);
        stages[1].allowed = CpuList::parse("0-1");
        let mut observation = observation(stages);
        let usage = ProcessorUsage {
            busy: 1.0,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage), (1, usage)].into());
        only_pace(&bottlenecks(&observation, &BTreeSet::new()))
            .delay
            .clone()
    };
    assert!(matches!(cause(1.9, 2.1), Some(Delay::Others { .. })));
    // A single thread that runs.
    assert_eq!(cause(1.9, 0.1), None);
}

/// `sort --parallel=2` on two processors, of which another program uses 0.4: its two threads would never wait.
#[test]
fn threads_for_which_there_are_processors_wait_for_others_only() {
    let delay = |waited: f64, others: f64| {
        let mut sort = busy(process(1, "sort", vec![writes(1, 1)]), 0.9, 0.0, 0.0);
        sort.threads = vec![ThreadState::Working; 2];
        sort.ran_s = 1.6 * sort.counted_s;
        sort.delayed_s = waited * sort.counted_s;
        sort.allowed = CpuList::parse("0-1");
        let uniq = busy(process(2, "uniq", vec![reads(0, 1)]), 0.02, 0.0, 0.98);
        let busy = (1.6 + others) / 2.0;
        let findings = found_beside(vec![sort, uniq], &[0.2, 0.0], &[0.0], busy);
        only_pace(&findings).delay.clone()
    };
    let is_others = |delay: Option<Delay>| matches!(delay, Some(Delay::Others { .. }));
    assert!(is_others(delay(0.4, 0.4)));
    // Four threads wait for each other.
    assert!(!is_others(delay(2.4, 0.4)));
    assert!(!is_others(delay(0.4, 0.1)));
}

/// `ffmpeg ... - | ffmpeg -i - -c:v libx264 ...` on two processors: the threads of both wait for each other.
#[test]
fn of_two_stages_whose_threads_lack_processors_none_is_named() {
    let found = |of_next: f64| {
        let mut stages = chain(&[(0.4, 0.05, 0.0), (0.76, 0.0, 0.1)]);
        for (stage, (ran, delayed)) in stages.iter_mut().zip([(0.4, 0.8), (1.0, of_next)]) {
            stage.ran_s = ran * stage.counted_s;
            stage.delayed_s = delayed * stage.counted_s;
            stage.allowed = CpuList::parse("0-1");
            stage.threads = vec![ThreadState::Working; 3];
            stage.runs_between = Some([0.2, 0.9]);
        }
        stages[0].shares.queued = 0.5;
        let mut observation = observation(stages);
        let usage = ProcessorUsage {
            busy: 0.74,
            ..ProcessorUsage::default()
        };
        observation.load = Load([(0, usage), (1, usage)].into());
        observation.pipes[0].fill = Some(0.03);
        bottlenecks(&observation, &BTreeSet::new())
    };
    let findings = found(1.3);
    let [
        Finding::PingPong {
            delay: Some(delay), ..
        },
    ] = &findings[..]
    else {
        panic!("{findings:?}");
    };
    let is_own = matches!(
        delay,
        Delay::OwnStages {
            stages: 2,
            processors: 2,
            ..
        }
    );
    assert!(is_own, "{delay:?}");
    // Those of the second one get processors.
    assert_eq!(only_pace(&found(0.1)).stage.pid, 1);
}

/// `sh -c '(while :; do :; done) & exec gzip'` on one processor.
#[test]
fn a_child_for_which_a_stage_does_not_wait_takes_its_processor() {
    let mut stages = chain(&[(0.0, 1.0, 0.0), (0.5, 0.0, 0.0), (0.0, 0.0, 1.0)]);
    stages[1].shares.queued = 0.5;
    stages[1].ran_s = 0.5 * stages[1].counted_s;
    stages[1].allowed = CpuList::parse("1");
    let mut child = busy(child_of(2, process(9, "sh", Vec::new())), 0.5, 0.0, 0.0);
    child.ancestors = vec![2];
    child.ran_s = 0.5 * child.counted_s;
    child.allowed = CpuList::parse("1");
    stages.push(child);
    let mut observation = observation(stages);
    let usage = ProcessorUsage {
        busy: 1.0,
        ..ProcessorUsage::default()
    };
    observation.load = Load([(1, usage)].into());
    let findings = bottlenecks(&observation, &BTreeSet::new());
    let found = only_pace(&findings);
    let is_own = matches!(found.delay, Some(Delay::OwnStages { stages: 2, .. }));
    assert!(found.stage.pid == 2 && is_own, "{found:?}");
}
