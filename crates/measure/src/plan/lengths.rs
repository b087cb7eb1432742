//! Durations of trials and runs.

use super::Request;
use crate::record::{Warning, WarningKind};
use crate::rounds::rounds_for_verdicts;
use crate::spec::Durations;
use crate::suite::Lengths;

/// Measured overhead of a trial: starting and reaping two processes.
const TRIAL_OVERHEAD_S: f64 = 0.01;

impl Lengths {
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
    let usual = request.suite.lengths(false);
    let overrides = &request.overrides;
    let timed_ms = |lengths: &Lengths| lengths.durations.timed_s * 1e3;
    let mut omitted = Vec::new();
    if timed_ms(usual) > 0.0 {
        omitted.push(format!(
            "trials of {:.0} ms instead of {:.0}",
            timed_ms(quick),
            timed_ms(usual)
        ));
    }
    let others = (request.suite.definition().quick_omits)(overrides);
    omitted.extend(others.map(str::to_owned));
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
    use crate::fixtures::overrides;
    use crate::fixtures::sizes;
    use crate::record::comparisons;
    use crate::rounds::TimeBudget;
    use crate::spec::Suite::{self, Changes, Channels, Ladder, Memory, Touched, Volumes};

    #[test]
    fn the_fewest_rounds_after_a_search_suffice_for_verdicts() {
        let needed = rounds_for_verdicts(comparisons::count(&sizes()), 0.95);
        for quick in [false, true] {
            let lengths = Suite::Sizes.lengths(quick);
            assert!(lengths.min_rounds_in_time >= needed, "{needed}");
        }
    }

    #[test]
    fn the_time_of_a_run_of_channels_suffices_for_verdicts() {
        for quick in [false, true] {
            let cases = Channels.cases(&overrides(|asked| asked.quick = quick));
            let compared = cases.iter().filter(|case| case.compared_with.is_some());
            let comparisons = compared.count();
            let lengths = Suite::Channels
                .lengths(quick)
                .for_verdicts_on(comparisons, 0.95);
            assert!(lengths.min_rounds >= rounds_for_verdicts(comparisons, 0.95));
            assert_eq!(lengths.min_rounds_in_time, lengths.min_rounds);
            // With the null control and a second pilot.
            let needed_s = lengths.estimate_s(lengths.min_rounds + 1, cases.len() + 1);
            let time_s = TimeBudget::new(lengths.budget_s, false).trials_s();
            assert!(needed_s <= time_s, "{needed_s} of {time_s} s");
        }
    }

    #[test]
    fn fewest_rounds_of_run_of_few_comparisons_suffice_for_verdicts() {
        // The ladder's own comparisons, and those of the rungs with a copy.
        for suite in [Ladder, Touched, Changes, Memory, Volumes] {
            let cases = suite.cases(&overrides(|asked| asked.one_cpu = Some(0)));
            let compared = cases.iter().filter(|case| case.compared_with.is_some());
            // And the combination of changes.
            let needed = rounds_for_verdicts(compared.count() + 1, 0.95);
            for quick in [false, true] {
                let min_rounds = suite.lengths(quick).min_rounds;
                assert!(min_rounds >= needed, "{suite:?}: {min_rounds} of {needed}");
            }
        }
    }
}
