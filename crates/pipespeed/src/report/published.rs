//! Published statements beside what a run says of them.

use crate::results::{Ratio, Verdict};

/// What was published of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// A gain.
    Faster,
    /// A loss.
    Slower,
    /// No difference.
    Same,
    /// No gain; of a loss nothing was said.
    NoGain,
}

pub(super) const CONFIRMED: &str = "confirmed";
pub(super) const REFUTED: &str = "refuted";
pub(super) const UNDECIDED: &str = "undecided";

/// What a ratio says of a claim: confirmed, refuted or undecided. A difference
/// no larger than `doubt`, a logarithm, decides nothing.
pub(super) fn judge(claim: Claim, ratio: &Ratio, doubt: f64) -> &'static str {
    let certain = |end: Option<f64>| end.is_some_and(|end| end.ln().abs() > doubt);
    let verdict = match ratio.verdict {
        Verdict::Faster if !certain(ratio.low) => Verdict::Undecided,
        Verdict::Slower if !certain(ratio.high) => Verdict::Undecided,
        verdict => verdict,
    };
    let no_gain_worth_it = ratio
        .high
        .is_some_and(|high| high <= 1.0 + crate::stats::EQUIVALENCE);
    match (claim, verdict) {
        (Claim::Faster, Verdict::Faster)
        | (Claim::Slower, Verdict::Slower)
        | (Claim::Same | Claim::NoGain, Verdict::Same)
        | (Claim::NoGain, Verdict::Slower) => CONFIRMED,
        // An interval from, say, 0.93 to 1.03 leaves open whether it costs
        // anything, not whether it gains.
        (Claim::NoGain, Verdict::Undecided) if no_gain_worth_it => CONFIRMED,
        (_, Verdict::Undecided) => UNDECIDED,
        _ => REFUTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::within;

    fn says(claim: Claim, low: f64, high: f64) -> &'static str {
        judge(claim, &within(low, f64::midpoint(low, high), high), 0.0)
    }

    #[test]
    fn a_claim_is_judged_by_the_interval() {
        assert_eq!(says(Claim::Slower, 0.7, 0.8), "confirmed");
        assert_eq!(says(Claim::Slower, 0.97, 1.02), "refuted");
        assert_eq!(says(Claim::Slower, 1.2, 1.3), "refuted");
        assert_eq!(says(Claim::Slower, 0.8, 1.1), "undecided");
        assert_eq!(says(Claim::Same, 0.97, 1.02), "confirmed");
        assert_eq!(says(Claim::Same, 0.7, 0.8), "refuted");
        assert_eq!(says(Claim::Faster, 1.1, 1.3), "confirmed");
    }

    #[test]
    fn a_loss_is_no_gain_and_so_is_what_may_be_one() {
        assert_eq!(says(Claim::NoGain, 0.7, 0.8), "confirmed");
        assert_eq!(says(Claim::NoGain, 0.9, 1.04), "confirmed");
        assert_eq!(says(Claim::NoGain, 0.9, 1.2), "undecided");
        assert_eq!(says(Claim::NoGain, 1.1, 1.2), "refuted");
    }

    #[test]
    fn where_a_case_differs_from_itself_as_much_nothing_is_decided() {
        let ratio = within(0.8, 0.85, 0.9);
        assert_eq!(judge(Claim::Slower, &ratio, 0.05), "confirmed");
        assert_eq!(judge(Claim::Slower, &ratio, 0.2), "undecided");
    }

    #[test]
    fn too_few_rounds_decide_nothing() {
        let ratio = Ratio {
            low: None,
            high: None,
            ..within(0.8, 1.0, 1.2)
        };
        for claim in [Claim::Faster, Claim::Slower, Claim::Same, Claim::NoGain] {
            assert_eq!(judge(claim, &ratio, 0.0), "undecided");
        }
    }
}
