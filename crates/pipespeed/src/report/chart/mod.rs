//! Charts as SVG: self-contained text on an opaque card, so that they read the
//! same on a white and on a black page.

mod bars;
mod canvas;
mod dots;
mod text;

pub use self::bars::chart;
pub use self::dots::{DotRow, dot_chart};

#[cfg(test)]
mod tests;
