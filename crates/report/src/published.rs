//! Published statements compared with the results of a run: on options of pipes, and on
//! volumes.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, Interval, Ratio, Run, Verdict};
use pipespeed_measure::suite::{Overrides, shown};
use pipespeed_stats::{EQUIVALENCE, MIN_SAMPLES, half_ratios, holm_ratios};

use super::format::{pluralize, ratio, times};
use super::steps::{Step, steps, widened_verdict};

/// The published result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
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
pub(super) enum Judgement {
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

/// The requirements on a ratio for a judgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Threshold {
    /// How far a case may differ from itself, as a logarithm.
    tolerance: f64,
    /// Minimum coverage of the interval of an undecided comparison.
    level: f64,
}

impl Threshold {
    /// The threshold of a run whose null control leaves this tolerance.
    pub fn of(run: &Run, tolerance: f64) -> Threshold {
        Threshold {
            tolerance,
            level: level(&steps(run), run.settings.confidence),
        }
    }
}

/// The confidence level at which the step-down of [`pipespeed_stats::holm_ratios`]
/// stopped, which applies to the undecided comparisons: they share the allowed error.
/// Comparisons decided before have intervals without 1.
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
pub(super) fn judge(claim: Claim, ratio: &Ratio, threshold: Threshold) -> Judgement {
    // With too few rounds for the level the interval is their range, which is not
    // enough for a judgement.
    let reached = |i: &Interval| i.coverage >= threshold.level - 1e-9;
    let excludes_gain = ratio
        .estimate
        .interval
        .filter(reached)
        .is_some_and(|i| i.high * threshold.tolerance.exp() <= 1.0 + EQUIVALENCE);
    match (claim, widened_verdict(ratio, threshold.tolerance)) {
        (Claim::Faster, Verdict::Faster)
        | (Claim::Slower, Verdict::Slower)
        | (Claim::Same | Claim::NoGain, Verdict::Same)
        | (Claim::NoGain, Verdict::Slower) => Judgement::Confirmed,
        // For example, an interval from 0.93 to 1.03 excludes a gain, but not a loss.
        (Claim::NoGain, Verdict::Undecided) if excludes_gain => Judgement::Confirmed,
        (_, Verdict::Undecided) => Judgement::Undecided,
        _ => Judgement::Refuted,
    }
}

/// The options of a run that differ from the conditions of the published figures, which
/// are the suite's defaults: `--data touch`. Empty if there are none.
pub(super) fn deviations(run: &Run) -> String {
    let settings = &run.settings;
    let cases = run.suite.cases(&Overrides::default());
    let Some(own) = cases.first() else {
        return String::new();
    };
    let size = |option: &str, asked: Option<usize>, own: Option<usize>| {
        let asked = asked.filter(|bytes| Some(*bytes) != own)?;
        Some(format!("{option} {}", size::format(asked as u64)))
    };
    // A reader that uses read(2) never discards, even if that was requested.
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

/// The statements of "How fast are Linux pipes anyway?" and of the comments in its
/// program. Its last rung, spinning, is here the inverse: sleeping.
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

/// A published statement on an option, and this run's comparison.
pub(super) struct Statement<'a> {
    pub step: Step<'a>,
    /// The option, with its kind of pages.
    pub what: &'static str,
    /// The published figures.
    pub figures: &'static str,
    /// `None` if the run has other conditions than the published one.
    pub judgement: Option<Judgement>,
}

/// The published statements that a run has a comparison for: first the confirmed, then the
/// refuted, then the undecided ones. `tolerance` is the null control's tolerance, a logarithm.
pub(super) fn statements(run: &Run, tolerance: f64) -> Vec<Statement<'_>> {
    let (steps, threshold) = (steps(run), Threshold::of(run, tolerance));
    let is_judged = deviations(run).is_empty();
    let judged = OPTIONS.iter().filter_map(|(case, what, figures, claim)| {
        let step = *steps.iter().find(|step| step.case.name == *case)?;
        Some(Statement {
            step,
            what,
            figures,
            judgement: is_judged.then(|| judge(*claim, &step.ratio, threshold)),
        })
    });
    judged.sorted_by_key(|it| it.judgement).collect()
}

/// A sentence for each of [`statements`].
pub(super) fn options(run: &Run, tolerance: f64) -> Vec<String> {
    let other = deviations(run);
    let sentence = |statement: Statement<'_>| {
        let Statement {
            step,
            what,
            figures,
            judgement,
        } = statement;
        let beginning = match judgement {
            None => format!("Published, not judged by this run ({other})"),
            Some(judgement) => format!("Published and {} here", judgement.name()),
        };
        let (found, case) = (ratio(step.ratio.estimate), &step.case.name);
        format!("{beginning}: {what}: {figures}; found {found} ({case}).")
    };
    statements(run, tolerance)
        .into_iter()
        .map(sentence)
        .collect()
}

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const VOLUMES: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// Minimum duration of a part of a trial, in seconds. Shorter parts are not independent: a
/// disturbance may affect several of them.
const MIN_PART_S: f64 = 0.1;

/// A sentence for each larger volume, and one on the trend within the largest.
pub(super) fn volumes(run: &Run, tolerance: f64) -> Vec<String> {
    let threshold = Threshold::of(run, tolerance);
    let other = deviations(run);
    let find = |name: &str| run.cases.iter().find(|case| case.name == name);
    let mut sentences: Vec<String> = steps(run)
        .iter()
        .filter_map(|step| {
            let base = find(step.base)?;
            let threshold = other.is_empty().then_some(threshold);
            Some(compare_volumes(step, base, threshold))
        })
        .collect();
    sentences.extend(trend_within(run));
    sentences
}

/// A sentence on the trend within the largest volume.
pub(super) fn trend_within(run: &Run) -> Option<String> {
    let measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let largest = measured.max_by_key(|case| case.configuration.volume_bytes);
    trend(largest?, run.settings.confidence)
}

/// Compares the change from the volume of `base` to that of the step's case with the
/// published one. It is judged only if there is a threshold: under other conditions than
/// the published ones there is none.
fn compare_volumes(step: &Step<'_>, base: &CaseResult, threshold: Option<Threshold>) -> String {
    let case = step.case;
    let volume = |case: &CaseResult| case.configuration.volume_bytes.unwrap_or(0);
    let found = ratio(step.ratio.estimate);
    let certainty = if step.ratio.estimate.interval.is_some() {
        format!(", {}", step.ratio.verdict.name())
    } else {
        format!(
            ", from {} (use --rounds {} for an interval)",
            pluralize(case.samples.len(), "trial"),
            MIN_SAMPLES + 1
        )
    };
    let published = published_ratio(volume(base), volume(case)).map(|published| {
        let (conditions, judgement) = match threshold {
            None => (" of other data, sizes or processors", String::new()),
            Some(threshold) => {
                let judgement = judge(claim(published), &step.ratio, threshold);
                ("", format!(", {} here", judgement.name()))
            }
        };
        let shown = times(published);
        format!("; published from single runs{conditions}: {shown}{judgement}")
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

/// Whether the rate changed within the trials of a volume: compares their second halves
/// with the first. `None` if the parts of the trials are too short.
fn trend(case: &CaseResult, confidence: f64) -> Option<String> {
    let halves: Vec<Vec<f64>> = case
        .samples
        .iter()
        .map(|sample| half_ratios(&sample.parts_gib_per_s))
        .collect();
    let pairs = halves.concat();
    let seconds: f64 = case.samples.iter().map(|sample| sample.seconds).sum();
    if seconds < MIN_PART_S * (2 * pairs.len()) as f64 {
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
        "Within trials of {} the second half ran at {} of the rate of the first: {verdict} \
         ({} of parts, from {}).",
        shown(case.configuration.volume_bytes?),
        ratio(found.estimate),
        pluralize(pairs.len(), "pair"),
        pluralize(case.samples.len(), "trial"),
    ))
}

#[cfg(test)]
mod tests;
