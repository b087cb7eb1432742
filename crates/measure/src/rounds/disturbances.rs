//! Warnings about disturbances that the samples of a run show. Cases that share
//! a disturbance share a warning.

use crate::record::{CaseResult, Flag, Run, Warning, WarningKind};
use pipespeed_base::text::pluralize;
use pipespeed_stats as stats;

/// Warnings list at most this many cases by name.
const MAX_NAMED_CASES: usize = 12;

/// A warning needs flags on a larger share of a case's trials.
const MIN_FLAGGED_SHARE: f64 = 0.25;

/// The flags of all trials of each case.
type Flags<'a> = Vec<(String, Vec<&'a [Flag]>)>;

/// Collects the flags of each case.
pub(crate) fn by_case<'a, T: Iterator<Item = &'a [Flag]>>(
    cases: impl Iterator<Item = (String, T)>,
) -> Flags<'a> {
    let cases = cases.map(|(name, trials)| (name, trials.collect()));
    cases.collect()
}

/// Warns about cases whose ends had to wait for their processor.
pub(crate) fn waiting_for_processor(flags: &Flags<'_>) -> Option<Warning> {
    let cases = flagged(flags, Flag::RunDelay, MIN_FLAGGED_SHARE)?;
    let message = format!(
        "in over a quarter of the trials of {cases}, an end was ready to run but had no processor \
         for more than 2 % of the time"
    );
    Some(Warning::new(WarningKind::RunDelay, message))
}

/// Lists the cases in which more than this share of the trials has the flag, or
/// counts them if they are too many to name.
fn flagged(flags: &Flags<'_>, flag: Flag, share: f64) -> Option<String> {
    let is_flagged = |(_, trials): &&(String, Vec<&[Flag]>)| {
        let with = trials.iter().filter(|flags| flags.contains(&flag)).count();
        with as f64 > share * trials.len() as f64
    };
    let names = flags.iter().filter(is_flagged);
    let names: Vec<&str> = names.map(|(name, _)| &**name).collect();
    match names.len() {
        0 => None,
        1..=MAX_NAMED_CASES => Some(names.join(", ")),
        many => Some(format!("{many} of {} cases", flags.len())),
    }
}

/// Returns the number of rounds needed for a verdict on each of `comparisons`: n
/// rounds agree by chance with a probability of 2 / 2^n, which must not exceed the
/// error allowed for each comparison.
pub fn rounds_for_verdicts(comparisons: usize, confidence: f64) -> usize {
    let allowed = (1.0 - confidence) / comparisons.max(1) as f64;
    ((1.0 - allowed.log2()).ceil() as usize).max(stats::MIN_SAMPLES)
}

/// Warns if too few rounds were completed for verdicts.
pub(super) fn too_few_rounds(run: &Run) -> Option<Warning> {
    let comparisons = crate::record::comparisons::count(run);
    let needed = rounds_for_verdicts(comparisons, run.settings.confidence);
    // A case may have more pairs than there are complete rounds.
    let is_withheld = |case: &CaseResult| {
        let reason = case.ratio.and_then(|ratio| ratio.reason);
        reason == Some(stats::Doubt::TooFewRounds)
    };
    let is_any_withheld = comparisons > 0 && run.cases.iter().any(is_withheld);
    (is_any_withheld && run.settings.rounds_done < needed).then(|| {
        let message = format!(
            "{} {} too few for {} ({needed} needed): verdicts are withheld",
            pluralize(run.settings.rounds_done, "round"),
            if run.settings.rounds_done == 1 {
                "is"
            } else {
                "are"
            },
            pluralize(comparisons, "simultaneous comparison")
        );
        Warning::new(WarningKind::FewRounds, message)
    })
}

/// Warnings about disturbances that the samples show.
pub(super) fn of_samples(run: &Run) -> Vec<Warning> {
    let measured = || run.cases.iter().filter(|case| !case.samples.is_empty());
    let flags = measured().map(|case| (case.name.clone(), case.samples.iter().map(|s| &*s.flags)));
    let flags = by_case(flags);
    let mut found: Vec<Warning> = waiting_for_processor(&flags).into_iter().collect();
    let mut warn = |kind, message| found.push(Warning::new(kind, message));
    if let Some(names) = flagged(&flags, Flag::Drift, 0.5) {
        let message = format!(
            "in most trials of {names}, the rate changed by over 20 % between the first and the \
             second half"
        );
        warn(WarningKind::Drift, message);
    }
    if let Some(medians) = shifted_medians(run) {
        let message = format!(
            "disturbed trials change medians by over 5 %; medians without those trials, in GiB/s: \
             {medians}"
        );
        warn(WarningKind::Flagged, message);
    }
    let two_modes: Vec<(&CaseResult, stats::Modes)> = measured()
        .filter_map(|case| {
            let rates: Vec<f64> = case.samples.iter().map(|sample| sample.gib_per_s).collect();
            Some((case, stats::two_modes(&rates)?))
        })
        .collect();
    if two_modes.len() > MAX_NAMED_CASES {
        let message = format!(
            "in {} of {} cases the samples fall into two groups: a median between them describes neither",
            two_modes.len(),
            measured().count()
        );
        warn(WarningKind::TwoModes, message);
        return found;
    }
    found.extend(two_modes.into_iter().map(|(case, modes)| {
        let message = format!(
            "the samples fall into two groups, around {:.3} GiB/s ({:.0} %) and {:.3} GiB/s ({:.0} \
             %); a median between them describes neither",
            modes.low,
            100.0 * (1.0 - modes.share_high),
            modes.high,
            100.0 * modes.share_high,
        );
        Warning::for_case(WarningKind::TwoModes, &case.name, message)
    }));
    found
}

/// Lists the cases whose median changes without the flagged trials, with that
/// median and the number of flagged trials.
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
        1..=MAX_NAMED_CASES => Some(shifted.join(", ")),
        many => Some(format!("different in {many} of {} cases", run.cases.len())),
    }
}
