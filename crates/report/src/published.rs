//! Published statements beside the results of a run: those on options of pipes, and
//! those on volumes.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, Interval, Ratio, Run, Verdict};
use pipespeed_measure::suite::{Overrides, shown};
use pipespeed_stats::{EQUIVALENCE, MIN_SAMPLES, half_ratios, holm_ratios};

use super::format::{pluralize, ratio, times};
use super::steps::{Step, doubted, steps};

/// The published result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// A gain.
    Faster,
    /// A loss.
    Slower,
    /// No difference.
    Same,
    /// No gain; a loss is not excluded.
    NoGain,
}

/// Whether a run agrees with a published statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Judgement {
    Confirmed,
    Refuted,
    Undecided,
}

impl Judgement {
    fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::Refuted => "refuted",
            Judgement::Undecided => "undecided",
        }
    }
}

/// The certainty that a ratio needs to decide anything.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    /// How far a case may differ from itself, as a logarithm.
    doubt: f64,
    /// The coverage required of the interval of an undecided comparison.
    level: f64,
}

impl Bar {
    /// The bar of a run, by the doubt that its null control leaves.
    fn of(run: &Run, doubt: f64) -> Bar {
        Bar {
            doubt,
            level: level(&steps(run), run.settings.confidence),
        }
    }
}

/// The level at which the step-down of [`pipespeed_stats::holm_ratios`] stopped,
/// which applies to undecided comparisons. Those decided before have an interval
/// without 1, so the others share the allowed error.
fn level(steps: &[Step<'_>], confidence: f64) -> f64 {
    let tested = steps
        .iter()
        .filter(|step| step.ratio.estimate.interval.is_some());
    let without_one = |step: &&Step<'_>| {
        let (low, high) = step.ratio.estimate.ends();
        step.ratio.verdict != Verdict::Undecided && (low > 1.0 || high < 1.0)
    };
    let sharing = tested.clone().count() - tested.filter(without_one).count();
    1.0 - (1.0 - confidence) / sharing.max(1) as f64
}

/// Compares a ratio with a claim.
fn judge(claim: Claim, ratio: &Ratio, bar: Bar) -> Judgement {
    // With too few rounds for the level the interval is their range, which decides
    // nothing.
    let reached = |i: &Interval| i.coverage >= bar.level - 1e-9;
    let no_gain_worth_it = ratio
        .estimate
        .interval
        .filter(reached)
        .is_some_and(|i| i.high * bar.doubt.exp() <= 1.0 + EQUIVALENCE);
    match (claim, doubted(ratio, bar.doubt)) {
        (Claim::Faster, Verdict::Faster)
        | (Claim::Slower, Verdict::Slower)
        | (Claim::Same | Claim::NoGain, Verdict::Same)
        | (Claim::NoGain, Verdict::Slower) => Judgement::Confirmed,
        // An interval from, say, 0.93 to 1.03 leaves open whether it costs
        // anything, not whether it gains.
        (Claim::NoGain, Verdict::Undecided) if no_gain_worth_it => Judgement::Confirmed,
        (_, Verdict::Undecided) => Judgement::Undecided,
        _ => Judgement::Refuted,
    }
}

/// The options that differ from the conditions of the published figures, which are
/// those of the suite: `--data touch`. Empty if there are none.
fn other_conditions(run: &Run) -> String {
    let settings = &run.settings;
    let cases = run.suite.cases(&Overrides::default());
    let Some(own) = cases.first() else {
        return String::new();
    };
    let size = |option: &str, asked: Option<usize>, own: Option<usize>| {
        let asked = asked.filter(|bytes| Some(*bytes) != own)?;
        Some(format!("{option} {}", size::format(asked as u64)))
    };
    // A reader that reads doesn't discard, whatever was asked.
    let is_own = || run.cases.iter().any(|case| case.data == own.data);
    let data = settings.data.as_deref();
    let data = data.filter(|data| *data != own.data.name() && !is_own());
    let place = match (settings.writer_cpu, settings.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => Some("one processor".to_owned()),
        (Some(_), Some(_)) => None,
        _ => Some("processors chosen by the scheduler".to_owned()),
    };
    let (buffer, pipe) = (own.subject.buffer_bytes(), own.subject.pipe_bytes());
    let all = [
        data.map(|data| format!("--data {data}")),
        (settings.work > 0).then(|| format!("--work {}", settings.work)),
        size("--buffer-size", settings.buffer_size, Some(buffer)),
        size("--pipe-size", settings.pipe_size, pipe),
        place,
    ];
    all.into_iter().flatten().join(", ")
}

/// "How fast are Linux pipes anyway?" and the comments of its program. Sleeping
/// stands for its last rung, read the other way round.
///
/// The case, the option with its kind of pages, the published figures, the claim.
const OPTIONS: [(&str, &str, &str, Claim); 10] = [
    (
        "untouched",
        "untouched buffers of base pages",
        "25.0 GiB/s instead of 30",
        Claim::Slower,
    ),
    ("gift", "gifted base pages", NO_GAIN, Claim::NoGain),
    ("locked", "locked base pages", NO_GAIN, Claim::NoGain),
    (
        "busy_loop_huge",
        "huge pages",
        "51.0 GiB/s instead of 32.8 (sleeping; here spinning)",
        Claim::Faster,
    ),
    (
        "untouched_huge",
        "untouched buffers of huge pages",
        "no effect",
        Claim::Same,
    ),
    ("gift_huge", "gifted huge pages", NO_GAIN, Claim::NoGain),
    ("locked_huge", "locked huge pages", NO_GAIN, Claim::NoGain),
    (
        "same_buffer_huge",
        "one buffer of huge pages in halves instead of two",
        "about 20 % slower",
        Claim::Slower,
    ),
    (
        "vmsplice_splice_huge",
        "sleeping instead of spinning, huge pages",
        "51.0 GiB/s instead of 62.5 to 65",
        Claim::Slower,
    ),
    (
        "poll_huge",
        "poll(2) before each transfer, huge pages",
        NO_GAIN,
        Claim::NoGain,
    ),
];

const NO_GAIN: &str = "no gain";

/// A sentence for each published statement: first those confirmed, then those
/// refuted, then the undecided. `doubt` is that of the null control, a logarithm.
pub(super) fn options(run: &Run, doubt: f64) -> Vec<String> {
    let (steps, bar) = (steps(run), Bar::of(run, doubt));
    let other = other_conditions(run);
    let judged = OPTIONS.iter().filter_map(|(case, what, figures, claim)| {
        let step = steps.iter().find(|step| step.case.name == *case)?;
        let judgement = other.is_empty().then(|| judge(*claim, &step.ratio, bar));
        let beginning = match judgement {
            None => format!("Published, not judged by this run ({other})"),
            Some(judgement) => format!("Published and {} here", judgement.name()),
        };
        let found = ratio(step.ratio.estimate);
        let sentence = format!("{beginning}: {what}: {figures}; found {found} ({case}).");
        Some((judgement, sentence))
    });
    let by_judgement = judged.sorted_by_key(|(judgement, _)| *judgement);
    by_judgement.map(|(_, sentence)| sentence).collect()
}

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const VOLUMES: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// Shorter stretches of a trial, in seconds, are not independent: a disturbance
/// outlasts them.
const MIN_STRETCH_S: f64 = 0.1;

/// A sentence for each larger volume, and one on the course of the largest.
pub(super) fn volumes(run: &Run, doubt: f64) -> Vec<String> {
    let bar = Bar::of(run, doubt);
    let other = other_conditions(run);
    let find = |name: &str| run.cases.iter().find(|case| case.name == name);
    let mut sentences: Vec<String> = steps(run)
        .iter()
        .filter_map(|step| {
            let base = find(step.base)?;
            let judging = other.is_empty().then_some(bar);
            Some(from_to(step, base, judging))
        })
        .collect();
    let measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let largest = measured.max_by_key(|case| case.configuration.volume_bytes);
    sentences.extend(largest.and_then(|case| trend(case, run.settings.confidence)));
    sentences
}

/// The change from the volume of `base` to that of the step's case, beside the published one,
/// which is judged by `judging` if the conditions are the same.
fn from_to(step: &Step<'_>, base: &CaseResult, judging: Option<Bar>) -> String {
    let case = step.case;
    let volume = |case: &CaseResult| case.configuration.volume_bytes.unwrap_or(0);
    let found = ratio(step.ratio.estimate);
    let certainty = if step.ratio.estimate.interval.is_some() {
        format!(": {}", step.ratio.verdict.name())
    } else {
        format!(
            ", from {}: too few for an interval, for which --rounds {} is enough",
            pluralize(case.samples.len(), "trial"),
            MIN_SAMPLES + 1
        )
    };
    let published = published_ratio(volume(base), volume(case)).map(|published| {
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
    if (published - 1.0).abs() <= EQUIVALENCE {
        Claim::Same
    } else if published > 1.0 {
        Claim::Faster
    } else {
        Claim::Slower
    }
}

/// The published ratio of two volumes, if both are known.
fn published_ratio(base: u64, volume: u64) -> Option<f64> {
    let rate = |bytes: u64| {
        let gib = bytes as f64 / GIB as f64;
        let known = VOLUMES.iter().find(|(volume, _)| *volume == gib)?;
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
        .map(|sample| half_ratios(&sample.parts_gib_per_s))
        .collect();
    let pairs = halves.concat();
    let seconds: f64 = case.samples.iter().map(|sample| sample.seconds).sum();
    if seconds < MIN_STRETCH_S * (2 * pairs.len()) as f64 {
        return None;
    }
    let found = holm_ratios(std::slice::from_ref(&pairs), confidence)
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
        pluralize(pairs.len(), "pair"),
        pluralize(case.samples.len(), "trial"),
    ))
}

#[cfg(test)]
mod tests;
