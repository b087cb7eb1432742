//! Promises put to the test.

use super::advice::{Advice, Checked};
use super::cells::{Cell, Measuring, TIMES_OF_PROMISES, cell};
use super::predict::Scenario;
use super::through::Technique;
use crate::case::Case;
use crate::machine::placement::{Chosen, Placement};
use crate::machine::topology::{Relation, Topology};
use crate::stats;

/// In so many rounds at most, and no more than the costs have.
pub const MOST_ROUNDS: usize = 11;

/// Measures what all advice says in so many rounds, in turns, and notes it there.
/// `progress` is called before each round.
///
/// # Errors
/// Those of trials.
pub fn check(
    advice: &mut [Advice],
    measuring: &mut Measuring,
    places: &[(Placement, Chosen)],
    topology: &Topology,
    rounds: usize,
    mut progress: impl FnMut(usize),
) -> anyhow::Result<()> {
    let scenarios = scenarios(advice);
    let mut cells: Vec<Cell> = scenarios
        .iter()
        .filter_map(|scenario| {
            let placement = match scenario.relation {
                Relation::One => Placement::Same,
                _ => Placement::Different,
            };
            let (_, chosen) = places.iter().find(|(place, _)| *place == placement)?;
            let cell = cell(case(scenario), placement, chosen, topology)?;
            Some(Cell {
                // There are few rounds.
                times: TIMES_OF_PROMISES,
                ..cell
            })
        })
        .collect();
    for round in 0..rounds {
        progress(round);
        measuring.round(round, &mut cells, |_| true)?;
    }
    let find = |scenario: &Scenario| cells.iter().find(|cell| cell.scenario == *scenario);
    for advice in advice {
        let before = find(&advice.scenario);
        advice.checked = before.map(|before| checked(before, before));
        let promises = advice.promises.iter_mut().chain(&mut advice.together);
        for promise in promises {
            promise.checked = before
                .zip(find(&promise.scenario))
                .map(|(before, after)| checked(before, after));
        }
    }
    Ok(())
}

/// All that are to be measured, each once.
fn scenarios(advice: &[Advice]) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for advice in advice {
        let promises = advice.promises.iter().chain(&advice.together);
        let promised = promises.map(|promise| promise.scenario);
        for scenario in std::iter::once(advice.scenario).chain(promised) {
            if !all.contains(&scenario) {
                all.push(scenario);
            }
        }
    }
    all
}

fn case(scenario: &Scenario) -> Case {
    let mut case = Case::new(scenario.technique.name(), scenario.piece, scenario.pipe);
    let (vmsplice, splice, huge) = match scenario.technique {
        Technique::WriteRead => (false, false, false),
        Technique::WriteReadHuge => (false, false, true),
        Technique::VmspliceRead => (true, false, false),
        Technique::VmspliceReadHuge => (true, false, true),
        Technique::VmspliceSplice => (true, true, false),
        Technique::VmspliceSpliceHuge => (true, true, true),
    };
    if vmsplice {
        case = case.vmsplice();
    }
    if splice {
        case = case.splice();
    }
    if huge {
        case = case.huge();
    }
    if scenario.spins {
        case = case.spin();
    }
    case
}

fn checked(before: &Cell, after: &Cell) -> Checked {
    let after_each = after.by_round();
    let rates: Vec<f64> = after_each.iter().map(|(_, rate)| *rate).collect();
    let gains = stats::paired_ratios(&after_each, &before.by_round());
    let within = stats::median_interval(&gains, 0.95);
    Checked {
        measured: stats::median(&rates),
        gain: stats::median(&gains),
        gain_low: within.as_ref().map(|interval| interval.low),
        gain_high: within.as_ref().map(|interval| interval.high),
        refused: before.refused.clone().or_else(|| after.refused.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::cells::scenario;
    use crate::machine::topology::Relation;

    #[test]
    fn a_scenario_becomes_the_case_that_it_describes() {
        let topology = Topology::read(&crate::machine::Root("/nonexistent".into()));
        let chosen = Chosen {
            writer: Some(0),
            reader: Some(1),
            relation: String::new(),
            warning: None,
        };
        for technique in Technique::ALL {
            for spins in [false, true] {
                let wanted = Scenario {
                    technique,
                    pipe: 1 << 20,
                    piece: 1 << 16,
                    spins,
                    relation: Relation::Unknown,
                };
                assert_eq!(scenario(&case(&wanted), &chosen, &topology), Some(wanted));
            }
        }
    }
}
