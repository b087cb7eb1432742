//! The comparisons of a run: each pair of cases once, all of them together.

use crate::record::{CaseResult, Ratio, Run};
use pipespeed_stats as stats;

/// A case and the one it is compared with.
type Pair = (String, String);

/// The ratios of all cases to those they are compared with: one family, since
/// the more comparisons there are, the wider their intervals. The null control
/// stands for itself.
pub(super) fn compare(run: &mut Run) {
    let pairs = family(run);
    let ratios = ratios(run, &pairs);
    for (pair, ratio) in pairs.iter().zip(ratios) {
        note(run, pair, ratio);
    }
    let Some(twin) = twin(run).and_then(|twin| compared_with(twin, run)) else {
        return;
    };
    let ratio = ratios_of_one(run, &twin);
    note(run, &twin, ratio);
    if let Some(control) = &mut run.null_control {
        control.ratio = ratio;
    }
}

/// How many comparisons there are, less the null control's: what their
/// intervals are corrected for.
pub fn count(run: &Run) -> usize {
    let pairs = family(run);
    let known = |(name, _): &&Pair| named(run, name).is_some_and(|case| case.ratio.is_some());
    pairs.iter().filter(known).count()
}

fn family(run: &Run) -> Vec<Pair> {
    let own_name = run.null_control.as_ref().map(|control| &control.twin);
    let cases = run.cases.iter();
    cases
        .filter(|case| Some(&case.name) != own_name)
        .filter_map(|case| compared_with(case, run))
        .collect()
}

fn twin(run: &Run) -> Option<&CaseResult> {
    named(run, &run.null_control.as_ref()?.twin)
}

fn named<'a>(run: &'a Run, name: &str) -> Option<&'a CaseResult> {
    run.cases.iter().find(|case| case.name == name)
}

fn compared_with(case: &CaseResult, run: &Run) -> Option<Pair> {
    let reference = named(run, case.compared_with.as_ref()?)?;
    Some((case.name.clone(), reference.name.clone()))
}

fn ratios(run: &Run, pairs: &[Pair]) -> Vec<Option<Ratio>> {
    let rates = |name: &str| -> Vec<(usize, f64)> {
        let samples = named(run, name).into_iter().flat_map(|case| &case.samples);
        samples.map(|s| (s.round, s.gib_per_s)).collect()
    };
    let paired: Vec<Vec<f64>> = pairs
        .iter()
        .map(|(case, other)| stats::paired_ratios(&rates(case), &rates(other)))
        .collect();
    stats::holm_ratios(&paired, run.settings.confidence)
}

fn ratios_of_one(run: &Run, pair: &Pair) -> Option<Ratio> {
    ratios(run, std::slice::from_ref(pair)).pop().flatten()
}

/// Records the ratio of a pair.
fn note(run: &mut Run, (name, _): &Pair, ratio: Option<Ratio>) {
    for case in run.cases.iter_mut().filter(|case| case.name == *name) {
        case.ratio = ratio;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ladder, sizes};

    #[test]
    fn all_comparisons_are_held_to_levels_of_one_family() {
        let run = sizes();
        let pairs = family(&run);
        assert_eq!((pairs.len(), count(&run)), (9, 9));
        let coverages = pairs.iter().map(|pair| {
            let alone = ratios_of_one(&run, pair)
                .unwrap()
                .estimate
                .interval
                .unwrap()
                .coverage;
            let ratio = named(&run, &pair.0).unwrap().ratio.unwrap();
            (ratio.estimate.interval.unwrap().coverage, alone)
        });
        // Fewer comparisons are held to laxer levels.
        assert!(coverages.clone().all(|(noted, alone)| noted >= alone));
        assert!(coverages.clone().any(|(noted, alone)| noted > alone));
    }

    #[test]
    fn the_null_control_is_no_member_of_the_family() {
        let run = ladder();
        let twin = &run.null_control.as_ref().unwrap().twin;
        assert!(family(&run).iter().all(|(case, _)| case != twin));
        assert_eq!(count(&run), family(&run).len());
    }
}
