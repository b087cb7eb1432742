//! Conclusions that the verdicts of a run's comparisons support.

use itertools::Itertools as _;
use pipespeed_measure::record::{CaseResult, Estimate, Run, Verdict};
use pipespeed_measure::spec::DataUse;

use super::format::{ratio, significant, times};
use super::steps::{CaseStep, fastest, measured, steps};

/// The comparisons with the largest effect and those without an effect.
pub(super) fn of_steps(run: &Run) -> Vec<String> {
    let steps = steps(run);
    let mut sentences = Vec::new();
    sentences.extend(largest(&steps));
    sentences.extend(without_effect(&steps));
    sentences.extend(pipe_size_share(&steps));
    sentences.extend(data_in_use(run));
    if sentences.is_empty() && !steps.is_empty() {
        sentences.push(
            "Nothing is decided here: no comparison came out as faster, slower or the same. More \
             rounds or a quieter machine would narrow the intervals."
                .to_owned(),
        );
    }
    sentences
}

/// The largest step, by the end of its interval nearer to 1: the median of a wide interval
/// is not reliable.
fn largest(steps: &[CaseStep<'_>]) -> Option<String> {
    let certain = |step: &&CaseStep<'_>| step.certain_gain().abs();
    let step = steps.iter().filter(|step| certain(step) > 0.0);
    let step = step.max_by(|a, b| certain(a).total_cmp(&certain(b)))?;
    Some(format!(
        "What mattered most here: {}, {} ({} against {}).",
        step.factor().unwrap_or("the difference"),
        ratio(step.ratio.estimate),
        step.case.name,
        step.base,
    ))
}

/// At most this many factors are listed as having no effect.
const MAX_FACTORS: usize = 3;

/// The factors without effect.
fn without_effect(steps: &[CaseStep<'_>]) -> Option<String> {
    let same = steps
        .iter()
        .filter(|step| step.ratio.verdict == Verdict::Same);
    let factors = same.filter_map(|step| {
        let factor = step.factor()?;
        Some(format!(
            "{factor} ({} against {})",
            step.case.name, step.base
        ))
    });
    let factors = factors.take(MAX_FACTORS).join("; ");
    (!factors.is_empty()).then(|| format!("Made no difference (within 5 %): {factors}."))
}

/// The larger pipe's share of the gain published as vmsplice's: the published
/// ladder changes both in one step, this one in two.
fn pipe_size_share(steps: &[CaseStep<'_>]) -> Option<String> {
    let find = |case: &str, base: &str| {
        let mut steps = steps.iter();
        steps.find(|step| step.case.name == case && step.base == base)
    };
    let size = find("write_read_128k", "write_read")?;
    let technique = find("vmsplice_read", "write_read_128k")?;
    let gains = [size, technique].map(|step| step.ratio.estimate.median);
    let [by_size, by_technique] = gains.map(times);
    let product = times(gains[0] * gains[1]);
    match (size.gained(), technique.gained()) {
        (true, true) => Some(format!(
            "The published gain of vmsplice (write_read to vmsplice_read, here about {product}) \
             consists of {by_size} from the larger pipe and {by_technique} from vmsplice itself."
        )),
        (true, false) if technique.ratio.verdict == Verdict::Same => Some(format!(
            "The gain from write_read to vmsplice_read comes from the larger pipe alone ({by_size}): \
             vmsplice adds nothing to it."
        )),
        (false, true) if size.ratio.verdict == Verdict::Same => Some(format!(
            "The gain from write_read to vmsplice_read comes from vmsplice alone ({by_technique}): the \
             larger pipe adds nothing to it."
        )),
        _ => None,
    }
}

/// Compares the fastest case that produces and consumes its data with plain copying, and
/// with the ends alone.
fn data_in_use(run: &Run) -> Option<String> {
    let measured = || run.cases.iter().filter_map(measured);
    // A ceiling is one end alone, without a channel.
    let is_ceiling = |case: &CaseResult| case.configuration.channel().is_none();
    let mut ceilings = measured().filter(|(case, _)| is_ceiling(case));
    let ends = [ceilings.next()?, ceilings.next()?].into_iter();
    let (end, end_rate) = ends.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let is_used = |case: &CaseResult| matches!(case.data, DataUse::Touch | DataUse::Verify);
    let used = || measured().filter(|(case, _)| is_used(case) && !is_ceiling(case));
    let (plain, plain_rate) = used().find(|(case, _)| case.compared_with.is_none())?;
    let (best, best_rate) = fastest(used())?;
    let (plain_name, plain_shown) = (&plain.name, significant(plain_rate.median));
    let gain = if best.name == plain.name {
        "and no case had a higher median".to_owned()
    } else if is_below(plain_rate, best_rate, run.null_tolerance()) {
        let gain = times(best_rate.median / plain_rate.median);
        format!("{gain} the rate of {plain_name} ({plain_shown})")
    } else {
        format!("not clearly more than {plain_name} ({plain_shown})")
    };
    Some(format!(
        "With data produced and consumed, {} moves {} GiB/s, {gain}; the slower end alone ({}) \
         reaches {}.",
        best.name,
        significant(best_rate.median),
        end.name,
        significant(end_rate.median)
    ))
}

/// Whether the first interval lies below the second by more than `tolerance`, a logarithm.
/// This is stricter than a paired test, but works for any two cases.
pub(super) fn is_below(slow: &Estimate, fast: &Estimate, tolerance: f64) -> bool {
    let ends = slow.interval.zip(fast.interval);
    ends.is_some_and(|(slow, fast)| slow.high * tolerance.exp() < fast.low)
}

#[cfg(test)]
mod tests;
