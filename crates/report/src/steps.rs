//! The comparisons of a run, as every report needs them.

use pipespeed_measure::record::{CaseResult, Estimate, Interval, Ratio, Run, Verdict};

/// A case and the case it was compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    /// The case.
    pub case: &'a str,
    /// The case it was compared with.
    pub base: &'a str,
    /// In what they differ, in a few words.
    pub factor: Option<&'a str>,
    /// The first's rate over the second's.
    pub ratio: Ratio,
}

impl Step<'_> {
    /// `write_read (pipe size)`.
    pub fn base_and_factor(&self) -> String {
        match self.factor {
            Some(factor) => format!("{} ({factor})", self.base),
            None => self.base.to_owned(),
        }
    }

    /// The distance of the ratio from 1 that is certain: the logarithm of the
    /// nearer end of its interval, or 0 where nothing is certain.
    pub fn certain(&self) -> f64 {
        match (self.ratio.verdict, self.ratio.estimate.interval) {
            (Verdict::Faster, Some(Interval { low, .. })) => low.ln().abs(),
            (Verdict::Slower, Some(Interval { high, .. })) => high.ln().abs(),
            _ => 0.0,
        }
    }
}

/// The comparisons in the suite's order, without the null control's.
pub(super) fn steps(run: &Run) -> Vec<Step<'_>> {
    cases_without_twin(run).filter_map(step).collect()
}

/// The comparison of one case.
pub(super) fn step(case: &CaseResult) -> Option<Step<'_>> {
    Some(Step {
        case: &case.name,
        base: case.compared_with.as_deref()?,
        factor: case.factor.as_deref(),
        ratio: case.ratio?,
    })
}

/// A case with its rate, if it was measured.
pub(super) fn measured(case: &CaseResult) -> Option<(&CaseResult, &Estimate)> {
    Some((case, &case.summary.as_ref()?.gib_per_s))
}

/// The cases without the null control's second name.
pub(super) fn cases_without_twin(run: &Run) -> impl Iterator<Item = &CaseResult> {
    let twin = run.null_control.as_ref().map(|control| &control.twin);
    let cases = run.cases.iter();
    cases.filter(move |case| twin.is_none_or(|twin| case.name != *twin))
}

/// The verdict of a ratio whose interval is wider by `doubt`, a logarithm, at both
/// ends: a case may differ from itself by as much.
pub(super) fn doubted(ratio: &Ratio, doubt: f64) -> Verdict {
    match (ratio.verdict, ratio.estimate.interval) {
        (Verdict::Undecided, _) | (_, None) => Verdict::Undecided,
        (_, Some(Interval { low, high, .. })) => {
            pipespeed_stats::verdict(low * (-doubt).exp(), high * doubt.exp())
        }
    }
}

/// A verdict as the words before the other case's name.
pub(super) fn phrase(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster than",
        Verdict::Slower => "slower than",
        Verdict::Same => "same as",
        Verdict::Undecided => "undecided against",
    }
}
