//! The comparisons of a run, for all reports.

use pipespeed_measure::record::{CaseResult, Doubt, Estimate, Interval, Ratio, Run, Verdict};

/// A case that is compared with another.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaseStep<'a> {
    pub case: &'a CaseResult,
    /// The name of the other case.
    pub base: &'a str,
    /// The case's rate over the other's.
    pub ratio: Ratio,
}

impl<'a> CaseStep<'a> {
    /// The difference between the two cases, in a few words.
    pub fn factor(&self) -> Option<&'a str> {
        self.case.factor.as_deref()
    }

    /// `write_read (pipe size)`.
    pub fn base_and_factor(&self) -> String {
        match self.factor() {
            Some(factor) => format!("{} ({factor})", self.base),
            None => self.base.to_owned(),
        }
    }

    /// Whether the case is certain to be faster.
    pub fn gained(&self) -> bool {
        self.ratio.verdict == Verdict::Faster
    }

    /// The certain gain, negative for a loss: the logarithm of the end of the interval
    /// nearer to 1, or 0 if the verdict is neither faster nor slower.
    pub fn certain_gain(&self) -> f64 {
        match (self.ratio.verdict, self.ratio.estimate.interval) {
            (Verdict::Faster, Some(Interval { low, .. })) => low.ln(),
            (Verdict::Slower, Some(Interval { high, .. })) => high.ln(),
            _ => 0.0,
        }
    }
}

/// The comparisons in the suite's order, without the null control's.
pub(super) fn steps(run: &Run) -> Vec<CaseStep<'_>> {
    cases_without_twin(run).filter_map(step).collect()
}

/// The comparison of one case.
pub(super) fn step(case: &CaseResult) -> Option<CaseStep<'_>> {
    Some(CaseStep {
        case,
        base: case.compared_with.as_deref()?,
        ratio: case.ratio?,
    })
}

/// A case with its rate, if it was measured.
pub(super) fn measured(case: &CaseResult) -> Option<(&CaseResult, &Estimate)> {
    Some((case, &case.summary.as_ref()?.gib_per_s))
}

/// The case with the highest median.
pub(super) fn fastest<'a>(
    cases: impl Iterator<Item = (&'a CaseResult, &'a Estimate)>,
) -> Option<(&'a CaseResult, &'a Estimate)> {
    cases.max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

/// The cases without the null control's twin.
pub(super) fn cases_without_twin(run: &Run) -> impl Iterator<Item = &CaseResult> {
    let twin = run.null_control.as_ref().map(|control| &control.twin);
    let cases = run.cases.iter();
    cases.filter(move |case| twin.is_none_or(|twin| case.name != *twin))
}

/// The reason of an undecided verdict that the figures beside it don't show.
pub(super) fn hidden_reason(ratio: &Ratio) -> Option<&'static str> {
    let is_hidden = |reason: &Doubt| matches!(reason, Doubt::NullControl | Doubt::TooFewRounds);
    ratio.reason.filter(is_hidden).map(Doubt::words)
}

/// A verdict in words, before the other case's name.
pub(super) fn phrase(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster than",
        Verdict::Slower => "slower than",
        Verdict::Same => "same as",
        Verdict::Undecided => "undecided against",
    }
}
