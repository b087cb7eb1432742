//! What mattered most in a run, as sentences that claim no more than the
//! run's own verdicts do.

use pipespeed_measure::record::{CaseResult, DataUse, Estimate, Run, Verdict};

use super::format::{ratio_interval, significant, times};
use super::steps::{Step, steps};
use super::views;

/// What mattered most in a run, as its suite has it; empty for a run that
/// compares nothing.
pub fn findings(run: &Run) -> Vec<String> {
    (views::of(run.suite).findings)(run, doubt(run))
}

/// Two or three sentences on what mattered most here and what did not, from the
/// comparisons.
pub(super) fn of_steps(run: &Run, doubt: f64) -> Vec<String> {
    let steps = steps(run);
    let mut sentences = Vec::new();
    sentences.extend(largest(&steps, doubt));
    sentences.extend(without_effect(&steps));
    sentences.extend(share_of_the_pipe_size(&steps, doubt));
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

/// How far, as a logarithm, a case was found to differ from itself, or may
/// have: the farther end of the null control's interval. Steps no larger than
/// that are no findings. 0 where the null control is sound.
pub(super) fn doubt(run: &Run) -> f64 {
    let ratio = run.null_control.as_ref().and_then(|control| control.ratio);
    match ratio {
        Some(ratio) if ratio.verdict != Verdict::Same => ratio
            .estimate
            .interval
            .map_or(0.0, |i| i.low.ln().abs().max(i.high.ln().abs())),
        _ => 0.0,
    }
}

/// The step that is largest for certain, judged by the nearer end of its
/// interval: a wide interval's median promises too much.
fn largest(steps: &[Step<'_>], doubt: f64) -> Option<String> {
    let step = steps
        .iter()
        .filter(|step| step.certain() > doubt)
        .max_by(|a, b| a.certain().total_cmp(&b.certain()))?;
    let factor = step.factor.unwrap_or("the difference");
    let shown = ratio_interval(step.ratio.estimate.interval);
    Some(format!(
        "What mattered most here: {factor}, {} {shown} ({} against {}).",
        times(step.ratio.estimate.median),
        step.case,
        step.base,
    ))
}

/// The factors shown to change nothing. At most three are named.
fn without_effect(steps: &[Step<'_>]) -> Option<String> {
    let same: Vec<String> = steps
        .iter()
        .filter(|step| step.ratio.verdict == Verdict::Same)
        .filter_map(|step| {
            let factor = step.factor?;
            Some(format!("{factor} ({} against {})", step.case, step.base))
        })
        .take(3)
        .collect();
    if same.is_empty() {
        return None;
    }
    Some(format!(
        "Made no difference (within 5 %): {}.",
        same.join("; ")
    ))
}

/// How much of what is published as vmsplice's gain is the larger pipe's: the
/// published ladder changes both in one step, this one in two.
fn share_of_the_pipe_size(steps: &[Step<'_>], doubt: f64) -> Option<String> {
    let find = |case: &str, base: &str| {
        steps
            .iter()
            .find(|step| step.case == case && step.base == base)
            .copied()
    };
    let size = find("write_read_128k", "write_read")?;
    let technique = find("vmsplice_read", "write_read_128k")?;
    let gained = |step: Step<'_>| step.ratio.verdict == Verdict::Faster && step.certain() > doubt;
    let by_size = times(size.ratio.estimate.median);
    let by_technique = times(technique.ratio.estimate.median);
    let whole = times(size.ratio.estimate.median * technique.ratio.estimate.median);
    match (gained(size), gained(technique)) {
        (true, true) => Some(format!(
            "Of vmsplice's published gain (write_read to vmsplice_read, here about {whole}), \
             {by_size} is the larger pipe's and {by_technique} vmsplice's own."
        )),
        (true, false) if technique.ratio.verdict == Verdict::Same => Some(format!(
            "The gain from write_read to vmsplice_read is the larger pipe's alone ({by_size}): \
             vmsplice adds nothing to it."
        )),
        (false, true) if size.ratio.verdict == Verdict::Same => Some(format!(
            "The gain from write_read to vmsplice_read is vmsplice's own ({by_technique}): the \
             larger pipe adds nothing to it."
        )),
        _ => None,
    }
}

/// What is left when the data is really produced and consumed: the fastest
/// such case against plain copying and against the ends by themselves.
fn data_in_use(run: &Run) -> Option<String> {
    let ceiling = lower_ceiling(run)?;
    let mut used = run
        .cases
        .iter()
        .filter(|case| matches!(case.data, DataUse::Touch | DataUse::Verify))
        // Both ends run: a ceiling has only one.
        .filter(|case| !is_ceiling(case))
        .filter_map(measured);
    let (plain, plain_rate) = used
        .clone()
        .find(|(case, _)| case.compared_with.is_none())?;
    let (best, best_rate) = used
        .by_ref()
        .max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let mut sentence = format!(
        "With the data really produced and consumed, {} moves {} GiB/s",
        best.name,
        significant(best_rate.median)
    );
    if best.name == plain.name {
        sentence.push_str(", and nothing faster was found");
    } else if apart(plain_rate, best_rate, 0.0) {
        sentence.push_str(&format!(
            ", {} of {}'s {}",
            times(best_rate.median / plain_rate.median),
            plain.name,
            significant(plain_rate.median)
        ));
    } else {
        sentence.push_str(&format!(
            ", not clearly more than {}'s {}",
            plain.name,
            significant(plain_rate.median)
        ));
    }
    let (end, end_rate) = ceiling;
    sentence.push_str(&format!(
        "; the slower end by itself ({}) does {}.",
        end.name,
        significant(end_rate.median)
    ));
    Some(sentence)
}

/// Whether only one end runs, without a channel.
fn is_ceiling(case: &CaseResult) -> bool {
    case.configuration.channel.is_none()
}

/// The slower of the two ends by itself; none unless both were measured.
fn lower_ceiling(run: &Run) -> Option<(&CaseResult, &Estimate)> {
    let mut ends = run
        .cases
        .iter()
        .filter(|case| is_ceiling(case))
        .filter_map(measured);
    let (one, other) = (ends.next()?, ends.next()?);
    Some(if one.1.median <= other.1.median {
        one
    } else {
        other
    })
}

fn measured(case: &CaseResult) -> Option<(&CaseResult, &Estimate)> {
    Some((case, &case.summary.as_ref()?.gib_per_s))
}

/// Whether the first median's interval lies below the second's by more than
/// `doubt`, a logarithm: stricter than a paired test, and all there is for two
/// cases that were not compared.
pub(super) fn apart(slow: &Estimate, fast: &Estimate, doubt: f64) -> bool {
    let ends = slow.interval.zip(fast.interval);
    ends.is_some_and(|(slow, fast)| slow.high * doubt.exp() < fast.low)
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
