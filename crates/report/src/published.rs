//! Published statements beside the results of a run.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_measure::record::{Interval, Ratio, Run, Verdict};
use pipespeed_measure::suite::Overrides;
use pipespeed_stats::EQUIVALENCE;

use super::steps::{Step, doubted, steps};

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
    pub fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::Refuted => "refuted",
            Judgement::Undecided => "undecided",
        }
    }
}

/// The certainty that a ratio needs to decide anything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    /// How far a case may differ from itself, as a logarithm.
    pub doubt: f64,
    /// The coverage required of the interval of an undecided comparison.
    pub level: f64,
}

impl Bar {
    /// The bar of a run, by the doubt that its null control leaves.
    pub fn of(run: &Run, doubt: f64) -> Bar {
        Bar {
            doubt,
            level: level(&steps(run), run.settings.confidence),
        }
    }
}

/// The level at which the step-down of [`pipespeed_stats::holm_ratios`] stopped,
/// which applies to undecided comparisons. Those decided before have an interval
/// without 1, so the others share the allowed error.
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
pub(super) fn judge(claim: Claim, ratio: &Ratio, bar: Bar) -> Judgement {
    // With too few rounds for the level the interval is their range, which decides
    // nothing.
    let reached = |i: &Interval| i.coverage >= bar.level - 1e-9;
    let no_gain_worth_it = ratio
        .estimate
        .interval
        .filter(reached)
        .is_some_and(|i| i.high * bar.doubt.exp() <= 1.0 + EQUIVALENCE);
    match (claim, doubted(ratio, bar.doubt)) {
        (Claim::Faster, Verdict::Faster)
        | (Claim::Slower, Verdict::Slower)
        | (Claim::Same | Claim::NoGain, Verdict::Same)
        | (Claim::NoGain, Verdict::Slower) => Judgement::Confirmed,
        // An interval from, say, 0.93 to 1.03 leaves open whether it costs
        // anything, not whether it gains.
        (Claim::NoGain, Verdict::Undecided) if no_gain_worth_it => Judgement::Confirmed,
        (_, Verdict::Undecided) => Judgement::Undecided,
        _ => Judgement::Refuted,
    }
}

/// The options that differ from the conditions of the published figures, which are
/// those of the suite: `--data touch`. Empty if there are none.
pub(super) fn other_conditions(run: &Run) -> String {
    let settings = &run.settings;
    let cases = run.suite.cases(&Overrides::default());
    let Some(own) = cases.first() else {
        return String::new();
    };
    let size = |option: &str, asked: Option<usize>, own: Option<usize>| {
        let asked = asked.filter(|bytes| Some(*bytes) != own)?;
        Some(format!("{option} {}", size::format(asked as u64)))
    };
    // A reader that reads doesn't discard, whatever was asked.
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

#[cfg(test)]
mod tests {
    use super::Judgement::{Confirmed, Refuted, Undecided};
    use super::*;
    use pipespeed_measure::sample::{case, run, within};
    use pipespeed_measure::suite::Suite;
    use pipespeed_stats::holm_ratios;
    use proptest::prelude::*;

    fn bar(doubt: f64) -> Bar {
        Bar { doubt, level: 0.99 }
    }

    fn judged(claim: Claim, low: f64, high: f64) -> Judgement {
        judge(
            claim,
            &within(low, f64::midpoint(low, high), high),
            bar(0.0),
        )
    }

    #[test]
    fn a_claim_is_judged_by_the_interval() {
        assert_eq!(judged(Claim::Slower, 0.7, 0.8), Confirmed);
        assert_eq!(judged(Claim::Slower, 0.97, 1.02), Refuted);
        assert_eq!(judged(Claim::Slower, 1.2, 1.3), Refuted);
        assert_eq!(judged(Claim::Slower, 0.8, 1.1), Undecided);
        assert_eq!(judged(Claim::Same, 0.97, 1.02), Confirmed);
        assert_eq!(judged(Claim::Same, 0.7, 0.8), Refuted);
        assert_eq!(judged(Claim::Faster, 1.1, 1.3), Confirmed);
    }

    #[test]
    fn a_loss_is_no_gain_and_so_is_what_may_be_one() {
        assert_eq!(judged(Claim::NoGain, 0.7, 0.8), Confirmed);
        assert_eq!(judged(Claim::NoGain, 0.9, 1.04), Confirmed);
        assert_eq!(judged(Claim::NoGain, 0.9, 1.2), Undecided);
        assert_eq!(judged(Claim::NoGain, 1.1, 1.2), Refuted);
    }

    #[test]
    fn where_a_case_differs_from_itself_as_much_nothing_is_decided() {
        let ratio = within(0.8, 0.85, 0.9);
        assert_eq!(judge(Claim::Slower, &ratio, bar(0.05)), Confirmed);
        assert_eq!(judge(Claim::Slower, &ratio, bar(0.2)), Undecided);
        let open = within(0.8, 0.9, 1.01);
        assert_eq!(judge(Claim::NoGain, &open, bar(0.03)), Confirmed);
        assert_eq!(judge(Claim::NoGain, &open, bar(0.3)), Undecided);
        let same = within(0.98, 1.0, 1.02);
        assert_eq!(judge(Claim::Same, &same, bar(0.3)), Undecided);
        assert_eq!(judge(Claim::NoGain, &same, bar(0.3)), Undecided);
    }

    #[test]
    fn too_few_rounds_decide_nothing() {
        let mut ratio = within(0.8, 1.0, 1.2);
        ratio.estimate.interval = None;
        for claim in [Claim::Faster, Claim::Slower, Claim::Same, Claim::NoGain] {
            assert_eq!(judge(claim, &ratio, bar(0.0)), Undecided);
        }
    }

    /// A run with these comparisons.
    fn compared(ratios: &[Option<Ratio>]) -> Run {
        let mut cases = vec![case("base", 1.0, None)];
        for (at, ratio) in ratios.iter().flatten().enumerate() {
            cases.push(case(&format!("c{at}"), 1.0, Some(("base", "x", *ratio))));
        }
        run(Suite::Ladder, cases)
    }

    #[test]
    fn a_range_below_its_level_decides_nothing() {
        // Six rounds, all with a loss: 96.9 %, where six comparisons need 99.2 %.
        let losses: Vec<Vec<f64>> = (0..6)
            .map(|_| vec![0.86, 0.87, 0.88, 0.89, 0.87, 0.86])
            .collect();
        let ratios = holm_ratios(&losses, 0.95);
        let bar = Bar::of(&compared(&ratios), 0.0);
        let ratio = ratios[0].unwrap();
        assert!(ratio.estimate.ends().1 < 0.95 && ratio.verdict == Verdict::Undecided);
        assert_eq!(judge(Claim::NoGain, &ratio, bar), Undecided);
        // Alone it would be decided.
        let alone = holm_ratios(&losses[..1], 0.95);
        let bar = Bar::of(&compared(&alone), 0.0);
        assert_eq!(judge(Claim::NoGain, &alone[0].unwrap(), bar), Confirmed);
    }

    proptest! {
        #[test]
        fn the_level_is_that_of_the_step_down(
            comparisons in prop::collection::vec(
                prop::collection::vec(0.5f64..1.6, 6..40), 1..9),
        ) {
            let ratios = holm_ratios(&comparisons, 0.95);
            let level = level(&steps(&compared(&ratios)), 0.95);
            for (ratios, ratio) in comparisons.iter().zip(ratios.iter().flatten()) {
                if ratio.verdict != Verdict::Undecided {
                    continue;
                }
                // Held to that level alone it comes out as it did.
                let alone = holm_ratios(std::slice::from_ref(ratios), level)[0].unwrap();
                prop_assert_eq!(alone, *ratio);
                let interval = ratio.estimate.interval.unwrap();
                let reached = interval.coverage >= level - 1e-9;
                prop_assert!(!reached || (interval.low <= 1.0 && interval.high >= 1.0));
            }
        }
    }

    #[test]
    fn conditions_other_than_the_suites_are_listed() {
        let mut run = run(Suite::Volumes, Vec::new());
        assert_eq!(other_conditions(&run), "");
        run.settings.data = Some("read".to_owned());
        run.settings.pipe_size = Some(65_536);
        assert_eq!(other_conditions(&run), "");
        run.settings.data = Some("touch".to_owned());
        run.settings.work = 3;
        run.settings.pipe_size = Some(1 << 20);
        run.settings.buffer_size = Some(1 << 20);
        run.settings.reader_cpu = run.settings.writer_cpu;
        assert_eq!(
            other_conditions(&run),
            "--data touch, --work 3, --buffer-size 1MiB, --pipe-size 1MiB, one processor"
        );
    }
}
