//! Durations of trials and runs, by suite.

use super::Request;
use crate::record::{Warning, WarningKind};
use crate::rounds::rounds_for_verdicts;
use crate::spec::Durations;
use crate::spec::Suite::{
    self, Changes, Channels, Ladder, Memory, Options, Pages, Sizes, Touched, Volumes,
};
use pipespeed_stats as stats;

/// Default minimum number of rounds of a full run.
const ROUNDS: usize = 30;
/// Minimum number of rounds for verdicts on several simultaneous comparisons:
/// with 9 rounds the sign test reaches 2/2^9 = 0.4 %, enough for 12 of them.
const FEW_ROUNDS: usize = 9;
/// Minimum number of rounds of the suite options, which has more comparisons.
const OPTIONS_ROUNDS: usize = 10;
/// Minimum number of rounds of a quick run of volumes, which has two comparisons.
const VOLUMES_ROUNDS: usize = 7;

/// Measured overhead of a trial: starting and reaping two processes.
const TRIAL_OVERHEAD_S: f64 = 0.01;

/// Durations of a run and its trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Durations of the parts of a trial.
    pub durations: Durations,
    /// Durations of a trial that verifies, in suites with such trials.
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
    pub(super) fn new(suite: Suite, quick: bool) -> Self {
        let (warm_up_s, timed_s, budget_s, min_rounds) = match (suite, quick) {
            (Ladder | Touched, false) => (0.015, 0.150, 60.0, ROUNDS),
            (Ladder | Touched, true) => (0.010, 0.060, 10.0, FEW_ROUNDS),
            // As many cases as the ladder, and trials before the first round.
            (Changes, false) => (0.015, 0.120, 60.0, ROUNDS),
            (Changes, true) => (0.010, 0.030, 10.0, FEW_ROUNDS),
            // Twice as many cases. They spin, so they are less noisy.
            (Options | Pages, false) => (0.015, 0.150, 60.0, OPTIONS_ROUNDS),
            (Options | Pages, true) => (0.006, 0.030, 14.0, OPTIONS_ROUNDS),
            // A volume ends a trial, not a time.
            (Volumes, false) => (0.015, 0.0, 170.0, FEW_ROUNDS),
            (Volumes, true) => (0.010, 0.0, 12.0, VOLUMES_ROUNDS),
            // Nine times as many cases.
            (Channels, false) => (0.010, 0.100, 170.0, FEW_ROUNDS),
            // A third fewer cases than a full run.
            (Channels, true) => (0.004, 0.020, 26.0, FEW_ROUNDS),
            // Setting up a large block takes longer than a pass over it.
            (Memory, false) => (0.010, 0.060, 85.0, FEW_ROUNDS),
            (Memory, true) => (0.004, 0.020, 25.0, FEW_ROUNDS),
            // The time includes the search; the parts are those of the rounds
            // after it.
            (Sizes, false) => (0.015, 0.100, 120.0, FEW_ROUNDS),
            (Sizes, true) => (0.005, 0.030, 30.0, FEW_ROUNDS),
        };
        let lasting = |warm_up_s, timed_s| Durations { warm_up_s, timed_s };
        Lengths {
            durations: lasting(warm_up_s, timed_s),
            verifying: match suite {
                Channels if quick => Some(lasting(0.001, 0.004)),
                Channels => Some(lasting(0.002, 0.010)),
                Ladder | Touched | Changes | Sizes | Options | Pages | Volumes | Memory => None,
            },
            budget_s,
            min_rounds,
            min_rounds_in_time: match suite {
                Options | Pages => OPTIONS_ROUNDS,
                Channels | Memory if quick => stats::MIN_SAMPLES,
                Ladder | Touched | Channels | Changes | Sizes | Volumes | Memory => FEW_ROUNDS,
            },
        }
    }

    /// Raises the minimum numbers of rounds to what verdicts on these comparisons need.
    pub(super) fn for_verdicts_on(self, comparisons: usize, confidence: f64) -> Self {
        let needed = rounds_for_verdicts(comparisons, confidence);
        Lengths {
            min_rounds: self.min_rounds.max(needed),
            min_rounds_in_time: self.min_rounds_in_time.max(needed),
            ..self
        }
    }

    /// Estimates the seconds of a run of trials of the planned durations, with the
    /// pilot and the verified pass.
    pub(super) fn estimate_s(&self, rounds: usize, cases: usize) -> f64 {
        let round_s = cases as f64 * trial_s(self.durations);
        let verifying_s = self.verifying.map_or(0.0, trial_s);
        (rounds + 1) as f64 * round_s + cases as f64 * verifying_s
    }
}

/// Returns the seconds of a trial with these parts.
pub(super) fn trial_s(parts: Durations) -> f64 {
    parts.sum_s() + TRIAL_OVERHEAD_S
}

/// Returns a warning that lists what a quick run omits, except what was requested.
pub(super) fn quick_note(request: &Request, quick: &Lengths) -> Option<Warning> {
    let usual = Lengths::new(request.suite, false);
    let overrides = &request.overrides;
    let shorter = format!(
        "trials of {:.0} ms instead of {:.0}",
        quick.durations.timed_s * 1e3,
        usual.durations.timed_s * 1e3
    );
    let mut omitted = match request.suite {
        Volumes if overrides.volumes.is_empty() => vec!["smaller volumes".to_owned()],
        Volumes => Vec::new(),
        Memory if overrides.selection.sizes.is_empty() => {
            vec![shorter, "no blocks of more than 64MiB".to_owned()]
        }
        Channels if overrides.selection.sizes.is_empty() && !overrides.selection.all => {
            vec![shorter, "fewer message sizes".to_owned()]
        }
        Ladder | Touched | Channels | Changes | Sizes | Options | Pages | Memory => vec![shorter],
    };
    if request.rounds.is_none() && request.time_s.is_none() && !overrides.selection.all {
        omitted.push(format!(
            "{:.0} s for all rounds instead of {:.0}",
            quick.budget_s, usual.budget_s
        ));
    }
    (overrides.quick && !omitted.is_empty()).then(|| {
        let omitted = omitted.join(", ");
        let message = format!(
            "quick run ({omitted}): intervals are wider, and small differences stay undecided"
        );
        Warning::new(WarningKind::Quick, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::sizes;
    use crate::record::comparisons;
    use crate::rounds::{Budget, rounds_for_verdicts};
    use crate::suite::Overrides;

    #[test]
    fn the_fewest_rounds_after_a_search_suffice_for_verdicts() {
        let needed = rounds_for_verdicts(comparisons::count(&sizes()), 0.95);
        for quick in [false, true] {
            let lengths = Lengths::new(Sizes, quick);
            assert!(lengths.min_rounds_in_time >= needed, "{needed}");
        }
    }

    #[test]
    fn the_time_of_a_run_of_channels_suffices_for_verdicts() {
        for quick in [false, true] {
            let cases = Channels.cases(&Overrides {
                quick,
                ..Overrides::default()
            });
            let compared = cases.iter().filter(|case| case.compared_with.is_some());
            let comparisons = compared.count();
            let lengths = Lengths::new(Channels, quick).for_verdicts_on(comparisons, 0.95);
            assert!(lengths.min_rounds >= rounds_for_verdicts(comparisons, 0.95));
            assert_eq!(lengths.min_rounds_in_time, lengths.min_rounds);
            // With the null control and a second pilot.
            let needed_s = lengths.estimate_s(lengths.min_rounds + 1, cases.len() + 1);
            let time_s = Budget::new(lengths.budget_s, false).trials_s();
            assert!(needed_s <= time_s, "{needed_s} of {time_s} s");
        }
    }

    #[test]
    fn the_fewest_rounds_of_a_run_of_few_comparisons_suffice_for_verdicts() {
        // The ladder's own comparisons, and those of the rungs with a copy.
        for suite in [Ladder, Touched, Changes, Memory, Volumes] {
            let cases = suite.cases(&Overrides {
                one_cpu: Some(0),
                ..Overrides::default()
            });
            let compared = cases.iter().filter(|case| case.compared_with.is_some());
            // And the combination of changes.
            let needed = rounds_for_verdicts(compared.count() + 1, 0.95);
            for quick in [false, true] {
                let min_rounds = Lengths::new(suite, quick).min_rounds;
                assert!(min_rounds >= needed, "{suite:?}: {min_rounds} of {needed}");
            }
        }
    }
}
