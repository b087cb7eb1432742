//! Successive halving: who stays, how many trials there are, how long they
//! may last, and who wins. Pure.

use crate::case::Durations;
use crate::results::Sizes;

/// So many pairs of sizes, or fewer, are the last stage's.
pub const FINALISTS: usize = 8;

/// And so many stay in any case.
const FEWEST: usize = 4;

/// Rates within so much of the highest count as equal to it: a larger buffer
/// and a larger pipe take memory and caches from others.
pub const ALIKE: f64 = 0.02;

/// The timed part of a trial lasts so long, where time allows for it.
const USUAL_S: f64 = 0.020;
/// And so long at least: shorter ones are mostly start.
pub const LEAST_S: f64 = 0.005;
const MOST_S: f64 = 0.150;
/// The warm-up, as a share of the timed part, and at least.
const WARM_UP: f64 = 0.2;
const WARM_UP_S: f64 = 0.002;

/// How many of `cells` pairs of sizes take part in each stage.
pub fn stages(cells: usize) -> Vec<usize> {
    let mut left = cells;
    let mut stages = vec![left];
    while left > FINALISTS {
        left = left.div_ceil(2);
        stages.push(left);
    }
    stages
}

/// How many trials each of them gets in a stage: as many as it had before, so
/// that their number doubles from stage to stage.
pub fn trials_each(stage: usize, times: usize) -> usize {
    times << stage.saturating_sub(1)
}

/// How many of `cells` stay after a stage: half of them, one more if they are
/// odd; and only a share of those where the time left is only a share of what
/// they would take.
pub fn kept(cells: usize, share_of_time: f64) -> usize {
    let half = cells.div_ceil(2) as f64;
    let kept = (half * share_of_time.clamp(0.0, 1.0)).ceil() as usize;
    kept.max(FEWEST.min(cells))
}

/// The trials of `cells` pairs of sizes from a stage on, of so many.
pub fn trials_from(stage: usize, stages: usize, mut cells: usize, times: usize) -> usize {
    let mut trials = 0;
    for number in stage..stages {
        trials += cells * trials_each(number, times);
        cells = kept(cells, 1.0);
    }
    trials
}

/// The trials of a whole search.
pub fn trials(cells: usize, times: usize) -> usize {
    trials_from(0, stages(cells).len(), cells, times)
}

/// By how much to multiply all numbers of trials, so that trials of the usual
/// length fill the time.
pub fn times(budget_s: f64, trials: usize, overhead_s: f64) -> usize {
    let trial = overhead_s + USUAL_S + warm_up(USUAL_S);
    let fit = budget_s / (trials.max(1) as f64 * trial);
    // A float that is negative or no number becomes 0 here.
    (fit as usize).clamp(1, 16)
}

/// How long the trials to come may last, with so much time and so many trials
/// left, each of which takes `overhead_s` besides its parts.
pub fn durations(left_s: f64, trials: usize, overhead_s: f64) -> Durations {
    let each = left_s / trials.max(1) as f64 - overhead_s;
    let timed_s = (each / (1.0 + WARM_UP)).min(each - WARM_UP_S);
    // Whole tenths of a millisecond are enough, and read better.
    let timed_s = (timed_s.clamp(LEAST_S, MOST_S) * 1e4).round() / 1e4;
    Durations {
        warm_up_s: warm_up(timed_s),
        timed_s,
    }
}

/// The least that a search takes, in seconds.
pub fn least_s(trials: usize, overhead_s: f64) -> f64 {
    trials as f64 * (overhead_s + LEAST_S + warm_up(LEAST_S))
}

fn warm_up(timed_s: f64) -> f64 {
    ((timed_s * WARM_UP).max(WARM_UP_S) * 1e4).round() / 1e4
}

/// Which of these are the best so many: their indices, in the order given.
pub fn best(rates: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rates.len()).collect();
    order.sort_by(|a, b| rates[*b].total_cmp(&rates[*a]));
    order.truncate(count);
    order.sort_unstable();
    order
}

/// Which of the finalists wins: of those that are within [`ALIKE`] of the
/// highest rate the one with the least memory, buffer and pipe together, and of
/// equal ones the fastest.
pub fn winner(finalists: &[(Sizes, f64)]) -> Option<usize> {
    let highest = finalists
        .iter()
        .map(|(_, rate)| *rate)
        .max_by(f64::total_cmp)?;
    let memory = |sizes: Sizes| sizes.buffer_bytes + sizes.pipe_bytes;
    (0..finalists.len())
        .filter(|at| finalists[*at].1 >= highest * (1.0 - ALIKE))
        .min_by(|a, b| {
            let (a, b) = (finalists[*a], finalists[*b]);
            memory(a.0).cmp(&memory(b.0)).then(b.1.total_cmp(&a.1))
        })
}

/// The rule in words, for the record and whoever reads the report.
pub fn rule() -> String {
    format!(
        "successive halving in each panel by itself: every pair of sizes gets a trial; the half \
         with the higher medians, over all trials so far, gets as many again; and so on until \
         {FINALISTS} or fewer are left; less than half where the time would not do, and without \
         the pairs whose turn has not come then. The best of these is the one that takes the \
         least memory, buffer and pipe together, of those within {:.0} % of the highest median. \
         In each pass comes a pair of every panel, then another, all drawn at random",
        ALIKE * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(buffer_bytes: usize, pipe_bytes: usize) -> Sizes {
        Sizes {
            buffer_bytes,
            pipe_bytes,
        }
    }

    #[test]
    fn the_pairs_halve_and_their_trials_double_until_few_are_left() {
        assert_eq!(stages(99), [99, 50, 25, 13, 7]);
        assert_eq!(stages(9), [9, 5]);
        assert_eq!(stages(8), [8]);
        let each: Vec<usize> = (0..5).map(|stage| trials_each(stage, 1)).collect();
        assert_eq!(each, [1, 1, 2, 4, 8]);
        assert_eq!(trials(99, 1), 99 + 50 + 50 + 52 + 56);
        assert_eq!(trials(99, 3), 3 * trials(99, 1));
    }

    #[test]
    fn fewer_stay_where_time_is_short_but_never_too_few() {
        assert_eq!(
            [99, 50, 9, 7, 3, 0].map(|n| kept(n, 1.0)),
            [50, 25, 5, 4, 3, 0]
        );
        assert_eq!([99, 50, 9].map(|n| kept(n, 0.5)), [25, 13, 4]);
        assert_eq!(kept(99, -2.0), FEWEST);
        assert_eq!(kept(99, f64::INFINITY), 50);
    }

    #[test]
    fn the_best_stay_in_their_order() {
        assert_eq!(best(&[1.0, 5.0, 3.0, 4.0], 2), [1, 3]);
        assert_eq!(best(&[1.0, 5.0, 3.0], 2), [1, 2]);
        assert_eq!(best(&[2.0, 2.0, 2.0, 2.0], 2), [0, 1]);
        assert!(best(&[], 0).is_empty());
    }

    #[test]
    fn of_rates_that_are_alike_the_least_memory_wins() {
        let large = (sizes(4 << 20, 1 << 20), 66.0);
        let small = (sizes(1 << 20, 1 << 20), 65.0);
        let slow = (sizes(64 << 10, 64 << 10), 64.0);
        assert_eq!(winner(&[large, small, slow]), Some(1));
        assert_eq!(winner(&[large, slow]), Some(0));
        assert_eq!(winner(&[]), None);
        // The same memory, the other way round.
        let turned = (sizes(1 << 20, 4 << 20), 66.5);
        assert_eq!(winner(&[large, turned]), Some(1));
    }

    #[test]
    fn trials_fill_the_time_and_never_get_too_short() {
        let within = durations(60.0, 2000, 0.015);
        let trial = 0.015 + within.warm_up_s + within.timed_s;
        assert!((trial * 2000.0 - 60.0).abs() < 1.0, "{within:?}");
        assert_eq!(durations(1.0, 2000, 0.015).timed_s, LEAST_S);
        assert_eq!(durations(-1.0, 0, 0.015).timed_s, LEAST_S);
        assert_eq!(durations(1e6, 1, 0.015).timed_s, MOST_S);
    }

    #[test]
    fn more_time_gives_more_trials_rather_than_endless_ones() {
        assert_eq!(times(60.0, 2763, 0.015), 1);
        assert!(times(60.0, 300, 0.015) > 3);
        assert_eq!(times(f64::NAN, 300, 0.015), 1);
        assert_eq!(times(-5.0, 0, 0.015), 1);
    }

    proptest! {
        #[test]
        fn the_fastest_always_stays(rates in prop::collection::vec(0.1..70.0_f64, 1..120)) {
            let kept = best(&rates, kept(rates.len(), 1.0));
            let least = kept.iter().map(|at| rates[*at]).fold(f64::INFINITY, f64::min);
            let out = (0..rates.len()).filter(|at| !kept.contains(at));
            for at in out {
                prop_assert!(rates[at] <= least);
            }
        }

        #[test]
        fn the_winner_is_hardly_slower_than_any(
            rates in prop::collection::vec((0usize..11, 0usize..9, 0.1..70.0_f64), 1..9),
        ) {
            let finalists: Vec<(Sizes, f64)> = rates
                .iter()
                .map(|(b, p, rate)| (sizes(4096 << b, 4096 << p), *rate))
                .collect();
            let won = finalists[winner(&finalists).unwrap()].1;
            prop_assert!(finalists.iter().all(|(_, rate)| won >= rate * (1.0 - ALIKE)));
        }
    }
}
