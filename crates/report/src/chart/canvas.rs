//! What every chart is drawn on and with: a card, its heading, text whose
//! width is estimated, lines and ticks.
//!
//! Positions are pixels of a card [`WIDTH`] wide. Which face a viewer takes
//! for `sans-serif` is unknown, so widths are estimated for a wide one and
//! nothing is placed more tightly than that allows.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::text::length;

/// Width of every chart: that of a README's column.
pub(super) const WIDTH: i32 = 800;
/// Free space around everything.
pub(super) const MARGIN: i32 = 20;
/// Height of a row's text.
pub(super) const TEXT: i32 = 13;
/// Height of notes, ticks and the subtitle.
pub(super) const SMALL: i32 = 12;

pub(super) const CARD: RGBColor = RGBColor(255, 255, 255);
pub(super) const EDGE: RGBColor = RGBColor(208, 215, 222);
pub(super) const GRID: RGBColor = RGBColor(228, 232, 236);
pub(super) const INK: RGBColor = RGBColor(31, 35, 40);
pub(super) const MUTED: RGBColor = RGBColor(89, 99, 110);

const TITLE: i32 = 18;
const LINE: i32 = 17;

/// Drawing into memory: the only errors are those of a writer that can't fail.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Where a text stands relative to its position; it is always centred on it
/// from top to bottom.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    /// The text begins there.
    Right,
    /// The text ends there.
    Left,
    /// The text is centred there.
    Middle,
}

/// A text's look.
#[derive(Clone, Copy)]
pub(super) struct Face {
    pub size: i32,
    pub colour: RGBColor,
    pub style: FontStyle,
}

/// Plain text of a size and colour.
pub(super) fn plain(size: i32, colour: RGBColor) -> Face {
    Face {
        size,
        colour,
        style: FontStyle::Normal,
    }
}

/// Bold text of a size and colour.
pub(super) fn bold(size: i32, colour: RGBColor) -> Face {
    Face {
        size,
        colour,
        style: FontStyle::Bold,
    }
}

/// A card being drawn on.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl Canvas<'_> {
    /// Text at a position.
    pub fn text(&self, text: &str, at: (i32, i32), side: Side, face: Face) -> Drawn {
        let horizontal = match side {
            Side::Right => HPos::Left,
            Side::Left => HPos::Right,
            Side::Middle => HPos::Center,
        };
        // The backend divides sizes by 1.24, and lifts by half the height of
        // an x, which is less than half that of a capital.
        let style = (
            FontFamily::SansSerif,
            f64::from(face.size) * 1.24,
            face.style,
        )
            .into_font()
            .color(&face.colour)
            .pos(Pos::new(horizontal, VPos::Center));
        self.area.draw_text(text, &style, (at.0, at.1 + 1))
    }

    /// A straight line.
    pub fn line(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) -> Drawn {
        self.area.draw(&PathElement::new(
            vec![from, to],
            colour.stroke_width(width),
        ))
    }

    /// A filled rectangle.
    pub fn rectangle(&self, x: Range<i32>, y: Range<i32>, colour: RGBColor) -> Drawn {
        self.area.draw(&Rectangle::new(
            [(x.start, y.start), (x.end, y.end)],
            colour.filled(),
        ))
    }

    /// A filled circle.
    pub fn dot(&self, at: (i32, i32), radius: i32, colour: RGBColor) -> Drawn {
        self.area.draw(&Circle::new(at, radius, colour.filled()))
    }

    /// An interval from left to right with upright ends.
    pub fn whisker(&self, x: Range<i32>, y: i32, colour: RGBColor) -> Drawn {
        self.line((x.start, y), (x.end, y), colour, 2)?;
        for end in [x.start, x.end] {
            self.line((end, y - 4), (end, y + 4), colour, 2)?;
        }
        Ok(())
    }

    /// An upright interval with ends across it.
    pub fn upright_whisker(&self, x: i32, y: Range<i32>, colour: RGBColor) -> Drawn {
        self.line((x, y.start), (x, y.end), colour, 1)?;
        for end in [y.start, y.end] {
            self.line((x - 3, end), (x + 3, end), colour, 1)?;
        }
        Ok(())
    }

    /// One of the marks that points are told apart by, besides their colour.
    pub fn mark(&self, at: (i32, i32), shape: usize, colour: RGBColor) -> Drawn {
        let (x, y) = at;
        match shape % 4 {
            0 => self.dot(at, 4, colour),
            1 => self.rectangle(x - 3..x + 4, y - 3..y + 4, colour),
            2 => {
                let corners = vec![(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)];
                self.area.draw(&Polygon::new(corners, colour.filled()))
            }
            _ => self.area.draw(&TriangleMarker::new(at, 5, colour.filled())),
        }
    }

    /// Upright lines with a label below each, and what they count.
    pub fn axis(&self, ticks: &[(i32, String)], x: Range<i32>, y: Range<i32>, unit: &str) -> Drawn {
        for (at, label) in ticks {
            self.line((*at, y.start), (*at, y.end), GRID, 1)?;
            self.text(label, (*at, y.end + 12), Side::Middle, plain(SMALL, MUTED))?;
        }
        let middle = i32::midpoint(x.start, x.end);
        self.text(unit, (middle, y.end + 32), Side::Middle, plain(SMALL, INK))
    }
}

/// What stands above the drawing.
pub(super) struct Heading<'a> {
    pub title: &'a str,
    /// Lines below the title; those too long for the card are broken.
    pub subtitle: &'a [String],
}

/// Draws a card of the height the heading and `body` pixels take. `draw` gets
/// the canvas and the height at which its part begins.
pub(super) fn card(
    heading: &Heading<'_>,
    body: i32,
    draw: impl FnOnce(&Canvas<'_>, i32) -> Drawn,
) -> String {
    // By the estimate for SMALL text, what the card's inner width holds.
    let columns = usize::try_from((WIDTH - 2 * MARGIN) * 100 / (SMALL * 57)).unwrap_or(1);
    let lines: Vec<String> = heading
        .subtitle
        .iter()
        .map(|line| crate::format::wrap(line, columns, ""))
        .collect();
    let lines: Vec<&str> = lines.iter().flat_map(|line| line.lines()).collect();
    let top = MARGIN + TITLE + 8 + length(lines.len()) * LINE;
    let height = top + body + MARGIN / 2;
    let mut svg = String::new();
    paint(&mut svg, height, |canvas| {
        let title = bold(TITLE, INK);
        canvas.text(
            heading.title,
            (MARGIN, MARGIN + TITLE / 2),
            Side::Right,
            title,
        )?;
        for (index, line) in lines.iter().enumerate() {
            let y = MARGIN + TITLE + 6 + length(index) * LINE + LINE / 2;
            canvas.text(line, (MARGIN, y), Side::Right, plain(SMALL, MUTED))?;
        }
        draw(canvas, top)
    })
    .expect("drawing into a string does not fail");
    with_name(&svg, heading.title)
}

fn paint(svg: &mut String, height: i32, draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Drawn {
    let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&CARD)?;
    area.draw(&Rectangle::new(
        [(0, 0), (WIDTH - 1, height - 1)],
        EDGE.stroke_width(1),
    ))?;
    let canvas = Canvas { area };
    draw(&canvas)?;
    canvas.area.present()
}

/// Gives the picture a name for those who hear it read.
fn with_name(svg: &str, title: &str) -> String {
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;");
    let mut named = svg.replacen(
        " xmlns=",
        " role=\"img\" font-variant-numeric=\"tabular-nums\" xmlns=",
        1,
    );
    if let Some(end) = named.find('>') {
        named.insert_str(end + 1, &format!("\n<title>{escaped}</title>"));
    }
    named
}

/// Round values within a range, at most `most`.
pub(super) fn round_values(range: Range<f64>, most: usize) -> Vec<f64> {
    RangedCoordf64::from(range).key_points(most)
}

/// A tick's label: no more decimals than the tick needs.
pub(super) fn tick_label(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}
