//! Charts as self-contained SVG on an opaque white card, so that they look the
//! same on a light and on a dark page.

pub(super) mod bars;
pub(super) mod lines;
pub(super) mod palette;
pub(super) mod svg;

#[cfg(test)]
mod tests;
