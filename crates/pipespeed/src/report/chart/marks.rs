//! Marks over the cells of a map: frames and hatching, given the extents of a
//! cell, whose last row and column of pixels is the gap to the next.

use std::ops::Range;

use plotters::prelude::RGBColor;

use super::canvas::{CARD, Canvas, Drawn, EDGE, INK};

/// A frame within a cell.
pub(super) fn frame(
    canvas: &Canvas<'_>,
    x: Range<i32>,
    y: Range<i32>,
    colour: RGBColor,
    width: u32,
) -> Drawn {
    let (left, right, top, bottom) = (x.start, x.end - 2, y.start, y.end - 2);
    // A pixel further, so that corners are filled.
    canvas.line((left - 1, top), (right + 1, top), colour, width)?;
    canvas.line((left - 1, bottom), (right + 1, bottom), colour, width)?;
    canvas.line((left, top), (left, bottom), colour, width)?;
    canvas.line((right, top), (right, bottom), colour, width)
}

/// A frame of dashes, dark on white.
pub(super) fn dashed(canvas: &Canvas<'_>, x: Range<i32>, y: Range<i32>) -> Drawn {
    frame(canvas, x.clone(), y.clone(), CARD, 2)?;
    let (left, right, top, bottom) = (x.start, x.end - 2, y.start, y.end - 2);
    for from in (left..right).step_by(6) {
        let to = (from + 3).min(right);
        canvas.line((from, top), (to, top), INK, 2)?;
        canvas.line((from, bottom), (to, bottom), INK, 2)?;
    }
    for from in (top..bottom).step_by(6) {
        let to = (from + 3).min(bottom);
        canvas.line((left, from), (left, to), INK, 2)?;
        canvas.line((right, from), (right, to), INK, 2)?;
    }
    Ok(())
}

/// Slanting lines through a cell.
pub(super) fn hatch(canvas: &Canvas<'_>, x: Range<i32>, y: Range<i32>) -> Drawn {
    let (left, right, top, bottom) = (x.start, x.end - 2, y.start, y.end - 2);
    let (width, height) = (right - left, bottom - top);
    for offset in (-height..width).step_by(6) {
        // From the bottom to the right and upward, cut off at the sides.
        let from = left + offset.max(0);
        let below = bottom - (-offset).max(0);
        let run = (right - from).min(below - top);
        if run > 0 {
            canvas.line((from, below), (from + run, below - run), EDGE, 1)?;
        }
    }
    Ok(())
}
