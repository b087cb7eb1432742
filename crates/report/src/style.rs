//! The width and the colours of text.

use super::format::wrap;
use pipespeed_base::standard::has_colours;
use pipespeed_base::text::escape;

/// How a table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// The terminal's columns; `None` if there is no terminal.
    pub width: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
    /// Whether all notes are shown.
    pub verbose: bool,
}

/// The columns of the terminal on standard output or, if there is none, on standard
/// error.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stderr()))
        .ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The columns of text that does not go to a terminal.
const FILE_WIDTH: usize = 120;

/// Bold.
pub const BOLD: &str = "1";
pub(super) const DIM: &str = "2";
/// Red.
pub const RED: &str = "31";
/// Green.
pub const GREEN: &str = "32";
/// Yellow.
pub const YELLOW: &str = "33";

impl Style {
    /// The style of output to a terminal, or to anything else. See [`has_colours`].
    pub fn for_terminal(is_terminal: bool, verbose: bool) -> Style {
        if !is_terminal {
            return Style {
                verbose,
                ..Style::default()
            };
        }
        Style {
            width: terminal_width(),
            colour: has_colours(),
            verbose,
        }
    }

    /// Plain text of this width.
    pub fn of_width(width: usize) -> Style {
        Style {
            width: Some(width),
            ..Style::default()
        }
    }

    /// The columns of the output.
    pub(super) fn width(self) -> usize {
        self.width.unwrap_or(FILE_WIDTH)
    }

    /// A sentence, escaped and wrapped with indented further lines.
    pub fn sentence(self, text: &str) -> String {
        wrap(&escape(text), self.width(), "  ")
    }

    /// A sentence whose lines are coloured.
    pub fn note(self, text: &str, code: &str) -> String {
        let lines = self.sentence(text);
        let lines: Vec<String> = lines.lines().map(|line| self.paint(line, code)).collect();
        lines.join("\n")
    }

    /// A heading.
    pub(super) fn heading(self, text: &str) -> String {
        self.note(text, BOLD)
    }

    /// Colours text after its layout, which would count escape sequences as characters.
    pub(super) fn paint(self, text: &str, code: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
