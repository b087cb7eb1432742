//! Slots against bytes: what fills a pipe though few bytes are in it.

use std::io;

use fastpipe::buffer::{Buffer, PageSlice};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::Output;
use fastpipe::wait::Wait;

use crate::check::pipes::{Ends, Moved};
use crate::check::{Check, Group, Outcome, refusal};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "one-byte-writes",
        group: Group::Limits,
        statement: "how many one-byte writes fill two slots",
        explanation: "write(2) appends to the page in the last slot as long as there is room in it, \
                      so that small writes do not use up the slots: a pipe takes as many bytes one \
                      at a time as in pages.",
        reference: "pipe_write() in fs/pipe.c (PIPE_BUF_FLAG_CAN_MERGE)",
        run: one_byte_writes,
    },
    Check {
        name: "one-byte-pieces",
        group: Group::Limits,
        statement: "how many one-byte pieces by vmsplice fill a pipe",
        explanation: "vmsplice(2) takes a slot for each piece, however small: 16 bytes fill a pipe \
                      of 16 slots, so send small pieces by write(2). The pieces are sent until one \
                      would have to wait.",
        reference: "vmsplice(2); add_to_pipe() in fs/splice.c",
        run: one_byte_pieces,
    },
    Check {
        name: "unaligned-piece",
        group: Group::Limits,
        statement: "how much of a pipeful that starts within a page fits by vmsplice",
        explanation: "A piece takes a slot for each page that it touches. One as long as the pipe's \
                      capacity that starts 100 bytes into a page touches one page more than there \
                      are slots, so its last bytes have to wait: align buffers to pages.",
        reference: "vmsplice(2); iter_to_pipe() in fs/splice.c",
        run: unaligned_piece,
    },
    Check {
        name: "part-read-slot",
        group: Group::Limits,
        statement: "when a page that is being read makes room",
        explanation: "A full pipe is read up to the last byte but one of its first page, then that \
                      byte. A slot is free only once nothing in it is left to read: readers that \
                      take odd sizes keep up to a page less in flight.",
        reference: "pipe_read() in fs/pipe.c",
        run: part_read_slot,
    },
];

/// Slots of the pipe that is filled byte by byte: each byte is a system call.
const FEW: usize = 2;

/// How far into a page an unaligned piece starts.
const OFF: usize = 100;

fn one_byte_writes() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let capacity = pipe::set_capacity(&ends.write, FEW * page_size())?;
    let taken = ends.fill(1)?;
    let outcome = Outcome::seen(format!("{taken}, of {capacity} bytes of capacity"));
    Ok(match taken == capacity {
        true => outcome,
        false => {
            outcome.noting("small writes do not share pages here: collect them before writing")
        }
    })
}

fn one_byte_pieces() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let slots = pipe::slots(&ends.write)?;
    let memory = Buffer::builder().len(page_size()).map()?;
    let pieces: Vec<PageSlice<'_>> = (0..2 * slots).map(|at| memory.slice(at..=at)).collect();
    Ok(match sent(&ends, &pieces) {
        Ok(taken) => Outcome::seen(format!("{taken}, of {slots} slots")),
        Err(error) => refusal::or_error("vmsplice(2)", error)?,
    })
}

fn unaligned_piece() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let capacity = pipe::capacity(&ends.write)?;
    let memory = Buffer::builder().len(capacity + page_size()).map()?;
    Ok(match sent(&ends, &[memory.slice(OFF..OFF + capacity)]) {
        Ok(taken) => Outcome::seen(format!("{taken} of {capacity} bytes")),
        Err(error) => refusal::or_error("vmsplice(2)", error)?,
    })
}

/// The bytes that go in by vmsplice until more would have to wait.
fn sent(ends: &Ends, pieces: &[PageSlice<'_>]) -> io::Result<u64> {
    let mut output = Output::new(&ends.write, Wait::Never);
    match output.vmsplice(pieces, Default::default()) {
        Ok(()) => Ok(output.counts().bytes),
        Err(end) if end.kind() == io::ErrorKind::WouldBlock => Ok(end.moved),
        Err(end) => Err(end.source),
    }
}

fn part_read_slot() -> anyhow::Result<Outcome> {
    let ends = Ends::full()?;
    let page = page_size();
    let most = ends.read(page - 1)?;
    let (before, last) = (ends.write(page)?, ends.read(1)?);
    let after = ends.write(page)?;
    let as_read = (most, last) == (Moved::Bytes(page - 1), Moved::Bytes(1));
    let seen = match (before, after) {
        (Moved::WouldWait, Moved::Bytes(bytes)) if bytes == page => {
            format!("with the last of its {page} bytes")
        }
        _ => format!("{before} before its last byte was read, {after} after"),
    };
    Ok(match as_read {
        true => Outcome::seen(seen),
        false => Outcome::fail(format!("a full page was read as {most} and {last} bytes")),
    })
}
