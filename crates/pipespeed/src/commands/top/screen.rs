//! A screen of its own on the terminal, and its keys.
//!
//! The terminal's settings are changed as little as possible: input arrives by key and is not
//! echoed, but Ctrl-C and Ctrl-Z still send signals.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pipespeed_base::failure::usage;
use pipespeed_base::output::Patient;
use pipespeed_base::standard::has_escapes;
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

/// The other screen, without line wrapping and cursor (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J";
/// The usual screen.
const LEAVE: &str = "\x1b[?25h\x1b[?7h\x1b[?1049l";

/// The size of a terminal that does not know it.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// A terminal with a screen of its own, until this is dropped or the program panics.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Arc<Mutex<Terminal>>,
    keys: File,
    shown: Vec<String>,
    /// Columns and rows.
    pub(super) size: (usize, usize),
}

#[derive(Debug)]
struct Terminal {
    output: File,
    /// The settings to return to. `None` while the screen is not shown.
    before: Option<Termios>,
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A letter, or another character.
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
}

impl Screen {
    /// Opens the controlling terminal, which standard output must be too, unless a command
    /// has it. [`enter`](Self::enter) shows the screen.
    ///
    /// # Errors
    /// Wrong usage if there is no terminal that can show it.
    pub(super) fn open(has_command: bool) -> anyhow::Result<Self> {
        let refused = |why: &str| {
            usage(format!(
                "{why}: use --once for one frame, or --json for a record a second"
            ))
        };
        if !io::stdout().is_terminal() && !has_command {
            return Err(refused("standard output is not a terminal"));
        } else if !has_escapes() {
            return Err(refused("this terminal has no escape sequences (TERM)"));
        }
        let open = || File::options().read(true).write(true).open("/dev/tty");
        let (Ok(output), Ok(keys)) = (open(), open()) else {
            return Err(refused("there is no controlling terminal for the screen"));
        };
        // It would be stopped, and SIGTERM could not end it.
        if !is_foreground(&output) {
            return Err(refused(
                "the screen needs the foreground of the terminal (in a script: timeout --foreground)",
            ));
        }
        Ok(Screen::on(output, keys))
    }

    fn on(output: File, keys: File) -> Self {
        let terminal = Arc::new(Mutex::new(Terminal {
            output,
            before: None,
        }));
        let restored = Arc::clone(&terminal);
        let owner = thread::current().id();
        let print = panic::take_hook();
        // The message must not go to a screen that vanishes.
        panic::set_hook(Box::new(move |panic| {
            if thread::current().id() == owner
                && let Ok(mut terminal) = restored.try_lock()
            {
                let _ = terminal.leave();
            }
            print(panic);
        }));
        Screen {
            terminal,
            keys,
            shown: Vec::new(),
            size: (0, 0),
        }
    }

    fn terminal(&self) -> impl std::ops::DerefMut<Target = Terminal> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the screen, also if another program has changed the terminal meanwhile.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        self.shown.clear();
        let mut terminal = self.terminal();
        let now = tcgetattr(&self.keys)?;
        let mut changed = terminal.before.get_or_insert(now).clone();
        changed.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-S would stop more than the screen.
        changed.input_modes -= InputModes::IXON;
        tcsetattr(&self.keys, OptionalActions::Now, &changed)?;
        terminal.write(ENTER)
    }

    /// Whether the terminal belongs to the process group of this process.
    pub(super) fn is_foreground(&self) -> bool {
        is_foreground(&self.keys)
    }

    /// Returns to the usual screen and settings.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        self.terminal().leave()
    }

    /// Prints text after the usual screen's, once that was left.
    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        self.terminal().write(text)
    }

    /// Whether the size has changed since this was called last.
    pub(super) fn is_resized(&mut self) -> bool {
        let before = self.size;
        let size = tcgetwinsize(&self.terminal().output);
        self.size = match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => DEFAULT_SIZE,
        };
        if self.size != before {
            self.shown.clear();
        }
        self.size != before
    }

    /// Draws the lines that have changed.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        let mut text = String::new();
        if self.shown.len() != lines.len() {
            text.push_str("\x1b[2J");
            self.shown = vec![String::new(); lines.len()];
        }
        for (at, (old, new)) in self.shown.iter().zip(&lines).enumerate() {
            if old != new {
                // Erasing behind a full line would erase its last character.
                text.push_str(&format!("\x1b[{};1H\x1b[2K{new}", at + 1));
            }
        }
        self.shown = lines;
        self.terminal().write(&text)
    }

    /// The keys that were pressed; empty at the terminal's end.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn keys(&self) -> io::Result<Vec<Key>> {
        let mut bytes = [0; 256];
        let count = rustix::io::read(&self.keys, &mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(parse(&bytes[..count]))
    }
}

impl AsFd for Screen {
    /// Readable once a key was pressed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.keys.as_fd()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl Terminal {
    fn write(&self, text: &str) -> io::Result<()> {
        Patient::until_signal(&self.output).write_all(text.as_bytes())
    }

    fn leave(&mut self) -> io::Result<()> {
        let Some(before) = self.before.take() else {
            return Ok(());
        };
        // In the background this would stop the process; the shell has its own settings.
        if !is_foreground(&self.output) {
            return Ok(());
        }
        let written = self.write(LEAVE);
        // The keys are the same terminal's.
        tcsetattr(&self.output, OptionalActions::Now, &before)?;
        written
    }
}

/// Whether a terminal belongs to the process group of this process, as far as it can be known.
fn is_foreground(terminal: &File) -> bool {
    !tcgetpgrp(terminal).is_ok_and(|group| group != getpgrp())
}

/// Sequences of keys that are no letters (xterm, in both modes of the cursor keys).
const KEYS: [(&str, Key); 6] = [
    ("\x1b[A", Key::Up),
    ("\x1bOA", Key::Up),
    ("\x1b[B", Key::Down),
    ("\x1bOB", Key::Down),
    ("\x1b[5~", Key::PageUp),
    ("\x1b[6~", Key::PageDown),
];

/// The keys of some input.
fn parse(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    let mut keys = Vec::new();
    while let Some(letter) = rest.chars().next() {
        let known = KEYS.iter().find(|(sequence, _)| rest.starts_with(sequence));
        let (length, key) = match known {
            Some((sequence, key)) => (sequence.len(), *key),
            None => (letter.len_utf8(), Key::Letter(letter)),
        };
        keys.push(key);
        rest = &rest[length..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use pipespeed_testing::terminal::Terminal as Pty;

    use super::*;

    fn settings(pty: &Pty) -> String {
        format!("{:?}", tcgetattr(pty.input()).unwrap())
    }

    fn screen(pty: &Pty) -> Screen {
        let mut screen = Screen::on(pty.input().into(), pty.input().into());
        screen.enter().unwrap();
        screen
    }

    #[test]
    fn the_terminal_is_restored_before_a_panic_is_reported() {
        let mut pty = Pty::new(80);
        let before = settings(&pty);
        let shown = screen(&pty);
        let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _shown = &shown;
            panic!("on purpose");
        }));
        assert!(outcome.is_err());
        // Although it was not dropped.
        assert_eq!(settings(&pty), before);
        assert_eq!(pty.text(), [ENTER, LEAVE].concat());
    }

    #[test]
    fn only_changed_lines_are_drawn() {
        let mut pty = Pty::new(80);
        let mut shown = screen(&pty);
        assert!(shown.is_resized() && !shown.is_resized());
        let lines = |second: &str| vec!["a".to_owned(), second.to_owned()];
        shown.draw(lines("b")).unwrap();
        pty.forget();
        shown.draw(lines("c")).unwrap();
        assert_eq!(pty.text(), "\x1b[2;1H\x1b[2Kc");
        pty.resize(40);
        assert!(shown.is_resized());
        assert_eq!(shown.size, (40, 24));
        pty.forget();
        shown.draw(lines("c")).unwrap();
        assert!(pty.text().starts_with("\x1b[2J\x1b[1;1H\x1b[2Ka"));
    }

    #[test]
    fn keys_are_letters_and_sequences() {
        let keys = parse(b"q\x1b[A\x1bOB\x1b[5~\x1b[6~x");
        let expected = [
            Key::Letter('q'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::Letter('x'),
        ];
        assert_eq!(keys, expected);
    }
}
