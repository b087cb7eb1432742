//! Predictions beside measurements.

use serde::Serialize;

use super::advice::GoOn;
use super::cells::Cell;
use super::predict::Basis;
use crate::machine::placement::Placement;
use crate::stats;

/// A prediction that is off by more explains nothing.
pub const TOLERANCE: f64 = 0.25;

/// One cell's prediction and measurement. Rates are in GiB/s.
#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    /// The rung.
    pub case: String,
    /// Where the ends ran.
    pub placement: Placement,
    /// The pipe's size.
    pub pipe_bytes: usize,
    /// Whether it is as the ladder has it.
    pub is_default: bool,
    /// The median of what each round's costs let expect.
    pub predicted: Option<f64>,
    /// The median of what was measured in the same rounds, of each its trials'
    /// mean.
    pub measured: Option<f64>,
    /// Its interval of 95 %.
    pub measured_low: Option<f64>,
    /// The interval's upper end.
    pub measured_high: Option<f64>,
    /// The median ratio of predicted to measured, round by round.
    pub ratio: Option<f64>,
    /// Its interval of 95 %.
    pub ratio_low: Option<f64>,
    /// The interval's upper end.
    pub ratio_high: Option<f64>,
    /// What was measured: the rate of each trial, with its round.
    pub trials: Vec<(usize, f64)>,
    /// Why there is nothing.
    pub refused: Option<String>,
}

impl Prediction {
    /// Whether the costs explain what was measured; none where either is
    /// missing.
    pub fn explains(&self) -> Option<bool> {
        // In shares of what was measured, above as below.
        let within = 1.0 - TOLERANCE..=1.0 + TOLERANCE;
        Some(within.contains(&self.ratio?))
    }
}

/// Each round's costs against what was measured in that round, so that what
/// drifts from minute to minute touches both sides alike.
///
/// # Errors
/// Those of `go_on`, which is asked before each round.
pub fn prediction(cell: &Cell, basis: &Basis<'_>, go_on: GoOn<'_>) -> anyhow::Result<Prediction> {
    let by_round = cell.by_round();
    let measured: Vec<f64> = by_round.iter().map(|(_, rate)| *rate).collect();
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for (round, rate) in &by_round {
        go_on()?;
        let expected = basis.of_round(*round).rate(&cell.scenario, cell.timed_s());
        pairs.extend(expected.map(|expected| (expected, *rate)));
    }
    let predicted: Vec<f64> = pairs.iter().map(|(expected, _)| *expected).collect();
    let moved = pairs.iter().filter(|(_, rate)| *rate > 0.0);
    let ratios: Vec<f64> = moved.map(|(expected, rate)| expected / rate).collect();
    let measured_within = stats::median_interval(&measured, 0.95);
    let ratio_within = stats::median_interval(&ratios, 0.95);
    Ok(Prediction {
        case: cell.case.name.clone(),
        placement: cell.placement,
        pipe_bytes: cell.scenario.pipe,
        is_default: cell.is_default,
        predicted: stats::median(&predicted),
        measured: stats::median(&measured),
        measured_low: measured_within.as_ref().map(|interval| interval.low),
        measured_high: measured_within.as_ref().map(|interval| interval.high),
        ratio: stats::median(&ratios),
        ratio_low: ratio_within.as_ref().map(|interval| interval.low),
        ratio_high: ratio_within.as_ref().map(|interval| interval.high),
        trials: cell.measured.clone(),
        refused: cell.refused.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{cells, synthetic};

    #[test]
    fn each_round_is_compared_with_its_own_prediction() {
        let costs = synthetic::costs(7);
        let mut cells = synthetic::some_cells();
        let expected = Basis::new(&costs)
            .medians()
            .rate(&cells[0].scenario, cells[0].timed_s())
            .unwrap();
        for (measured, explains) in [(1.1, true), (0.85, true), (0.7, false), (1.4, false)] {
            cells[0].measured = (0..7).map(|round| (round, measured * expected)).collect();
            let prediction = prediction(&cells[0], &Basis::new(&costs), &|| Ok(())).unwrap();
            assert!((prediction.ratio.unwrap() * measured - 1.0).abs() < 1e-9);
            assert_eq!(prediction.explains(), Some(explains), "{prediction:?}");
            assert!(prediction.measured_low.is_some() && prediction.ratio_high.is_some());
        }
    }

    #[test]
    fn the_cells_are_all_rungs_on_all_sizes_and_the_ladder_s_own() {
        let cells = synthetic::some_cells();
        // Seven rungs on three sizes; five of them are on 128 KiB by themselves.
        assert_eq!(cells.len(), 7 * 3 + 5);
        assert_eq!(cells.iter().filter(|cell| cell.is_default).count(), 7);
        let sizes = cells::sizes();
        for cell in &cells {
            let size = (cell.scenario.pipe, cell.scenario.piece);
            assert!(sizes.contains(&size), "{cell:?}");
        }
    }

    #[test]
    fn what_was_refused_explains_nothing() {
        let mut cells = synthetic::some_cells();
        cells[0].refused = Some("no".to_owned());
        let prediction =
            prediction(&cells[0], &Basis::new(&synthetic::costs(7)), &|| Ok(())).unwrap();
        assert_eq!(prediction.explains(), None);
        assert_eq!(prediction.refused.as_deref(), Some("no"));
    }
}
