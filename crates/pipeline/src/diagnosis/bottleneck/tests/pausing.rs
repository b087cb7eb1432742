//! Stages that pause.

use super::*;
use crate::sample::IdleMover;

#[test]
fn stage_that_pauses_while_the_bottleneck_waits_for_it_may_limit_the_rate() {
    for (runs, starved, blocked, outside, expected) in [
        (0.8, 0.2, 0.78, Outside::Timer, Some((1, Outside::Timer))),
        // It waits for a twentieth, or never; or what is waited for is a stage itself.
        (0.93, 0.07, 0.88, Outside::Timer, Some((1, Outside::Timer))),
        (0.97, 0.03, 0.78, Outside::Timer, None),
        (0.8, 0.2, 0.78, Outside::Child, None),
        // It does not pause.
        (0.8, 0.2, 0.98, Outside::Timer, None),
    ] {
        let mut stages = chain(&[
            (0.02, blocked, 0.0),
            (runs, 0.0, starved),
            (0.02, 0.0, 0.98),
        ]);
        stages[0].shares.elsewhere = 0.98 - blocked;
        stages[0].outside = [(outside, 0.98 - blocked)].into();
        let findings = found(stages);
        let bottleneck = only_pace(&findings);
        let limiter = bottleneck.limiter.as_ref();
        let limiter = limiter.map(|limiter| (limiter.stage.pid, limiter.outside));
        assert_eq!((bottleneck.stage.pid, limiter), (2, expected));
    }
}

/// One that writes much at a time and then pauses: `mbuffer -R | gzip`, and what writes by the clock.
#[test]
fn stage_that_pauses_while_all_others_wait_for_it_may_be_the_bottleneck() {
    let limited = |shares: &[(f64, f64, f64)], pauses: &[(usize, f64)], outside| {
        let mut stages = chain(shares);
        for (at, share) in pauses {
            stages[*at].shares.elsewhere = *share;
            stages[*at].outside = [(outside, *share)].into();
        }
        let findings = found(stages);
        let [Finding::Bottleneck(bottleneck)] = &findings[..] else {
            return None;
        };
        let limiter = bottleneck.limiter.as_ref()?;
        assert_eq!(bottleneck.verb(), "may be");
        Some((bottleneck.stage.pid, limiter.stage.pid, limiter.share))
    };
    let timer = Outside::Timer;
    let clock = [(0.02, 0.48, 0.0), (0.57, 0.0, 0.43)];
    assert_eq!(limited(&clock, &[(0, 0.5)], timer), Some((1, 1, 0.5)));
    let buffers = [
        (0.05, 0.95, 0.0),
        (0.06, 0.5, 0.0),
        (0.57, 0.0, 0.41),
        (0.03, 0.0, 0.97),
    ];
    assert_eq!(limited(&buffers, &[(1, 0.44)], timer), Some((2, 2, 0.44)));
    // A shell waits for its child; the next stage never waits, or pauses, too.
    assert_eq!(limited(&clock, &[(0, 0.5)], Outside::Child), None);
    let never = [(0.02, 0.58, 0.0), (0.57, 0.0, 0.03)];
    assert_eq!(limited(&never, &[(0, 0.4)], timer), None);
    let both = [(0.02, 0.48, 0.0), (0.02, 0.0, 0.48)];
    assert_eq!(limited(&both, &[(0, 0.5), (1, 0.5)], timer), None);
}

/// `cat | tee >(pv) | pv`, and programs that share their input and output.
#[test]
fn of_stages_that_pause_side_by_side_the_longest_may_be_the_bottleneck() {
    let pausing = |pid: i32, share: f64, ends| {
        let mut stage = busy(process(pid, "pv", ends), 0.1, 0.0, 0.9 - share);
        stage.on.retain(|on| on.side == LinkSide::Input);
        stage.shares.elsewhere = share;
        stage.outside = [(Outside::Timer, share)].into();
        stage
    };
    let named = |stages: Vec<Observed>| {
        let findings = found(stages);
        match &findings[..] {
            [Finding::Bottleneck(bottleneck)] => Some(bottleneck.stage.pid),
            _ => None,
        }
    };
    let cat = busy(process(1, "cat", vec![writes(1, 7)]), 0.02, 0.98, 0.0);
    let mut tee = busy(
        process(2, "tee", vec![reads(0, 7), writes(1, 8), writes(3, 9)]),
        0.02,
        0.98,
        0.0,
    );
    tee.on.retain(|on| on.side == LinkSide::Room);
    for on in &mut tee.on {
        on.share = 0.49;
    }
    let both = [
        pausing(3, 0.8, vec![reads(0, 8)]),
        pausing(4, 0.85, vec![reads(0, 9)]),
    ];
    let stages = [cat.clone(), tee].into_iter().chain(both);
    assert_eq!(named(stages.collect()), Some(4));
    let workers = [
        pausing(3, 0.8, vec![reads(0, 7)]),
        pausing(4, 0.85, vec![reads(0, 7)]),
    ];
    assert_eq!(named([cat].into_iter().chain(workers).collect()), Some(4));
}

/// Children of a program that sleep, write to it, and have its output, too.
#[test]
fn one_of_several_that_pause_beside_each_other_is_named() {
    for (count, get_work) in [(1, false), (2, false), (3, false), (3, true)] {
        let child = |pid: i32| {
            let work = get_work.then(|| reads(5, 3)).into_iter();
            let ends = work.chain([writes(1, 2), writes(4, 1)]).collect();
            let child = child_of(1, process(pid, "perl", ends));
            Observed {
                io: Some(Io {
                    writes: 9,
                    ..Io::default()
                }),
                is_frozen: false,
                ..frozen(child, on_outside(Outside::Timer))
            }
        };
        let work = get_work.then(|| writes(6, 3)).into_iter();
        let ends = work.chain([reads(3, 1), writes(1, 2)]).collect();
        let parent = process(1, "perl", ends);
        let mut parent = busy(parent, 0.0, 0.0, 1.0);
        parent.io = Some(Io {
            read_bytes: 90,
            reads: 9,
            ..Io::default()
        });
        let mut all = vec![
            parent,
            busy(process(9, "grep", vec![reads(0, 2)]), 0.0, 0.0, 1.0),
        ];
        all.extend((2..2 + count).map(child));
        let mut observation = observation(all);
        for pipe in &mut observation.pipes {
            pipe.fill = Some(0.0);
        }
        let findings = bottlenecks(&observation, &BTreeSet::new());
        let bottleneck = only_pace(&findings);
        assert!((2..2 + count).contains(&bottleneck.stage.pid), "{count}");
    }
}

/// Another thread of it computes.
#[test]
fn stage_whose_idle_thread_moves_the_data_may_be_limited_by_that() {
    let mut stages = chain(&[(0.02, 0.98, 0.0), (0.97, 0.0, 0.0)]);
    stages[1].mover = Some(IdleMover {
        outside: Outside::Timer,
        share: 0.96,
    });
    let findings = found(stages);
    let bottleneck = only_pace(&findings);
    let limiter = bottleneck.limiter.as_ref().unwrap();
    assert_eq!((bottleneck.verb(), limiter.stage.pid), ("may be", 2));
    assert_eq!((limiter.outside, limiter.share), (Outside::Timer, 0.96));
}
