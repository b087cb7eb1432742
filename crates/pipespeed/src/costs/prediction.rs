//! Predictions beside measurements.

use serde::Serialize;

use super::Cost;
use super::cells::Cell;
use super::predict::Figures;
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
    /// The median of what was measured in the same rounds.
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
    /// Why there is nothing.
    pub refused: Option<String>,
}

impl Prediction {
    /// Whether the costs explain what was measured; none where either is
    /// missing.
    pub fn explains(&self) -> Option<bool> {
        // As far above as below.
        let within = 1.0 - TOLERANCE..=1.0 + TOLERANCE;
        Some(within.contains(&self.ratio?))
    }
}

/// Each round's costs against what was measured in that round, so that what
/// drifts from minute to minute touches both sides alike.
pub fn predictions(cells: &[Cell], costs: &[Cost]) -> Vec<Prediction> {
    cells.iter().map(|cell| prediction(cell, costs)).collect()
}

fn prediction(cell: &Cell, costs: &[Cost]) -> Prediction {
    let measured: Vec<f64> = cell.measured.iter().map(|(_, rate)| *rate).collect();
    let expected: Vec<(usize, f64)> = cell
        .measured
        .iter()
        .filter_map(|(round, _)| {
            let rate = Figures::of_round(costs, *round).rate(&cell.scenario)?;
            Some((*round, rate))
        })
        .collect();
    let predicted: Vec<f64> = expected.iter().map(|(_, rate)| *rate).collect();
    let ratios = stats::paired_ratios(&expected, &cell.measured);
    let measured_within = stats::median_interval(&measured, 0.95);
    let ratio_within = stats::median_interval(&ratios, 0.95);
    Prediction {
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
        refused: cell.refused.clone(),
    }
}
