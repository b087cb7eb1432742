//! What would help most here, for those who write and read, who vmsplice, and
//! who splice: one change at a time, and the best of them together.

use serde::Serialize;

use super::ends::usual_pipe;
use super::predict::{Figures, Scenario};
use super::through::{PIECE, Technique};
use crate::machine::topology::Relation;

/// The pipe that one may ask for without privilege, in bytes
/// (/proc/sys/fs/pipe-max-size as it usually is).
pub const LARGE_PIPE: usize = 1 << 20;

/// A change that gains less is not worth making.
pub const WORTH: f64 = 1.05;

/// One thing to do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A pipe of [`LARGE_PIPE`].
    LargerPipe,
    /// Both ends on one processor.
    OneProcessor,
    /// Ends that spin while they wait.
    Spinning,
    /// A writer that uses vmsplice(2).
    Vmsplice,
    /// Buffers of huge pages.
    HugePages,
    /// Pieces of [`PIECE`].
    LargerPieces,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 6] = [
        Change::LargerPipe,
        Change::OneProcessor,
        Change::Spinning,
        Change::Vmsplice,
        Change::HugePages,
        Change::LargerPieces,
    ];

    /// The scenario with this change; none where there is nothing to change.
    pub fn apply(self, scenario: Scenario) -> Option<Scenario> {
        use Technique::{
            VmspliceRead, VmspliceReadHuge, VmspliceSplice, VmspliceSpliceHuge, WriteRead,
            WriteReadHuge,
        };
        let mut changed = scenario;
        match self {
            Change::LargerPipe => changed.pipe = LARGE_PIPE,
            Change::LargerPieces => changed.piece = PIECE.max(scenario.piece),
            Change::OneProcessor if scenario.spins => return None,
            Change::OneProcessor => changed.relation = Relation::One,
            // One would keep the other from running.
            Change::Spinning if scenario.relation == Relation::One => return None,
            Change::Spinning => changed.spins = true,
            Change::Vmsplice => {
                changed.technique = match scenario.technique {
                    WriteRead => VmspliceRead,
                    WriteReadHuge => VmspliceReadHuge,
                    _ => return None,
                }
            }
            Change::HugePages => {
                changed.technique = match scenario.technique {
                    WriteRead => WriteReadHuge,
                    VmspliceRead => VmspliceReadHuge,
                    VmspliceSplice => VmspliceSpliceHuge,
                    WriteReadHuge | VmspliceReadHuge | VmspliceSpliceHuge => return None,
                }
            }
        }
        (changed != scenario).then_some(changed)
    }
}

/// What may be expected of some changes. Rates are in GiB/s.
#[derive(Debug, Clone, Serialize)]
pub struct Promise {
    /// One, or several together.
    pub changes: Vec<Change>,
    /// The rate with them.
    pub predicted: f64,
    /// So many times as fast as before.
    pub gain: f64,
    /// What came of it, where that was measured.
    pub checked: Option<Checked>,
    /// What they make of it.
    #[serde(skip)]
    pub scenario: Scenario,
}

/// A promise, measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Checked {
    /// The median rate in GiB/s.
    pub measured: Option<f64>,
    /// The median of the gains, round by round.
    pub gain: Option<f64>,
    /// Its interval of 95 %.
    pub gain_low: Option<f64>,
    /// The interval's upper end.
    pub gain_high: Option<f64>,
    /// Why there is nothing.
    pub refused: Option<String>,
}

/// What would help somebody.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// What he does, in words.
    pub user: String,
    /// The pipe's size and the piece's, in bytes.
    pub pipe_bytes: usize,
    /// What one call moves.
    pub piece_bytes: usize,
    /// What is to be expected as it is, in GiB/s.
    pub predicted: f64,
    /// The same, measured.
    pub checked: Option<Checked>,
    /// Single changes, the one that helps most first.
    pub promises: Vec<Promise>,
    /// The best of them together, each of which is worth it; none where no two
    /// are better than one.
    pub together: Option<Promise>,
    /// As it is.
    #[serde(skip)]
    pub scenario: Scenario,
}

/// The sizes of pipe and piece that advice about pieces of so many bytes
/// takes, in bytes.
pub fn sizes(piece: usize) -> Vec<(usize, usize)> {
    let mut sizes = Vec::new();
    for pipe in [usual_pipe(), LARGE_PIPE] {
        for piece in [piece, PIECE.max(piece)] {
            if !sizes.contains(&(pipe, piece)) {
                sizes.push((pipe, piece));
            }
        }
    }
    sizes
}

/// Advice for each kind of user whose ends lie like that to each other and who
/// moves so many bytes at a time. Who can't be told anything is left out.
pub fn advise(figures: &Figures<'_>, relation: Relation, piece: usize) -> Vec<Advice> {
    [
        ("a plain write | read", Technique::WriteRead),
        ("vmsplice | read", Technique::VmspliceRead),
        ("vmsplice | splice", Technique::VmspliceSplice),
    ]
    .into_iter()
    .filter_map(|(user, technique)| {
        let scenario = Scenario {
            technique,
            pipe: usual_pipe(),
            piece,
            spins: false,
            relation,
        };
        advice(figures, user, scenario)
    })
    .collect()
}

fn advice(figures: &Figures<'_>, user: &str, scenario: Scenario) -> Option<Advice> {
    let before = figures.rate(&scenario)?;
    let promise = |changes: &[Change]| {
        let changed = changes
            .iter()
            .try_fold(scenario, |scenario, change| change.apply(scenario))?;
        let predicted = figures.rate(&changed)?;
        Some(Promise {
            changes: changes.to_vec(),
            predicted,
            gain: predicted / before,
            checked: None,
            scenario: changed,
        })
    };
    let mut promises: Vec<Promise> = Change::ALL
        .iter()
        .filter_map(|change| promise(&[*change]))
        .collect();
    promises.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    let together = together(&promises, promise);
    Some(Advice {
        user: user.to_owned(),
        pipe_bytes: scenario.pipe,
        piece_bytes: scenario.piece,
        predicted: before,
        checked: None,
        promises,
        together,
        scenario,
    })
}

/// The fastest combination, less what adds next to nothing to it.
fn together(
    singles: &[Promise],
    promise: impl Fn(&[Change]) -> Option<Promise>,
) -> Option<Promise> {
    let combinations = 0_u32..1 << Change::ALL.len();
    let chosen = |set: u32| {
        let is_in = |(at, change): (usize, &Change)| (set & 1 << at != 0).then_some(*change);
        Change::ALL
            .iter()
            .enumerate()
            .filter_map(is_in)
            .collect::<Vec<_>>()
    };
    let mut best = combinations
        .filter_map(|set| promise(&chosen(set)))
        .max_by(|a, b| a.predicted.total_cmp(&b.predicted))?;
    while let Some(simpler) = (0..best.changes.len())
        .filter_map(|left_out| {
            let mut changes = best.changes.clone();
            changes.remove(left_out);
            promise(&changes)
        })
        .filter(|simpler| simpler.predicted * WORTH > best.predicted)
        .max_by(|a, b| a.predicted.total_cmp(&b.predicted))
    {
        best = simpler;
    }
    let single = singles.first().map_or(0.0, |single| single.predicted);
    (best.changes.len() > 1 && best.predicted > single * WORTH).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::costs;

    fn plain(relation: Relation) -> Scenario {
        Scenario {
            technique: Technique::WriteRead,
            pipe: usual_pipe(),
            piece: 64 << 10,
            spins: false,
            relation,
        }
    }

    #[test]
    fn what_helps_most_comes_first() {
        let costs = costs(7);
        let advice = advise(
            &Figures::medians(&costs),
            Relation::SharedCache(3),
            64 << 10,
        );
        assert_eq!(advice.len(), 3);
        for advice in &advice {
            let gains: Vec<f64> = advice.promises.iter().map(|p| p.gain).collect();
            assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
            // With wake-ups at 20 us nothing comes near not sleeping.
            let first = advice.promises[0].changes[0];
            assert!(
                [Change::Spinning, Change::LargerPipe].contains(&first),
                "{first:?}"
            );
        }
        let single = |advice: &Advice, change| {
            advice
                .promises
                .iter()
                .find(|p| p.changes == [change])
                .map(|p| p.gain)
        };
        assert!(single(&advice[0], Change::Vmsplice).unwrap() > 1.1);
        assert_eq!(single(&advice[1], Change::Vmsplice), None);
        // write copies, whatever the pages are.
        assert!((single(&advice[0], Change::HugePages).unwrap() - 1.0).abs() < 0.02);
    }

    #[test]
    fn together_is_the_least_that_comes_near_the_best() {
        let costs = costs(7);
        let advice = advise(
            &Figures::medians(&costs),
            Relation::SharedCache(3),
            64 << 10,
        );
        let together = advice[0].together.as_ref().unwrap();
        assert!(together.changes.contains(&Change::Vmsplice));
        assert!(together.changes.contains(&Change::HugePages));
        // The costs know no difference between piece sizes.
        assert!(
            !together.changes.contains(&Change::LargerPieces),
            "{together:?}"
        );
        assert!(together.gain > advice[0].promises[0].gain);
    }

    #[test]
    fn changes_that_exclude_each_other_are_not_made_together() {
        let one = plain(Relation::One);
        assert_eq!(Change::Spinning.apply(one), None);
        assert_eq!(Change::OneProcessor.apply(one), None);
        let spinning = Change::Spinning.apply(plain(Relation::Siblings)).unwrap();
        assert_eq!(Change::OneProcessor.apply(spinning), None);
        assert_eq!(Change::Spinning.apply(spinning), None);
        let vmsplice = Change::Vmsplice.apply(one).unwrap();
        assert_eq!(vmsplice.technique, Technique::VmspliceRead);
        assert_eq!(Change::Vmsplice.apply(vmsplice), None);
    }

    #[test]
    fn without_costs_there_is_no_advice() {
        let none: [crate::costs::Cost; 0] = [];
        assert!(advise(&Figures::medians(&none), Relation::One, 64 << 10).is_empty());
    }
}
