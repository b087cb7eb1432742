//! Pools whose workers take turns at the jobs.

use super::*;

/// The pipe of the jobs, and that of the results.
const JOBS: u64 = 7;
const RESULTS: u64 = 8;

/// A worker of a pool in this state, which it had all the time.
fn worker(pid: i32, thread: ThreadState) -> Observed {
    let ends = vec![reads(3, JOBS), writes(6, RESULTS)];
    frozen(child_of(2, process(pid, "python3", ends)), thread)
}

/// The parent of the workers: a thread waits for results, another one is in this state.
fn parent(thread: ThreadState) -> Observed {
    let ends = vec![writes(4, JOBS), reads(5, RESULTS)];
    let mut parent = frozen(process(2, "python3", ends), on_input(RESULTS));
    parent.threads.push(thread);
    parent
}

/// The bottleneck if `unread` bytes lie in each link.
fn named(stages: Vec<Observed>, unread: u64) -> Option<i32> {
    let mut observation = observation(stages);
    for pipe in &mut observation.pipes {
        (pipe.fill, pipe.unread) = (Some(0.0), Some(unread));
    }
    let mut findings = bottlenecks(&observation, &BTreeSet::new()).into_iter();
    findings.find_map(|finding| match finding {
        Finding::Bottleneck(bottleneck) => Some(bottleneck.stage.pid),
        _ => None,
    })
}

/// `multiprocessing.Pool` without any job, while its parent waits for a connection.
#[test]
fn idle_worker_that_waits_for_its_turn_is_no_bottleneck() {
    for lock in [Outside::Lock, Outside::LockOrTimer, Outside::FileLock] {
        for count in [1, 2, 5] {
            let mut stages = vec![
                parent(on_outside(Outside::Socket)),
                worker(3, on_input(JOBS)),
            ];
            stages.extend((0..count).map(|at| worker(4 + at, on_outside(lock))));
            assert_eq!(named(stages, 0), None, "{lock:?} {count}");
        }
    }
}

#[test]
fn who_sleeps_between_jobs_is_named_before_idle_workers() {
    let ends = vec![writes(4, JOBS)];
    let parent = frozen(process(2, "python3", ends), on_outside(Outside::Timer));
    let stages = vec![
        parent,
        worker(3, on_input(JOBS)),
        worker(4, on_outside(Outside::Lock)),
    ];
    assert_eq!(named(stages, 0), Some(2));
}

#[test]
fn worker_that_computes_is_named_before_idle_ones() {
    let mut busy = worker(5, ThreadState::Working);
    busy.shares = Shares {
        runs: 1.0,
        ..Shares::default()
    };
    (busy.is_frozen, busy.ran_s) = (false, 2.0);
    let stages = vec![
        parent(on_outside(Outside::Socket)),
        worker(3, on_input(JOBS)),
        worker(4, on_outside(Outside::Lock)),
        busy,
    ];
    assert_eq!(named(stages, 0), Some(5));
}

#[test]
fn worker_that_waits_for_a_lock_over_its_job_is_the_bottleneck() {
    let all = |thread: ThreadState| {
        vec![
            parent(thread),
            worker(3, on_input(JOBS)),
            worker(4, on_outside(Outside::Lock)),
        ]
    };
    // There are more jobs.
    assert_eq!(named(all(on_outside(Outside::Socket)), 100), Some(4));
    assert_ne!(named(all(on_outside(Outside::Lock)), 0), Some(4));
    // Nobody waits for the next job.
    let stages = vec![
        parent(on_outside(Outside::Socket)),
        worker(4, on_outside(Outside::Lock)),
    ];
    assert_eq!(named(stages, 0), Some(4));
}

/// `(while :; do echo; sleep 1; done) | pool.py | wc`, whose pool has a fork server: it waits for requests, and its
/// parent for the ends of its children, beside input.
#[test]
fn fork_server_without_requests_hides_nobody() {
    let (input, output, ends, requests) = (1, 2, 3, 4);
    let named = |polls: bool| {
        let source = process(1, "sh", vec![writes(1, input)]);
        let source = frozen(source, on_outside(Outside::Timer));
        let pool = vec![reads(0, input), writes(1, output), reads(5, ends)];
        let mut pool = busy(process(2, "python3", pool), 0.01, 0.0, 0.99);
        if polls {
            pool.polled = [(LinkId::pipe(ends), LinkSide::Input)].into();
        }
        let server = vec![writes(1, output), writes(5, ends), reads(6, requests)];
        let server = child_of(2, process(3, "python3", server));
        let server = frozen(server, on_input(requests));
        let reader = busy(process(4, "wc", vec![reads(0, output)]), 0.0, 0.0, 1.0);
        named(vec![source, pool, server, reader], 0)
    };
    assert_eq!(named(true), Some(1));
    // Its parent waits for what the server sends.
    assert_eq!(named(false), None);
}
