//! Published results, and those of a run or a profile beside them.

use itertools::Itertools as _;
use pipespeed_base::{named, size};
use pipespeed_explain::profile::record::{EndProfile, Profile};
use pipespeed_measure::record::{CaseResult, Interval, Ratio, Run, Verdict};
use pipespeed_measure::spec::{Case, Suite};
use pipespeed_measure::suite::{Overrides, shown};
use pipespeed_stats::{EQUIVALENCE, MIN_SAMPLES, half_ratios, holm_ratios};

use super::format::{gib_per_s, percent, pluralize, ratio, times};
use super::steps::{CaseStep, measured, steps};
use super::table::{Column, Table};

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

named! {
    /// Whether a run agrees with a published statement: the words before "here".
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Judgement {
        /// The direction is confirmed.
        Confirmed = "confirmed",
        /// The direction is confirmed, but the effect is much larger than the published one.
        MuchLarger = "the same direction, but much larger",
        /// The direction is confirmed, but the effect is much smaller than the published one.
        MuchSmaller = "the same direction, but much smaller",
        /// The statement does not hold here.
        Refuted = "refuted",
        /// The run does not decide.
        Undecided = "undecided",
    }
}

/// An effect is much larger than the published one from this multiple of its logarithm on, and
/// much smaller up to the inverse: in place of a published ratio of 0.8, one below 0.64 or
/// above 0.89.
const MUCH: f64 = 2.0;

/// The requirements on a ratio for a judgement.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Threshold {
    /// How far a case may differ from itself, as a logarithm.
    tolerance: f64,
    /// Minimum coverage of the interval of an undecided comparison.
    level: f64,
}

impl Threshold {
    /// The threshold of a run.
    fn new(run: &Run) -> Threshold {
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
fn judge(claim: Claim, ratio: &Ratio, threshold: Threshold) -> Judgement {
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
pub(crate) fn deviations(run: &Run) -> String {
    let settings = &run.settings;
    let cases = run.suite.cases(&Overrides::default());
    let Some(own) = cases.first() else {
        return String::new();
    };
    // What is the first case's own may be another one's deviation.
    let has_other = |is_other: &dyn Fn(&CaseResult, &Case) -> bool| {
        run.cases.iter().any(|case| {
            let own = cases.iter().find(|own| own.name == case.name);
            own.is_some_and(|own| is_other(case, own))
        })
    };
    let size = |option: &str, asked: Option<usize>, own: Option<usize>, has_other: bool| {
        let asked = asked.filter(|bytes| Some(*bytes) != own || has_other)?;
        Some(format!("{option} {}", size::format(asked as u64)))
    };
    // A reader that uses read(2) never discards, even if that was requested.
    let is_own = || run.cases.iter().any(|case| case.data == own.data);
    let asked = settings.data.as_deref();
    let has_other_data =
        has_other(&|case, own| case.data != own.data && Some(case.data.name()) == asked);
    let has_other_buffer =
        has_other(&|case, own| case.configuration.buffer_bytes != own.subject.buffer_bytes());
    let has_other_pipe =
        has_other(&|case, own| case.configuration.pipe_bytes_asked != own.subject.pipe_bytes());
    let data = asked.filter(|data| {
        if *data == own.data.name() {
            has_other_data
        } else {
            !is_own()
        }
    });
    let place = match (settings.writer_cpu, settings.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => Some("one processor".to_owned()),
        (Some(_), Some(_)) => None,
        _ => Some("processors chosen by the scheduler".to_owned()),
    };
    let (buffer, pipe) = (own.subject.buffer_bytes(), own.subject.pipe_bytes());
    let all = [
        data.map(|data| format!("--data {data}")),
        (settings.work > 0).then(|| format!("--work {}", settings.work)),
        size(
            "--buffer-size",
            settings.buffer_size,
            Some(buffer),
            has_other_buffer,
        ),
        size("--pipe-size", settings.pipe_size, pipe, has_other_pipe),
        place,
    ];
    all.into_iter().flatten().join(", ")
}

/// A result of "How fast are Linux pipes anyway?", or of the comments in its program.
struct PublishedResult {
    /// The suite that repeats it.
    suite: Suite,
    case: &'static str,
    /// What was changed or measured, in words.
    what: &'static str,
    figures: &'static str,
    value: PublishedValue,
}

/// What can be compared with a published result.
enum PublishedValue {
    /// The case's rate.
    Rate,
    /// The case's comparison; with the ratio of the published rates if the published step
    /// changes one factor alone.
    Comparison(Claim, Option<f64>),
}

const fn published(
    suite: Suite,
    case: &'static str,
    what: &'static str,
    figures: &'static str,
    value: PublishedValue,
) -> PublishedResult {
    PublishedResult {
        suite,
        case,
        what,
        figures,
        value,
    }
}

const NO_GAIN: PublishedValue = PublishedValue::Comparison(Claim::NoGain, None);
const NO_EFFECT: PublishedValue = PublishedValue::Comparison(Claim::Same, None);

const fn faster(ratio: f64) -> PublishedValue {
    PublishedValue::Comparison(Claim::Faster, Some(ratio))
}

const fn slower(ratio: f64) -> PublishedValue {
    PublishedValue::Comparison(Claim::Slower, Some(ratio))
}

const PINNING: &[&str] = &["iov_iter_get_pages", "__iov_iter_get_pages"];
const ALLOCATING: &[&str] = &[
    "alloc_pages",
    "__alloc_pages",
    "alloc_frozen_pages",
    "__alloc_frozen_pages",
];
const MUTEX: &[&str] = &["mutex_", "__mutex_"];
const WAKING: &[&str] = &["wakeup_pipe_readers", "__wake_up"];

/// The published rates and comparisons but those of volumes. The last published step, spinning, is
/// in the suite options the inverse: sleeping.
#[rustfmt::skip]
const RESULTS: [PublishedResult; 16] = {
    use Suite::{Ladder, Options};
    [
        published(Ladder, "write_read", "a plain pipe", "3.5 to 3.7 GiB/s", PublishedValue::Rate),
        published(Ladder, "write_read_huge", "huge pages for both buffers of a plain pipe", "no difference", NO_EFFECT),
        published(Ladder, "vmsplice_read", "vmsplice in place of write", "x3.5 together with the larger pipe",
            PublishedValue::Comparison(Claim::Faster, None)),
        published(Ladder, "vmsplice_splice", "splice in place of read", "x2.6", faster(2.6)),
        published(Ladder, "vmsplice_splice_huge", "huge pages", "x1.55", faster(1.55)),
        published(Ladder, "busy_loop_huge", "spinning instead of sleeping", "x1.25", faster(1.25)),
        published(Options, "untouched", "untouched buffers of base pages", "25.0 GiB/s instead of 30", slower(25.0 / 30.0)),
        published(Options, "gift", "gifted base pages", "no gain", NO_GAIN),
        published(Options, "locked", "locked base pages", "no gain", NO_GAIN),
        published(Options, "busy_loop_huge", "huge pages", "51.0 GiB/s instead of 32.8 (sleeping; here spinning)", faster(51.0 / 32.8)),
        published(Options, "untouched_huge", "untouched buffers of huge pages", "no effect", NO_EFFECT),
        published(Options, "gift_huge", "gifted huge pages", "no gain", NO_GAIN),
        published(Options, "locked_huge", "locked huge pages", "no gain", NO_GAIN),
        published(Options, "same_buffer_huge", "one buffer of huge pages in halves instead of two", "about 20 % slower", slower(0.8)),
        published(Options, "vmsplice_splice_huge", "sleeping instead of spinning, huge pages", "51.0 GiB/s instead of 62.5 to 65",
            slower(51.0 / 63.75)),
        published(Options, "poll_huge", "poll(2) before each transfer, huge pages", "no gain", NO_GAIN),
    ]
};

/// The published shares of the samples of the ladder's writers: the case, what took the time, the
/// percentage, and how the names of its functions begin in several versions of Linux. What they
/// call counts, too. Copying is published as half of the time below pipe_write, allocating as a
/// quarter.
const SHARES: [(&str, &str, f64, &[&str]); 10] = [
    (
        "write_read",
        "pipe_write",
        48.0,
        &["pipe_write", "anon_pipe_write"],
    ),
    ("write_read", "copying", 24.0, &["copy_page_from_iter"]),
    ("write_read", "allocating pages", 12.0, ALLOCATING),
    ("vmsplice_splice", "page pinning", 18.0, PINNING),
    ("vmsplice_splice", "the pipe's mutex", 17.0, MUTEX),
    ("vmsplice_splice", "add_to_pipe", 4.0, &["add_to_pipe"]),
    (
        "vmsplice_splice_huge",
        "waiting for space",
        15.0,
        &["wait_for_space"],
    ),
    ("vmsplice_splice_huge", "waking the reader", 8.0, WAKING),
    ("vmsplice_splice_huge", "page pinning", 4.0, PINNING),
    ("vmsplice_splice_huge", "the pipe's mutex", 4.0, MUTEX),
];

/// A sentence for each published result on the cases of a run: first the rates, then the
/// confirmed, the refuted and the undecided comparisons.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let (steps, threshold) = (steps(run), Threshold::new(run));
    let other = deviations(run);
    let of_suite = RESULTS.iter().filter(|result| result.suite == run.suite);
    let sentences = of_suite.filter_map(|result| {
        let PublishedResult {
            case,
            what,
            figures,
            ..
        } = result;
        let (judgement, beginning, found) = match result.value {
            PublishedValue::Rate => {
                let rate = measured(run.case(case)?)?.1;
                let beginning = if other.is_empty() {
                    "Published".to_owned()
                } else {
                    format!("Published under other conditions than these ({other})")
                };
                (None, beginning, gib_per_s(rate))
            }
            PublishedValue::Comparison(claim, published) => {
                let step = steps.iter().find(|step| step.case.name == *case)?;
                let judge = || judge_with_size(claim, published, &step.ratio, threshold);
                let judgement = other.is_empty().then(judge);
                let beginning = begin(judgement, &other);
                (judgement, beginning, ratio(step.ratio.estimate))
            }
        };
        let sentence = format!("{beginning}: {what}: {figures}; found {found} ({case}).");
        Some((judgement, sentence))
    });
    let sorted = sentences.sorted_by_key(|(judgement, _)| *judgement);
    sorted.map(|(_, sentence)| sentence).collect()
}

/// The beginning of a sentence on a comparison, which is judged if the run has the conditions
/// of the published one.
fn begin(judgement: Option<Judgement>, deviations: &str) -> String {
    match judgement {
        None => format!("Published, not judged by this run ({deviations})"),
        Some(judgement @ (Judgement::MuchLarger | Judgement::MuchSmaller)) => {
            format!("Published; {} here", judgement.name())
        }
        Some(judgement) => format!("Published and {} here", judgement.name()),
    }
}

/// The published shares of the samples of the writer, and those of a profile; `None` if no
/// sampled case has a published share.
pub(super) fn shares(profile: &Profile) -> Option<Table> {
    let mut table = Table::new([
        Column::left("case"),
        Column::left("samples in"),
        Column::right("published"),
        Column::right("here"),
    ]);
    for (name, what, published, functions) in SHARES {
        let case = profile.cases.iter().find(|case| case.name == name);
        let writer = case.and_then(|case| case.ends.iter().find(|end| end.role == "writer"));
        if let Some(here) = writer.and_then(|writer| share_of_samples(writer, functions)) {
            table.row([
                name.to_owned(),
                what.to_owned(),
                percent(published / 100.0, 0),
                percent(here, 1),
            ]);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// The share of an end's samples in these functions and what they call; `None` without
/// samples.
fn share_of_samples(end: &EndProfile, functions: &[&str]) -> Option<f64> {
    let is_named = |frame: &String| functions.iter().any(|name| frame.starts_with(name));
    let all: u64 = end.stacks.iter().map(|stack| stack.weight).sum();
    let within = end
        .stacks
        .iter()
        .filter(|stack| stack.frames.iter().any(is_named));
    let within: u64 = within.map(|stack| stack.weight).sum();
    (all > 0 && end.is_divided()).then(|| within as f64 / all as f64)
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
    let mut sentences: Vec<String> = steps(run)
        .iter()
        .filter_map(|step| {
            let base = run.case(step.base)?;
            let threshold = other.is_empty().then_some(threshold);
            Some(compare_volumes(step, base, threshold))
        })
        .collect();
    let measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let largest = measured.max_by_key(|case| case.configuration.volume_bytes);
    sentences.extend(largest.and_then(|case| trend(case, run.settings.confidence)));
    sentences
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
pub(super) mod tests;
