//! Published statements compared with the results of a run: on options of pipes, and on
//! volumes.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, Interval, Ratio, Run, Verdict};
use pipespeed_measure::suite::{Overrides, shown};
use pipespeed_stats::{EQUIVALENCE, MIN_SAMPLES, half_ratios, holm_ratios};

use super::format::{pluralize, ratio, times};
use super::steps::{CaseStep, steps};

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
    /// The direction is confirmed, but the effect is much larger than the published one.
    MuchLarger,
    /// The direction is confirmed, but the effect is much smaller than the published one.
    MuchSmaller,
    Refuted,
    Undecided,
}

impl Judgement {
    /// The judgement, before "here".
    fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::MuchLarger => "the same direction, but much larger",
            Judgement::MuchSmaller => "the same direction, but much smaller",
            Judgement::Refuted => "refuted",
            Judgement::Undecided => "undecided",
        }
    }
}

/// An effect is much larger than the published one from this multiple of its logarithm on, and
/// much smaller up to the inverse: in place of a published ratio of 0.8, one below 0.64 or
/// above 0.89.
const MUCH: f64 = 2.0;

/// The requirements on a ratio for a judgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Threshold {
    /// How far a case may differ from itself, as a logarithm.
    tolerance: f64,
    /// Minimum coverage of the interval of an undecided comparison.
    level: f64,
}

impl Threshold {
    /// The threshold of a run.
    pub fn new(run: &Run) -> Threshold {
        Threshold {
            tolerance: run.null_tolerance(),
            level: level(&steps(run), run.settings.confidence),
        }
    }
}

/// The confidence level at which the step-down of [`pipespeed_stats::holm_ratios`]
/// stopped, which applies to the undecided comparisons: they share the allowed error.
/// Comparisons decided before have intervals without 1.
fn level(steps: &[CaseStep<'_>], confidence: f64) -> f64 {
    let tested = steps
        .iter()
        .filter(|step| step.ratio.estimate.interval.is_some());
    let without_one = |step: &&CaseStep<'_>| {
        let (low, high) = step.ratio.estimate.ends();
        step.ratio.is_tested() && (low > 1.0 || high < 1.0)
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
    match (claim, ratio.verdict) {
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

/// Compares the size of a confirmed gain or loss with the published ratio. The whole interval
/// decides, widened by `tolerance`.
fn compare_sizes(published: f64, ratio: &Ratio, tolerance: f64) -> Judgement {
    let (low, high) = ratio.estimate.ends();
    let (least, most) = if published > 1.0 {
        (low.ln() - tolerance, high.ln() + tolerance)
    } else {
        (-high.ln() - tolerance, -low.ln() + tolerance)
    };
    let published = published.ln().abs();
    if least > published * MUCH {
        Judgement::MuchLarger
    } else if most < published / MUCH {
        Judgement::MuchSmaller
    } else {
        Judgement::Confirmed
    }
}

/// Compares a ratio with a claim and, if it was published, with its ratio.
fn judge_with_size(
    claim: Claim,
    published: Option<f64>,
    ratio: &Ratio,
    threshold: Threshold,
) -> Judgement {
    match (judge(claim, ratio, threshold), claim, published) {
        (Judgement::Confirmed, Claim::Faster | Claim::Slower, Some(published)) => {
            compare_sizes(published, ratio, threshold.tolerance)
        }
        (judgement, ..) => judgement,
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

/// A published result of an option.
struct PublishedOption {
    case: &'static str,
    /// The option with its kind of pages.
    what: &'static str,
    figures: &'static str,
    claim: Claim,
    /// The ratio of the published rates.
    ratio: Option<f64>,
}

/// A published "no gain".
const fn no_gain(case: &'static str, what: &'static str) -> PublishedOption {
    PublishedOption {
        case,
        what,
        figures: "no gain",
        claim: Claim::NoGain,
        ratio: None,
    }
}

/// The statements of "How fast are Linux pipes anyway?" and of the comments in its
/// program. Its last rung, spinning, is here the inverse: sleeping.
const OPTIONS: [PublishedOption; 10] = [
    PublishedOption {
        case: "untouched",
        what: "untouched buffers of base pages",
        figures: "25.0 GiB/s instead of 30",
        claim: Claim::Slower,
        ratio: Some(25.0 / 30.0),
    },
    no_gain("gift", "gifted base pages"),
    no_gain("locked", "locked base pages"),
    PublishedOption {
        case: "busy_loop_huge",
        what: "huge pages",
        figures: "51.0 GiB/s instead of 32.8 (sleeping; here spinning)",
        claim: Claim::Faster,
        ratio: Some(51.0 / 32.8),
    },
    PublishedOption {
        case: "untouched_huge",
        what: "untouched buffers of huge pages",
        figures: "no effect",
        claim: Claim::Same,
        ratio: None,
    },
    no_gain("gift_huge", "gifted huge pages"),
    no_gain("locked_huge", "locked huge pages"),
    PublishedOption {
        case: "same_buffer_huge",
        what: "one buffer of huge pages in halves instead of two",
        figures: "about 20 % slower",
        claim: Claim::Slower,
        ratio: Some(0.8),
    },
    PublishedOption {
        case: "vmsplice_splice_huge",
        what: "sleeping instead of spinning, huge pages",
        figures: "51.0 GiB/s instead of 62.5 to 65",
        claim: Claim::Slower,
        ratio: Some(51.0 / 63.75),
    },
    no_gain("poll_huge", "poll(2) before each transfer, huge pages"),
];

/// A published statement on an option, and this run's comparison.
pub(super) struct Statement<'a> {
    pub step: CaseStep<'a>,
    /// The option, with its kind of pages.
    pub what: &'static str,
    /// The published figures.
    pub figures: &'static str,
    /// `None` if the run has other conditions than the published one.
    pub judgement: Option<Judgement>,
}

/// The published statements that a run has a comparison for: first the confirmed, then the
/// refuted, then the undecided ones.
pub(super) fn statements(run: &Run) -> Vec<Statement<'_>> {
    let (steps, threshold) = (steps(run), Threshold::new(run));
    let is_judged = deviations(run).is_empty();
    let judged = OPTIONS.iter().filter_map(|option| {
        let step = *steps.iter().find(|step| step.case.name == option.case)?;
        let judge = || judge_with_size(option.claim, option.ratio, &step.ratio, threshold);
        Some(Statement {
            step,
            what: option.what,
            figures: option.figures,
            judgement: is_judged.then(judge),
        })
    });
    judged
        .sorted_by_key(|statement| statement.judgement)
        .collect()
}

/// A sentence for each of [`statements`].
pub(super) fn options(run: &Run) -> Vec<String> {
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
            Some(judgement @ (Judgement::MuchLarger | Judgement::MuchSmaller)) => {
                format!("Published; {} here", judgement.name())
            }
            Some(judgement) => format!("Published and {} here", judgement.name()),
        };
        let (found, case) = (ratio(step.ratio.estimate), &step.case.name);
        format!("{beginning}: {what}: {figures}; found {found} ({case}).")
    };
    statements(run).into_iter().map(sentence).collect()
}

const GIB: u64 = 1 << 30;

/// The published rates, from single runs: volume in GiB and GiB/s.
const VOLUMES: [(f64, f64); 4] = [(0.25, 4.83), (2.5, 4.26), (25.0, 5.45), (250.0, 5.39)];

/// Minimum duration of a part of a trial, in seconds. Shorter parts are not independent: a
/// disturbance may affect several of them.
const MIN_PART_S: f64 = 0.1;

/// A sentence for each larger volume, and one on the trend within the largest.
pub(super) fn volumes(run: &Run) -> Vec<String> {
    let threshold = Threshold::new(run);
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
fn compare_volumes(step: &CaseStep<'_>, base: &CaseResult, threshold: Option<Threshold>) -> String {
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
                let claim = claim(published);
                let judgement = judge_with_size(claim, Some(published), &step.ratio, threshold);
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
