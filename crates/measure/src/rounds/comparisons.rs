//! The comparisons of a run, which form one family.

use crate::record::{Ratio, Run};
use pipespeed_stats as stats;

/// The indices of a case and of the one that it is compared with.
type Pair = (usize, usize);

/// Sets the ratios of all cases to those they are compared with. They are one
/// family: the more comparisons, the wider their intervals. The null control is a
/// family of its own.
pub(super) fn compare(run: &mut Run) {
    let (controls, others): (Vec<Pair>, Vec<Pair>) =
        pairs(run).partition(|(case, _)| is_twin(run, *case));
    for family in [others, controls] {
        for ((case, _), ratio) in family.iter().zip(ratios(run, &family)) {
            run.cases[*case].ratio = ratio;
            if is_twin(run, *case)
                && let Some(control) = &mut run.null_control
            {
                control.ratio = ratio;
            }
        }
    }
}

/// Number of comparisons without the null control: what their intervals are
/// corrected for.
pub fn count(run: &Run) -> usize {
    let is_counted = |(case, _): &Pair| run.cases[*case].ratio.is_some() && !is_twin(run, *case);
    pairs(run).filter(is_counted).count()
}

fn is_twin(run: &Run, case: usize) -> bool {
    let control = run.null_control.as_ref();
    control.is_some_and(|control| control.twin == run.cases[case].name)
}

fn pairs(run: &Run) -> impl Iterator<Item = Pair> {
    let cases = run.cases.iter().enumerate();
    cases.filter_map(|(at, case)| {
        let reference = case.compared_with.as_ref()?;
        let other = run.cases.iter().position(|other| other.name == *reference);
        Some((at, other?))
    })
}

fn ratios(run: &Run, pairs: &[Pair]) -> Vec<Option<Ratio>> {
    let rates = |case: usize| -> Vec<(usize, f64)> {
        let samples = run.cases[case].samples.iter();
        samples.map(|s| (s.round, s.gib_per_s)).collect()
    };
    let pairs = pairs.iter();
    let paired: Vec<Vec<f64>> = pairs
        .map(|&(case, other)| stats::paired_ratios(&rates(case), &rates(other)))
        .collect();
    stats::holm_ratios(&paired, run.settings.confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, sizes};

    #[test]
    fn all_comparisons_are_held_to_levels_of_one_family() {
        let run = sizes();
        let is_member = |(case, _): &Pair| !is_twin(&run, *case);
        let pairs: Vec<Pair> = pairs(&run).filter(is_member).collect();
        assert_eq!((pairs.len(), count(&run)), (9, 9));
        let coverages = pairs.iter().map(|pair| {
            let alone = ratios(&run, &[*pair])[0]
                .unwrap()
                .estimate
                .interval
                .unwrap()
                .coverage;
            let ratio = run.cases[pair.0].ratio.unwrap();
            (ratio.estimate.interval.unwrap().coverage, alone)
        });
        // Fewer comparisons are held to laxer levels.
        assert!(coverages.clone().all(|(noted, alone)| noted >= alone));
        assert!(coverages.clone().any(|(noted, alone)| noted > alone));
    }

    #[test]
    fn the_null_control_is_no_member_of_the_family() {
        let mut run = ladder();
        let others = count(&run);
        let twin = run.null_control.as_ref().unwrap().twin.clone();
        let twin = run.cases.iter().position(|case| case.name == twin).unwrap();
        run.cases[twin].compared_with = Some("write_read".to_owned());
        compare(&mut run);
        assert!(run.cases[twin].ratio.is_some());
        assert_eq!(
            run.null_control.as_ref().unwrap().ratio,
            run.cases[twin].ratio
        );
        assert_eq!(count(&run), others);
    }
}
