//! Bar charts: a row for each name, with one or several bars, each with its interval and
//! value.

use pipespeed_stats::Estimate;

use super::svg::{
    Anchor, CARD, Colour, Cut, INK, MARGIN, MUTED, SMALL, Scale, Svg, TEXT, bold_width, fitted,
    length, offset, text_width,
};

/// Longer names are shortened.
const MAX_NAME: i32 = 330;
const GAP: i32 = 8;
const AXIS: i32 = 40;
/// Height of a name above its bars, on a narrow card.
const NAME: i32 = 20;
/// Minimum width of a part of a bar with a label.
const MIN_LABELLED: i32 = 34;

/// A chart of bars.
pub(crate) struct BarChart<'a> {
    pub title: &'a str,
    pub subtitle: Vec<String>,
    pub legend: Vec<(Colour, &'a str)>,
    pub rows: Vec<BarGroup>,
    /// Whether the axis is logarithmic and bars begin at 1; otherwise they begin at 0.
    pub of_ratios: bool,
    pub unit: &'a str,
    /// The width of the card.
    pub width: i32,
}

/// The bars of one name.
pub(crate) struct BarGroup {
    pub name: String,
    /// The bars, or why there are none.
    pub bars: Result<Vec<Bar>, String>,
}

/// A bar, whose parts are stacked.
#[derive(Default)]
pub(crate) struct Bar {
    pub parts: Vec<Part>,
    pub interval: Option<(f64, f64)>,
    /// The text behind the bar.
    pub value: String,
    /// Texts for the space beside or in the bar: the first one that fits is drawn.
    pub notes: Vec<String>,
    /// Shown while the pointer is on the bar; may be empty.
    pub hint: String,
}

#[derive(Default)]
pub(crate) struct Part {
    pub length: f64,
    pub colour: Colour,
    pub label: String,
    /// Shown while the pointer is on the part; may be empty.
    pub hint: String,
}

impl Bar {
    /// A bar as long as the median.
    pub fn new(estimate: Estimate, colour: Colour, value: String) -> Bar {
        Bar {
            parts: vec![Part {
                length: estimate.median,
                colour,
                ..Part::default()
            }],
            interval: estimate.interval.map(|ends| (ends.low, ends.high)),
            value,
            ..Bar::default()
        }
    }

    fn length(&self) -> f64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// The lowest and the highest value drawn.
    fn ends(&self) -> [f64; 2] {
        let (low, high) = self.interval.unwrap_or((self.length(), self.length()));
        [low, high]
    }
}

impl BarChart<'_> {
    /// Draws the chart with these warnings below its subtitle. On a narrow card names stand above
    /// their bars.
    pub fn draw(&self, marks: &[String]) -> String {
        let mut svg = Svg::new(self.title, &self.subtitle, self.width);
        svg.marks(marks);
        if !self.legend.is_empty() {
            svg.legend(self.legend.iter().copied());
        }
        let bars = || self.rows.iter().filter_map(|row| row.bars.as_ref().ok());
        let below_name = match bars().map(Vec::len).max() {
            Some(2..) => 46,
            _ if self.rows.len() <= 14 => 30,
            _ => 22,
        };
        let names = self.rows.iter().map(|row| text_width(&row.name, TEXT));
        let (left, above) = if svg.is_narrow() {
            (MARGIN, NAME)
        } else {
            (MARGIN + names.max().unwrap_or(0).min(MAX_NAME) + GAP, 0)
        };
        let row = above + below_name;
        let values = bars().flatten().map(|bar| bold_width(&bar.value, TEXT));
        let right = svg.width - MARGIN - values.max().unwrap_or(0) - GAP;
        let ends: Vec<f64> = bars().flatten().flat_map(Bar::ends).collect();
        let scale = self.scale(&ends, (left, right));
        let y = svg.y..svg.y + length(self.rows.len()) * row;
        svg.x_axis(&scale.ticks(8), &(left..right), &y, self.unit);
        let base = scale.at(self.base());
        svg.line((base, y.start), (base, y.end), MUTED);
        for (at, row_of) in self.rows.iter().enumerate() {
            let top = y.start + length(at) * row;
            let middle = top + above + below_name / 2;
            let is_missing = row_of.bars.is_err();
            let ink = if is_missing { MUTED } else { INK };
            if svg.is_narrow() {
                let name = fitted(&row_of.name, TEXT, svg.room(), Cut::Middle);
                label(&mut svg, &name, (left, top + above / 2 + 2), (TEXT, ink));
            } else {
                let name = fitted(&row_of.name, TEXT, MAX_NAME, Cut::Middle);
                svg.text(&name, (left - GAP, middle), Anchor::End, TEXT, ink);
            }
            match &row_of.bars {
                Ok(bars) => {
                    let height = if bars.len() > 1 {
                        16
                    } else {
                        below_name * 3 / 5
                    };
                    for (at, bar) in bars.iter().enumerate() {
                        let y = middle + offset(at, bars.len(), height + 2);
                        svg.hinted(&bar.hint, |svg| {
                            self.draw_bar(svg, bar, &scale, (y, height));
                        });
                    }
                }
                Err(reason) => {
                    let room = svg.width - MARGIN - left - GAP;
                    let reason = fitted(reason, SMALL, room, Cut::End);
                    label(&mut svg, &reason, (left + GAP, middle), (SMALL, MUTED));
                }
            }
        }
        svg.y = y.end + AXIS;
        svg.finish()
    }

    fn base(&self) -> f64 {
        if self.of_ratios { 1.0 } else { 0.0 }
    }

    fn scale(&self, ends: &[f64], pixels: (i32, i32)) -> Scale {
        let (mut low, mut high) = if self.of_ratios {
            (0.95, 1.05)
        } else {
            (0.0, f64::MIN_POSITIVE)
        };
        for end in ends {
            (low, high) = (f64::min(low, *end), f64::max(high, *end));
        }
        Scale {
            values: (low, if ends.is_empty() { high.max(1.0) } else { high }),
            pixels,
            logarithmic: self.of_ratios,
        }
    }

    fn draw_bar(&self, svg: &mut Svg, bar: &Bar, scale: &Scale, (y, height): (i32, i32)) {
        let base = scale.at(self.base());
        let (mut from, mut sum) = (base, 0.0);
        for part in &bar.parts {
            sum += part.length;
            let to = scale.at(sum);
            let x = from.min(to)..from.max(to);
            if x.is_empty() {
                continue;
            }
            svg.hinted(&part.hint, |svg| {
                svg.rectangle(x.clone(), y - height / 2..y + height / 2, part.colour);
                if x.end - x.start >= MIN_LABELLED {
                    let at = (i32::midpoint(x.start, x.end), y);
                    svg.text(&part.label, at, Anchor::Middle, SMALL, CARD);
                }
            });
            from = to;
        }
        let interval = bar.interval;
        let (inner, outer) =
            interval.map_or((from, from), |(low, high)| (scale.at(low), scale.at(high)));
        // A shorter one would be unreadable.
        if outer - inner >= 3 {
            svg.whisker([(inner, y), (outer, y)], INK, 2);
        }
        let value = (outer.max(base) + GAP, y);
        svg.bold(&bar.value, value, TEXT);
        let free = value.0 + bold_width(&bar.value, TEXT) + GAP;
        for note in &bar.notes {
            let width = text_width(note, SMALL);
            if free + width <= svg.width - MARGIN {
                return label(svg, note, (free, y), (SMALL, MUTED));
            }
            if inner - GAP - width >= base + GAP {
                return svg.text(note, (inner - GAP, y), Anchor::End, SMALL, CARD);
            }
        }
    }
}

/// A text of a size and colour that hides the grid behind it.
fn label(svg: &mut Svg, text: &str, (x, y): (i32, i32), (size, colour): (i32, Colour)) {
    svg.rectangle(x - 2..x + text_width(text, size), y - 8..y + 8, CARD);
    svg.text(text, (x, y), Anchor::Start, size, colour);
}
