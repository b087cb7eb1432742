//! How wide text is and whether it is coloured.

/// How a table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// The terminal's columns; null where there is no terminal.
    pub width: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
}

/// The columns of whichever standard stream is a terminal.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stderr()))
        .ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The columns taken for a reader that is not a terminal.
const WIDTH_OF_A_FILE: usize = 120;

pub(super) const BOLD: &str = "1";
pub(super) const DIM: &str = "2";
pub(super) const RED: &str = "31";
pub(super) const GREEN: &str = "32";
pub(super) const YELLOW: &str = "33";

impl Style {
    /// As wide as the terminal that text goes to, in colours unless NO_COLOR
    /// asks for none; for anything else than a terminal, the default.
    pub fn for_terminal(is_terminal: bool) -> Style {
        if !is_terminal {
            return Style::default();
        }
        let wished = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let plain = wished("NO_COLOR") || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Style {
            width: terminal_width(),
            colour: !plain,
        }
    }

    /// The columns there are.
    pub(super) fn width(self) -> usize {
        self.width.unwrap_or(WIDTH_OF_A_FILE)
    }

    /// Only whole lines and words already in their place are painted: the
    /// table's layout would count the escape sequences as characters.
    pub(super) fn paint(self, text: &str, code: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
