//! Charts as SVG: self-contained text on an opaque card, so that they read the
//! same on a white and on a black page.

mod bars;
mod canvas;
mod dots;
mod stacked;
mod text;

pub use self::bars::chart;
pub use self::dots::{DotRow, dot_chart};
pub use self::stacked::profile_chart;

#[cfg(test)]
mod tests;
