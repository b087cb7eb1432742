//! Whose flag O_NONBLOCK is, and what does without it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use anyhow::Context;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags};

use crate::channel::fifo;
use crate::check::pipes::{blocking, no_fifo};
use crate::check::{Check, Group, Outcome, refusal};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "nonblock-dup",
        group: Group::Semantics,
        statement: "O_NONBLOCK is shared by all copies of a descriptor",
        explanation: "It belongs to the open file, not to the descriptor: set through one, it shows \
                      at a copy made by dup(2), and so in every process that inherited one. Never \
                      set it on a descriptor that you did not open: the shell that started you \
                      reads from the same file.",
        reference: "open(2), \"Open file descriptions\"; fcntl(2), F_SETFL",
        run: dup,
    },
    Check {
        name: "nonblock-reopened",
        group: Group::Semantics,
        statement: "a pipe reopened through /proc/self/fd has flags of its own",
        explanation: "The write end is opened again with O_NONBLOCK by its name in /proc: another \
                      open file of the same pipe. The first must go on without the flag, and bytes \
                      written through the second must come out.",
        reference: "proc_pid_fd(5); open(2); fifo_open() in fs/pipe.c",
        run: reopened,
    },
    Check {
        name: "nowait-calls",
        group: Group::Semantics,
        statement: "where a single call may be told not to wait (RWF_NOWAIT)",
        explanation: "preadv2(2) and pwritev2(2) take the flag for one call, so that O_NONBLOCK need \
                      not be touched. Pipes have it since Linux 6.4 or so; FIFOs do not.",
        reference: "readv(2), RWF_NOWAIT; FMODE_NOWAIT in create_pipe_files(), fs/pipe.c",
        run: nowait,
    },
];

fn dup() -> anyhow::Result<Outcome> {
    let (read_end, _write_end) = blocking()?;
    let copy = read_end.try_clone().context("dup")?;
    let before = fcntl_getfl(&copy)?;
    fcntl_setfl(&read_end, fcntl_getfl(&read_end)? | OFlags::NONBLOCK)?;
    let after = fcntl_getfl(&copy)?;
    let seen = format!("{}, then {} at the copy", shown(before), shown(after));
    let as_it_must = !before.contains(OFlags::NONBLOCK) && after.contains(OFlags::NONBLOCK);
    Ok(match as_it_must {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn reopened() -> anyhow::Result<Outcome> {
    let (read_end, write_end) = blocking()?;
    let path = format!("/proc/self/fd/{}", write_end.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let again = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(again) => again,
        Err(errno @ (Errno::NOENT | Errno::ACCESS | Errno::PERM)) => {
            return Ok(Outcome::refused(format!("{path}: {errno}")).noting(
                "without it a pipe's end can't be had without the flags that others share: mount \
                 /proc",
            ));
        }
        Err(errno) => return Err(errno).context(path),
    };
    rustix::io::write(&again, b"through").context("write")?;
    let unread = fastpipe::pipe::unread(&read_end)?;
    let (first, second) = (fcntl_getfl(&write_end)?, fcntl_getfl(&again)?);
    let seen = format!(
        "{} at the first, {} at the second; {unread} of 7 bytes through it",
        shown(first),
        shown(second)
    );
    let apart = !first.contains(OFlags::NONBLOCK) && second.contains(OFlags::NONBLOCK);
    Ok(match apart && unread == 7 {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn shown(flags: OFlags) -> &'static str {
    match flags.contains(OFlags::NONBLOCK) {
        true => "set",
        false => "not set",
    }
}

fn nowait() -> anyhow::Result<Outcome> {
    let pipe = blocking()?;
    let pipe = match knows_nowait(&pipe.0, &pipe.1) {
        Ok(answer) => answer,
        Err(Failed(call, errno)) => return refusal::or_error(call, errno.into()),
    };
    let fifo = match fifo::open() {
        Ok(fifo) => knows_nowait(&fifo.0, &fifo.1),
        Err(error) => {
            // What was learnt of pipes is told all the same.
            let mut refused = no_fifo(error)?;
            refused.seen = format!("pipe: {pipe}; FIFO: {}", refused.seen);
            return Ok(refused);
        }
    };
    match fifo {
        Ok(fifo) => Ok(Outcome::seen(format!("pipe: {pipe}; FIFO: {fifo}"))),
        Err(Failed(call, errno)) => refusal::or_error(call, errno.into()),
    }
}

/// A call that failed otherwise than by not knowing the flag.
struct Failed(&'static str, Errno);

/// What an empty pipe with a writer answers: it can take a byte, and its read
/// end has none. No such call waits, whatever comes of it.
fn knows_nowait(read_end: impl AsFd, write_end: impl AsFd) -> Result<String, Failed> {
    // With this offset they are as read and write.
    const NO_OFFSET: u64 = u64::MAX;
    const NO: &str = "no (EOPNOTSUPP)";
    let flag = ReadWriteFlags::NOWAIT;
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(read_end, &mut into, NO_OFFSET, flag) {
        Err(Errno::AGAIN) => {}
        Err(Errno::OPNOTSUPP) => return Ok(NO.to_owned()),
        Err(errno) => return Err(Failed("preadv2(2)", errno)),
        Ok(bytes) => return Ok(format!("read {bytes} bytes from nowhere")),
    }
    let bytes = [IoSlice::new(b"x")];
    match rustix::io::pwritev2(write_end, &bytes, NO_OFFSET, flag) {
        Ok(1) => Ok("yes".to_owned()),
        Ok(other) => Ok(format!("wrote {other} of 1 byte")),
        Err(Errno::OPNOTSUPP) => Ok(NO.to_owned()),
        Err(errno) => Err(Failed("pwritev2(2)", errno)),
    }
}
