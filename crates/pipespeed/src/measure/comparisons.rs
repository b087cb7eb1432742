//! The comparisons of a run: each pair of cases once, all of them together.

use crate::results::{CaseResult, Ratio, Run};
use crate::stats;

/// A case and the one it is compared with.
type Pair = (String, String);

/// The ratios of all cases to those they are compared with, and of what a
/// search found to what was published: one family, since the more comparisons
/// there are, the wider their intervals. The null control stands for itself.
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
pub(crate) fn count(run: &Run) -> usize {
    let pairs = family(run);
    let known = pairs.iter().filter(|pair| ratio(run, pair).is_some());
    known.count()
}

fn family(run: &Run) -> Vec<Pair> {
    let own_name = run.null_control.as_ref().map(|control| &control.twin);
    let cases = run.cases.iter();
    let mut pairs: Vec<Pair> = cases
        .filter(|case| Some(&case.name) != own_name)
        .filter_map(|case| compared_with(case, run))
        .collect();
    let best = run.search.iter().flat_map(|search| &search.best);
    for best in best {
        for other in &best.against {
            let pair = (best.case.clone(), other.case.clone());
            let known = named(run, &pair.0).is_some() && named(run, &pair.1).is_some();
            if known && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    pairs
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

/// Notes a ratio wherever its pair stands.
fn note(run: &mut Run, (name, other): &Pair, ratio: Option<Ratio>) {
    for case in &mut run.cases {
        if case.name == *name && case.compared_with.as_ref() == Some(other) {
            case.ratio = ratio;
        }
    }
    let best = run.search.iter_mut().flat_map(|search| &mut search.best);
    for best in best.filter(|best| best.case == *name) {
        for against in best.against.iter_mut().filter(|it| it.case == *other) {
            against.ratio = ratio;
        }
    }
}

/// The ratio noted for a pair.
fn ratio(run: &Run, (name, other): &Pair) -> Option<Ratio> {
    let case = named(run, name)?;
    if case.compared_with.as_ref() == Some(other) {
        return case.ratio;
    }
    let best = run.search.iter().flat_map(|search| &search.best);
    let mut against = best
        .filter(|best| best.case == *name)
        .flat_map(|best| &best.against);
    against.find(|it| it.case == *other)?.ratio
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{ladder, sizes};

    #[test]
    fn a_pair_that_is_compared_twice_has_one_ratio_and_counts_once() {
        let run = sizes();
        let best = &run.search.as_ref().unwrap().best;
        let mut both = 0;
        for best in best {
            let case = named(&run, &best.case).unwrap();
            for other in &best.against {
                if case.compared_with.as_ref() == Some(&other.case) {
                    assert_eq!(case.ratio, other.ratio, "{}", case.name);
                    both += 1;
                }
            }
        }
        let against: usize = best.iter().map(|best| best.against.len()).sum();
        // Nine panels, each against its published sizes.
        assert_eq!((both, against), (4, 11));
        assert_eq!(count(&run), 9 + against - both);
    }

    #[test]
    fn all_comparisons_are_held_to_levels_of_one_family() {
        let mut run = sizes();
        let pairs = family(&run);
        let expected = ratios(&run, &pairs);
        assert_eq!(pairs.len(), 16);
        for (pair, expected) in pairs.iter().zip(&expected) {
            assert_eq!(ratio(&run, pair), *expected, "{pair:?}");
        }
        // Fewer comparisons are held to laxer levels.
        run.search = None;
        compare(&mut run);
        let laxer = |(pair, before): &(&Pair, &Option<Ratio>)| {
            ratio(&run, pair).is_some_and(|alone| alone.coverage < before.unwrap().coverage)
        };
        let mut pairs = pairs.iter().zip(&expected).take(9);
        assert!(pairs.any(|pair| laxer(&pair)));
    }

    #[test]
    fn the_null_control_is_no_member_of_the_family() {
        let run = ladder();
        let twin = &run.null_control.as_ref().unwrap().twin;
        assert!(family(&run).iter().all(|(case, _)| case != twin));
        assert_eq!(count(&run), family(&run).len());
    }
}
