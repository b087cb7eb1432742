//! Claims: sentences that follow from a verdict. The page names the claim and the verdict of
//! each in `data-claim` and `data-verdict`.

use maud::{Markup, Render, html};
use pipespeed_measure::record::{CaseResult, Doubt, Estimate, Ratio, Run, Verdict};

use super::figure::{self, plain, ratio_of};
use crate::published::{self, Judgement, Statement, Threshold, deviations, judge};
use crate::steps::measured;

/// The verdict that a claim follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
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

impl Outcome {
    /// The word in the page's data.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::Same => "same",
            Outcome::Undecided => "undecided",
            Outcome::Refused => "refused",
        }
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster => Outcome::Faster,
            Verdict::Slower => Outcome::Slower,
            Verdict::Same => Outcome::Same,
            Verdict::Undecided => Outcome::Undecided,
        }
    }
}

/// A sentence and the verdict that it follows from.
pub(super) struct Claim {
    pub name: String,
    pub outcome: Outcome,
    pub sentence: Markup,
}

impl Render for Claim {
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
    pub outcome: Outcome,
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
                .map_or(Outcome::Refused, |ratio| ratio.verdict.into()),
        })
    }

    /// How many times as fast the faster of the two is, if that is certain.
    pub fn factor(&self) -> Option<Estimate> {
        let found = self.ratio?.estimate;
        match self.outcome {
            Outcome::Faster => Some(found),
            Outcome::Slower => Some(found.reciprocal()),
            Outcome::Same | Outcome::Undecided | Outcome::Refused => None,
        }
    }

    /// The claim on this comparison. `change` completes "With ..., the transfer is faster".
    pub fn claim(&self, name: impl Into<String>, change: Markup) -> Claim {
        Claim {
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
    ) -> Claim {
        let agreement = self.agreement(published);
        Claim {
            sentence: html! { (self.sentence(change.clone())) " " (agreement) },
            ..self.claim(name, change)
        }
    }

    /// The same with a published statement on an option.
    pub fn claim_on(&self, name: impl Into<String>, statement: &Statement<'_>) -> Claim {
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
        Claim {
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
                Outcome::Faster => { "the transfer is faster: " (found) (self.rates()) "." }
                Outcome::Slower => { "the transfer is slower: " (found) (self.rates()) "." }
                Outcome::Same => {
                    "the rate is the same: " (found)
                    ", within the five percent that count as no difference."
                }
                Outcome::Undecided => {
                    "the effect is undecided: " (found) ", " (doubt(self.ratio)) "."
                }
                Outcome::Refused => { "the transfer was not measured: " (self.reason()) "." }
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
                Place::Within => html! { "As published: " (there) "." },
                Place::Below => html! { "The published gain is smaller: " (there) "." },
                Place::Above => html! { "The published gain is larger: " (there) "." },
            },
            Judgement::Refuted => html! { "This differs from the published result: " (there) "." },
            Judgement::Undecided => match place {
                _ if !published.is_one_factor => {
                    html! { "Published: " (there) ", " (published.condition) "." }
                }
                Place::Within => html! { "Published: " (there) ", which this interval allows." },
                Place::Below | Place::Above => {
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
enum Place {
    Below,
    Within,
    Above,
}

impl Published {
    fn place(&self, found: &Estimate) -> Place {
        let (low, high) = found.ends();
        if self.ratio < low {
            Place::Below
        } else if self.ratio > high {
            Place::Above
        } else {
            Place::Within
        }
    }
}
