//! What a run of the suite volumes says: does the rate depend on the volume?

use pipespeed_measure::record::{CaseResult, DataUse, Run, Verdict};
use pipespeed_measure::suite::shown;
use pipespeed_stats::{self as stats, MIN_SAMPLES};

use super::format::{pluralize, ratio_interval, times};
use super::published::{Bar, Claim, Own, judge, other_conditions};
use super::steps::{Step, steps};

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const PUBLISHED: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// What they were published of.
const OWN: Own = Own {
    data: DataUse::Read,
    buffer_bytes: 64 << 10,
    pipe_bytes: 64 << 10,
};

/// Stretches of a trial that are shorter, in seconds, resemble their neighbours:
/// a disturbance outlasts them.
const MIN_STRETCH_S: f64 = 0.1;

/// A sentence for each larger volume, and one on the course of the largest.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let bar = Bar::of(run, doubt);
    let other = other_conditions(run, OWN);
    let find = |name: &str| run.cases.iter().find(|case| case.name == name);
    let mut sentences: Vec<String> = steps(run)
        .iter()
        .filter_map(|step| {
            let (case, base) = (find(step.case)?, find(step.base)?);
            let judging = other.is_empty().then_some(bar);
            Some(from_to(step, case, base, judging))
        })
        .collect();
    let measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let largest = measured.max_by_key(|case| case.configuration.volume_bytes);
    sentences.extend(largest.and_then(|case| in_its_course(case, run.settings.confidence)));
    sentences
}

/// What was published is judged where the run is one of that, by `judging`.
fn from_to(step: &Step<'_>, case: &CaseResult, base: &CaseResult, judging: Option<Bar>) -> String {
    let volume = |case: &CaseResult| case.configuration.volume_bytes.unwrap_or(0);
    let mut sentence = format!(
        "From {} to {}: {}",
        shown(volume(base)),
        shown(volume(case)),
        times(step.ratio.estimate.median)
    );
    let trials = case.samples.len();
    match step.ratio.estimate.interval {
        shown @ Some(_) => sentence.push_str(&format!(
            " {}: {}",
            ratio_interval(shown),
            step.ratio.verdict.name()
        )),
        None => sentence.push_str(&format!(
            ", from {}: too few for an interval, for which --rounds {} is enough",
            pluralize(trials, "trial"),
            MIN_SAMPLES + 1
        )),
    }
    if let Some(published) = published(volume(base), volume(case)) {
        let (conditions, judgement) = match judging {
            None => (" of other data, sizes or processors", String::new()),
            Some(bar) => {
                let judgement = judge(claim(published), &step.ratio, bar);
                ("", format!(": {judgement} here"))
            }
        };
        sentence.push_str(&format!(
            "; published, from single runs{conditions}: {}{judgement}",
            times(published)
        ));
    }
    sentence.push('.');
    sentence
}

/// What a published ratio claims.
fn claim(published: f64) -> Claim {
    match (
        (published - 1.0).abs() <= stats::EQUIVALENCE,
        published > 1.0,
    ) {
        (true, _) => Claim::Same,
        (_, true) => Claim::Faster,
        (_, false) => Claim::Slower,
    }
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
/// halves. None where the stretches are too short to stand for themselves.
fn in_its_course(case: &CaseResult, confidence: f64) -> Option<String> {
    let halves: Vec<Vec<f64>> = case
        .samples
        .iter()
        .map(|sample| stats::half_ratios(&sample.parts_gib_per_s))
        .collect();
    let pairs = halves.concat();
    let seconds: f64 = case.samples.iter().map(|sample| sample.seconds).sum();
    if seconds < MIN_STRETCH_S * (2 * pairs.len()) as f64 {
        return None;
    }
    let ratio = stats::holm_ratios(std::slice::from_ref(&pairs), confidence)
        .pop()
        .flatten()?;
    let interval = ratio_interval(ratio.estimate.interval);
    let space = if interval.is_empty() { "" } else { " " };
    let verdict = match ratio.verdict {
        Verdict::Same => "no trend",
        verdict => verdict.name(),
    };
    Some(format!(
        "In the course of {}: the second half ran at {}{space}{interval} of the first: {verdict} \
         ({} of stretches, from {}).",
        shown(case.configuration.volume_bytes?),
        times(ratio.estimate.median),
        pluralize(pairs.len(), "pair"),
        pluralize(case.samples.len(), "trial"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::record::{Estimate, Ratio};
    use pipespeed_measure::sample::{case, run, within};
    use pipespeed_measure::suite::Suite;

    fn volumes() -> Run {
        let few = Ratio {
            estimate: Estimate {
                median: 1.02,
                interval: None,
            },
            verdict: Verdict::Undecided,
        };
        let against = |ratio| Some(("volume_0.25g", "volume", ratio));
        let mut run = run(
            Suite::Volumes,
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
            sample.seconds = 6.1;
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
    fn what_is_not_what_was_published_is_not_judged() {
        let mut run = volumes();
        run.settings.pipe_size = Some(1 << 20);
        let found = findings(&run, 0.0);
        let shown = "; published, from single runs of other data, sizes or processors: x0.88.";
        assert!(found[0].ends_with(shown), "{found:?}");
        assert!(!found.concat().contains("ed here"), "{found:?}");
    }

    #[test]
    fn the_conditions_of_the_published_figures_are_the_suites_own() {
        for case in Suite::Volumes.cases(&pipespeed_measure::suite::Overrides::default()) {
            assert_eq!(case.data, OWN.data);
            assert_eq!(case.subject.buffer_bytes(), OWN.buffer_bytes);
            assert_eq!(case.subject.pipe_bytes(), Some(OWN.pipe_bytes));
        }
    }

    #[test]
    fn short_stretches_say_nothing_of_a_trend() {
        let mut run = volumes();
        for sample in &mut run.cases[2].samples {
            sample.seconds = 1.9;
        }
        let found = findings(&run, 0.0).concat();
        assert!(!found.contains("In the course of"), "{found}");
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
