//! The display on standard error: when to draw, in which form, and without blocking.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastpipe::transfer::Output;
use fastpipe::wait::Wait;
use jiff::Zoned;
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use unicode_width::UnicodeWidthStr;

use super::NOT_SHOWN;
use super::format::{Format, MeterLine};
use super::json;
use super::options::{MeterOptions, Show};
use super::progress::Snapshot;
use pipespeed_base::failure::is_reader_gone;
use pipespeed_base::standard::{has_colours, is_closed, is_ignored};
use pipespeed_base::text::without_error_numbers;

/// Columns if the terminal's size is unknown.
const WIDTH: u16 = 80;

/// Timeout for writing the last line: the terminal may be stopped by Ctrl-S, or the
/// reader may not read.
const LAST_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Escape sequences before and after the bar: cyan, reset.
const COLOUR: (&str, &str) = ("\x1b[36m", "\x1b[m");

/// The display on standard error.
#[derive(Debug)]
pub struct Display<'o> {
    options: &'o MeterOptions,
    screen: MeterScreen,
    /// Whether anything is shown at all.
    pub shows: bool,
    /// When to draw next, by the session's clock.
    next: Duration,
    /// Columns of the line drawn last.
    columns: usize,
    /// Whether the cursor is in a drawn line; shared with the signal handler.
    in_line: Arc<AtomicBool>,
    /// The exit status: [`NOT_SHOWN`] if a line of numbers or JSON could not be written, else 0.
    /// A reader that is slow or gone is no failure.
    pub status: u8,
}

impl<'o> Display<'o> {
    /// Prepares the display: what is shown depends on the options, and on whether standard
    /// error is a terminal.
    pub fn new(options: &'o MeterOptions) -> Self {
        let screen = MeterScreen::new();
        let is_line = matches!(options.show, Show::Line(_));
        let shows = match options.show {
            Show::Nothing => false,
            Show::Line(_) => screen.is_terminal || options.force,
            Show::Number { .. } | Show::Json => true,
        };
        let in_line = Arc::new(AtomicBool::new(false));
        if shows && is_line && screen.is_terminal {
            // If that fails, the shell's next prompt begins in the drawn line.
            let _ = end_line_on_signal(&in_line);
        }
        Display {
            options,
            shows,
            next: match options.delay {
                Duration::ZERO => options.interval,
                delay => delay,
            },
            columns: 0,
            in_line,
            screen,
            status: 0,
        }
    }

    /// Time from `now` until the next drawing; `None` if never.
    pub fn until_next(&self, now: Duration) -> Option<Duration> {
        self.shows.then(|| self.next.saturating_sub(now))
    }

    /// Whether to draw now; if so, schedules the next drawing.
    pub fn take_due(&mut self, now: Duration) -> bool {
        if !self.shows || now < self.next {
            return false;
        }
        // At multiples of the interval; missed ones are skipped.
        let late = (now - self.next).as_nanos() % self.options.interval.as_nanos().max(1);
        let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
        self.next = (now - late).saturating_add(self.options.interval);
        true
    }

    /// Shows the progress, for the last time if the snapshot has an ending.
    pub fn show(&mut self, snapshot: &Snapshot) {
        if !self.shows {
            return;
        }
        let is_last = snapshot.ending.is_some();
        let text = match &self.options.show {
            Show::Nothing => return,
            // The stream ended before the first drawing was due.
            Show::Line(_) if is_last && snapshot.elapsed < self.options.delay => return,
            Show::Line(format) => {
                self.draw(format, snapshot);
                if is_last {
                    self.end_line();
                }
                return;
            }
            Show::Number { count, timer } => number(snapshot, *count, *timer),
            Show::Json => json::line(snapshot, self.options.unit),
        };
        let written = if is_last {
            self.screen.write_last(&text)
        } else {
            self.screen.write(&text)
        };
        if let Err(error) = written
            && error.kind() != ErrorKind::WouldBlock
            && !is_reader_gone(&error, io::stderr())
            && !is_hung_up(&error)
        {
            self.status = NOT_SHOWN;
        }
    }

    /// Prints an error on a separate line.
    pub fn print_error(&mut self, message: &str) {
        self.end_line();
        let message = &without_error_numbers(message);
        let text = match self.options.show {
            Show::Json => json::error(message),
            _ => format!("pipespeed: {message}\n"),
        };
        // A failure could not be reported anywhere.
        let _ = self.screen.write_last(&text);
    }

    fn draw(&mut self, format: &Format, snapshot: &Snapshot) {
        if !self.screen.may_draw() {
            return;
        }
        let width = self.options.width.or_else(|| self.screen.columns());
        let width = usize::from(width.unwrap_or(WIDTH));
        let line = format.line(snapshot, self.options.unit, width, &Zoned::now());
        let columns = line.text.width();
        let text = if self.screen.coloured && !line.bar.is_empty() {
            coloured(&line)
        } else {
            line.text
        };
        // Overwrite the rest of a longer line.
        let blanks = self.columns.min(width).saturating_sub(columns);
        let text = format!("\r{text}{:blanks$}", "");
        self.in_line.store(true, Ordering::Relaxed);
        if self.screen.write(&text).is_ok() {
            self.columns = columns;
        }
    }

    /// Ends the line that the cursor is in, if any.
    fn end_line(&mut self) {
        if self.in_line.swap(false, Ordering::Relaxed) && self.screen.may_draw() {
            let _ = self.screen.write_last("\n");
            self.columns = 0;
        }
    }
}

/// Ends the drawn line when a signal ends the process, so that later output
/// begins on a new one.
fn end_line_on_signal(in_line: &Arc<AtomicBool>) -> io::Result<()> {
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let mut signals = Signals::new(ending.filter(|signal| !is_ignored(*signal)))?;
    let in_line = Arc::clone(in_line);
    std::thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            if in_line.swap(false, Ordering::Relaxed) {
                let _ = rustix::io::write(io::stderr(), b"\n");
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn coloured(line: &MeterLine) -> String {
    let (before, rest) = line.text.split_at(line.bar.start);
    let (bar, after) = rest.split_at(line.bar.len());
    format!("{before}{}{bar}{}{after}", COLOUR.0, COLOUR.1)
}

/// The percentage; the count if requested or if the size is unknown. With `timer`,
/// the elapsed seconds come first.
fn number(snapshot: &Snapshot, count: bool, timer: bool) -> String {
    let value = match snapshot.percent() {
        Some(percent) if !count => percent,
        _ => snapshot.done,
    };
    if timer {
        format!("{:.4} {value}\n", snapshot.elapsed.as_secs_f64())
    } else {
        format!("{value}\n")
    }
}

/// Standard error, written without blocking.
#[derive(Debug)]
struct MeterScreen {
    /// The terminal, reopened with O_NONBLOCK: other processes share the original
    /// open file, which must stay blocking.
    own: Option<OwnedFd>,
    /// Standard error itself, used if it could not be reopened.
    plain: Output<io::Stderr>,
    is_terminal: bool,
    coloured: bool,
}

impl MeterScreen {
    /// Inspects standard error and prepares writing to it.
    fn new() -> Self {
        let stderr = io::stderr();
        let is_terminal = isatty(&stderr);
        let own = is_terminal.then(reopen).flatten();
        if is_terminal {
            // A write must not stop the process if it goes to the background after the
            // check. Blocking a valid set can't fail (sigprocmask(2)).
            let _ = SigSet::from(Signal::SIGTTOU).thread_block();
        }
        MeterScreen {
            own,
            plain: Output::new(stderr, Wait::Never),
            is_terminal,
            coloured: is_terminal && has_colours(),
        }
    }

    /// The terminal's current columns, if known.
    fn columns(&self) -> Option<u16> {
        let size = tcgetwinsize(self.plain.get_ref()).ok()?;
        Some(size.ws_col).filter(|columns| *columns > 0)
    }

    /// Whether drawing is allowed: not on a terminal whose background this process is in.
    fn may_draw(&self) -> bool {
        let stderr = self.plain.get_ref();
        // An error: it is not our controlling terminal.
        !self.is_terminal || tcgetpgrp(stderr).map_or(true, |group| group == getpgrp())
    }

    /// Writes without blocking.
    ///
    /// # Errors
    /// Not all was written: `WouldBlock` for lack of room, or another error.
    fn write(&mut self, text: &str) -> io::Result<()> {
        match &self.own {
            // The standard library has opened /dev/null there.
            None if is_closed(2) => Err(Errno::BADF.into()),
            None => Ok(self.plain.write(text.as_bytes()).map(|_| ())?),
            Some(own) if rustix::io::write(own, text.as_bytes())? == text.len() => Ok(()),
            Some(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes after waiting at most a second for the terminal or reader.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn write_last(&mut self, text: &str) -> io::Result<()> {
        let stderr = self.plain.get_ref().as_fd();
        let mut fds = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
        // If poll fails, try to write anyway.
        let _ = poll(&mut fds, Some(&LAST_TIMEOUT));
        self.write(text)
    }
}

fn reopen() -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let own = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty()).ok()?;
    let (theirs, ours) = (
        rustix::fs::fstat(io::stderr()).ok()?,
        rustix::fs::fstat(&own).ok()?,
    );
    (theirs.st_rdev == ours.st_rdev && theirs.st_ino == ours.st_ino).then_some(own)
}

/// Whether writing on standard error failed since its terminal has hung up: it is as gone as the
/// reader of a pipe.
fn is_hung_up(error: &io::Error) -> bool {
    let kind = fstat(io::stderr()).map(|found| FileType::from_raw_mode(found.st_mode));
    Errno::from_io_error(error) == Some(Errno::IO) && kind == Ok(FileType::CharacterDevice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_drawings_are_skipped() {
        let options = MeterOptions {
            show: Show::Json,
            interval: Duration::from_secs(1),
            ..MeterOptions::default()
        };
        let mut display = Display::new(&options);
        let at = Duration::from_millis;
        assert!(!display.take_due(at(999)));
        assert!(display.take_due(at(1010)));
        assert!(!display.take_due(at(1999)));
        assert!(display.take_due(at(5500)));
        assert_eq!(display.until_next(at(5600)), Some(at(400)));
    }
}
