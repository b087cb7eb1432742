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

use pipespeed_measure::record::Run;

use super::{channels, memory as measured_memory};

/// Draws a run: lines over the size of the messages where channels were
/// compared, or of the block of memory, maps of sizes where these were searched
/// for, else a bar a case.
pub fn chart(run: &Run) -> String {
    match (run, &run.search) {
        (_, Some(search)) => heat::chart(run, search),
        _ if channels::are_compared(run) => lines::chart(run),
        _ if measured_memory::is_measured(run) => memory::chart(run),
        _ => bars::chart(run),
    }
}

#[cfg(test)]
mod tests;
