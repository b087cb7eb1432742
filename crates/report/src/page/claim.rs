//! Claims: sentences that follow from a verdict. The page names the claim and the verdict of
//! each in `data-claim` and `data-verdict`.

use maud::{Markup, Render, html};
use pipespeed_measure::record::{CaseResult, Doubt, Estimate, Ratio, Run, Verdict};

use super::figure::{self, plain, ratio_of};
use crate::published::{self, Judgement, Statement, Threshold, deviations, judge};
use crate::steps::measured;

/// The verdict that a claim follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimBasis {
    /// The case is faster than the one it is compared with.
    Faster,
    /// It is slower.
    Slower,
    /// It is within 5 % of it.
    Same,
    /// None of these is certain.
    Undecided,
    /// One of the two was not measured.
    Refused,
}

impl ClaimBasis {
    /// The word in the page's data.
    pub fn name(self) -> &'static str {
        match self {
            ClaimBasis::Faster => "faster",
            ClaimBasis::Slower => "slower",
            ClaimBasis::Same => "same",
            ClaimBasis::Undecided => "undecided",
            ClaimBasis::Refused => "refused",
        }
    }
}

impl From<Verdict> for ClaimBasis {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster => ClaimBasis::Faster,
            Verdict::Slower => ClaimBasis::Slower,
            Verdict::Same => ClaimBasis::Same,
            Verdict::Undecided => ClaimBasis::Undecided,
        }
    }
}

/// A sentence and the verdict that it follows from.
pub(super) struct ClaimSentence {
    pub name: String,
    pub outcome: ClaimBasis,
    pub sentence: Markup,
}

impl Render for ClaimSentence {
    fn render(&self) -> Markup {
        let name = self.outcome.name();
        html! {
            p.claim data-claim=(self.name) data-verdict=(name) {
                span class={ "verdict " (name) } { (name) } " " (self.sentence)
            }
        }
    }
}

/// A comparison of a run.
pub(super) struct Found<'a> {
    run: &'a Run,
    /// The case.
    pub case: &'a CaseResult,
    /// The case that it is compared with.
    pub base: Option<&'a CaseResult>,
    ratio: Option<Ratio>,
    /// The verdict.
    pub outcome: ClaimBasis,
}

impl<'a> Found<'a> {
    /// The comparison of a case; `None` if the run has no such case, or it is compared with
    /// none.
    pub fn new(run: &'a Run, name: &str) -> Option<Found<'a>> {
        let find = |name: &str| run.cases.iter().find(|case| case.name == name);
        let case = find(name)?;
        let base = find(case.compared_with.as_deref()?);
        Some(Found {
            run,
            case,
            base,
            ratio: case.ratio,
            outcome: case
                .ratio
                .map_or(ClaimBasis::Refused, |ratio| ratio.verdict.into()),
        })
    }

    /// How many times as fast the faster of the two is, if that is certain.
    pub fn factor(&self) -> Option<Estimate> {
        let found = self.ratio?.estimate;
        match self.outcome {
            ClaimBasis::Faster => Some(found),
            ClaimBasis::Slower => Some(found.reciprocal()),
            ClaimBasis::Same | ClaimBasis::Undecided | ClaimBasis::Refused => None,
        }
    }

    /// The claim on this comparison. `change` completes "With ..., the transfer is faster".
    pub fn claim(&self, name: impl Into<String>, change: Markup) -> ClaimSentence {
        ClaimSentence {
            name: name.into(),
            outcome: self.outcome,
            sentence: self.sentence(change),
        }
    }

    /// The same with the published result of this comparison.
    pub fn claim_beside(
        &self,
        name: impl Into<String>,
        change: Markup,
        published: &Published,
    ) -> ClaimSentence {
        let agreement = self.agreement(published);
        ClaimSentence {
            sentence: html! { (self.sentence(change.clone())) " " (agreement) },
            ..self.claim(name, change)
        }
    }

    /// The same with a published statement on an option.
    pub fn claim_on(&self, name: impl Into<String>, statement: &Statement<'_>) -> ClaimSentence {
        let judged = match statement.judgement {
            Some(Judgement::Confirmed) => "This run confirms it.",
            Some(Judgement::MuchLarger) => {
                "This run confirms the direction, but the effect is much larger here."
            }
            Some(Judgement::MuchSmaller) => {
                "This run confirms the direction, but the effect is much smaller here."
            }
            Some(Judgement::Refuted) => "This run refutes it.",
            Some(Judgement::Undecided) => "This run does not decide on it.",
            None => "This run has other conditions, so it does not judge it.",
        };
        let change = html! { em { (statement.what) } };
        ClaimSentence {
            sentence: html! {
                (self.sentence(change.clone())) " Published: " q { (statement.figures) } ". " (judged)
            },
            ..self.claim(name, change)
        }
    }

    fn sentence(&self, change: Markup) -> Markup {
        let ratio = self.ratio.map(|ratio| ratio.estimate);
        let found = html! { @if let Some(ratio) = &ratio { (ratio_of(ratio)) } };
        html! {
            "With " (change) ", "
            @match self.outcome {
                ClaimBasis::Faster => { "the transfer is faster: " (found) (self.rates()) "." }
                ClaimBasis::Slower => { "the transfer is slower: " (found) (self.rates()) "." }
                ClaimBasis::Same => {
                    "the rate is the same: " (found)
                    ", within the five percent that count as no difference."
                }
                ClaimBasis::Undecided => {
                    "the effect is undecided: " (found) ", " (doubt(self.ratio)) "."
                }
                ClaimBasis::Refused => { "the transfer was not measured: " (self.reason()) "." }
            }
        }
    }

    /// The rates of both cases.
    fn rates(&self) -> Markup {
        let of = |case: Option<&'a CaseResult>| Some(measured(case?)?.1.median);
        html! {
            @if let Some((rate, base)) = of(Some(self.case)).zip(of(self.base)) {
                ", " (figure::rate(rate)) " instead of " (plain(base))
            }
        }
    }

    fn reason(&self) -> Markup {
        let both = [Some(self.case), self.base];
        let not_run = both
            .into_iter()
            .flatten()
            .find_map(|case| case.not_run.as_ref());
        html! {
            @if let Some(not_run) = not_run {
                q { (not_run.to_string().trim_end_matches('.')) }
            } @else {
                "no round of this run has both cases"
            }
        }
    }

    /// Whether the published result is the same, as far as the run shows it.
    fn agreement(&self, published: &Published) -> Markup {
        let there = html! { (figure::published(published.ratio, published.shown)) };
        let Some(ratio) = self.ratio else {
            return html! { "Published: " (there) "." };
        };
        let other = deviations(self.run);
        if !other.is_empty() {
            return html! {
                "This run has other conditions than the published one (" q { (other) }
                "), which found " (there) "."
            };
        }
        let threshold = Threshold::new(self.run);
        let place = published.place(&ratio.estimate);
        match judge(published.claim, &ratio, threshold) {
            Judgement::Confirmed if published.claim == published::Claim::Same => {
                html! { "As published." }
            }
            Judgement::Confirmed | Judgement::MuchLarger | Judgement::MuchSmaller => match place {
                _ if !published.is_one_factor => {
                    html! { "A gain, as published: there " (there) ", " (published.condition) "." }
                }
                RatioPlace::Within => html! { "As published: " (there) "." },
                RatioPlace::Below => html! { "The published gain is smaller: " (there) "." },
                RatioPlace::Above => html! { "The published gain is larger: " (there) "." },
            },
            Judgement::Refuted => html! { "This differs from the published result: " (there) "." },
            Judgement::Undecided => match place {
                _ if !published.is_one_factor => {
                    html! { "Published: " (there) ", " (published.condition) "." }
                }
                RatioPlace::Within => {
                    html! { "Published: " (there) ", which this interval allows." }
                }
                RatioPlace::Below | RatioPlace::Above => {
                    html! { "Published: " (there) ", which this interval excludes." }
                }
            },
        }
    }
}

/// Why a comparison is undecided.
pub(super) fn doubt(ratio: Option<Ratio>) -> &'static str {
    match ratio.and_then(|ratio| ratio.reason) {
        Some(Doubt::Interval) => "which does not exclude equal rates",
        Some(Doubt::NullControl) => "but the null control allows for as much",
        Some(Doubt::WithinMargin) => "which is not wholly beyond 5 %",
        Some(Doubt::TooFewRounds) | None => "from too few rounds for a verdict",
    }
}

/// The published result of a comparison.
pub(super) struct Published {
    pub claim: published::Claim,
    pub ratio: f64,
    pub shown: &'static str,
    /// Whether the published step changes nothing else.
    pub is_one_factor: bool,
    /// What else it changes.
    pub condition: &'static str,
}

/// Where a published ratio lies.
enum RatioPlace {
    Below,
    Within,
    Above,
}

impl Published {
    fn place(&self, found: &Estimate) -> RatioPlace {
        let (low, high) = found.ends();
        if self.ratio < low {
            RatioPlace::Below
        } else if self.ratio > high {
            RatioPlace::Above
        } else {
            RatioPlace::Within
        }
    }
}
