//! What closing an end does to the other.

use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;

use super::shell::Shell;
use crate::channel::name::PrivateName;
use crate::check::pipes::{Ends, Moved, blocking, moved, no_fifo, unexpected};
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "end-of-file",
        group: Group::Semantics,
        statement: "read(2) returns 0 only once every copy of the write end is closed",
        explanation: "Three copies are closed one after another, with a look at the empty pipe \
                      before each: it must be EAGAIN, then 0. The commonest bug with pipes is a \
                      copy that was forgotten, so that the reader waits for ever.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; pipe_read() in fs/pipe.c",
        run: end_of_file,
    },
    Check {
        name: "end-of-file-child",
        group: Group::Semantics,
        statement: "a write end that a child inherited keeps the file from ending",
        explanation: "A shell is started with the write end as its standard output, and writes \
                      nothing. The reader sees the end only when the shell has ended, too: open \
                      pipes with O_CLOEXEC, and close the end that you don't use.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"",
        run: end_of_file_child,
    },
    Check {
        name: "data-after-close",
        group: Group::Semantics,
        statement: "what was written before the writer closed can be read",
        explanation: "Closing loses nothing: the reader gets the bytes, and then the end.",
        reference: "pipe(7); pipe_release() in fs/pipe.c",
        run: data_after_close,
    },
    Check {
        name: "epipe",
        group: Group::Semantics,
        statement: "writing where no reader is left is EPIPE, with SIGPIPE ignored",
        explanation: "The read end is closed and a byte written. What still was in the pipe is \
                      lost, and the writer is not told how much of it was read.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; POSIX.1-2024, write(), EPIPE",
        run: epipe,
    },
    Check {
        name: "fifo-no-reader",
        group: Group::Semantics,
        statement: "opening a FIFO to write without waiting is ENXIO where nobody reads",
        explanation: "O_WRONLY with O_NONBLOCK is tried without a reader, and with one. Without the \
                      flag, open(2) waits for the other end.",
        reference: "fifo(7); POSIX.1-2024, open(), ENXIO",
        run: fifo_no_reader,
    },
];

fn end_of_file() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    let mut copies = vec![write];
    for _ in 0..2 {
        copies.push(copies[0].try_clone().context("dup")?);
    }
    let (mut seen, mut right) = (Vec::new(), true);
    loop {
        let got = read_one(&read)?;
        right &= match copies.is_empty() {
            false => got == Moved::WouldWait,
            true => got == Moved::Bytes(0),
        };
        seen.push(got.to_string());
        if copies.pop().is_none() {
            break;
        }
    }
    let seen = format!("{} with 3, 2, 1 and no copies open", seen.join(", "));
    Ok(match right {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn read_one(end: &OwnedFd) -> anyhow::Result<Moved> {
    moved(rustix::io::read(end, &mut [0; 1])).context("read")
}

fn end_of_file_child() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    // It ends with its standard input.
    let (theirs, ours) = blocking()?;
    let mut shell = match Shell::start("read line", theirs, write) {
        Ok(shell) => shell,
        Err(refused) => return refused,
    };
    let during = read_one(&read)?;
    drop(ours);
    shell.wait()?;
    let after = read_one(&read)?;
    let seen = format!("{during} while it runs, {after} when it has ended");
    Ok(match (during, after) {
        (Moved::WouldWait, Moved::Bytes(0)) => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn data_after_close() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    crate::check::pipes::write(&write, b"the last words")?;
    drop(write);
    let mut got = [0; 64];
    let read_bytes = rustix::io::read(&read, &mut got)?;
    let then = read_one(&read)?;
    let seen = format!("{read_bytes} of 14 bytes, then {then}");
    let same = &got[..read_bytes] == b"the last words";
    Ok(match same && then == Moved::Bytes(0) {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn epipe() -> anyhow::Result<Outcome> {
    // Rust programs start with SIGPIPE ignored, and this one leaves it so.
    let Ends { read, write } = Ends::new()?;
    drop(read);
    Ok(match rustix::io::write(&write, b"x") {
        Err(Errno::PIPE) => Outcome::pass("EPIPE"),
        Err(errno) => unexpected(errno)?,
        Ok(bytes) => Outcome::fail(format!("{bytes} byte written")),
    })
}

fn fifo_no_reader() -> anyhow::Result<Outcome> {
    let name = match PrivateName::new("fifo") {
        Ok(name) => name,
        Err(error) => return no_fifo(error),
    };
    let mode = Mode::RUSR | Mode::WUSR;
    if let Err(errno) = mknodat(CWD, name.path(), FileType::Fifo, mode, 0) {
        return no_fifo(errno.into());
    }
    let open = |access| {
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(name.path(), flags, Mode::empty())
    };
    let without = open(OFlags::WRONLY);
    let _reader = open(OFlags::RDONLY).context("open a FIFO to read")?;
    let with = open(OFlags::WRONLY);
    let shown = |opened: &Result<OwnedFd, Errno>| match opened {
        Ok(_) => "opened".to_owned(),
        Err(Errno::NXIO) => "ENXIO".to_owned(),
        Err(errno) => errno.to_string(),
    };
    let seen = format!(
        "{} without a reader, {} with one",
        shown(&without),
        shown(&with)
    );
    Ok(match (without, with) {
        (Err(Errno::NXIO), Ok(_)) => Outcome::pass(seen),
        (Err(Errno::NXIO), Err(errno)) | (Err(errno), _) => {
            let failed = unexpected(errno).context("open(2) of a FIFO")?;
            Outcome { seen, ..failed }
        }
        (Ok(_), _) => Outcome::fail(seen),
    })
}
