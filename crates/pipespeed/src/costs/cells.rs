//! The rungs of the ladder on pipes of several sizes, on one processor and on
//! two: what is predicted, and what is measured beside it.

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
use crate::stats::Rng;
use crate::suite::{Overrides, Suite};
use crate::trial::ProcessRunner;

/// The pipe sizes of all rungs, in bytes; the ladder's own come to them.
pub const PIPE_SIZES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// By the time a trial counts wake-ups take what they will (see `sleeps`).
const WARM_UP_S: f64 = 0.05;

/// How long is timed, in seconds: ends that sleep fall in step in spells, some
/// tens of times a second, and the more of them a trial has the less is chance.
pub const TRIAL_S: f64 = 0.5;

/// The same of cells that are not as the ladder has them, of which there are many.
const SHORT_TRIAL_S: f64 = 0.1;

/// One rung on one pipe size and placement.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What is measured.
    pub case: Case,
    /// Where the ends run.
    pub placement: Placement,
    /// Whether it is as the ladder has it.
    pub is_default: bool,
    /// How long its trials are timed, in seconds.
    pub timed_s: f64,
    /// For the model.
    pub scenario: Scenario,
    /// Why there is nothing to measure.
    pub refused: Option<String>,
    /// The round of the costs, and what was measured then in GiB/s.
    pub measured: Vec<(usize, f64)>,
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
                        timed_s: if is_default { TRIAL_S } else { SHORT_TRIAL_S },
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
        timed_s: TRIAL_S,
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
    runners: Vec<(Placement, f64, ProcessRunner)>,
    rng: Rng,
}

impl Measuring {
    /// Ready to, in those places.
    pub fn new(places: &[(Placement, Chosen)], seed: u64, interrupt: &Interrupt) -> Self {
        let runner = |chosen: &Chosen, timed_s: f64| {
            let durations = Durations {
                warm_up_s: WARM_UP_S,
                timed_s,
            };
            ProcessRunner::new(
                ProcessRunner::this_program(),
                chosen.writer,
                chosen.reader,
                durations,
                interrupt.clone(),
            )
        };
        let both = |(placement, chosen): &(Placement, Chosen)| {
            [TRIAL_S, SHORT_TRIAL_S].map(|timed_s| (*placement, timed_s, runner(chosen, timed_s)))
        };
        Measuring {
            runners: places.iter().flat_map(both).collect(),
            rng: Rng::new(seed),
        }
    }

    /// One trial of each cell that is wanted, in random order.
    ///
    /// # Errors
    /// When a trial fails, naming the cell, or is interrupted.
    pub fn round(
        &mut self,
        round: usize,
        cells: &mut [Cell],
        wanted: impl Fn(&Cell) -> bool,
    ) -> anyhow::Result<()> {
        let mut order: Vec<usize> = (0..cells.len()).filter(|at| wanted(&cells[*at])).collect();
        self.rng.shuffle(&mut order);
        for at in order {
            self.trial(round, &mut cells[at])?;
        }
        Ok(())
    }

    fn trial(&mut self, round: usize, cell: &mut Cell) -> anyhow::Result<()> {
        let runner = self.runners.iter_mut().find(|(placement, timed_s, _)| {
            (*placement, *timed_s) == (cell.placement, cell.timed_s)
        });
        let Some((_, _, runner)) = runner.filter(|_| cell.refused.is_none()) else {
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
