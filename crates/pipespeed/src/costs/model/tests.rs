use super::*;

fn pipeline(capacity: usize, piece: usize, waiting: Waiting) -> Pipeline {
    Pipeline {
        capacity,
        piece,
        in_ns: 10.0,
        out_ns: 30.0,
        outside_ns: 0.0,
        writes_all: false,
        wakes_locked: false,
        waiting,
    }
}

/// Of each end once in so long, one end's between the other's; a length each in
/// turns, and whether another process has its turn.
fn once_in(every_ns: f64, lengths_ns: &[f64], is_turn: bool) -> Interruptions {
    let of_end = |begin: f64| {
        let each = (0..100).map(|nth| Interruption {
            at_ns: (begin + nth as f64) * every_ns,
            ns: lengths_ns[nth % lengths_ns.len()],
            is_turn,
        });
        each.collect()
    };
    Interruptions {
        sample_ns: 100.0 * every_ns,
        samples: vec![[of_end(0.25), of_end(0.75)]],
    }
}

/// After that; the usual until the sleeper runs, and until its caller goes on.
pub(super) fn spread(after_ns: f64, usual: &[(f64, f64)]) -> Spread {
    let wake_up = |&(until_ns, call_ns): &(f64, f64)| WakeUp { until_ns, call_ns };
    Spread {
        after_ns,
        usual: usual.iter().map(wake_up).collect(),
        times: 1,
        rare: [].into(),
    }
}

/// Whatever the waker did meanwhile.
pub(super) fn after_sleeps(awake: &[Spread]) -> [WakeUps; 2] {
    let of_end = WakeUps {
        awake: awake.to_vec(),
        in_turns: Vec::new(),
        in_turns_least_ns: 0.0,
    };
    [of_end.clone(), of_end]
}

fn two(until_ns: f64, call_ns: f64) -> Waiting {
    Waiting::SleepOnTwo {
        cold_in_ns: 10.0,
        cold_out_ns: 30.0,
        wake_ups: after_sleeps(&[spread(0.0, &[(until_ns, call_ns)])]),
        interruptions: Interruptions::default(),
    }
}

fn ns_per_page(pipeline: &Pipeline) -> f64 {
    super::ns_per_page(pipeline, 100e6, 1)
}

fn is_close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn ends_that_spin_take_turns_at_the_lock() {
    for (capacity, piece) in [(16, 64), (64, 64), (256, 64), (16, 1), (7, 3)] {
        let ns = ns_per_page(&pipeline(capacity, piece, Waiting::Spin(0.0)));
        assert!(is_close(ns, 40.0), "{capacity} {piece}: {ns}");
    }
}

#[test]
fn on_one_processor_each_pipeful_or_piece_takes_two_switches() {
    let ns = |capacity, piece| ns_per_page(&pipeline(capacity, piece, Waiting::SleepOnOne(1600.0)));
    assert!(is_close(ns(16, 64), 40.0 + 2.0 * 1600.0 / 16.0));
    assert!(is_close(ns(64, 64), 40.0 + 2.0 * 1600.0 / 64.0));
    // The reader runs as soon as there is a piece.
    assert!(is_close(ns(256, 64), 40.0 + 2.0 * 1600.0 / 64.0));
}

#[test]
fn on_two_processors_a_small_pipe_takes_two_wake_ups_a_pipeful() {
    let ns = ns_per_page(&pipeline(16, 64, two(20_000.0, 8000.0)));
    assert!(is_close(ns, 40.0 + 2.0 * 20_000.0 / 16.0), "{ns}");
}

#[test]
fn a_call_after_a_sleep_takes_longer() {
    let mut waiting = two(20_000.0, 8000.0);
    if let Waiting::SleepOnTwo {
        cold_in_ns,
        cold_out_ns,
        ..
    } = &mut waiting
    {
        (*cold_in_ns, *cold_out_ns) = (100.0, 1000.0);
    }
    let ns = ns_per_page(&pipeline(16, 64, waiting));
    assert!(is_close(ns, 1100.0 + 2.0 * 20_000.0 / 16.0), "{ns}");
}

#[test]
fn a_caller_that_comes_back_late_finds_the_work_done_and_does_not_sleep() {
    // Woken 5 us after the call, the reader has emptied the pipe when the
    // writer is through with waking it after 8: only the reader ever sleeps.
    let ns = ns_per_page(&pipeline(16, 64, two(5000.0, 8000.0)));
    assert!(is_close(ns, (8000.0 + 160.0) / 16.0), "{ns}");
}

#[test]
fn a_writer_that_is_woken_under_the_lock_waits_there_and_both_are_in_step() {
    // Woken 5 us after the call, it has to wait for the lock for 3 us more; the
    // reader comes back for it meanwhile, and neither sleeps again.
    let ns = |wakes_locked| {
        let mut waiting = two(20_000.0, 8000.0);
        if let Waiting::SleepOnTwo { wake_ups, .. } = &mut waiting {
            let usual = spread(0.0, &[(20_000.0, 8000.0)]);
            *wake_ups = after_sleeps(&[usual, spread(4000.0, &[(5000.0, 8000.0)])]);
        }
        ns_per_page(&Pipeline {
            wakes_locked,
            ..pipeline(16, 64, waiting)
        })
    };
    assert!(is_close(ns(true), 40.0), "{}", ns(true));
    assert!(ns(false) > 400.0, "{}", ns(false));
}

#[test]
fn a_large_pipe_hides_wake_ups() {
    let small = ns_per_page(&pipeline(64, 64, two(5000.0, 1000.0)));
    let large = ns_per_page(&pipeline(256, 64, two(5000.0, 1000.0)));
    assert!(small > 150.0 && is_close(large, 40.0), "{small} {large}");
}

#[test]
fn only_the_first_call_after_a_sleep_is_cold() {
    let mut waiting = two(5000.0, 1000.0);
    if let Waiting::SleepOnTwo { cold_out_ns, .. } = &mut waiting {
        *cold_out_ns = 1000.0;
    }
    // They fall in step at once, and nobody sleeps again.
    let ns = ns_per_page(&pipeline(256, 64, waiting));
    assert!(is_close(ns, 40.0), "{ns}");
}

#[test]
fn another_seed_makes_another_prediction_and_the_same_the_same() {
    let mut waiting = interrupted(&[3000.0, 30_000.0], false);
    if let Waiting::SleepOnTwo { wake_ups, .. } = &mut waiting {
        *wake_ups = after_sleeps(&[spread(0.0, &[(20_000.0, 8000.0), (25_000.0, 7000.0)])]);
    }
    let pipeline = pipeline(32, 64, waiting);
    let ns = |seed| super::ns_per_page(&pipeline, 100e6, seed);
    assert_eq!(ns(1), ns(1));
    assert_ne!(ns(1), ns(2));
}

#[test]
fn interruptions_put_ends_out_of_step() {
    let ns = |every| {
        let mut waiting = two(5000.0, 1000.0);
        if let Waiting::SleepOnTwo { interruptions, .. } = &mut waiting {
            *interruptions = once_in(every, &[30_000.0], false);
        }
        ns_per_page(&pipeline(256, 64, waiting))
    };
    // A thousandth and a fifth of the time.
    assert!(is_close(ns(30e6), 40.0));
    assert!((44.0..80.0).contains(&ns(150_000.0)), "{}", ns(150_000.0));
}

/// Ends that wake up slowly, interrupted now and then.
fn interrupted(lengths_ns: &[f64], is_turn: bool) -> Waiting {
    let mut waiting = two(25_000.0, 8000.0);
    if let Waiting::SleepOnTwo { interruptions, .. } = &mut waiting {
        *interruptions = once_in(1e6, lengths_ns, is_turn);
    }
    waiting
}

#[test]
fn a_call_that_is_interrupted_as_it_wakes_the_other_puts_the_ends_in_step() {
    // Interruptions of the ends in between put them out of step.
    let ns = |wakes_locked, call_ns| {
        let mut waiting = interrupted(&[3000.0], false);
        if let Waiting::SleepOnTwo { wake_ups, .. } = &mut waiting {
            let mut each = vec![(25_000.0, 8000.0); 100];
            each.push((25_000.0, call_ns));
            *wake_ups = after_sleeps(&[spread(0.0, &each)]);
        }
        ns_per_page(&Pipeline {
            wakes_locked,
            ..pipeline(32, 64, waiting)
        })
    };
    // The reader has let go before the writer is there.
    let (locked, short) = (ns(true, 38_000.0), ns(true, 11_000.0));
    assert!(locked < 0.8 * short, "{locked} {short}");
    // It comes back when the writer has long filled the pipe.
    let unlocked = ns(false, 38_000.0);
    assert!(locked < 0.8 * unlocked, "{locked} {unlocked}");
    // It comes back while the writer fills it, and waits for the lock.
    let in_time = ns(false, 25_200.0);
    assert!(in_time < 0.8 * unlocked, "{in_time} {unlocked}");
}

#[test]
fn what_interrupts_an_end_that_sleeps_or_wakes_the_other_is_in_the_wake_up() {
    // Nothing is left to be interrupted: pages take no time here.
    let ns = |waiting| {
        ns_per_page(&Pipeline {
            in_ns: 0.0,
            out_ns: 0.0,
            ..pipeline(32, 64, waiting)
        })
    };
    let none_cold = |waiting| match waiting {
        Waiting::SleepOnTwo {
            wake_ups,
            interruptions,
            ..
        } => Waiting::SleepOnTwo {
            cold_in_ns: 0.0,
            cold_out_ns: 0.0,
            wake_ups,
            interruptions,
        },
        other => other,
    };
    let free = ns(none_cold(two(25_000.0, 8000.0)));
    let taken = ns(none_cold(interrupted(&[30_000.0], false)));
    assert!(is_close(free, taken), "{free} {taken}");
}

#[test]
fn who_waits_for_the_lock_sleeps_when_another_process_runs_in_place_of_its_owner() {
    // They start in step, since what they do takes longer than waking up.
    let ns = |waiting| ns_per_page(&pipeline(2000, 1000, waiting));
    let lengths = &[30_000.0];
    let (interrupts, turns) = (
        ns(interrupted(lengths, false)),
        ns(interrupted(lengths, true)),
    );
    assert!(turns > 1.01 * interrupts, "{turns} {interrupts}");
}

#[test]
fn an_interrupt_of_the_end_that_waits_for_the_lock_puts_them_out_of_step() {
    // After a short sleep they fall in step again.
    let ns = |length_ns| {
        let mut waiting = interrupted(&[length_ns], false);
        if let Waiting::SleepOnTwo {
            wake_ups,
            interruptions,
            ..
        } = &mut waiting
        {
            let each = [(0.0, 1000.0), (25_000.0, 1000.0)];
            *wake_ups = after_sleeps(&[spread(0.0, &each)]);
            *interruptions = once_in(200_000.0, &[length_ns], false);
        }
        ns_per_page(&pipeline(64, 64, waiting))
    };
    // It is back before the lock is let go, or it is not.
    let (short, long) = (ns(100.0), ns(10_000.0));
    assert!(long > 1.2 * short, "{long} {short}");
}

#[test]
fn the_ways_into_the_kernel_and_out_go_on_beside_the_other_end_s_work() {
    let ns = |capacity, piece, outside_ns, waiting| {
        ns_per_page(&Pipeline {
            outside_ns,
            ..pipeline(capacity, piece, waiting)
        })
    };
    // 16 pages take 640 ns, twice 50 of it outside the lock.
    for (capacity, piece) in [(16, 64), (16, 16), (256, 16)] {
        let ns = ns(capacity, piece, 50.0, Waiting::Spin(0.0));
        assert!(
            is_close(ns, 40.0 - 100.0 / 16.0),
            "{capacity} {piece}: {ns}"
        );
    }
    // No end's call takes less than that.
    let ns = ns(16, 64, 1000.0, Waiting::Spin(0.0));
    assert!(is_close(ns, 1000.0 / 16.0), "{ns}");
}

#[test]
fn a_write_that_is_not_through_sleeps_without_asking_for_the_lock() {
    // One that asks for the lock waits there while the reader works, and
    // they stay in step.
    let ns = |writes_all| {
        let pipeline = Pipeline {
            writes_all,
            ..pipeline(16, 64, two(300.0, 500.0))
        };
        ns_per_page(&pipeline)
    };
    assert!(is_close(ns(false), 40.0), "{}", ns(false));
    assert!(ns(true) > 50.0, "{}", ns(true));
}

#[test]
fn each_end_has_its_own_wake_ups_and_those_in_turns_are_their_own_kind() {
    let ns = |writer: WakeUps, reader: WakeUps| {
        let mut waiting = two(0.0, 0.0);
        if let Waiting::SleepOnTwo { wake_ups, .. } = &mut waiting {
            *wake_ups = [writer, reader];
        }
        ns_per_page(&pipeline(16, 64, waiting))
    };
    let of = |awake_ns: f64, in_turns_ns: f64, least_ns: f64| WakeUps {
        awake: vec![spread(0.0, &[(awake_ns, 100.0)])],
        in_turns: vec![spread(0.0, &[(in_turns_ns, 100.0)])],
        in_turns_least_ns: least_ns,
    };
    // Both sleep for every pipeful, and each wakes the other soon after it was
    // woken itself; only the first time nobody was.
    let sum = ns(of(5000.0, 20_000.0, 0.0), of(5000.0, 30_000.0, 0.0));
    assert!(is_close(sum, 40.0 + 50_000.0 / 16.0), "{sum}");
    // The writer never sleeps for so long.
    let uneven = ns(of(4000.0, 20_000.0, 1e9), of(5000.0, 30_000.0, 0.0));
    assert!(is_close(uneven, 40.0 + 34_000.0 / 16.0), "{uneven}");
    let swapped = ns(of(4000.0, 20_000.0, 0.0), of(5000.0, 30_000.0, 1e9));
    assert!(is_close(swapped, 40.0 + 25_000.0 / 16.0), "{swapped}");
}
