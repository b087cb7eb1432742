//! A line of the display: from a format and a snapshot, in a given width.

use std::ops::Range;
use std::time::Duration;

use jiff::Zoned;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::bar;
use super::progress::Snapshot;
use super::units::{Unit, amount, time};

/// A piece of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// As it stands.
    Text(String),
    /// A blank, if something stands on both sides of it.
    Gap,
    /// The name.
    Name,
    /// What has left.
    Count,
    /// The time elapsed.
    Timer,
    /// The rate of late.
    Rate,
    /// The rate since the beginning.
    Average,
    /// How full the output pipe is.
    Fill,
    /// The bar, as wide as the rest leaves room for.
    Bar,
    /// The time left.
    TimeLeft,
    /// The time of day at the end.
    Arrival,
}

/// What a line consists of.
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

    /// Reads a format as it is given on the command line: text, and letters
    /// after '%'.
    ///
    /// # Errors
    /// A sentence without the option's name, which clap adds.
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
                    return Err("%p can stand only once".to_owned());
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
                None => return Err("a single % at the end; %% is a per cent sign".to_owned()),
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

/// What a line needs beside the snapshot.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The name in front.
    pub name: Option<&'a str>,
    /// What is counted.
    pub unit: Unit,
    /// The columns there are.
    pub width: usize,
    /// The time of day.
    pub now: &'a Zoned,
}

/// A line without any control character, no wider than asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The text.
    pub text: String,
    /// Where in it the bar is, in bytes.
    pub bar: Range<usize>,
}

impl Line {
    /// Its columns.
    pub fn width(&self) -> usize {
        self.text.width()
    }
}

impl Format {
    /// Makes a line. What does not fit is left out: first the bar, then what
    /// stands farthest to the right.
    pub fn line(&self, snapshot: &Snapshot, setting: &Setting<'_>) -> Line {
        let mut parts: Vec<Option<String>> = Vec::with_capacity(self.0.len());
        for item in &self.0 {
            parts.push(match item {
                Item::Bar | Item::Gap => None,
                other => Some(text(other, snapshot, setting)),
            });
        }
        if let Some(place) = self.0.iter().position(|item| *item == Item::Bar) {
            // As if it were a single column, to see which gaps there are.
            parts[place] = Some("=".to_owned());
            let rest = self.join(&parts).0.width() - 1;
            parts[place] = Some(bar_of(snapshot, setting.width.saturating_sub(rest)));
        }
        let (mut text, mut bar) = self.join(&parts);
        cut(&mut text, setting.width);
        bar.end = bar.end.min(text.len());
        bar.start = bar.start.min(bar.end);
        Line { text, bar }
    }

    /// The line, and where the bar is in it.
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
    // Once it has ended there is nothing left to be expected.
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

/// The time of day in `left`, with the date where that is far away.
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

/// A character that moves no cursor and turns no text round.
pub(super) fn visible(letter: char) -> char {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if letter.is_control() || turns {
        '?'
    } else {
        letter
    }
}

/// Takes off what is beyond so many columns.
fn cut(text: &mut String, width: usize) {
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
