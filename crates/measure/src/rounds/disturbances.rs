//! What the samples of a run show of disturbances, as warnings: those that
//! several cases share in one sentence.

use crate::record::{CaseResult, Flag, Run, Warning, WarningKind};
use pipespeed_base::text::pluralize;
use pipespeed_stats as stats;

/// So many cases are named in a warning that concerns several of them.
const MAX_NAMED: usize = 12;

/// The share of trials in which a disturbance is worth a warning.
pub const RULE: f64 = 0.25;

/// That in more of their trials than [`RULE`] something else ran on an end's
/// processor.
pub fn waited_for_processor(cases: &str) -> String {
    format!(
        "an end had to wait for its processor for over 2 % of the time, as something else ran on \
         it, in over a quarter of the trials of {cases}"
    )
}

/// Says so where no verdict is possible: n rounds that all agree have a
/// probability of 2 / 2^n by chance, which has to be below the share of the
/// error allowed that falls to each comparison.
pub(super) fn too_few_rounds(run: &Run) -> Option<Warning> {
    let comparisons = super::comparisons::count(run);
    let allowed = (1.0 - run.settings.confidence) / comparisons.max(1) as f64;
    let needed = (1.0 - allowed.log2()).ceil() as usize;
    let needed = needed.max(stats::MIN_SAMPLES);
    (comparisons > 0 && run.settings.rounds_done < needed).then(|| Warning {
        kind: WarningKind::Quick,
        case: None,
        message: format!(
            "with {} no verdict is possible on {} at once: {needed} are the least",
            pluralize(run.settings.rounds_done, "round"),
            pluralize(comparisons, "comparison")
        ),
    })
}

/// What the samples themselves show of disturbances: those that several cases
/// share in one sentence.
pub(super) fn of_samples(run: &Run) -> Vec<Warning> {
    let measured = || run.cases.iter().filter(|case| !case.samples.is_empty());
    // The share of trials in which something can be taken for the rule.
    let mostly = |case: &&CaseResult, flag: Flag, share: f64| {
        let with = case
            .samples
            .iter()
            .filter(|s| s.flags.contains(&flag))
            .count();
        with as f64 > share * case.samples.len() as f64
    };
    let named = |flag: Flag, share: f64| -> Option<String> {
        let names: Vec<&str> = measured()
            .filter(|case| mostly(case, flag, share))
            .map(|case| &*case.name)
            .collect();
        match names.len() {
            0 => None,
            1..=MAX_NAMED => Some(names.join(", ")),
            many => Some(format!("{many} of {} cases", measured().count())),
        }
    };
    let mut found = Vec::new();
    let mut warn = |kind, case: Option<&CaseResult>, message| {
        found.push(Warning {
            kind,
            case: case.map(|case| case.name.clone()),
            message,
        });
    };
    if let Some(names) = named(Flag::RunDelay, RULE) {
        warn(WarningKind::RunDelay, None, waited_for_processor(&names));
    }
    if let Some(names) = named(Flag::Drift, 0.5) {
        warn(
            WarningKind::Drift,
            None,
            format!(
                "the rate changed by over 20 % from the first half of a trial to the second, in \
                 most trials of {names}"
            ),
        );
    }
    if let Some(medians) = shifted_medians(run) {
        warn(
            WarningKind::Flagged,
            None,
            format!(
                "trials flagged as disturbed move medians by over 5 %; without them they would be, \
                 in GiB/s: {medians}"
            ),
        );
    }
    let two_modes: Vec<(&CaseResult, stats::Modes)> = measured()
        .filter_map(|case| {
            let rates: Vec<f64> = case.samples.iter().map(|sample| sample.gib_per_s).collect();
            Some((case, stats::two_modes(&rates)?))
        })
        .collect();
    if two_modes.len() > MAX_NAMED {
        warn(
            WarningKind::TwoModes,
            None,
            format!(
                "the samples fall into two groups in {} of {} cases: their medians describe the \
                 larger",
                two_modes.len(),
                measured().count()
            ),
        );
        return found;
    }
    for (case, modes) in two_modes {
        warn(
            WarningKind::TwoModes,
            Some(case),
            format!(
                "the samples fall into two groups, around {:.3} GiB/s ({:.0} %) and {:.3} GiB/s \
                 ({:.0} %): the median describes the larger",
                modes.low,
                100.0 * (1.0 - modes.share_high),
                modes.high,
                100.0 * modes.share_high,
            ),
        );
    }
    found
}

/// The cases whose median differs without the flagged trials, with that median
/// and the share of flagged trials.
fn shifted_medians(run: &Run) -> Option<String> {
    let shifted: Vec<String> = run
        .cases
        .iter()
        .filter_map(|case| {
            let summary = case.summary.as_ref()?;
            let clean = summary.median_unflagged?;
            let moved = (clean / summary.gib_per_s.median - 1.0).abs() > stats::EQUIVALENCE;
            moved.then(|| {
                format!(
                    "{} {clean:.3} ({} of {} flagged)",
                    case.name,
                    summary.flagged,
                    case.samples.len()
                )
            })
        })
        .collect();
    match shifted.len() {
        0 => None,
        1..=MAX_NAMED => Some(shifted.join(", ")),
        many => Some(format!("other ones in {many} of {} cases", run.cases.len())),
    }
}
