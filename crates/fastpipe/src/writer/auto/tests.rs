use std::cell::Cell;

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const CAPACITY: u64 = MIB;
const REGION: u64 = 16 * MIB;
const ALL: [Way; 4] = [Way::Copy, Way::CowChecked, Way::CopyLong, Way::Fresh];

/// What a simulated stream sent by each way, and the state at its end.
struct Sent {
    by_way: Vec<(Way, u64)>,
    seconds: f64,
    auto: Auto,
}

impl Sent {
    /// Offset at which a challenger was first used.
    fn first_challenger(&self) -> u64 {
        let before = self.by_way.iter().take_while(|(by, _)| *by == Way::Copy);
        before.map(|(_, bytes)| bytes).sum()
    }

    fn challengers(&self) -> Vec<Way> {
        let trials = self.auto.trials().iter();
        trials.map(|trial| trial.challenger).collect()
    }

    fn by(&self, way: Way) -> u64 {
        let theirs = self.by_way.iter().filter(|(by, _)| *by == way);
        theirs.map(|(_, bytes)| bytes).sum()
    }
}

/// Sends `total` bytes in loans of 256 KiB, at a rate in MiB/s that depends on
/// the way and the offset.
fn simulate(ways: &[Way], total: u64, mib_per_s: impl Fn(Way, u64) -> f64) -> Sent {
    let mut auto = Auto::new(ways.to_vec(), CAPACITY, REGION, 0);
    let (mut sent, mut now) = (0, 0.0);
    let mut by_way = Vec::new();
    while sent < total {
        let way = auto.way();
        let loan = 256 << 10;
        now += loan as f64 / MIB as f64 / mib_per_s(way, sent);
        sent += loan;
        by_way.push((way, loan));
        if sent >= auto.due() {
            auto.advance(sent, Duration::from_secs_f64(now));
        }
    }
    Sent {
        by_way,
        seconds: now,
        auto,
    }
}

/// Sends `total` bytes in loans of a MiB at this rate in MiB/s. `due` is called when the search is.
fn drive(total: u64, rate: impl Fn(Way) -> f64, due: impl Fn(&mut Auto, u64, Duration)) -> Auto {
    let mut auto = Auto::new(ALL.to_vec(), CAPACITY, REGION, 0);
    let (mut sent, mut now) = (0, 0.0);
    while sent < total {
        sent += MIB;
        now += 1.0 / rate(auto.way());
        if sent >= auto.due() {
            due(&mut auto, sent, Duration::from_secs_f64(now));
        }
    }
    auto
}

fn fixed(copy: f64, fresh: f64, cow_checked: f64) -> impl Fn(Way, u64) -> f64 {
    move |way, _| match way {
        Way::Copy | Way::CopyLong => copy,
        Way::Fresh => fresh,
        Way::CowChecked => cow_checked,
    }
}

#[test]
fn a_much_faster_way_is_adopted_within_512_mib() {
    let sent = simulate(&ALL, 512 * MIB, fixed(4000.0, 3000.0, 9000.0));
    assert_eq!(sent.auto.incumbent, Way::CowChecked);
    let sent = simulate(
        &[Way::Copy, Way::Fresh],
        300 * MIB,
        fixed(2000.0, 6000.0, 0.0),
    );
    assert_eq!(sent.auto.incumbent, Way::Fresh);
}

/// Reused pages and new ones alternate, which must not pass for a disturbance.
#[test]
fn an_always_faster_way_is_adopted_however_its_windows_differ() {
    let sent = simulate(&ALL[..2], 512 * MIB, |way, at| match way {
        Way::CowChecked if (at / (64 * MIB)).is_multiple_of(2) => 2000.0,
        Way::CowChecked => 5000.0,
        _ => 1000.0,
    });
    let trial = sent.auto.trials()[0];
    assert_eq!(trial.outcome, TrialOutcome::Adopted, "{trial:?}");
}

#[test]
fn a_slightly_faster_way_takes_three_pairs() {
    let sent = simulate(&ALL[..2], GIB, fixed(4000.0, 0.0, 4400.0));
    assert_eq!(sent.auto.incumbent, Way::CowChecked);
    let trial = sent.auto.trials()[0];
    assert_eq!(trial.outcome, TrialOutcome::Adopted);
    // Windows are a little longer than 8 ms, which is 32 MiB at that rate.
    let windows = trial.ended_at - sent.first_challenger();
    assert!((190 * MIB..220 * MIB).contains(&windows), "{windows}");
}

#[test]
fn the_first_challenger_follows_three_windows() {
    for (rate, region, limit) in [(4000.0, REGION, 110 * MIB), (2000.0, GIB, 200 * MIB)] {
        let mut auto = Auto::new(ALL.to_vec(), CAPACITY, region, 0);
        let (mut sent, mut now) = (0, 0.0);
        while auto.way() == Way::Copy {
            sent += MIB;
            now += 1.0 / rate;
            if sent >= auto.due() {
                auto.advance(sent, Duration::from_secs_f64(now));
            }
        }
        assert!((90 * MIB..limit).contains(&sent), "{sent}");
    }
}

#[test]
fn equal_ways_change_nothing() {
    let sent = simulate(&ALL, 20 * GIB, fixed(4000.0, 4100.0, 3990.0));
    assert_eq!(sent.auto.incumbent, Way::Copy);
    assert!(sent.auto.trials().len() > 3);
    let adopted = |trial: &Trial| trial.outcome == TrialOutcome::Adopted;
    assert!(!sent.auto.trials().iter().any(adopted));
}

#[test]
fn any_gain_of_cow_checked_will_do() {
    for copy in [300.0, 4000.0] {
        let sent = simulate(&ALL, 20 * GIB, fixed(copy, copy, 1.01 * copy));
        assert_eq!(sent.auto.incumbent, Way::CowChecked);
        assert_eq!(sent.auto.trials()[0].outcome, TrialOutcome::Adopted);
        let later = &sent.auto.trials()[1..];
        assert!(later.len() > 1);
        let dropped = |trial: &Trial| trial.outcome == TrialOutcome::Dropped;
        assert!(later.iter().all(dropped));
    }
}

#[test]
fn any_gain_of_fresh_will_do_where_the_program_is_slow() {
    let ways = [Way::Copy, Way::CopyLong, Way::Fresh];
    for (copy, best) in [(500.0, Way::Fresh), (1500.0, Way::Copy)] {
        let sent = simulate(&ways, 2 * GIB, fixed(copy, 1.01 * copy, copy));
        assert_eq!(sent.auto.incumbent, best, "{:#?}", sent.auto.trials());
    }
}

#[test]
fn small_gain_of_cow_checked_does_not_hide_larger_ones() {
    for (long, fresh, best) in [(1.3, 1.0, Way::CopyLong), (1.0, 1.3, Way::Fresh)] {
        let sent = simulate(&ALL, 2 * GIB, |way, _| match way {
            Way::Copy => 300.0,
            Way::CopyLong => 300.0 * long,
            Way::Fresh => 300.0 * fresh,
            Way::CowChecked => 300.0 * 1.01,
        });
        assert_eq!(sent.auto.trials()[0].outcome, TrialOutcome::Adopted);
        assert_eq!(sent.auto.incumbent, best, "{:#?}", sent.auto.trials());
    }
}

#[test]
fn nothing_but_copying_challenges_a_large_gain_of_cow_checked() {
    let sent = simulate(&ALL, 4 * GIB, fixed(300.0, 330.0, 370.0));
    let (first, later) = sent.auto.trials().split_first().unwrap();
    assert_eq!(first.challenger, Way::CowChecked);
    assert!(later.len() > 1);
    assert!(later.iter().all(|trial| trial.challenger == Way::Copy));
}

#[test]
fn only_a_slow_stream_has_no_trials() {
    let sent = simulate(&ALL, 4 * GIB, fixed(49.0, 9000.0, 9000.0));
    assert_eq!(sent.by(Way::Copy), 4 * GIB);
    let sent = simulate(&ALL, 4 * GIB, fixed(60.0, 50.0, 90.0));
    assert_eq!(sent.auto.incumbent, Way::CowChecked);
}

#[test]
fn a_replaced_way_waits_for_its_turn() {
    let sent = simulate(&ALL, 64 * GIB, |way, _| match way {
        Way::Copy => 600.0,
        Way::CopyLong => 800.0,
        Way::CowChecked => 550.0,
        Way::Fresh => 580.0,
    });
    let order = [Way::CowChecked, Way::CopyLong, Way::Fresh, Way::Copy];
    assert_eq!(sent.challengers()[..4], order);
}

#[test]
fn replaced_way_is_tried_again_once_that_takes_little_time() {
    let sent = simulate(
        &[Way::Copy, Way::CowChecked],
        120 * GIB,
        fixed(300.0, 0.0, 9000.0),
    );
    let again = sent.auto.trials()[1];
    assert_eq!(again.challenger, Way::Copy);
    // It costs 0.03 s, which is 1 % of the time that 28 GiB take.
    assert!(again.ended_at > 25 * GIB, "{again:?}");
}

#[test]
fn long_pieces_are_tried_only_where_the_program_is_slow() {
    let long = |copy: f64, long: f64| {
        let rate = move |way, _| if way == Way::CopyLong { long } else { copy };
        simulate(&[Way::Copy, Way::CopyLong], GIB, rate)
    };
    assert_eq!(long(170.0, 220.0).auto.incumbent, Way::CopyLong);
    assert_eq!(long(170.0, 170.0).auto.incumbent, Way::Copy);
    assert_eq!(long(2000.0, 9000.0).by(Way::CopyLong), 0);
    // They stay in use where pages turn out not to be available.
    let mut auto = long(170.0, 220.0).auto;
    auto.postpone(GIB, Duration::from_secs(5));
    assert_eq!(auto.way(), Way::CopyLong);
    auto.stop();
    assert_eq!(auto.way(), Way::CopyLong);
}

#[test]
fn another_reader_starts_the_search_anew() {
    let sent = simulate(&ALL, 40 * GIB, |way, at| match (way, at < 20 * GIB) {
        (Way::CowChecked, true) => 9000.0,
        (Way::CowChecked, false) => 2000.0,
        (Way::Fresh, _) => 1000.0,
        _ => 4000.0,
    });
    assert_eq!(sent.auto.incumbent, Way::Copy);
    let trials = sent.auto.trials().iter();
    let late = trials.filter(|trial| (20 * GIB..26 * GIB).contains(&trial.ended_at));
    assert!(late.count() > 1);
}

#[test]
fn pauses_of_the_program_mislead_no_trial() {
    for pause in [0.02, 0.2, 1.5] {
        for burst in (8..160).step_by(2) {
            let mut auto = Auto::new(ALL.to_vec(), CAPACITY, REGION, 0);
            // The time, and what it would be with the fastest way only.
            let (mut sent, mut now, mut best) = (0, 0.0, 0.0);
            while sent < 16 * GIB {
                if sent % (burst * MIB) == 0 {
                    now += pause;
                    best += pause;
                }
                let rate = if auto.way() == Way::Copy {
                    4000.0
                } else {
                    1500.0
                };
                now += 1.0 / rate;
                best += 1.0 / 4000.0;
                sent += MIB;
                if sent >= auto.due() {
                    auto.advance(sent, Duration::from_secs_f64(now));
                }
            }
            let lost = now / best - 1.0;
            assert!(
                lost < 0.1,
                "{lost:.2} of the time, bursts of {burst} MiB, {pause} s"
            );
        }
    }
}

#[test]
fn a_way_that_is_not_available_is_never_used_again() {
    let auto = drive(
        4 * GIB,
        |_| 4000.0,
        |auto, sent, time| {
            if auto.advance(sent, time) != Way::Copy {
                auto.remove(auto.way(), sent, time);
                assert_eq!(auto.way(), Way::Copy);
            }
        },
    );
    assert_eq!(auto.ways, [Way::Copy, Way::CopyLong]);
}

#[test]
fn missing_huge_pages_put_trials_off_ever_longer() {
    let rate = |way| if way == Way::Copy { 4000.0 } else { 9000.0 };
    let failed = Cell::new(0);
    let auto = drive(8 * GIB, rate, |auto, sent, time| {
        if auto.advance(sent, time) != Way::Copy && sent < 2 * GIB {
            auto.postpone(sent, time);
            assert_eq!(auto.way(), Way::Copy);
            failed.set(failed.get() + 1);
        }
    });
    assert!((3..8).contains(&failed.get()), "{failed:?} attempts");
    assert_ne!(auto.incumbent, Way::Copy);
}

#[test]
fn an_adopted_way_that_is_lost_is_soon_replaced() {
    const LOST_AT: u64 = 100 * GIB;
    for (is_removed, next) in [(false, Way::CowChecked), (true, Way::Fresh)] {
        let mut auto = Auto::new(ALL.to_vec(), CAPACITY, REGION, 0);
        let (mut sent, mut now) = (0, 0.0);
        while sent < LOST_AT + 512 * MIB {
            sent += MIB;
            now += match auto.way() {
                Way::Copy | Way::CopyLong => 1.0 / 4000.0,
                Way::Fresh => 1.0 / 6000.0,
                Way::CowChecked => 1.0 / 7500.0,
            };
            let time = Duration::from_secs_f64(now);
            if sent == LOST_AT {
                assert_eq!(auto.incumbent, Way::CowChecked);
                if is_removed {
                    auto.remove(Way::CowChecked, sent, time);
                } else {
                    auto.postpone(sent, time);
                }
                assert_eq!(auto.way(), Way::Copy);
            } else if sent >= auto.due() {
                auto.advance(sent, time);
            }
        }
        assert_eq!(auto.incumbent, next);
    }
}

#[test]
fn nothing_is_tried_once_stopped() {
    let mut auto = Auto::new(ALL.to_vec(), CAPACITY, REGION, 0);
    auto.stop();
    auto.interrupt(MIB);
    assert_eq!(auto.due(), u64::MAX);
}

/// As with a reader that the trial itself disturbs: the windows before it were faster.
#[test]
fn a_stream_that_slows_during_a_trial_is_tried_again() {
    let sent = simulate(&[Way::Copy, Way::CowChecked], GIB, |way, at| match way {
        Way::CowChecked => 400.0,
        _ if at < 40 * MIB => 410.0,
        _ => 330.0,
    });
    assert_eq!(sent.auto.trials()[0].outcome, TrialOutcome::Disturbed);
    assert_eq!(
        sent.auto.incumbent,
        Way::CowChecked,
        "{:#?}",
        sent.auto.trials()
    );
}

/// Copying at 2000 MiB/s, and `CowChecked` that starts slowly and is not the same in its two
/// windows; other ways at `others`.
fn disturbed(others: f64) -> impl Fn(Way, u64) -> f64 {
    let in_a_row = Cell::new(0);
    move |way, _| {
        let is_disturbed = way == Way::CowChecked;
        in_a_row.set(if is_disturbed { in_a_row.get() + 1 } else { 0 });
        match (way, in_a_row.get()) {
            (Way::Copy, _) => 2000.0,
            (Way::CowChecked, ..=70) => 200.0,
            (Way::CowChecked, ..=140) => 1900.0,
            (Way::CowChecked, _) => 4200.0,
            _ => others,
        }
    }
}

#[test]
fn what_disturbs_every_trial_takes_ever_less_of_the_time() {
    let sent = simulate(&ALL[..2], 64 * GIB, disturbed(0.0));
    let mut trials = sent.auto.trials().iter();
    assert!(trials.all(|it| it.outcome == TrialOutcome::Disturbed));
    let lost = sent.auto.lost.as_secs_f64() / sent.seconds;
    assert!(lost < 0.04, "{lost}");
}

#[test]
fn faster_way_whose_trial_was_disturbed_is_soon_tried_again() {
    // A burst in the second window of its first trial.
    let rate = |way, at| match way {
        Way::CowChecked if (68 * MIB..80 * MIB).contains(&at) => 400.0,
        Way::CowChecked => 130.0,
        _ => 100.0,
    };
    let sent = simulate(&ALL[..2], GIB, rate);
    let [first, second] = sent.auto.trials()[..2] else {
        panic!("{:#?}", sent.auto.trials())
    };
    assert_eq!(first.outcome, TrialOutcome::Disturbed);
    assert_eq!(second.outcome, TrialOutcome::Adopted);
    // It cost nothing, so nothing must be made up for.
    let between = second.ended_at - first.ended_at;
    assert!(between < 160 * MIB, "{between}");
}

#[test]
fn disturbed_trials_of_one_way_do_not_put_off_others() {
    let sent = simulate(&ALL, 8 * GIB, disturbed(6000.0));
    let order = [Way::CowChecked, Way::CowChecked, Way::Fresh];
    assert_eq!(sent.challengers()[..3], order);
}

proptest! {
    #[test]
    fn challengers_take_little_time(copy in 250.0..9000.0, fresh in 250.0..9000.0,
                                    cow in 250.0..9000.0, noise in 0.0..0.6) {
        let rates = fixed(copy, fresh, cow);
        // A cheap hash of the offset serves as noise.
        let sent = simulate(&ALL, 8 * GIB, |way, at| {
            let random = (at >> 18).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            rates(way, at) * (1.0 + noise * (random as f64 / (1 << 24) as f64 - 0.5))
        });
        // The first trials of four ways come on top, at the slowest rate.
        let first = 4 * (2 * REGION + REGION + 4 * CAPACITY) * 2;
        let slowest = copy.min(fresh).min(cow) * 0.7;
        let limit = MAX_LOST * 1.5 * sent.seconds + first as f64 / MIB as f64 / slowest;
        prop_assert!(sent.auto.lost.as_secs_f64() <= limit);
    }

    #[test]
    fn the_clearly_fastest_way_prevails(copy in 250.0..9000.0, fresh in 250.0..9000.0,
                                        cow in 250.0..9000.0) {
        let mut rates = [copy, fresh, cow];
        rates.sort_by(f64::total_cmp);
        prop_assume!(rates[2] > 1.2 * rates[1]);
        // Fresh is not tried once CowChecked gained much.
        prop_assume!(fresh < cow || cow < 1.04 * copy);
        let sent = simulate(&ALL, 16 * GIB, fixed(copy, fresh, cow));
        let best = [(Way::Copy, copy), (Way::Fresh, fresh), (Way::CowChecked, cow)];
        let best = best.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
        prop_assert_eq!(sent.auto.incumbent, best);
    }
}
