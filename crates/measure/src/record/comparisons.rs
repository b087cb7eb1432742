//! The comparisons of a run, which form one family.

use crate::record::{Ratio, Run};
use pipespeed_stats as stats;

/// The indices of a case and of the one that it is compared with.
type Pair = (usize, usize);

/// Sets the ratios of all cases to those they are compared with. They are one
/// family: the more comparisons, the wider their intervals. The null control is a
/// family of its own.
pub(crate) fn compare(run: &mut Run) {
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
    allow_for_null_control(run);
}

/// Withdraws the verdicts on differences that the null control shows too, with that reason.
/// Its own verdict stays.
pub fn allow_for_null_control(run: &mut Run) {
    if let Some(control) = &mut run.null_control {
        control.ratio = control.ratio.map(|ratio| ratio.allowing_for(0.0));
    }
    let tolerance = run.null_tolerance();
    for case in 0..run.cases.len() {
        let tolerance = if is_twin(run, case) { 0.0 } else { tolerance };
        let ratio = &mut run.cases[case].ratio;
        *ratio = ratio.map(|ratio| ratio.allowing_for(tolerance));
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
    use crate::record::{Doubt, Verdict, to_json};

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

    /// The verdict of a case of a saved record, with its reason.
    fn saved(text: &str, name: &str) -> (String, Option<String>) {
        let record: serde_json::Value = serde_json::from_str(text).unwrap();
        let cases = record["cases"].as_array().unwrap();
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        let ratio = &case["ratio"];
        let reason = ratio["reason"].as_str().map(str::to_owned);
        (ratio["verdict"].as_str().unwrap().to_owned(), reason)
    }

    /// A ladder whose first case runs at 0.6 to 1.6 times its rate under its other name.
    fn with_wide_control() -> Run {
        let mut run = ladder();
        run.cases[1].compared_with = Some("write_read".to_owned());
        for (at, sample) in run.cases[1].samples.iter_mut().enumerate() {
            sample.gib_per_s *= if at % 2 == 0 { 0.6 } else { 1.6 };
        }
        run
    }

    #[test]
    fn difference_that_the_null_control_allows_is_saved_as_undecided() {
        let mut run = with_wide_control();
        compare(&mut run);
        let text = to_json(&run);
        let allowed = ("undecided".to_owned(), Some("null_control".to_owned()));
        assert_eq!(saved(&text, "vmsplice_read_huge"), allowed);
        assert_eq!(saved(&text, "write_read_128k"), allowed);
        let beyond = ("faster".to_owned(), None);
        assert_eq!(saved(&text, "busy_loop_huge"), beyond);
        assert_eq!(saved(&text, "vmsplice_read"), beyond);
        let control = run.null_control.as_ref().unwrap().ratio.unwrap();
        assert_eq!(control.verdict, Verdict::Undecided);
        assert_eq!(control.reason, Some(Doubt::Interval));
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
