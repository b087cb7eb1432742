use super::*;
use crate::fixtures::{on_input, on_room};

/// Running time on two processors, in milliseconds.
fn ran_on(milliseconds: [u64; 2]) -> BTreeMap<usize, Duration> {
    let each = milliseconds.map(Duration::from_millis);
    each.into_iter().enumerate().collect()
}

#[test]
fn any_working_thread_counts_and_room_comes_before_input() {
    let lock = || ThreadState::Waiting(BlockedOn::Thread);
    let outside = |outside| ThreadState::Waiting(BlockedOn::Outside(outside));
    let socket = || outside(Outside::Socket);
    for (threads, expected) in [
        (
            vec![on_input(1), ThreadState::Working],
            SampledActivity::Awake,
        ),
        (vec![on_room(1), ThreadState::Disk], SampledActivity::Disk),
        (vec![on_input(1), on_room(2)], SampledActivity::Blocked),
        (vec![lock(), on_input(1)], SampledActivity::Starved),
        (
            vec![lock(), socket()],
            SampledActivity::Elsewhere(Outside::Socket),
        ),
        // A server's thread that pauses ran later than the one that accepts.
        (
            vec![outside(Outside::Timer), socket()],
            SampledActivity::Elsewhere(Outside::Timer),
        ),
        // Node's main thread, and one that keeps its timers.
        (
            vec![outside(Outside::Event), outside(Outside::EventOrTimer)],
            SampledActivity::Elsewhere(Outside::EventOrTimer),
        ),
        // A virtual machine's thread that looks around by the clock.
        (
            vec![outside(Outside::LockOrTimer), socket()],
            SampledActivity::Elsewhere(Outside::Socket),
        ),
        (vec![ThreadState::Stopped], SampledActivity::Stopped),
    ] {
        let threads: Vec<&ThreadState> = threads.iter().collect();
        assert_eq!(activity(&threads), expected, "{threads:?}");
    }
}

#[test]
fn threads_of_which_one_runs_at_a_time_run_as_long_as_all_of_them() {
    let mut counts = StateCounts {
        samples: 40,
        awake: 38,
        awake_threads: 40,
        starved: 2,
        ..StateCounts::default()
    };
    // Four threads of a pool, by turns.
    let awake = Awake {
        ran: 0.9,
        queued: 0.25,
        longest: 0.3,
        least_ran: 0.45,
        any_ran: 0.64,
        ..Awake::default()
    };
    let runs = |counts: &StateCounts| counts.divide(counts.samples, awake).shares(counts).runs;
    assert!(runs(&counts) > 0.84, "{}", runs(&counts));
    counts.awake_threads = 0;
    assert!(runs(&counts) < 0.8);
}

#[test]
fn threads_that_hand_over_beside_other_load_run_as_long_as_all_of_them() {
    // Two threads with semaphores, on two processors with a busy loop: never both at work.
    let counts = StateCounts {
        samples: 40,
        awake: 39,
        awake_threads: 58,
        ran_on: ran_on([500, 500]),
        starved: 1,
        ..StateCounts::default()
    };
    let awake = Awake {
        ran: 0.95,
        queued: 0.52,
        longest: 0.75,
        least_ran: 0.47,
        any_ran: 0.72,
        ..Awake::default()
    };
    let shares = |awake| counts.divide(counts.samples, awake).shares(&counts);
    let handed_over = shares(awake);
    assert!(handed_over.runs > 0.9, "{handed_over:?}");
    // Two of a pool, beside two loops: one runs for 75 to 100 %.
    let pool = shares(Awake {
        ran: 1.0,
        queued: 1.0,
        longest: 1.0,
        least_ran: 0.5,
        any_ran: 0.75,
        ..Awake::default()
    });
    assert!((0.74..0.92).contains(&pool.runs), "{pool:?}");
}

/// Go with four workers, beside two loops: by traces of the scheduler one of them ran for 78 % of the time.
#[test]
fn threads_that_are_awake_together_do_not_take_turns() {
    let counts = StateCounts {
        samples: 40,
        awake: 40,
        awake_threads: 92,
        ran_on: ran_on([600, 450]),
        ..StateCounts::default()
    };
    let awake = Awake {
        ran: 1.05,
        queued: 1.2,
        longest: 0.6,
        least_ran: 0.52,
        any_ran: 0.74,
        ..Awake::default()
    };
    let shares = counts.divide(counts.samples, awake).shares(&counts);
    assert!((0.68..0.88).contains(&shares.runs), "{shares:?}");
}

/// xz -T2 beside one loop: by traces of the scheduler one of both ran for 99 % of the time.
#[test]
fn threads_on_one_processor_run_by_turns() {
    let runs = |milliseconds| {
        let counts = StateCounts {
            samples: 40,
            awake: 40,
            awake_threads: 80,
            ran_on: ran_on(milliseconds),
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 0.985,
            queued: 1.0,
            longest: 1.0,
            least_ran: 0.49,
            any_ran: 0.75,
            ..Awake::default()
        };
        counts.divide(counts.samples, awake).shares(&counts).runs
    };
    let (one, both) = (runs([12, 970]), runs([490, 490]));
    assert!(one > 0.95, "{one}");
    assert!(both < 0.9, "{both}");
}

/// By traces of the scheduler; the machine had other load.
#[test]
fn threads_on_several_processors_run_apart() {
    for (milliseconds, (ran, queued), traced) in [
        // pigz -p4, beside a build, a loop, two loops.
        ([1401, 1046], (1.238, 2.692), 0.835),
        ([123, 1499], (0.83, 3.076), 0.767),
        ([1060, 612], (1.011, 2.529), 0.737),
        // zstd -T4 likewise.
        ([868, 890], (0.911, 3.297), 0.703),
        ([116, 1833], (0.983, 3.301), 0.923),
        ([412, 908], (0.637, 3.425), 0.542),
    ] {
        let counts = StateCounts {
            samples: 40,
            awake: 40,
            awake_threads: 150,
            ran_on: ran_on(milliseconds),
            ..StateCounts::default()
        };
        let awake = Awake {
            ran,
            queued,
            longest: 0.95,
            least_ran: ran / 2.0,
            any_ran: 0.4,
            ..Awake::default()
        };
        let runs = counts.divide(counts.samples, awake).shares(&counts).runs;
        assert!((runs - traced).abs() < 0.06, "{traced} {runs}");
    }
}

/// samtools sort -@2 starts two threads whenever its memory is full: by traces of the scheduler.
#[test]
fn threads_that_come_and_go_run_side_by_side() {
    for (ran, queued, (awake, awake_threads), traced) in [
        (0.844, 0.557, (26, 43), 0.565),
        (0.892, 0.398, (31, 42), 0.618),
        (0.924, 0.433, (22, 38), 0.629),
        (0.869, 0.443, (30, 46), 0.571),
    ] {
        let counts = StateCounts {
            samples: 31,
            awake,
            awake_threads,
            ..StateCounts::default()
        };
        let awake = Awake {
            ran,
            queued,
            longest: 0.43,
            least_ran: ran / 2.0,
            any_ran: 0.6,
            ended: 0.6,
            ..Awake::default()
        };
        let runs = counts.any_ran(awake);
        assert!((runs - traced).abs() < 0.15, "{traced} {runs}");
    }
}

/// pigz -p2 at a quota of 0.6 processors: by traces of the scheduler one of both ran for 31.5 % of the time.
#[test]
fn threads_that_a_quota_stops_run_at_once_until_then() {
    let ran = Duration::from_millis(600);
    let counts = StateCounts {
        samples: 40,
        awake: 40,
        awake_threads: 80,
        ran_on: [(0, ran), (1, ran)].into(),
        ..StateCounts::default()
    };
    let awake = Awake {
        ran: 0.6,
        queued: 1.4,
        longest: 1.0,
        least_ran: 0.3,
        any_ran: 0.51,
        stopped: Some(1.4),
        ..Awake::default()
    };
    let shares = counts.divide(counts.samples, awake).shares(&counts);
    assert!((shares.runs - 0.3).abs() < 0.05, "{shares:?}");
    assert!((shares.sum() - 1.0).abs() < 0.01, "{shares:?}");
}

/// Four threads at a quota of 0.8 processors, beside a loop that keeps the second one for most of the time.
#[test]
fn threads_that_a_quota_stops_run_by_turns_beside_other_load() {
    let milliseconds = Duration::from_millis;
    for (first, second, stopped, expected) in [
        (1500, 100, 0.3, 0.75..0.81),
        (1100, 500, 0.8, 0.55..0.65),
        // Other processes use both.
        (800, 800, 0.2, 0.6..0.68),
    ] {
        let counts = StateCounts {
            samples: 40,
            awake: 40,
            awake_threads: 150,
            ran_on: [(0, milliseconds(first)), (1, milliseconds(second))].into(),
            ..StateCounts::default()
        };
        let awake = Awake {
            ran: 0.8,
            queued: 2.9,
            longest: 1.0,
            least_ran: 0.4,
            any_ran: 0.59,
            stopped: Some(stopped),
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!(expected.contains(&shares.runs), "{shares:?}");
    }
}

#[test]
fn samples_that_see_too_little_do_not_reduce_what_the_scheduler_counts() {
    // The observer takes the processor of who feeds the process.
    let counts = StateCounts {
        samples: 28,
        awake: 3,
        blocked: 25,
        ..StateCounts::default()
    };
    let awake = Awake {
        ran: 0.54,
        queued: 0.44,
        longest: 0.98,
        least_ran: 0.27,
        any_ran: 0.54,
        ..Awake::default()
    };
    let shares = counts.divide(counts.samples, awake).shares(&counts);
    assert!((shares.queued - 0.44).abs() < 0.01, "{shares:?}");
}

#[test]
fn what_the_scheduler_counts_as_running_is_not_less_for_samples() {
    // The samples saw it asleep for most of the time.
    let counts = StateCounts {
        samples: 40,
        awake: 8,
        starved: 32,
        ..StateCounts::default()
    };
    for (ran, queued) in [(0.96, 0.0), (0.72, 0.2)] {
        let awake = Awake {
            ran,
            queued,
            longest: ran + queued,
            least_ran: ran / 2.0,
            any_ran: ran,
            ..Awake::default()
        };
        let shares = counts.divide(counts.samples, awake).shares(&counts);
        assert!((shares.runs - ran).abs() < 0.01, "{shares:?}");
    }
}

#[test]
fn threads_that_wait_for_a_processor_hide_none_that_runs() {
    let counts = StateCounts {
        samples: 100,
        awake: 100,
        ..StateCounts::default()
    };
    // One thread runs for half of the time, and three wait beside it.
    let awake = Awake {
        ran: 0.55,
        queued: 1.25,
        longest: 0.9,
        least_ran: 0.275,
        any_ran: 0.52,
        ..Awake::default()
    };
    let shares = counts.divide(counts.samples, awake).shares(&counts);
    assert!((shares.runs - 0.52).abs() < 0.01, "{shares:?}");
    assert!((shares.sum() - 1.0).abs() < 0.01, "{shares:?}");
}
