//! Lines of the display, made from a format and a snapshot for a given width.

use std::ops::Range;
use std::time::Duration;

use jiff::Zoned;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::bar;
use super::progress::Snapshot;
use super::units::{Unit, amount, time};

/// An element of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Literal text.
    Text(String),
    /// A space between two non-empty elements.
    Gap,
    /// The name.
    Name,
    /// The number of units passed.
    Count,
    /// The elapsed time.
    Timer,
    /// The current rate.
    Rate,
    /// The average rate.
    Average,
    /// Fill of the output pipe.
    Fill,
    /// The bar, in the remaining width.
    Bar,
    /// The remaining time.
    TimeLeft,
    /// The expected time of day at the end.
    Arrival,
}

/// The elements of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<Item>);

impl Default for Format {
    /// Count, timer, rate, bar and time left, as pv without options.
    fn default() -> Self {
        Format::of([
            Item::Count,
            Item::Timer,
            Item::Rate,
            Item::Bar,
            Item::TimeLeft,
        ])
    }
}

impl Format {
    /// The items, after the name, with gaps between them.
    pub fn of(items: impl IntoIterator<Item = Item>) -> Self {
        let mut all = vec![Item::Name];
        for item in items {
            all.extend([Item::Gap, item]);
        }
        Format(all)
    }

    /// Parses a format of the command line: text, and letters after '%'.
    ///
    /// # Errors
    /// A message without the option's name, which clap adds.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut items = Vec::new();
        let mut plain = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                plain.push(visible(letter));
                continue;
            }
            let item = match letters.next() {
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                Some('p') if items.contains(&Item::Bar) => {
                    return Err("%p is allowed only once".to_owned());
                }
                Some('p') => Item::Bar,
                Some('t') => Item::Timer,
                Some('e') => Item::TimeLeft,
                Some('I') => Item::Arrival,
                Some('r') => Item::Rate,
                Some('a') => Item::Average,
                Some('b') => Item::Count,
                Some('T') => Item::Fill,
                Some('N') => Item::Name,
                Some(other) => {
                    return Err(format!(
                        "%{other} is not one of %p %t %e %I %r %a %b %T %N %%"
                    ));
                }
                None => return Err("a single % at the end; write %% for a percent sign".to_owned()),
            };
            if !plain.is_empty() {
                items.push(Item::Text(std::mem::take(&mut plain)));
            }
            items.push(item);
        }
        if !plain.is_empty() {
            items.push(Item::Text(plain));
        }
        Ok(Format(items))
    }
}

/// Inputs of a line besides the snapshot.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The name shown first.
    pub name: Option<&'a str>,
    /// The unit of counts.
    pub unit: Unit,
    /// The available columns.
    pub width: usize,
    /// The time of day.
    pub now: &'a Zoned,
}

/// A line without control characters, within the requested width.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The text.
    pub text: String,
    /// The byte range of the bar.
    pub bar: Range<usize>,
}

impl Line {
    /// The number of columns.
    pub fn width(&self) -> usize {
        self.text.width()
    }
}

impl Format {
    /// Makes a line. If the width is too small, the bar is left out first, then
    /// the end of the line.
    pub fn line(&self, snapshot: &Snapshot, setting: &Setting<'_>) -> Line {
        let mut parts: Vec<Option<String>> = Vec::with_capacity(self.0.len());
        for item in &self.0 {
            parts.push(match item {
                Item::Bar | Item::Gap => None,
                other => Some(text(other, snapshot, setting)),
            });
        }
        if let Some(place) = self.0.iter().position(|item| *item == Item::Bar) {
            // A placeholder of one column, to measure the rest with its gaps.
            parts[place] = Some("=".to_owned());
            let rest = self.join(&parts).0.width() - 1;
            parts[place] = Some(bar_of(snapshot, setting.width.saturating_sub(rest)));
        }
        let (mut text, mut bar) = self.join(&parts);
        truncate(&mut text, setting.width);
        bar.end = bar.end.min(text.len());
        bar.start = bar.start.min(bar.end);
        Line { text, bar }
    }

    /// The line and the byte range of the bar.
    fn join(&self, parts: &[Option<String>]) -> (String, Range<usize>) {
        let mut line = String::new();
        let mut bar = 0..0;
        let mut gap = false;
        for (item, part) in self.0.iter().zip(parts) {
            let Some(part) = part else {
                gap = true;
                continue;
            };
            if part.is_empty() {
                continue;
            }
            if gap && !line.is_empty() {
                line.push(' ');
            }
            gap = false;
            if *item == Item::Bar {
                bar = line.len()..line.len() + part.len();
            }
            line.push_str(part);
        }
        (line, bar)
    }
}

fn text(item: &Item, snapshot: &Snapshot, setting: &Setting<'_>) -> String {
    let unit = setting.unit;
    let rate = |rate: Option<f64>| format!("[{:>9}]", amount(rate.unwrap_or(0.0), unit) + "/s");
    // The last line shows no time left.
    let expected = snapshot.size.is_some() && !snapshot.last;
    match item {
        Item::Text(text) => text.clone(),
        Item::Name => match setting.name {
            Some(name) => format!("{:>9}:", name.chars().map(visible).collect::<String>()),
            None => String::new(),
        },
        Item::Count => format!("{:>7}", amount(snapshot.done as f64, unit)),
        Item::Timer => time(snapshot.elapsed),
        Item::Rate => rate(snapshot.shown_rate()),
        Item::Average => rate(snapshot.average()),
        Item::Fill => match snapshot.fill {
            Some(fill) => format!("{{{:3.0}%}}", fill * 100.0),
            None => "{----}".to_owned(),
        },
        Item::TimeLeft | Item::Arrival if !expected => String::new(),
        Item::TimeLeft => match snapshot.time_left() {
            Some(left) => format!("ETA {}", time(left)),
            None => "ETA -:--:--".to_owned(),
        },
        Item::Arrival => match snapshot
            .time_left()
            .and_then(|left| arrival(setting.now, left))
        {
            Some(when) => format!("ETA {when}"),
            None => "ETA --:--:--".to_owned(),
        },
        Item::Gap | Item::Bar => String::new(),
    }
}

fn bar_of(snapshot: &Snapshot, width: usize) -> String {
    match (snapshot.share(), snapshot.percent()) {
        (Some(share), Some(percent)) => bar::known(share, percent, width),
        _ => bar::indicator(snapshot.beats, width),
    }
}

/// The time of day after `left`, with the date if that is far away.
fn arrival(now: &Zoned, left: Duration) -> Option<String> {
    const FAR: Duration = Duration::from_secs(6 * 3600);
    let when = now.checked_add(left).ok()?;
    let format = if left > FAR {
        "%Y-%m-%d %H:%M:%S"
    } else {
        "%H:%M:%S"
    };
    Some(when.strftime(format).to_string())
}

/// Replaces characters that move the cursor or change the text direction by '?'.
pub(super) fn visible(letter: char) -> char {
    let directional = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if letter.is_control() || directional {
        '?'
    } else {
        letter
    }
}

/// Truncates a text to `width` columns.
fn truncate(text: &mut String, width: usize) {
    let mut columns = 0;
    let end = text.char_indices().find(|(_, letter)| {
        columns += letter.width().unwrap_or(0);
        columns > width
    });
    if let Some((end, _)) = end {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests;
