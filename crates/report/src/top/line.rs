//! A line of the screen, and where its columns are.

use pipespeed_base::size;
use pipespeed_pipeline::observe::ObservedLink;
use pipespeed_pipeline::sample::Shares;

use super::TopView;
use crate::doctor::rate;
use crate::style::{BOLD, DIM, Style};

/// A state in which a stage can be: its letter, the heading of its column, its meaning, its colour.
type State = (&'static str, &'static str, &'static str, &'static str);

/// In the order of [`in_order`].
pub(super) const STATES: [State; 7] = [
    ("R", "run", "runs", "30;42"),
    ("Q", "qued", "queued (CPU)", "30;46"),
    ("D", "disk", "disk", "30;45"),
    ("B", "blkd", "blocked (full)", "30;43"),
    ("S", "strv", "starved (empty)", "97;44"),
    ("E", "else", "elsewhere", "30;47"),
    ("T", "", "stopped", "97;41"),
];

/// The states with a column of their own.
pub(super) const NUMBERS: usize = 6;

/// The shares in the order of [`STATES`].
fn in_order(shares: &Shares) -> [f64; 7] {
    [
        shares.runs,
        shares.queued,
        shares.disk,
        shares.blocked,
        shares.starved,
        shares.elsewhere,
        shares.stopped,
    ]
}

const CYAN: &str = "36";

/// Widths of columns, with the blank before each.
pub(super) const MARKER: usize = 2;
pub(super) const PID: usize = 8;
pub(super) const NUMBER: usize = 5;
pub(super) const SHARES: usize = 2 + NUMBERS * NUMBER;
pub(super) const RATE: usize = 8;
const PIPE_BAR: usize = 8;
const PIPE: usize = 1 + PIPE_BAR + 2;
const SIZE: usize = PIPE - 1;
const PERCENT: usize = 5;

/// A narrower screen has neither pids nor numbers.
pub(super) const MIN_MEDIUM: usize = 80;
/// A narrower screen has the shares of the last second as a bar only.
const MIN_WIDE: usize = 117;

/// Which columns there are, and how wide those are that differ.
pub(super) struct Layout {
    pub(super) is_medium: bool,
    pub(super) is_wide: bool,
    pub(super) stage: usize,
    pub(super) bar: usize,
}

impl Layout {
    pub(super) fn new(width: usize) -> Self {
        let (is_medium, is_wide) = (width >= MIN_MEDIUM, width >= MIN_WIDE);
        let mut fixed = MARKER + RATE + PIPE;
        if is_medium {
            fixed += PID + SHARES;
        }
        if is_wide {
            fixed += SHARES + PERCENT;
        }
        let room = width.saturating_sub(fixed);
        let stage = (room / 2).clamp(10, 15);
        Layout {
            is_medium,
            is_wide,
            stage,
            bar: room.saturating_sub(stage + 1).clamp(8, 20),
        }
    }

    /// The width of the columns before the bar.
    pub(super) fn names(&self) -> usize {
        let pid = if self.is_medium { PID } else { 0 };
        MARKER + pid + self.stage + 1
    }
}

/// A line that is cut off at the width of the screen.
pub(super) struct ScreenLine {
    pub(super) text: String,
    pub(super) filled: usize,
    pub(super) width: usize,
    style: Style,
}

impl ScreenLine {
    pub(super) fn new(view: &TopView<'_>) -> Self {
        ScreenLine {
            text: String::new(),
            filled: 0,
            width: view.width,
            style: Style {
                colour: view.colour,
                ..Style::default()
            },
        }
    }

    /// Adds text, coloured unless `code` is empty.
    pub(super) fn put(&mut self, text: &str, code: &str) {
        let room = self.width.saturating_sub(self.filled);
        let kept: String = text.chars().take(room).collect();
        self.filled += kept.chars().count();
        if code.is_empty() || kept.trim_start().is_empty() {
            self.text.push_str(&kept);
        } else {
            self.text.push_str(&self.style.paint(&kept, code));
        }
    }

    /// Adds text at the left of a column.
    pub(super) fn left(&mut self, width: usize, text: &str, code: &str) {
        let text: String = text.chars().take(width).collect();
        self.put(&text, code);
        self.put(&" ".repeat(width - text.chars().count()), "");
    }

    /// Adds text at the right of a column.
    pub(super) fn right(&mut self, width: usize, text: &str, code: &str) {
        let blanks = width.saturating_sub(text.chars().count());
        self.put(&" ".repeat(blanks), "");
        self.put(text, code);
    }

    /// Adds text at the right of the screen, after at least two blanks.
    pub(super) fn at_end(&mut self, text: &str, code: &str) {
        self.put("  ", "");
        self.right(self.width.saturating_sub(self.filled), text, code);
    }

    /// Adds shares as a bar.
    pub(super) fn bar(&mut self, shares: &Shares, cells: usize) {
        let (mut sum, mut filled) = (0.0, 0);
        for ((letter, _, _, colour), share) in STATES.iter().zip(in_order(shares)) {
            sum += share;
            let count = ((sum * cells as f64).round() as usize).min(cells) - filled;
            filled += count;
            if self.style.colour && count > 0 {
                self.put(&format!("{letter:<count$}"), colour);
            } else {
                self.put(&letter.repeat(count), "");
            }
        }
        self.left(cells - filled, "", "");
    }

    /// Adds shares in percent; the largest is bold.
    pub(super) fn numbers(&mut self, shares: &Shares) {
        let mut values = in_order(shares);
        values[NUMBERS - 1] += values[NUMBERS];
        let values = values[..NUMBERS]
            .iter()
            .map(|share| (share * 100.0).round());
        let most = values.clone().fold(0.0, f64::max);
        self.put("  ", "");
        for value in values {
            if value == 0.0 {
                self.right(NUMBER, "-", DIM);
            } else {
                let code = if value == most { BOLD } else { "" };
                self.right(NUMBER, &value.to_string(), code);
            }
        }
    }

    /// Adds the columns about a pipe. One whose writer has ended has no rate.
    pub(super) fn pipe(&mut self, pipe: &ObservedLink, has_ended: bool, layout: &Layout) {
        let rate = if has_ended {
            String::new()
        } else {
            rate(pipe.bytes_per_s)
        };
        self.right(RATE, &rate, "");
        // How much a socket holds is limited by memory, not by bytes.
        if pipe.id.is_socket()
            && let Some(unread) = pipe.unread
        {
            self.put(" ", "");
            return self.left(SIZE, &size::format(unread), CYAN);
        }
        let bar = match pipe.fill {
            _ if pipe.is_held => "held".to_owned(),
            Some(fill) => "#".repeat((fill * PIPE_BAR as f64).round() as usize),
            None => "?".to_owned(),
        };
        self.put(" [", DIM);
        self.left(PIPE_BAR, &bar, CYAN);
        self.put("]", DIM);
        if let Some(fill) = pipe.fill.filter(|_| layout.is_wide) {
            self.right(PERCENT, &format!("{:.0}%", fill * 100.0), "");
        }
    }
}
