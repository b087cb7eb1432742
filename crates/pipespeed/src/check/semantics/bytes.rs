//! What reading and counting do.

use fastpipe::pipe;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::check::pipes::{Ends, Moved, unexpected};
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "empty-read",
        group: Group::Semantics,
        statement: "reading an empty pipe that has a writer is no end of file",
        explanation: "With O_NONBLOCK such a read is EAGAIN; without, it waits. Only where no \
                      writer is left does read(2) return 0.",
        reference: "POSIX.1-2024, read(); pipe_read() in fs/pipe.c",
        run: empty_read,
    },
    Check {
        name: "short-read",
        group: Group::Semantics,
        statement: "read(2) returns what is there, be it less than asked for",
        explanation: "Three writes make 3000 bytes. A read of 65536 returns them together, without \
                      waiting for more: a pipe is a stream, and keeps no record of single writes.",
        reference: "POSIX.1-2024, read(); pipe(7)",
        run: short_read,
    },
    Check {
        name: "unread-bytes",
        group: Group::Semantics,
        statement: "FIONREAD counts the bytes unread, at either end",
        explanation: "Counted after writes and partial reads. It is the only way to learn how much \
                      of what was written is still in the pipe, as vmsplice needs: though what was \
                      spliced on counts as read.",
        reference: "ioctl_pipe(2), FIONREAD; pipe_ioctl() in fs/pipe.c",
        run: unread_bytes,
    },
    Check {
        name: "no-seek",
        group: Group::Semantics,
        statement: "lseek(2) on a pipe is ESPIPE",
        explanation: "A pipe has no position: programs use this error to tell pipes and sockets \
                      from files.",
        reference: "pipe(7); POSIX.1-2024, lseek()",
        run: no_seek,
    },
];

fn empty_read() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let got = ends.read(1)?;
    Ok(match got {
        Moved::WouldWait => Outcome::pass("EAGAIN"),
        Moved::Bytes(bytes) => Outcome::fail(format!("{bytes} bytes")),
    })
}

fn short_read() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    for _ in 0..3 {
        ends.write(1000)?;
    }
    let got = ends.read(65_536)?;
    let seen = format!("{got} of 65536 bytes, from three writes");
    Ok(match got {
        Moved::Bytes(3000) => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn unread_bytes() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let mut seen = vec![ends.unread()?];
    ends.write(3000)?;
    seen.push(ends.unread()?);
    ends.read(1)?;
    seen.push(pipe::unread(&ends.write)?);
    ends.read(2999)?;
    seen.push(ends.unread()?);
    let words: Vec<String> = seen.iter().map(usize::to_string).collect();
    let words = words.join(", ");
    Ok(match seen[..] {
        [0, 3000, 2999, 0] => Outcome::pass(words),
        _ => Outcome::fail(format!("{words} instead of 0, 3000, 2999, 0")),
    })
}

fn no_seek() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    Ok(match rustix::fs::seek(&ends.read, SeekFrom::Current(0)) {
        Err(Errno::SPIPE) => Outcome::pass("ESPIPE"),
        Err(errno) => unexpected(errno)?,
        Ok(at) => Outcome::fail(format!("position {at}")),
    })
}
