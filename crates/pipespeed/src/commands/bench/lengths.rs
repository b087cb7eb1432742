//! Durations of trials and runs, by suite.

use crate::cli::BenchArgs;
use pipespeed_measure::case::Durations;
use pipespeed_measure::record::{Warning, WarningKind};
use pipespeed_measure::suite::Suite;
use pipespeed_stats as stats;

/// Default minimum number of rounds of a full run.
const ROUNDS: usize = 30;
/// Minimum number of rounds for verdicts on several simultaneous comparisons:
/// with 9 rounds the sign test reaches 2/2^9 = 0.4 %, enough for 12 of them.
const FEW_ROUNDS: usize = 9;

/// The same for the suite options.
const OPTIONS_ROUNDS: usize = 10;

/// A quick run of volumes makes two comparisons.
const VOLUMES_ROUNDS: usize = 7;

/// Measured overhead of a trial: starting and reaping two processes.
pub(super) const TRIAL_OVERHEAD_S: f64 = 0.01;

/// Durations of a run and its trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lengths {
    /// Durations of the parts of a trial.
    pub durations: Durations,
    /// The same for a trial that verifies, if the suite has such trials.
    pub verifying: Option<Durations>,
    /// Duration of the whole run, in seconds.
    pub budget_s: f64,
    /// Minimum number of rounds.
    pub min_rounds: usize,
    /// Minimum number of rounds if --time is given.
    pub min_rounds_in_time: usize,
}

impl Lengths {
    /// Returns the default durations of a suite.
    pub fn of(suite: Suite, quick: bool) -> Self {
        use Suite::{Changes, Channels, Ladder, Memory, Options, Sizes, Touched, Volumes};
        let (warm_up_s, timed_s, budget_s, min_rounds) = match (suite, quick) {
            (Ladder | Touched, false) => (0.015, 0.150, 60.0, ROUNDS),
            (Ladder | Touched, true) => (0.010, 0.060, 10.0, FEW_ROUNDS),
            // As many cases as the ladder, and trials before the first round.
            (Changes, false) => (0.015, 0.120, 60.0, ROUNDS),
            (Changes, true) => (0.010, 0.030, 10.0, FEW_ROUNDS),
            // Twice as many cases, which spin: that makes for little noise.
            (Options, false) => (0.015, 0.150, 60.0, OPTIONS_ROUNDS),
            (Options, true) => (0.006, 0.030, 14.0, OPTIONS_ROUNDS),
            // A volume ends a trial, not a time.
            (Volumes, false) => (0.015, 0.0, 170.0, FEW_ROUNDS),
            (Volumes, true) => (0.010, 0.0, 12.0, VOLUMES_ROUNDS),
            // Nine times as many cases.
            (Channels, false) => (0.010, 0.100, 170.0, FEW_ROUNDS),
            (Channels, true) => (0.004, 0.020, 26.0, stats::MIN_SAMPLES),
            // To set up a large block takes longer than to go over it.
            (Memory, false) => (0.010, 0.060, 85.0, FEW_ROUNDS),
            (Memory, true) => (0.004, 0.020, 25.0, FEW_ROUNDS),
            // The parts are those of the rounds after the search, the time is
            // that of both.
            (Sizes, false) => (0.015, 0.100, 120.0, FEW_ROUNDS),
            (Sizes, true) => (0.005, 0.030, 30.0, FEW_ROUNDS),
        };
        let lasting = |warm_up_s, timed_s| Durations { warm_up_s, timed_s };
        Lengths {
            durations: lasting(warm_up_s, timed_s),
            verifying: match (suite, quick) {
                (Channels, false) => Some(lasting(0.002, 0.010)),
                (Channels, true) => Some(lasting(0.001, 0.004)),
                _ => None,
            },
            budget_s,
            min_rounds,
            min_rounds_in_time: match (suite, quick) {
                (Options, _) => OPTIONS_ROUNDS,
                (Channels | Memory, true) => stats::MIN_SAMPLES,
                _ => FEW_ROUNDS,
            },
        }
    }

    /// Estimates the seconds of a run from its planned durations, including the pilot
    /// and the verified pass.
    pub fn of_rounds(&self, rounds: usize, cases: usize) -> f64 {
        let trial = |parts: Durations| parts.warm_up_s + parts.timed_s + TRIAL_OVERHEAD_S;
        let round = cases as f64 * trial(self.durations);
        let verifying = self.verifying.map_or(0.0, trial);
        (rounds + 1) as f64 * round + cases as f64 * verifying
    }
}

/// Warning that lists what a quick run omits, except what options set.
pub(super) fn quick_note(args: &BenchArgs, quick: &Lengths) -> Option<Warning> {
    let measure = &args.measure;
    let usual = Lengths::of(args.suite, false);
    let trials = match args.suite {
        Suite::Volumes => args
            .volumes
            .volume
            .is_empty()
            .then(|| "smaller volumes".to_owned()),
        _ => Some(format!(
            "trials of {:.0} ms instead of {:.0}",
            quick.durations.timed_s * 1e3,
            usual.durations.timed_s * 1e3
        )),
    };
    let blocks = (args.suite == Suite::Memory && args.channels.size.is_empty())
        .then(|| "no blocks of more than 64MiB".to_owned());
    let by_hand = measure.rounds.is_some() || measure.time.is_some() || args.channels.all;
    let time = (!by_hand).then(|| {
        format!(
            "{:.0} s for all rounds instead of {:.0}",
            quick.budget_s, usual.budget_s
        )
    });
    let less: Vec<String> = trials.into_iter().chain(blocks).chain(time).collect();
    let all = less.join(", ");
    (measure.quick && !less.is_empty()).then(|| {
        let message =
            format!("quick run ({all}): intervals are wider, and small differences stay undecided");
        Warning::new(WarningKind::Quick, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::fixtures::sizes;
    use pipespeed_measure::rounds::{comparisons, rounds_for_verdicts};
    use pipespeed_measure::suite::Overrides;

    #[test]
    fn the_fewest_rounds_after_a_search_suffice_for_verdicts() {
        let needed = rounds_for_verdicts(comparisons::count(&sizes()), 0.95);
        for quick in [false, true] {
            let lengths = Lengths::of(Suite::Sizes, quick);
            assert!(lengths.min_rounds_in_time >= needed, "{needed}");
        }
    }

    #[test]
    fn the_fewest_rounds_of_a_run_of_few_comparisons_suffice_for_verdicts() {
        // The ladder's own comparisons, and those of the rungs with a copy.
        for suite in [
            Suite::Ladder,
            Suite::Touched,
            Suite::Changes,
            Suite::Memory,
            Suite::Volumes,
        ] {
            let cases = suite.cases(&Overrides {
                one_cpu: Some(0),
                ..Overrides::default()
            });
            let compared = cases.iter().filter(|case| case.compared_with.is_some());
            // And the combination of changes.
            let needed = rounds_for_verdicts(compared.count() + 1, 0.95);
            for quick in [false, true] {
                let least = Lengths::of(suite, quick).min_rounds;
                assert!(least >= needed, "{suite:?}: {least} of {needed}");
            }
        }
    }
}
