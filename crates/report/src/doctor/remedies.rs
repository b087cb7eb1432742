//! What ends a standstill, in the terms of the program that can end it.

use pipespeed_pipeline::diagnosis::{IdleReader, LeakedWriteEnd, MutualWait, Unread, Who};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::{Language, LinkId};
use pipespeed_pipeline::sample::Observed;
use pipespeed_pipeline::wait::{BlockedOn, Outside, ThreadState};

use super::names::{full, stream, working_child, written_as};
use crate::format::list;

/// A reader that waits for input for this share of the time reads that.
const MIN_READING: f64 = 0.9;

pub(super) fn language(observation: &Observation, who: &Who) -> Language {
    observation
        .find(who.pid)
        .map_or(Language::Other, |process| process.language)
}

/// How two streams are read at once.
pub(super) fn read_both(language: Language) -> &'static str {
    match language {
        Language::Python => "communicate(), or a thread each",
        Language::JavaScript => "listen to the 'data' of both",
        Language::Java => "redirectErrorStream(true), or a thread each",
        Language::Go => "a goroutine each, or set Stdout and Stderr of the Cmd",
        Language::Perl => "IPC::Run, or select on both",
        Language::Ruby => "Open3.capture3, or a thread each",
        Language::Shell => "2>&1, or 2>FILE",
        Language::Other => "poll(2), or a thread each",
    }
}

/// How a stream, which its writer has as this descriptor, is read before the writer is waited for.
pub(super) fn read_first(language: Language, fd: Option<i32>) -> &'static str {
    match language {
        Language::Java if fd == Some(2) => "getErrorStream().readAllBytes() before waitFor()",
        Language::Java if fd != Some(1) => "redirectErrorStream(true), and read before waitFor()",
        Language::Python => "communicate(); for multiprocessing, recv() or get() before join()",
        Language::JavaScript => "listen to its 'data'",
        Language::Java => "getInputStream().readAllBytes() before waitFor()",
        Language::Go => "Output(), or set Stdout of the Cmd",
        Language::Perl => "read it before waitpid",
        Language::Ruby => "Open3.capture3",
        Language::Shell => "a command substitution, or >FILE",
        Language::Other => "or in a thread of its own",
    }
}

/// How a program reads what comes back while it writes.
fn write_meanwhile(language: Language) -> &'static str {
    match language {
        Language::Python => "communicate(input), or write in a thread",
        Language::JavaScript => "listen to 'data' before writing, not after",
        Language::Java => "write in a thread of its own",
        Language::Go => "write in a goroutine, or set Stdin of the Cmd",
        Language::Perl => "IPC::Run, or fork a writer",
        Language::Ruby => "Open3.capture2, or write in a Thread",
        Language::Shell | Language::Other => "poll(2), or write in a thread",
    }
}

/// How the input of a child is ended, in parentheses.
fn end_input(language: Language) -> &'static str {
    match language {
        Language::Python => " (stdin.close(), write_eof(), or communicate())",
        Language::JavaScript => " (stdin.end())",
        Language::Java => " (getOutputStream().close())",
        Language::Go => " (close what StdinPipe returned)",
        Language::Ruby => " (close_write)",
        Language::Perl | Language::Shell | Language::Other => "",
    }
}

/// How a program reads what others write to its terminal.
fn read_terminal(language: Language) -> &'static str {
    match language {
        Language::Python => "os.read() of the master in a thread; pexpect: expect(), or read()",
        Language::JavaScript => "resume(), or onData()",
        _ => "read(2) of the master",
    }
}

/// How a program leaves a stream to nobody; of one of both, which one it is isn't known.
fn ignore(language: Language, fd: Option<i32>) -> Option<&'static str> {
    let how = match (language, fd) {
        (Language::Python, Some(2)) => "stderr=DEVNULL, or stderr=STDOUT",
        (Language::Python, Some(_)) => "stdout=DEVNULL",
        (Language::JavaScript, _) => "stdio: 'ignore' or 'inherit'",
        (Language::Java, Some(1)) => "inheritIO(), or redirectOutput(DISCARD)",
        (Language::Java, Some(2)) => "inheritIO(), or redirectError(DISCARD)",
        (Language::Java, _) => "inheritIO()",
        (Language::Go, _) => "leave Stdout and Stderr of the Cmd nil",
        (_, Some(2)) => "2>/dev/null",
        (_, Some(_)) => ">/dev/null",
        (_, None) => return None,
    };
    Some(how)
}

/// The remedy for what lies unread.
pub(super) fn unread(observation: &Observation, unread: &Unread) -> String {
    if unread.may_be_read {
        return format!("Until one of them reads, {} waits.", full(&unread.writer));
    }
    let by_hand = by_hand(unread);
    let Some(reader) = unread.readers.first() else {
        return String::new();
    };
    let unless = if may_read_on(observation, reader, &unread.writer) {
        ", unless it reads on later"
    } else {
        ""
    };
    let fd = written_as(observation, unread.pipe, &unread.writer);
    let is_other = fd.is_some_and(|fd| fd > 2) && reader.unread_by_writer.is_none();
    // Only who starts the writer can leave out a stream, and only a standard one.
    if is_other || !gave_link(observation, reader, unread) {
        return format!(
            "Remedy{unless}: {} must read what {} writes while it waits. {by_hand}",
            reader.who.name, unread.writer.name
        );
    }
    let language = language(observation, &reader.who);
    let how = match (language, fd) {
        _ if matches!(unread.pipe, LinkId::Terminal { is_output, .. } if is_output) => {
            read_terminal(language).to_owned()
        }
        _ if reader.unread_by_writer.is_some() => write_meanwhile(language).to_owned(),
        (Language::JavaScript, Some(1)) => "stdout.resume(), or listen to its 'data'".to_owned(),
        (Language::JavaScript, Some(2)) => "stderr.resume(), or listen to its 'data'".to_owned(),
        (Language::JavaScript, _) => {
            "stdout.resume() or stderr.resume(), or listen to its 'data'".to_owned()
        }
        _ if reader.child.is_some() && !reads_another(observation, reader, unread) => {
            read_first(language, fd).to_owned()
        }
        _ => read_both(language).to_owned(),
    };
    let alternative =
        ignore(language, fd).map_or(String::new(), |how| format!(", or not ask for it ({how})"));
    format!(
        "Remedy{unless}: {} must read the {} of {} while it waits ({how}){alternative}. {by_hand}",
        reader.who.name,
        stream(fd),
        unread.writer.name,
    )
}

/// Whether a reader waits with a timeout, and may read after that; or the writer, if it leaves data of the reader
/// unread. In Java the thread that waits for a child's end is always there.
fn may_read_on(observation: &Observation, reader: &IdleReader, writer: &Who) -> bool {
    let is_timed = |state: &ThreadState| match state {
        ThreadState::Waiting(BlockedOn::Outside(what)) => what.may_be_timer(),
        ThreadState::Waiting(BlockedOn::Pipes { or, .. }) => or.is_some_and(Outside::may_be_timer),
        _ => false,
    };
    let has_timer = |who: &Who| {
        let process = observation.find(who.pid);
        process.is_some_and(|process| process.threads.iter().any(is_timed))
    };
    has_timer(&reader.who)
        || reader.unread_by_writer.is_some() && has_timer(writer)
        || reader.child.is_some() && language(observation, &reader.who) == Language::Java
}

/// Whether the writer has the link from the reader, which started it, directly or through others. A FIFO
/// is opened by name.
fn gave_link(observation: &Observation, reader: &IdleReader, unread: &Unread) -> bool {
    let writer = observation.find(unread.writer.pid);
    let own = reader.who.pid;
    !unread.pipe.is_fifo()
        && writer
            .is_some_and(|writer| writer.process.parent == own || writer.ancestors.contains(&own))
}

/// Whether a reader waits for input on another link all the time, whatever its other threads do: those of
/// a runtime may wait for the end of each child.
pub(super) fn reads_another(
    observation: &Observation,
    reader: &IdleReader,
    unread: &Unread,
) -> bool {
    let process = observation.find(reader.who.pid);
    let waits = process.map_or(&[][..], |process| &process.on[..]);
    waits
        .iter()
        .any(|on| on.side == LinkSide::Input && on.pipe != unread.pipe && on.share >= MIN_READING)
}

/// How the writer is freed from outside, with what that loses.
fn by_hand(unread: &Unread) -> String {
    let reader = unread
        .readers
        .iter()
        .find_map(|reader| Some((reader.who.pid, reader.fd?)));
    match reader {
        Some((pid, fd)) if unread.pipe.is_pipe() || unread.pipe.is_fifo() => format!(
            "By hand, 'timeout 5 cat /proc/{pid}/fd/{fd} > /dev/null' frees {}: what it reads is lost \
             for its reader.",
            unread.writer.name
        ),
        _ => {
            let what = if unread.pipe.is_terminal() {
                "The master of a terminal"
            } else {
                "A socket"
            };
            format!(
                "{what} can't be opened by others: nothing outside frees {}, short of ending one of the \
                 two.",
                unread.writer.name
            )
        }
    }
}

/// The remedy for a write end that is held open.
pub(super) fn leaked(
    observation: &Observation,
    leaked: &LeakedWriteEnd,
    waits_for_reader: bool,
) -> String {
    let how = end_input(language(observation, &leaked.holder));
    let has_both = |process: &&Observed| {
        let mut ends = process.process.ends.iter();
        ends.any(|end| end.pipe == leaked.pipe && end.reads && end.writes)
    };
    let both: Vec<String> = observation
        .living()
        .filter(has_both)
        .map(|process| full(&process.who()))
        .collect();
    if leaked.pipe.is_fifo() && both.len() > 1 {
        return format!(
            "Remedy: {} have the FIFO open for reading and writing ('<>'), and it ends only once none \
             of them has. Start all but the one that writes without that descriptor ('{}>&-' in a \
             shell), and close it there once the reader has opened the FIFO.",
            list(both),
            leaked.fd
        );
    }
    if waits_for_reader {
        return format!("Remedy: close that descriptor before the wait{how}.");
    }
    let reader = observation.find(leaked.reader.pid);
    let is_parent = reader.is_some_and(|reader| {
        let holder = leaked.holder.pid;
        reader.process.parent == holder || reader.ancestors.contains(&holder)
    });
    if is_parent {
        return format!("Remedy: close that descriptor once nothing more is to be written{how}.");
    }
    let wait = match language(observation, &leaked.reader) {
        // Who opened it need not have started who writes there.
        _ if leaked.pipe.is_fifo() => "",
        _ if leaked.pipe.is_terminal() => {
            " Or wait for the process, not for the end of its terminal."
        }
        Language::Python => {
            " Or wait for the process, not for the end of its output: run without PIPE."
        }
        Language::JavaScript => " Or listen to 'exit' instead of 'close'.",
        Language::Go => " Or set WaitDelay of the Cmd.",
        Language::Java => " Or waitFor() and read what is there.",
        _ => "",
    };
    if let Some((child, _)) = working_child(observation, leaked) {
        return format!(
            "If {} is to write there once {child} has ended, wait for that. If not: start it without the \
             descriptor ('{1}>&-' or '{1}>/dev/null' in a shell).{wait}",
            leaked.holder.name, leaked.fd
        );
    }
    format!(
        "Remedy: unless it is to write there, start it without the descriptor ('{0}>&-' or \
         '{0}>/dev/null' in a shell), or end it.{wait}",
        leaked.fd
    )
}

/// The remedy where both wait for the other's message.
pub(super) fn mutual(observation: &Observation, mutual: &MutualWait) -> String {
    if mutual.sides.iter().any(|side| side.pipe.is_terminal()) {
        return "one must send first (a line, with its end: pexpect's sendline(), not send(); or Ctrl-D, its \
                sendeof(), if nothing more is to come), or wait for what the other one really prints."
            .to_owned();
    }
    let mut languages = mutual
        .sides
        .iter()
        .map(|side| language(observation, &side.who));
    let how = languages.find_map(|language| match language {
        Language::Python => Some("flush(), or print(..., flush=True)"),
        Language::JavaScript => Some("write the end of the line, too"),
        Language::Java => Some("flush() the writer, and end the line"),
        Language::Go => Some("Flush() the bufio.Writer"),
        Language::Ruby => Some("flush"),
        Language::Perl => Some("$| = 1, or autoflush"),
        _ => None,
    });
    let how = how.unwrap_or("fflush(3), and the end of the line");
    // The one that has started the other.
    let other = match mutual.sides.len() {
        2 => "the other",
        _ => "another",
    };
    let first = mutual.sides.first();
    let end = first.map_or("", |first| end_input(language(observation, &first.who)));
    format!(
        "one must send first (is a message still in its buffer: {how}?), or end {other}'s input if \
         nothing more is to come{end}."
    )
}
