//! Formats a snapshot as a line of a given width.

use std::ops::Range;
use std::time::Duration;

use jiff::Zoned;
use pipespeed_base::size;
use pipespeed_base::text::is_printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::progress::{Snapshot, Unit};

/// Minimum width of a bar with its percentage; in fewer columns only the percentage is
/// shown.
const MIN_BAR_COLUMNS: usize = 12;

/// An element of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Literal text.
    Text(String),
    /// A space, if there is a non-empty element on both sides.
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
        Format::new([
            Item::Count,
            Item::Timer,
            Item::Rate,
            Item::Bar,
            Item::TimeLeft,
        ])
    }
}

impl Format {
    /// The name and these items, with gaps between them.
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
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
                plain.push(sanitize(letter));
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

/// A line without control characters, within the requested width.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeterLine {
    /// The text.
    pub text: String,
    /// The byte range of the bar.
    pub bar: Range<usize>,
}

impl Format {
    /// Formats a line. If the width is too small, omits the bar first, then the end of the
    /// line. `now` is the current time of day.
    pub fn line(&self, snapshot: &Snapshot, unit: Unit, width: usize, now: &Zoned) -> MeterLine {
        // A bar of one column stands in to measure the other elements with their gaps.
        let rest = self.join("=", snapshot, unit, now).text.width();
        let bar_width = (width + 1).saturating_sub(rest);
        let bar = match (snapshot.share(), snapshot.percent()) {
            (Some(share), Some(percent)) => progress_bar(share, percent, bar_width),
            _ => indicator(snapshot.beats, bar_width),
        };
        let mut line = self.join(&bar, snapshot, unit, now);
        truncate(&mut line.text, width);
        line.bar.end = line.bar.end.min(line.text.len());
        line.bar.start = line.bar.start.min(line.bar.end);
        line
    }

    fn join(&self, bar: &str, snapshot: &Snapshot, unit: Unit, now: &Zoned) -> MeterLine {
        let mut line = MeterLine::default();
        let mut gap = false;
        for item in &self.0 {
            let part = match item {
                Item::Gap => {
                    gap = true;
                    continue;
                }
                Item::Bar => bar.to_owned(),
                item => text(item, snapshot, unit, now),
            };
            if part.is_empty() {
                continue;
            }
            if std::mem::take(&mut gap) && !line.text.is_empty() {
                line.text.push(' ');
            }
            if *item == Item::Bar {
                line.bar = line.text.len()..line.text.len() + part.len();
            }
            line.text.push_str(&part);
        }
        line
    }
}

fn text(item: &Item, snapshot: &Snapshot, unit: Unit, now: &Zoned) -> String {
    let rate = |rate: Option<f64>| format!("[{:>9}]", amount(rate.unwrap_or(0.0), unit) + "/s");
    // The last line shows no remaining time.
    let shows_remaining = snapshot.size.is_some() && snapshot.ending.is_none();
    match item {
        Item::Text(text) => text.clone(),
        Item::Name => match &snapshot.name {
            Some(name) => format!("{:>9}:", name.chars().map(sanitize).collect::<String>()),
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
        Item::TimeLeft | Item::Arrival if !shows_remaining => String::new(),
        Item::TimeLeft => match snapshot.time_left() {
            Some(left) => format!("ETA {}", time(left)),
            None => "ETA -:--:--".to_owned(),
        },
        Item::Arrival => match snapshot.time_left().and_then(|left| arrival(now, left)) {
            Some(when) => format!("ETA {when}"),
            None => "ETA --:--:--".to_owned(),
        },
        Item::Gap | Item::Bar => String::new(),
    }
}

/// Formats a bar with its percentage in exactly `width` columns: only the percentage if
/// they are too few, or nothing.
fn progress_bar(share: f64, percent: u64, width: usize) -> String {
    let percent = format!("{percent:3}%");
    if width < MIN_BAR_COLUMNS.max(percent.len() + 4) {
        return if percent.len() <= width {
            format!("{percent:>width$}")
        } else {
            String::new()
        };
    }
    let inner = width - 2 - (percent.len() + 1);
    let filled = (share.clamp(0.0, 1.0) * inner as f64) as usize;
    let mut bar = "=".repeat(filled);
    if filled < inner {
        bar.push('>');
    }
    format!("[{bar:<inner$}] {percent}")
}

/// Formats a mark that moves back and forth, one step per beat, in exactly `width`
/// columns; nothing if they are too few.
fn indicator(beats: u64, width: usize) -> String {
    const MARK: &str = "<=>";
    if width < MARK.len() + 2 {
        return String::new();
    }
    let room = width - 2 - MARK.len();
    let place = (beats % (2 * room as u64).max(1)) as usize;
    let place = place.min(2 * room - place);
    format!("[{:place$}{MARK}{:rest$}]", "", "", rest = room - place)
}

/// Formats an amount with three or four digits: `3.00MiB`, `1023KiB`, `12B`; lines
/// as `12`, `43.8k`.
fn amount(value: f64, unit: Unit) -> String {
    let (base, names): (f64, [&str; 7]) = match unit {
        Unit::Bytes => (1024.0, size::UNITS),
        Unit::Lines { .. } => (1000.0, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let finite = Some(value).filter(|value| value.is_finite());
    let mut value = finite.unwrap_or(0.0).max(0.0);
    let mut power = 0;
    // Values that would round up to the next unit are shown in it.
    while value >= base - 0.5 && power + 1 < names.len() {
        value /= base;
        power += 1;
    }
    let decimals = match value {
        _ if power == 0 => 0,
        small if small < 9.995 => 2,
        medium if medium < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", names[power])
}

/// Formats hours, minutes and seconds, with days before them if any: `0:00:05`,
/// `2:03:04:05`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let hours = if days > 0 {
        format!("{days}:{hours:02}")
    } else {
        hours.to_string()
    };
    format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60)
}

/// Formats the time of day in `remaining` from now, with the date if that is far away.
fn arrival(now: &Zoned, remaining: Duration) -> Option<String> {
    const FAR: Duration = Duration::from_secs(6 * 3600);
    let when = now.checked_add(remaining).ok()?;
    let format = if remaining > FAR {
        "%Y-%m-%d %H:%M:%S"
    } else {
        "%H:%M:%S"
    };
    Some(when.strftime(format).to_string())
}

/// Replaces characters that are not printable by '?', which keeps the width.
pub(super) fn sanitize(letter: char) -> char {
    if is_printable(letter) { letter } else { '?' }
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
