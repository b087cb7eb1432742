//! What a new pipe holds, found by filling it.

use anyhow::Context;
use fastpipe::pipe::{self, page_size};

use crate::channel::fifo;
use crate::check::pipes::{Ends, Moved, fill};
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "page-size",
        group: Group::Limits,
        statement: "the size of a page, which each slot of a pipe refers to",
        explanation: "A pipe is a ring of slots, each of which refers to a page: the page's size \
                      is what all other sizes are counted by. It is 4096 bytes on x86-64, and \
                      4096, 16384 or 65536 on aarch64.",
        reference: "pipe(7); struct pipe_buffer in include/linux/pipe_fs_i.h",
        run: page,
    },
    Check {
        name: "default-capacity",
        group: Group::Limits,
        statement: "what a new pipe takes before a writer has to wait",
        explanation: "A new pipe is filled, a page at a time, until the next page would have to \
                      wait: 65536 bytes with pages of 4096. A user whose pipes hold more pages \
                      than fs.pipe-user-pages-soft allows gets new pipes of two slots (one before \
                      Linux 5.14), which makes everything slow that goes through them.",
        reference: "pipe(7), \"Pipe capacity\"; alloc_pipe_info() in fs/pipe.c",
        run: default_capacity,
    },
    Check {
        name: "capacity-as-told",
        group: Group::Limits,
        statement: "F_GETPIPE_SZ tells what a pipe takes",
        explanation: "The capacity that fcntl(2) tells is compared with the bytes that went in, \
                      for a new pipe and for one that was resized.",
        reference: "fcntl(2), F_GETPIPE_SZ",
        run: as_told,
    },
    Check {
        name: "first-byte-to-wait",
        group: Group::Limits,
        statement: "a full pipe does not take one more byte",
        explanation: "A pipe that was filled by a single write(2) of its capacity is offered one \
                      byte more. With O_NONBLOCK that is EAGAIN; without, the writer sleeps in \
                      pipe_write() until somebody reads. Two programs that both write more than \
                      this before they read deadlock (pipespeed latency --naive).",
        reference: "pipe(7), \"Pipe capacity\"; POSIX.1-2024, write(); pipe_write() in fs/pipe.c",
        run: first_byte_to_wait,
    },
    Check {
        name: "fifo-capacity",
        group: Group::Limits,
        statement: "what a new FIFO takes",
        explanation: "A FIFO is a pipe with a name: the kernel makes and uses both by the same \
                      code. One is made in the directory for temporary files, opened at both \
                      ends, and removed at once.",
        reference: "fifo(7); fifo_open() in fs/pipe.c",
        run: fifo_capacity,
    },
];

fn page() -> anyhow::Result<Outcome> {
    Ok(Outcome::seen(format!("{} bytes", page_size())))
}

fn default_capacity() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let (bytes, slots) = (ends.fill(page_size())?, pipe::slots(&ends.read)?);
    let outcome = Outcome::seen(format!("{bytes} bytes, {slots} slots"));
    Ok(match slots {
        16 => outcome,
        ..16 => outcome.noting(
            "this user's pipes hold more pages than /proc/sys/fs/pipe-user-pages-soft allows: \
             close pipes, or have it raised",
        ),
        _ => outcome.noting("not the default of Linux, which is 16 slots"),
    })
}

fn as_told() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let told = pipe::capacity(&ends.write)?;
    let taken = ends.fill(page_size())?;
    let other = Ends::new()?;
    let told_then = pipe::set_capacity(&other.write, told / 2)?;
    let taken_then = other.fill(page_size())?;
    let seen = format!("{told} told, {taken} taken; {told_then} and {taken_then} after resizing");
    Ok(match told == taken && told_then == taken_then {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn first_byte_to_wait() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let capacity = pipe::capacity(&ends.write)?;
    let (first, next) = (ends.write(capacity)?, ends.write(1)?);
    let seen = format!("{first} bytes go in at once; then one more: {next}");
    Ok(match (first, next) {
        (Moved::Bytes(bytes), Moved::WouldWait) if bytes == capacity => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn fifo_capacity() -> anyhow::Result<Outcome> {
    let (_read_end, write_end) =
        fifo::open().context("a FIFO in the directory for temporary files")?;
    // The open file is ours alone.
    rustix::io::ioctl_fionbio(&write_end, true)?;
    let bytes = fill(&write_end, page_size())?;
    Ok(Outcome::seen(format!(
        "{bytes} bytes, {} slots",
        pipe::slots(&write_end)?
    )))
}
