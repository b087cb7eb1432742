//! The rungs of the ladder on pipes of several sizes, on one processor and on
//! two: what is predicted, and what is measured beside it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::predict::Scenario;
use super::through::{PIECE, Technique};
use crate::case::{Case, Durations};
use crate::endpoint::spec::{PageKind, SinkTechnique, SourceTechnique, Waiting};
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::machine::placement::{self, Chosen, Placement};
use crate::machine::topology::Topology;
use crate::results::GIB;
use crate::runner::{Runner, TrialError};
use crate::stats::{self, Rng};
use crate::suite::{Overrides, Suite};
use crate::trial::ProcessRunner;

/// The pipe sizes of all rungs, in bytes; the ladder's own come to them.
pub const PIPE_SIZES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// Short, since there are many; by the time it counts wake-ups take what they
/// will (see `sleeps`).
const TRIAL: Durations = Durations {
    warm_up_s: 0.05,
    timed_s: 0.1,
};

/// When the ends of the median's interval lie further apart than that, one of the
/// other, it is not known well enough to be compared; more trials a round are
/// made until it is. Of few rounds the least and the greatest stand for them.
const NARROW: f64 = 1.2;

/// So many trials a round are made of the ladder's own rungs where they scatter.
/// Several of them, each of processes of its own, scatter less than one that is as
/// long: here trials of 0.5 s are hardly closer together than of 0.1 s.
const TIMES_OF_OWN: usize = 5;

/// The same where a promise is put to the test, and what that comes to in seconds.
pub(super) const TIMES_OF_PROMISES: usize = 3;
pub(super) const PROMISED_S: f64 = TIMES_OF_PROMISES as f64 * TRIAL.timed_s;

/// One rung on one pipe size and placement.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What is measured.
    pub case: Case,
    /// Where the ends run.
    pub placement: Placement,
    /// Whether it is as the ladder has it.
    pub is_default: bool,
    /// How many trials a round makes of it where it scatters.
    pub times: usize,
    /// For the model.
    pub scenario: Scenario,
    /// Why there is nothing to measure.
    pub refused: Option<String>,
    /// The round of the costs, and what was measured then in GiB/s.
    pub measured: Vec<(usize, f64)>,
}

impl Cell {
    /// What was measured in each round: the mean of its trials, as if they were one.
    /// Rounds may have more or fewer of them, and count alike.
    pub fn by_round(&self) -> Vec<(usize, f64)> {
        let mut rounds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (round, rate) in &self.measured {
            rounds.entry(*round).or_default().push(*rate);
        }
        let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / rates.len() as f64;
        let rounds = rounds.into_iter();
        rounds.map(|(round, rates)| (round, mean(rates))).collect()
    }

    /// How many trials the next round makes of it.
    fn times_now(&self) -> usize {
        match self.times > 1 && self.scatters() {
            true => self.times,
            false => 1,
        }
    }

    /// What a round times in all of a cell that scatters, in seconds.
    pub fn timed_s(&self) -> f64 {
        self.times as f64 * TRIAL.timed_s
    }

    /// Whether the interval of what was measured is wide.
    fn scatters(&self) -> bool {
        let rates: Vec<f64> = self.by_round().iter().map(|(_, rate)| *rate).collect();
        let (low, high) = match stats::median_interval(&rates, 0.95) {
            Some(interval) => (interval.low, interval.high),
            None => {
                let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
                (least, rates.iter().copied().fold(0.0, f64::max))
            }
        };
        high > NARROW * low
    }
}

/// Where the ends of a placement run.
#[derive(Debug, Clone, Serialize)]
pub struct Place {
    /// The name of the placement.
    pub placement: Placement,
    /// The writer's processor and the reader's.
    pub cpus: (usize, usize),
}

/// All of them, the ladder's own included.
pub fn all(places: &[(Placement, Chosen)], topology: &Topology) -> Vec<Cell> {
    let own = Suite::Ladder.rungs(&Overrides::default());
    let mut cells = Vec::new();
    for (placement, chosen) in places {
        for pipe_bytes in [
            None,
            Some(PIPE_SIZES[0]),
            Some(PIPE_SIZES[1]),
            Some(PIPE_SIZES[2]),
        ] {
            let overrides = Overrides {
                pipe_bytes,
                ..Overrides::default()
            };
            for case in Suite::Ladder.rungs(&overrides) {
                let own = own.iter().find(|own| own.name == case.name);
                let own_size = own.and_then(|own| own.pipe_bytes);
                let is_own = case.pipe_bytes == own_size;
                // Once only, and the ladder's own placement has its sizes.
                let is_asked = match pipe_bytes {
                    None => {
                        *placement == Placement::Different
                            && !own_size.is_some_and(|bytes| PIPE_SIZES.contains(&bytes))
                    }
                    Some(_) => true,
                };
                if is_asked {
                    let is_default = is_own && *placement == Placement::Different;
                    cells.extend(cell(case, *placement, chosen, topology).map(|cell| Cell {
                        is_default,
                        // People look at its own first.
                        times: if is_default { TIMES_OF_OWN } else { 1 },
                        ..cell
                    }));
                }
            }
        }
    }
    cells
}

/// The sizes of pipe and piece that the cells take, in bytes.
pub fn sizes() -> Vec<(usize, usize)> {
    let mut sizes: Vec<(usize, usize)> = PIPE_SIZES.map(|pipe| (pipe, PIECE)).to_vec();
    for case in Suite::Ladder.rungs(&Overrides::default()) {
        let own = (case.pipe_bytes.unwrap_or(PIECE), case.buffer_bytes());
        if !sizes.contains(&own) {
            sizes.push(own);
        }
    }
    sizes
}

pub(super) fn cell(
    case: Case,
    placement: Placement,
    chosen: &Chosen,
    topology: &Topology,
) -> Option<Cell> {
    let scenario = scenario(&case, chosen, topology)?;
    let spinning = placement::spinning_refused(chosen, topology);
    Some(Cell {
        refused: spinning.filter(|_| case.spins_in_pairs()),
        case,
        placement,
        is_default: false,
        times: 1,
        scenario,
        measured: Vec::new(),
    })
}

pub(super) fn scenario(case: &Case, chosen: &Chosen, topology: &Topology) -> Option<Scenario> {
    let (sink, source) = (case.sink.as_ref()?, case.source.as_ref()?);
    let huge = sink.pages == PageKind::Huge;
    let technique = match (sink.technique, source.technique, huge) {
        (SinkTechnique::Write, SourceTechnique::Read, false) => Technique::WriteRead,
        (SinkTechnique::Write, SourceTechnique::Read, true) => Technique::WriteReadHuge,
        (SinkTechnique::Vmsplice, SourceTechnique::Read, false) => Technique::VmspliceRead,
        (SinkTechnique::Vmsplice, SourceTechnique::Read, true) => Technique::VmspliceReadHuge,
        (SinkTechnique::Vmsplice, SourceTechnique::Splice, false) => Technique::VmspliceSplice,
        (SinkTechnique::Vmsplice, SourceTechnique::Splice, true) => Technique::VmspliceSpliceHuge,
        _ => return None,
    };
    Some(Scenario {
        technique,
        pipe: case.pipe_bytes?,
        piece: case.buffer_bytes(),
        spins: sink.wait == Waiting::Spin,
        relation: topology.relation(chosen.writer?, chosen.reader?),
    })
}

/// Measures cells in rounds.
#[derive(Debug)]
pub struct Measuring {
    runners: Vec<(Placement, ProcessRunner)>,
    rng: Rng,
}

impl Measuring {
    /// Ready to, in those places.
    pub fn new(places: &[(Placement, Chosen)], seed: u64, interrupt: &Interrupt) -> Self {
        let runner = |chosen: &Chosen| {
            ProcessRunner::new(
                ProcessRunner::this_program(),
                chosen.writer,
                chosen.reader,
                TRIAL,
                interrupt.clone(),
            )
        };
        Measuring {
            runners: places
                .iter()
                .map(|(placement, chosen)| (*placement, runner(chosen)))
                .collect(),
            rng: Rng::new(seed),
        }
    }

    /// One trial of each cell that is wanted, or more where it scatters, in random
    /// order.
    ///
    /// # Errors
    /// When a trial fails, naming the cell, or is interrupted.
    pub fn round(
        &mut self,
        round: usize,
        cells: &mut [Cell],
        wanted: impl Fn(&Cell) -> bool,
    ) -> anyhow::Result<()> {
        let mut order: Vec<usize> = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            if wanted(cell) {
                order.extend(std::iter::repeat_n(at, cell.times_now()));
            }
        }
        self.rng.shuffle(&mut order);
        for at in order {
            self.trial(round, &mut cells[at])?;
        }
        Ok(())
    }

    fn trial(&mut self, round: usize, cell: &mut Cell) -> anyhow::Result<()> {
        let runner = self
            .runners
            .iter_mut()
            .find(|(placement, _)| *placement == cell.placement);
        let Some((_, runner)) = runner.filter(|_| cell.refused.is_none()) else {
            return Ok(());
        };
        match runner.run(&cell.case) {
            Ok(trial) => {
                let outcome = trial.reader.as_ref().or(trial.writer.as_ref());
                cell.measured.extend(outcome.map(|outcome| {
                    let counters = &outcome.counters;
                    (round, counters.bytes as f64 / GIB / counters.seconds)
                }));
                Ok(())
            }
            Err(TrialError::Refused(why)) => {
                cell.refused = Some(why);
                Ok(())
            }
            Err(TrialError::Interrupted(signal)) => Err(Interrupted(signal).into()),
            Err(TrialError::Failed(error)) => {
                Err(error.context(format!("measuring {}", cell.case.name)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic;

    fn measured(rates: &[f64]) -> Vec<(usize, f64)> {
        rates.iter().copied().enumerate().collect()
    }

    #[test]
    fn a_rung_of_the_ladder_s_own_that_scatters_is_measured_more_often() {
        let mut cells = synthetic::some_cells();
        let own = cells.iter().position(|cell| cell.is_default).unwrap();
        // A twentieth to and fro, and four tenths.
        let steady = [0.95, 1.0, 1.05].repeat(4);
        let scattered = [0.6, 1.0, 1.4].repeat(4);
        cells[own].measured = measured(&steady);
        assert_eq!(cells[own].times_now(), 1);
        cells[own].measured = measured(&scattered);
        assert_eq!(cells[own].times_now(), TIMES_OF_OWN);
        // Known well enough by then: most are close together.
        let mut many = scattered.to_vec();
        many.extend([1.0; 40]);
        cells[own].measured = measured(&many);
        assert_eq!(cells[own].times_now(), 1);
        // Too few for an interval.
        for (few, times) in [(1, 1), (2, TIMES_OF_OWN)] {
            cells[own].measured = measured(&scattered[..few]);
            assert_eq!(cells[own].times_now(), times);
        }
        cells[own].measured = measured(&steady[..2]);
        assert_eq!(cells[own].times_now(), 1);
    }

    #[test]
    fn rounds_count_alike_however_many_trials_they_have() {
        let mut cells = synthetic::some_cells();
        let trials = [(0, 1.0), (1, 5.0), (1, 9.0), (1, 4.0), (2, 2.0)];
        cells[0].measured = trials.to_vec();
        assert_eq!(cells[0].by_round(), [(0, 1.0), (1, 6.0), (2, 2.0)]);
    }

    #[test]
    fn of_all_other_cells_a_round_makes_one_trial() {
        let mut cells = synthetic::some_cells();
        for cell in cells.iter_mut().filter(|cell| !cell.is_default) {
            cell.measured = measured(&[0.6, 1.0, 1.4].repeat(4));
            assert_eq!(cell.times_now(), 1, "{cell:?}");
        }
    }
}
