//! Charts as SVG: self-contained text on an opaque card, so that they read the
//! same on a white and on a black page.

mod bars;
mod canvas;
mod dots;
mod heat;
mod lines;
mod looks;
mod memory;
mod missing;
mod percentiles;
mod stacked;
mod text;

pub use self::dots::{DotRow, dot_chart};
pub use self::percentiles::latency_chart;
pub use self::stacked::profile_chart;
pub(super) use self::{
    bars::chart as bar_chart, heat::chart as size_maps, lines::chart as channel_chart,
    memory::chart as memory_chart,
};

use pipespeed_measure::record::Run;

use super::views;

/// Draws a run as its suite has it.
pub fn chart(run: &Run) -> String {
    (views::of(run.suite).chart)(run)
}

#[cfg(test)]
mod tests;
