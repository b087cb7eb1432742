//! What a run of the suite volumes says: does the rate depend on the volume?

use crate::results::{CaseResult, Run, Verdict};
use crate::stats::{self, MIN_SAMPLES};
use crate::suite::{Suite, shown};

use super::format::{counted, ratio_interval, times};
use super::published::{Claim, judge};
use super::steps::{Step, steps};

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const PUBLISHED: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// Whether a run is one of the suite volumes.
pub(super) fn are_compared(run: &Run) -> bool {
    run.suite == Suite::Volumes.name()
}

/// A sentence for each larger volume, and one on the course of the largest.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let find = |name: &str| run.cases.iter().find(|case| case.name == name);
    let mut sentences: Vec<String> = steps(run)
        .iter()
        .filter_map(|step| {
            let (case, base) = (find(step.case)?, find(step.base)?);
            Some(from_to(step, case, base, doubt))
        })
        .collect();
    let measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let largest = measured.max_by_key(|case| case.configuration.volume_bytes);
    sentences.extend(largest.and_then(|case| in_its_course(case, run.settings.confidence)));
    sentences
}

fn from_to(step: &Step<'_>, case: &CaseResult, base: &CaseResult, doubt: f64) -> String {
    let volume = |case: &CaseResult| case.configuration.volume_bytes.unwrap_or(0);
    let mut sentence = format!(
        "From {} to {}: {}",
        shown(volume(base)),
        shown(volume(case)),
        times(step.ratio.median)
    );
    let trials = case.samples.len();
    match step.ratio.low {
        Some(_) => sentence.push_str(&format!(
            " {}: {}",
            ratio_interval(step.ratio.low, step.ratio.high),
            step.ratio.verdict.name()
        )),
        None => sentence.push_str(&format!(
            ", from {}: too few for an interval, for which --rounds {} is enough",
            counted(trials, "trial"),
            MIN_SAMPLES + 1
        )),
    }
    if let Some(published) = published(volume(base), volume(case)) {
        sentence.push_str(&format!(
            "; published, from single runs: {}",
            times(published)
        ));
        let within = (published - 1.0).abs() <= stats::EQUIVALENCE;
        let claim = match (within, published > 1.0) {
            (true, _) => Claim::Same,
            (_, true) => Claim::Faster,
            (_, false) => Claim::Slower,
        };
        sentence.push_str(&format!(": {} here", judge(claim, &step.ratio, doubt)));
    }
    sentence.push('.');
    sentence
}

/// The published ratio of two volumes, if both are known.
fn published(base: u64, volume: u64) -> Option<f64> {
    let rate = |bytes: u64| {
        let gib = bytes as f64 / GIB as f64;
        let known = PUBLISHED.iter().find(|(volume, _)| *volume == gib)?;
        Some(known.1)
    };
    Some(rate(volume)? / rate(base)?)
}

/// Whether the rate changed in the course of trials of one volume, by their
/// halves.
fn in_its_course(case: &CaseResult, confidence: f64) -> Option<String> {
    let halves: Vec<Vec<f64>> = case
        .samples
        .iter()
        .map(|sample| stats::halves(&sample.parts_gib_per_s))
        .collect();
    let pairs = halves.concat();
    let ratio = stats::holm_ratios(std::slice::from_ref(&pairs), confidence)
        .pop()
        .flatten()?;
    let interval = ratio_interval(ratio.low, ratio.high);
    let space = if interval.is_empty() { "" } else { " " };
    let verdict = match ratio.verdict {
        Verdict::Same => "no trend",
        verdict => verdict.name(),
    };
    Some(format!(
        "In the course of {}: the second half ran at {}{space}{interval} of the first: {verdict} \
         ({} of stretches, from {}).",
        shown(case.configuration.volume_bytes?),
        times(ratio.median),
        counted(pairs.len(), "pair"),
        counted(case.samples.len(), "trial"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{case, run, within};
    use crate::results::Ratio;

    fn volumes() -> Run {
        let few = Ratio {
            low: None,
            high: None,
            verdict: Verdict::Undecided,
            ..within(0.9, 1.02, 1.1)
        };
        let against = |ratio| Some(("volume_0.25g", "volume", ratio));
        let mut run = run(
            "volumes",
            vec![
                case("volume_0.25g", 4.0, None),
                case("volume_2.5g", 4.0, against(within(0.99, 1.0, 1.01))),
                case("volume_25g", 4.1, against(few)),
            ],
        );
        for (case, bytes) in run.cases.iter_mut().zip([GIB / 4, GIB * 5 / 2, GIB * 25]) {
            case.configuration.volume_bytes = Some(bytes);
        }
        let large = &mut run.cases[2];
        large.samples.truncate(2);
        for sample in &mut large.samples {
            sample.parts_gib_per_s = (0..100).map(|at| 4.1 + 0.01 * f64::from(at % 7)).collect();
        }
        run
    }

    #[test]
    fn each_volume_has_a_sentence_and_the_largest_its_course() {
        let run = volumes();
        insta::assert_snapshot!(findings(&run, 0.0).join("\n"));
        assert_eq!(super::super::findings(&run), findings(&run, 0.0));
    }

    #[test]
    fn nothing_measured_says_nothing() {
        let mut run = volumes();
        for case in &mut run.cases {
            case.samples.clear();
            case.ratio = None;
        }
        assert_eq!(findings(&run, 0.0), Vec::<String>::new());
    }
}
