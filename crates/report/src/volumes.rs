//! The suite volumes: whether the rate depends on the volume.

use pipespeed_measure::record::{CaseResult, Run, Verdict};
use pipespeed_measure::suite::shown;
use pipespeed_stats::{self as stats, MIN_SAMPLES};

use super::format::{counted, ratio, times};
use super::published::{Bar, Claim, judge, other_conditions};
use super::steps::{Step, steps};

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const PUBLISHED: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// Shorter stretches of a trial, in seconds, are not independent: a disturbance
/// outlasts them.
const MIN_STRETCH_S: f64 = 0.1;

/// A sentence for each larger volume, and one on the course of the largest.
pub(super) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let bar = Bar::of(run, doubt);
    let other = other_conditions(run);
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
    sentences.extend(largest.and_then(|case| trend(case, run.settings.confidence)));
    sentences
}

/// The change from the volume of `base` to that of `case`, beside the published one,
/// which is judged by `judging` if the conditions are the same.
fn from_to(step: &Step<'_>, case: &CaseResult, base: &CaseResult, judging: Option<Bar>) -> String {
    let volume = |case: &CaseResult| case.configuration.volume_bytes.unwrap_or(0);
    let found = ratio(step.ratio.estimate);
    let certainty = if step.ratio.estimate.interval.is_some() {
        format!(": {}", step.ratio.verdict.name())
    } else {
        format!(
            ", from {}: too few for an interval, for which --rounds {} is enough",
            counted(case.samples.len(), "trial"),
            MIN_SAMPLES + 1
        )
    };
    let published = published(volume(base), volume(case)).map(|published| {
        let (conditions, judgement) = match judging {
            None => (" of other data, sizes or processors", String::new()),
            Some(bar) => {
                let judgement = judge(claim(published), &step.ratio, bar);
                ("", format!(": {} here", judgement.name()))
            }
        };
        let shown = times(published);
        format!("; published, from single runs{conditions}: {shown}{judgement}")
    });
    format!(
        "From {} to {}: {found}{certainty}{}.",
        shown(volume(base)),
        shown(volume(case)),
        published.unwrap_or_default()
    )
}

/// The claim of a published ratio.
fn claim(published: f64) -> Claim {
    if (published - 1.0).abs() <= stats::EQUIVALENCE {
        Claim::Same
    } else if published > 1.0 {
        Claim::Faster
    } else {
        Claim::Slower
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
/// halves. None where the stretches are too short.
fn trend(case: &CaseResult, confidence: f64) -> Option<String> {
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
    let found = stats::holm_ratios(std::slice::from_ref(&pairs), confidence)
        .pop()
        .flatten()?;
    let verdict = match found.verdict {
        Verdict::Same => "no trend",
        verdict => verdict.name(),
    };
    Some(format!(
        "In the course of {}: the second half ran at {} of the first: {verdict} \
         ({} of stretches, from {}).",
        shown(case.configuration.volume_bytes?),
        ratio(found.estimate),
        counted(pairs.len(), "pair"),
        counted(case.samples.len(), "trial"),
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
    fn other_conditions_than_the_published_are_not_judged() {
        let mut run = volumes();
        run.settings.pipe_size = Some(1 << 20);
        let found = findings(&run, 0.0);
        let shown = "; published, from single runs of other data, sizes or processors: x0.88.";
        assert!(found[0].ends_with(shown), "{found:?}");
        assert!(!found.concat().contains("ed here"), "{found:?}");
    }

    #[test]
    fn short_stretches_show_no_trend() {
        let mut run = volumes();
        for sample in &mut run.cases[2].samples {
            sample.seconds = 1.9;
        }
        let found = findings(&run, 0.0).concat();
        assert!(!found.contains("In the course of"), "{found}");
    }

    #[test]
    fn without_measurements_there_are_no_findings() {
        let mut run = volumes();
        for case in &mut run.cases {
            case.samples.clear();
            case.ratio = None;
        }
        assert_eq!(findings(&run, 0.0), Vec::<String>::new());
    }
}
