//! What would help most here, for those who write and read, who vmsplice, and
//! who splice: one change at a time, and the best of them together.
//!
//! A gain is taken in each round, from that round's costs on both sides, so that
//! their scatter becomes an interval of the gain's median; in what the model gets
//! wrong all rounds are alike.

use serde::Serialize;

use super::cells::PROMISED_S;
use super::ends::usual_pipe;
use super::predict::{Basis, Scenario};
use super::through::{PIECE, Technique};
use crate::machine::topology::Relation;
use crate::stats;

/// The pipe that one may ask for without privilege, in bytes
/// (/proc/sys/fs/pipe-max-size as it usually is).
pub const LARGE_PIPE: usize = 1 << 20;

/// A change that gains less is not worth making.
pub const WORTH: f64 = 1.05;

/// Asked now and then: an error ends what is being done.
pub type GoOn<'a> = &'a dyn Fn() -> anyhow::Result<()>;

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
    /// The rate with them: the median of what each round's costs let expect.
    pub predicted: f64,
    /// So many times as fast as before: the median of the gains, round by round.
    pub gain: f64,
    /// Its interval of 95 %, by what the costs differ from round to round; none with fewer
    /// than six rounds.
    pub gain_low: Option<f64>,
    /// The interval's upper end.
    pub gain_high: Option<f64>,
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
    /// What is to be expected as it is, in GiB/s: a median, as a promise's.
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
/// `go_on` is asked before each round of each promise.
///
/// # Errors
/// Those of `go_on`.
pub fn advise(
    basis: &Basis<'_>,
    relation: Relation,
    piece: usize,
    go_on: GoOn<'_>,
) -> anyhow::Result<Vec<Advice>> {
    let users = [
        ("a plain write | read", Technique::WriteRead),
        ("vmsplice | read", Technique::VmspliceRead),
        ("vmsplice | splice", Technique::VmspliceSplice),
    ];
    let each = users.into_iter().map(|(user, technique)| {
        let scenario = Scenario {
            technique,
            pipe: usual_pipe(),
            piece,
            spins: false,
            relation,
        };
        advice(basis, user, scenario, go_on)
    });
    let found: anyhow::Result<Vec<Option<Advice>>> = each.collect();
    Ok(found?.into_iter().flatten().collect())
}

/// What each round's costs let expect of a scenario, in GiB/s.
fn rates(
    basis: &Basis<'_>,
    scenario: &Scenario,
    go_on: GoOn<'_>,
) -> anyhow::Result<Vec<(usize, f64)>> {
    let rounds = basis.costs().iter().map(|cost| cost.samples.len()).max();
    let mut rates = Vec::new();
    for round in 0..rounds.unwrap_or(0) {
        go_on()?;
        let rate = basis.of_round(round).rate(scenario, PROMISED_S);
        rates.extend(rate.map(|rate| (round, rate)));
    }
    Ok(rates)
}

fn median(rates: &[(usize, f64)]) -> Option<f64> {
    stats::median(&rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())
}

fn promise(
    changes: &[Change],
    scenario: Scenario,
    before: &[(usize, f64)],
    after: &[(usize, f64)],
) -> Option<Promise> {
    let gains = stats::paired_ratios(after, before);
    let within = stats::median_interval(&gains, 0.95);
    Some(Promise {
        changes: changes.to_vec(),
        predicted: median(after)?,
        gain: stats::median(&gains)?,
        gain_low: within.as_ref().map(|interval| interval.low),
        gain_high: within.as_ref().map(|interval| interval.high),
        checked: None,
        scenario,
    })
}

fn advice(
    basis: &Basis<'_>,
    user: &str,
    scenario: Scenario,
    go_on: GoOn<'_>,
) -> anyhow::Result<Option<Advice>> {
    let before = rates(basis, &scenario, go_on)?;
    let Some(predicted) = median(&before) else {
        return Ok(None);
    };
    let promise = |changes: &[Change]| -> anyhow::Result<Option<Promise>> {
        let Some(changed) = change(scenario, changes) else {
            return Ok(None);
        };
        let after = rates(basis, &changed, go_on)?;
        Ok(promise(changes, changed, &before, &after))
    };
    let mut promises = Vec::new();
    for change in Change::ALL {
        promises.extend(promise(&[change])?);
    }
    promises.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    // A search, of far more than is shown: by the medians of the costs.
    let figures = basis.medians();
    let rate = |changes: &[Change]| figures.rate(&change(scenario, changes)?, PROMISED_S);
    let single = promises.first().map_or(0.0, |single| single.gain);
    let together = match best_together(rate) {
        Some(changes) => promise(&changes)?.filter(|best| best.gain > single * WORTH),
        None => None,
    };
    Ok(Some(Advice {
        user: user.to_owned(),
        pipe_bytes: scenario.pipe,
        piece_bytes: scenario.piece,
        predicted,
        checked: None,
        promises,
        together,
        scenario,
    }))
}

/// The scenario with all of these changes; none where one of them changes nothing.
fn change(scenario: Scenario, changes: &[Change]) -> Option<Scenario> {
    changes
        .iter()
        .try_fold(scenario, |scenario, change| change.apply(scenario))
}

/// The fastest combination by `rate`, less what adds next to nothing to it; none
/// where a single change is all that is left.
fn best_together(rate: impl Fn(&[Change]) -> Option<f64>) -> Option<Vec<Change>> {
    let fastest = |combinations: &mut dyn Iterator<Item = Vec<Change>>| {
        combinations
            .filter_map(|changes| Some((rate(&changes)?, changes)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let of_set = |set: u32| {
        let all = Change::ALL.iter().enumerate();
        all.filter_map(|(at, change)| (set & 1 << at != 0).then_some(*change))
            .collect()
    };
    let (best, mut changes) = fastest(&mut (0_u32..1 << Change::ALL.len()).map(of_set))?;
    let mut now = best;
    while let Some((simpler, left)) = fastest(&mut (0..changes.len()).map(|left_out| {
        let mut left = changes.clone();
        left.remove(left_out);
        left
    })) && simpler * WORTH > now
    {
        (now, changes) = (simpler, left);
    }
    (changes.len() > 1).then_some(changes)
}

#[cfg(test)]
mod tests;
