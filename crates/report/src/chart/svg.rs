//! A writer of SVG: a white card with a heading, text of estimated width, shapes,
//! scales, axes and legends.
//!
//! Positions are pixels of a card that is [`WIDE`], or [`NARROW`] for a phone. Viewers choose the
//! face of `sans-serif`, so widths are estimated for a wide one.

use std::fmt::{self, Display};
use std::ops::Range;

use itertools::Itertools as _;

/// Width of a chart: that of a README's column.
pub(crate) const WIDE: i32 = 800;
/// Width of a chart for a phone.
pub(crate) const NARROW: i32 = 340;
/// Free space around everything.
pub(crate) const MARGIN: i32 = 20;
/// Font sizes of names, and of notes, ticks and the subtitle.
pub(crate) const TEXT: i32 = 13;
pub(crate) const SMALL: i32 = 12;
const TITLE: i32 = 18;
/// Height of a line of the subtitle, and of the legend.
const LINE: i32 = 17;
const LEGEND_LINE: i32 = 20;

/// Red, green and blue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Colour(pub u8, pub u8, pub u8);

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

pub(crate) const CARD: Colour = Colour(255, 255, 255);
pub(crate) const EDGE: Colour = Colour(208, 215, 222);
pub(crate) const GRID: Colour = Colour(228, 232, 236);
pub(crate) const INK: Colour = Colour(31, 35, 40);
pub(crate) const MUTED: Colour = Colour(89, 99, 110);

/// The colours of a warning, and of its background.
pub(crate) const WARNING: Colour = Colour(213, 94, 0);
const WARNING_CARD: Colour = Colour(253, 236, 222);
/// Distance of a warning's text from its edge.
const MARK_INDENT: i32 = 12;

/// Horizontal place of a text relative to its position; vertically it is centred.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

type Point = (i32, i32);

/// A card being drawn, from top to bottom.
pub(crate) struct Svg {
    title: String,
    body: String,
    /// The width of the card.
    pub width: i32,
    /// The height at which the next part begins.
    pub y: i32,
}

impl Svg {
    /// A card with its heading. Long lines are wrapped.
    pub fn new(title: &str, subtitle: &[String], width: i32) -> Svg {
        let mut svg = Svg {
            title: title.to_owned(),
            body: String::new(),
            width,
            y: MARGIN,
        };
        svg.heading(title, TITLE);
        svg.y += 6;
        for line in subtitle {
            svg.note(line);
        }
        svg.y += 2;
        svg
    }

    /// A muted line, wrapped if it is too long.
    pub fn note(&mut self, text: &str) {
        for line in wrapped(text, self.room(), SMALL).lines() {
            let at = (MARGIN, self.y + LINE / 2);
            self.text(line, at, Anchor::Start, SMALL, MUTED);
            self.y += LINE;
        }
    }

    /// Lines in a frame that warn of the figures, each wrapped if it is too long.
    pub fn marks(&mut self, marks: &[String]) {
        let room = self.room() - 2 * MARK_INDENT;
        for mark in marks {
            let lines = wrapped(mark, room, SMALL * 113 / 100);
            let top = self.y + 2;
            let height = LINE * length(lines.lines().count()) + 4;
            self.rectangle(MARGIN..self.width - MARGIN, top..top + height, WARNING_CARD);
            self.rectangle(MARGIN..MARGIN + 4, top..top + height, WARNING);
            self.y = top + 2;
            for line in lines.lines() {
                self.bold(line, (MARGIN + MARK_INDENT, self.y + LINE / 2), SMALL);
                self.y += LINE;
            }
            self.y += 6;
        }
    }

    /// Whether the card is for a phone.
    pub fn is_narrow(&self) -> bool {
        self.width < WIDE
    }

    /// The width between the margins.
    pub fn room(&self) -> i32 {
        self.width - 2 * MARGIN
    }

    /// A bold line, wrapped if it is too long.
    pub fn heading(&mut self, text: &str, size: i32) {
        let lines = if bold_width(text, size) > self.room() {
            // Bold characters are wider than the estimate for plain ones.
            wrapped(text, self.room(), size * 5 / 4)
        } else {
            text.to_owned()
        };
        for line in lines.split('\n') {
            self.bold(line, (MARGIN, self.y + size / 2), size);
            self.y += size + 4;
        }
        self.y -= 4;
    }

    /// What `draw` adds, with a text that is shown while the pointer is on it.
    pub fn hinted(&mut self, hint: &str, draw: impl FnOnce(&mut Svg)) {
        if hint.is_empty() {
            return draw(self);
        }
        self.body += &format!("<g><title>{}</title>\n", escaped(hint));
        draw(self);
        self.body += "</g>\n";
    }

    /// The picture, which ends below the last part.
    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.y + MARGIN / 2);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-variant-numeric=\"tabular-nums\">\n<title>{}</title>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" fill=\"{CARD}\" \
             stroke=\"{EDGE}\"/>\n{}</svg>\n",
            escaped(&self.title),
            width - 1,
            height - 1,
            self.body
        )
    }

    /// Text at a position.
    pub fn text(&mut self, text: &str, at: Point, anchor: Anchor, size: i32, colour: Colour) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let look = format!("text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\"");
        self.write_text(text, at, &look);
    }

    /// Bold text from a position on.
    pub fn bold(&mut self, text: &str, at: Point, size: i32) {
        let look = format!("font-weight=\"bold\" font-size=\"{size}\" fill=\"{INK}\"");
        self.write_text(text, at, &look);
    }

    fn write_text(&mut self, text: &str, (x, y): Point, look: &str) {
        let text = escaped(text);
        self.body += &format!("<text x=\"{x}\" y=\"{y}\" dy=\".36em\" {look}>{text}</text>\n");
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, x: Range<i32>, y: Range<i32>, fill: Colour) {
        let (width, height) = (x.end - x.start, y.end - y.start);
        let place = format!("x=\"{}\" y=\"{}\"", x.start, y.start);
        self.body +=
            &format!("<rect {place} width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>\n");
    }

    /// Straight lines from point to point.
    pub fn polyline(&mut self, points: &[Point], colour: Colour, width: i32) {
        // Horizontal and vertical lines are not blurred over two rows of pixels.
        let crisp = match points {
            [a, b] if a.0 == b.0 || a.1 == b.1 => " shape-rendering=\"crispEdges\"",
            _ => "",
        };
        self.body += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"{crisp}/>\n",
            joined(points)
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: Point, to: Point, colour: Colour) {
        self.polyline(&[from, to], colour, 1);
    }

    /// A dashed horizontal line.
    pub fn dashes(&mut self, x: &Range<i32>, y: i32, colour: Colour) {
        let path = format!("M{} {y}H{}", x.start, x.end);
        self.body += &format!("<path d=\"{path}\" stroke=\"{colour}\" stroke-dasharray=\"6\"/>\n");
    }

    /// A filled circle.
    pub fn dot(&mut self, (x, y): Point, radius: i32, fill: Colour) {
        self.body += &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\"/>\n");
    }

    /// One of four marks, which distinguish points in addition to their colour.
    pub fn mark(&mut self, (x, y): Point, shape: usize, fill: Colour) {
        let corners: &[Point] = match shape % 4 {
            0 => return self.dot((x, y), 4, fill),
            1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
            2 => &[(-5, 0), (0, -5), (5, 0), (0, 5)],
            _ => &[(-5, 4), (0, -5), (5, 4)],
        };
        let corners: Vec<Point> = corners
            .iter()
            .map(|corner| (x + corner.0, y + corner.1))
            .collect();
        let points = joined(&corners);
        self.body += &format!("<polygon points=\"{points}\" fill=\"{fill}\"/>\n");
    }

    /// An interval, horizontal or vertical, with a bar across each end.
    pub fn whisker(&mut self, ends: [Point; 2], colour: Colour, width: i32) {
        let across = 2 + width;
        let (dx, dy) = if ends[0].0 == ends[1].0 {
            (across, 0)
        } else {
            (0, across)
        };
        self.polyline(&ends, colour, width);
        for (x, y) in ends {
            self.polyline(&[(x - dx, y - dy), (x + dx, y + dy)], colour, width);
        }
    }

    /// Colours and their meanings, in as many lines as they need.
    pub fn legend<'a>(&mut self, entries: impl IntoIterator<Item = (Colour, &'a str)>) {
        let mut x = MARGIN;
        self.y += LEGEND_LINE / 2;
        for (colour, name) in entries {
            let width = 18 + text_width(name, SMALL) + 14;
            if x > MARGIN && x + width > self.width - MARGIN {
                (x, self.y) = (MARGIN, self.y + LEGEND_LINE);
            }
            let y = self.y;
            self.rectangle(x..x + 12, y - 6..y + 6, colour);
            self.text(name, (x + 18, y), Anchor::Start, SMALL, INK);
            x += width;
        }
        self.y += LEGEND_LINE / 2 + 6;
    }

    /// Vertical grid lines over `y`, their labels if there is room, and the unit below the
    /// middle of `x`.
    pub fn x_axis(&mut self, ticks: &[(i32, String)], x: &Range<i32>, y: &Range<i32>, unit: &str) {
        let mut free = 0;
        for (at, label) in ticks {
            self.line((*at, y.start), (*at, y.end), GRID);
            let half = text_width(label, SMALL) / 2 + 3;
            if at - half >= free {
                self.text(label, (*at, y.end + 12), Anchor::Middle, SMALL, MUTED);
                free = at + half;
            }
        }
        let below = (i32::midpoint(x.start, x.end), y.end + 31);
        self.text(unit, below, Anchor::Middle, SMALL, INK);
    }

    /// Horizontal grid lines over `x` with labels on the left, and the unit above.
    pub fn y_axis(&mut self, scale: &Scale, x: &Range<i32>, unit: &str) {
        for (y, label) in scale.ticks(8) {
            self.line((x.start, y), (x.end, y), GRID);
            self.text(&label, (x.start - 8, y), Anchor::End, SMALL, MUTED);
        }
        let above = (x.start - 8, scale.pixels.1 - 12);
        self.text(unit, above, Anchor::End, SMALL, INK);
    }
}

fn joined(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{x},{y}")).join(" ")
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        // XML has no control characters.
        c if c.is_control() => "\u{fffd}".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// The text in lines that fit into `room`, by the average width of a character.
fn wrapped(text: &str, room: i32, size: i32) -> String {
    let columns = usize::try_from(room * 100 / (size * 57)).unwrap_or(1);
    crate::format::wrap(text, columns, "")
}

/// Maps values to pixels.
pub(crate) struct Scale {
    pub values: (f64, f64),
    /// The pixels of both ends.
    pub pixels: (i32, i32),
    pub logarithmic: bool,
}

impl Scale {
    /// The pixel of a value; values beyond an end lie on it.
    pub fn at(&self, value: f64) -> i32 {
        let (from, to) = self.values;
        let share = if self.logarithmic {
            (value / from).ln() / (to / from).ln()
        } else {
            (value - from) / (to - from)
        };
        let (start, end) = self.pixels;
        // Not a number if both ends are the same.
        let share = if share.is_nan() {
            0.5
        } else {
            share.clamp(0.0, 1.0)
        };
        start + (share * f64::from(end - start)).round() as i32
    }

    /// Round values, at most `max` on a linear scale, with their pixels and labels.
    pub fn ticks(&self, max: usize) -> Vec<(i32, String)> {
        let (from, to) = self.values;
        let values = if self.logarithmic && to / from >= 3.0 {
            logarithmic_ticks(from, to)
        } else {
            linear_ticks(from, to, max)
        };
        let values = values.into_iter();
        values
            .map(|value| (self.at(value), tick_label(value)))
            .collect()
    }
}

/// Multiples of the smallest 1, 2 or 5 times a power of ten that are at most `max`.
fn linear_ticks(from: f64, to: f64, max: usize) -> Vec<f64> {
    let least = (to - from) / max as f64;
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    let Some(step) = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)) else {
        return Vec::new();
    };
    let (first, last) = ((from / step - 1e-9).ceil(), (to / step + 1e-9).floor());
    (0..=(last - first) as usize)
        .map(|at| (first + at as f64) * step)
        .collect()
}

/// 1, 2 and 5 in every decade, or only 1 where there are more than four.
fn logarithmic_ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let digits: &[f64] = if decades.end() - decades.start() > 4 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    decades
        .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
        .filter(|value| (from..=to).contains(value))
        .collect()
}

/// The label of a tick, without superfluous decimals.
fn tick_label(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// Positions near `wished` (both ascending) that are at least `gap` apart and, if there is
/// room, within `range`.
pub(crate) fn spread(wished: &[i32], range: &Range<i32>, gap: i32) -> Vec<i32> {
    let mut places = wished.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + gap);
    }
    let over = places.last().map_or(0, |last| (last - range.end).max(0));
    if let Some(last) = places.last_mut() {
        *last -= over;
    }
    for at in (1..places.len()).rev() {
        places[at - 1] = places[at - 1].min(places[at] - gap);
    }
    places
}

/// The offset of item `at` of `count` that stand side by side, `gap` apart.
pub(crate) fn offset(at: usize, count: usize, gap: i32) -> i32 {
    (2 * length(at) - length(count) + 1) * gap / 2
}

/// Converts a count for arithmetic with pixels.
pub(crate) fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The estimated maximum width of a text: the advances of DejaVu Sans, the widest face in
/// common use, by kinds of characters.
pub(crate) fn text_width(text: &str, size: i32) -> i32 {
    // A name in an edited record may be of any length. No chart has room for as many characters.
    let thousandths: i32 = text.chars().take(10_000).map(advance).sum();
    thousandths * size / 1000 + 1
}

/// The same for bold text.
pub(crate) fn bold_width(text: &str, size: i32) -> i32 {
    text_width(text, size) * 113 / 100
}

/// The smallest [`advance`].
const NARROWEST: i32 = 340;

/// The width of a character in thousandths of the font size.
fn advance(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | 'I' | ' ' | '.' | ',' | ':' | ';' | '|' | '\'' => NARROWEST,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/' => 420,
        'm' | 'w' | 'M' | 'W' | '%' | '…' => 1000,
        '_' | 's' | 'c' | 'z' => 550,
        'A'..='Z' => 740,
        _ if c.is_ascii() => 637,
        _ => 1000,
    }
}

/// The part of a text that is cut if it is too long.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// For names, which differ at both ends.
    Middle,
    /// For sentences, which begin with the most important.
    End,
}

/// The text, cut if it is wider than `room`.
pub(crate) fn fitted(text: &str, size: i32, room: i32, cut: Cut) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let all: Vec<char> = text.chars().collect();
    // One character fewer at a time, from the number of the narrowest that fit.
    let most = room.max(0) * 1000 / (NARROWEST * size);
    (0..all.len().min(most as usize + 1))
        .rev()
        .map(|kept| {
            let tail = match cut {
                Cut::Middle => kept / 2,
                Cut::End => 0,
            };
            let head: String = all[..kept - tail].iter().collect();
            let tail: String = all[all.len() - tail..].iter().collect();
            format!("{}…{tail}", head.trim_end())
        })
        .find(|shorter| text_width(shorter, size) <= room)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |from, to, logarithmic| -> Vec<String> {
            let scale = Scale {
                values: (from, to),
                pixels: (0, 100),
                logarithmic,
            };
            scale.ticks(8).into_iter().map(|tick| tick.1).collect()
        };
        assert_eq!(
            labels(0.0, 71.0, false),
            ["0", "10", "20", "30", "40", "50", "60", "70"]
        );
        assert_eq!(labels(0.0, 0.8, false).last().unwrap(), "0.8");
        assert_eq!(
            labels(0.9, 1.2, true),
            ["0.9", "0.95", "1", "1.05", "1.1", "1.15", "1.2"]
        );
        assert_eq!(
            labels(0.15, 14.0, true),
            ["0.2", "0.5", "1", "2", "5", "10"]
        );
        assert_eq!(
            labels(0.001, 5e3, true),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]
        );
    }

    #[test]
    fn equal_ratios_are_equal_steps_on_a_logarithmic_scale() {
        let scale = Scale {
            values: (0.5, 8.0),
            pixels: (400, 0),
            logarithmic: true,
        };
        assert_eq!(
            [0.25, 0.5, 1.0, 2.0, 8.0, 9.0].map(|value| scale.at(value)),
            [400, 400, 300, 200, 0, 0]
        );
    }

    #[test]
    fn labels_move_only_where_they_would_touch() {
        assert_eq!(spread(&[10, 50, 90], &(0..100), 16), [10, 50, 90]);
        assert_eq!(spread(&[10, 12, 14], &(0..100), 16), [10, 26, 42]);
        assert_eq!(spread(&[90, 95, 99], &(0..100), 16), [68, 84, 100]);
    }

    proptest! {
        #[test]
        fn labels_never_touch_and_keep_their_order(
            mut wished in prop::collection::vec(0..330_i32, 1..16),
        ) {
            wished.sort_unstable();
            let places = spread(&wished, &(0..330), 16);
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 16));
            prop_assert!(places.iter().all(|place| (0..=330).contains(place)));
        }

        #[test]
        fn there_are_never_more_linear_ticks_than_wanted(from in 0.0..1e4_f64, length in 1e-3..1e4_f64) {
            let ticks = linear_ticks(from, from + length, 8);
            prop_assert!((1..=9).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn names_are_cut_in_the_middle_sentences_at_the_end() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let room = text_width("abcdefghijkl", 13);
        let name = fitted(text, 13, room, Cut::Middle);
        let sentence = fitted(text, 13, room, Cut::End);
        assert!(name.starts_with("abc") && name.ends_with("xyz"), "{name}");
        assert!(
            sentence.starts_with("abcdefg") && sentence.ends_with('…'),
            "{sentence}"
        );
        for short in [name, sentence] {
            assert!(text_width(&short, 13) <= room);
        }
        assert_eq!(fitted(text, 13, 0, Cut::End), "");
        let narrow = "i".repeat(1_000_000);
        let room = text_width(&narrow[..50], 13);
        assert!((48..=50).contains(&fitted(&narrow, 13, room, Cut::Middle).chars().count()));
    }
}
