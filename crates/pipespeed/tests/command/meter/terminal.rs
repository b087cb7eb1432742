//! `pipespeed meter` as it is seen on a terminal.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::common;
use crate::common::PIPESPEED;
use crate::common::pipespeed;
use crate::common::terminal::{OnTerminal, Terminal, drawings};
use rustix::process::Signal;
use rustix::termios::{Action, tcflow};

/// A meter on a terminal, and the far ends of its pipes.
struct Metered {
    process: OnTerminal,
    into: PipeWriter,
    out: PipeReader,
}

fn meter(args: &str) -> Command {
    let mut command = pipespeed(&format!("meter {args}"));
    command.env_remove("NO_COLOR");
    command
}

fn start(terminal: &Terminal, mut command: Command) -> Metered {
    let (from, into) = std::io::pipe().unwrap();
    let (out, out_into) = std::io::pipe().unwrap();
    command.stdin(from).stdout(out_into);
    let process = terminal.start(command);
    Metered { process, into, out }
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// A line without its colours.
fn plain(line: &str) -> String {
    line.replace("\x1b[36m", "").replace("\x1b[m", "")
}

#[test]
fn while_consumer_or_producer_is_blocked_it_is_drawn_on() {
    let mut terminal = Terminal::new(80);
    let mut metered = start(&terminal, meter("-i 0.02"));
    // Nothing comes.
    terminal.until("drawn while idle", |text| drawings(text).len() >= 5);
    // Nothing leaves: what is accepted is not counted.
    metered.into.write_all(&[0; 50_000]).unwrap();
    terminal.forget();
    let text = terminal.until("drawn while blocked", |text| drawings(text).len() >= 5);
    assert!(text.contains("     0B 0:"), "{text:?}");
    // All leaves.
    metered.out.read_exact(&mut [0; 50_000]).unwrap();
    terminal.until("shown that it has left", |text| text.contains("48.8KiB 0:"));
    drop(metered.into);
    assert!(metered.process.finish().success());
    let text = terminal.text();
    let last = drawings(text).pop().unwrap();
    assert!(plain(last).starts_with("48.8KiB 0:"), "{last:?}");
    assert!(text.ends_with("\r\n"), "{text:?}");
}

#[test]
fn a_terminal_that_was_halted_stalls_nothing() {
    let mut terminal = Terminal::new(80);
    let mut metered = start(&terminal, meter("-i 0.02"));
    terminal.until("drawn", |text| drawings(text).len() >= 2);
    // As Ctrl-S does.
    tcflow(terminal.input(), Action::OOff).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let numbers = directory.path().join("numbers");
    let (from, clock_into) = std::io::pipe().unwrap();
    let mut clock = meter("-n -i 0.02");
    clock.stdin(from).stdout(Stdio::null());
    clock.stderr(std::fs::File::create(&numbers).unwrap());
    let mut clock = clock.spawn().unwrap();
    let ticks = || std::fs::read_to_string(&numbers).map_or(0, |text| text.lines().count());
    common::procs::eventually(|| (ticks() > 10).then_some(())).unwrap();
    for _ in 0..100 {
        metered.into.write_all(&[0; 1000]).unwrap();
        metered.out.read_exact(&mut [0; 1000]).unwrap();
    }
    tcflow(terminal.input(), Action::OOn).unwrap();
    terminal.until("drawn again", |text| text.contains("97.7KiB 0:"));
    drop((metered.into, clock_into));
    assert!(metered.process.finish().success());
    clock.wait().unwrap();
}

#[test]
fn line_is_as_wide_as_the_terminal_whenever_that_changes() {
    let mut terminal = Terminal::new(100);
    let metered = start(&terminal, meter("-i 0.02"));
    for columns in [100, 60, 10, 1, 40, 200] {
        terminal.resize(columns);
        terminal.forget();
        // The first may have been under way.
        let text = terminal.until("drawn", |text| count(text, "\r") >= 4);
        let drawn = text.split('\r').nth(2).unwrap();
        assert_eq!(plain(drawn).len(), usize::from(columns), "{drawn:?}");
    }
    drop(metered.into);
    assert!(metered.process.finish().success());
}

#[test]
fn the_bar_is_coloured_where_that_is_possible_and_wanted() {
    for (variable, value, is_coloured) in [
        ("NO_COLOR", "", true),
        ("NO_COLOR", "1", false),
        ("TERM", "dumb", false),
        ("TERM", "", false),
    ] {
        let mut terminal = Terminal::new(80);
        let mut command = meter("-i 0.02");
        command.env(variable, value);
        let _metered = start(&terminal, command);
        let text = terminal.until("drawn", |text| drawings(text).len() >= 2);
        let context = format!("{variable}={value}: {text:?}");
        assert_eq!(text.contains("\x1b[36m["), is_coloured, "{context}");
        assert_eq!(text.contains('\x1b'), is_coloured, "{context}");
    }
}

#[test]
fn from_background_nothing_is_drawn_until_it_is_in_foreground() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let mut terminal = Terminal::new(80);
    let script = r#"set -m
        stty tostop <&2
        "$0" meter -n -i 0.02 <"$1" 2>"$1.n" >/dev/null &
        "$0" meter -i 0.02 <"$1" >/dev/null &
        echo started >&2; read line; fg >/dev/null; echo ended $? >&2"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, PIPESPEED]).arg(&fifo);
    shell.stdin(terminal.input()).stdout(Stdio::null());
    let shell = terminal.start(shell);
    // Opens once both meters read it.
    let into = std::fs::File::options().write(true).open(&fifo).unwrap();
    // The other one is the clock.
    let numbers = directory.path().join("fifo.n");
    let ticks = || std::fs::read_to_string(&numbers).map_or(0, |text| text.lines().count());
    common::procs::eventually(|| (ticks() > 10).then_some(())).unwrap();
    terminal.until("started", |text| text.contains("started"));
    assert!(!terminal.text().contains("0:00:"), "{:?}", terminal.text());
    terminal.type_in("\n");
    terminal.until("drawn in the foreground", |text| count(text, "0:00:") > 3);
    drop(into);
    terminal.until("ended", |text| text.contains("ended 0"));
    shell.finish();
}

#[test]
fn a_signal_ends_it_as_ever_and_leaves_the_line() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut terminal = Terminal::new(80);
        let metered = start(&terminal, meter("-i 0.02"));
        terminal.until("drawn", |text| drawings(text).len() >= 2);
        metered.process.send(signal);
        let status = metered.process.finish();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        let text = terminal.text();
        assert!(text.ends_with("\r\n"), "{text:?}");
    }
}
