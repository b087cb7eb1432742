//! Which writes stay whole among several writers.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::thread;

use anyhow::{Context, bail, ensure};
use fastpipe::pipe::{ATOMIC_WRITE, page_size};

use crate::check::pipes::{Ends, Moved, blocking, readable_within};
use crate::check::refusal::NoThread;
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "atomic-small",
        group: Group::Semantics,
        statement: "writes below PIPE_BUF stay whole among several writers",
        explanation: "Four threads, each with a descriptor of its own, write records of 1000 bytes \
                      to one full pipe, with the writer and the record's number in every word; the \
                      reader counts those that another one interrupts. None may be.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: || whole(1000),
    },
    Check {
        name: "atomic-pipe-buf",
        group: Group::Semantics,
        statement: "writes of PIPE_BUF bytes stay whole among several writers",
        explanation: "The same with records of 4096 bytes, PIPE_BUF on Linux, the largest that must \
                      stay whole (POSIX asks for 512 at least). None may be interrupted.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: || whole(ATOMIC_WRITE),
    },
    Check {
        name: "torn-writes",
        group: Group::Semantics,
        statement: "longer writes that other writers' bytes interrupted",
        explanation: "The same with longer records: a writer that has to wait for room in the middle \
                      of one lets others write meanwhile. Programs that share a pipe must write \
                      lines of at most 4096 bytes, by one write(2) each, or take a lock.",
        reference: "pipe(7), PIPE_BUF; pipe_write() in fs/pipe.c",
        run: torn_writes,
    },
    Check {
        name: "nonblocking-atomic",
        group: Group::Semantics,
        statement: "with O_NONBLOCK up to PIPE_BUF bytes go in whole or not at all",
        explanation: "A pipe has room for 100 bytes. 200 must be refused by EAGAIN without one of \
                      them being taken; then 100 must go in.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: nonblocking_atomic,
    },
    Check {
        name: "nonblocking-partial",
        group: Group::Semantics,
        statement: "what O_NONBLOCK takes of a longer write that does not fit",
        explanation: "A pipe has room for one page, and two and a bit are written. Of more than \
                      PIPE_BUF bytes as many go in as there is room for: look at what write(2) \
                      returns.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: nonblocking_partial,
    },
];

/// Writers at a time.
const WRITERS: u32 = 4;

/// Bytes that each of them writes, about.
const EACH: usize = 1 << 20;

/// Seconds without a byte until the writers are given up.
const QUIET: u32 = 2;

/// A record's words: the writer's number and the record's.
const WORD: usize = 4;

fn whole(bytes: usize) -> anyhow::Result<Outcome> {
    let (torn, records) = torn(bytes)?;
    let seen = format!("{torn} of {records} records of {bytes} bytes torn");
    Ok(match torn {
        0 => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn torn_writes() -> anyhow::Result<Outcome> {
    let mut seen = Vec::new();
    for bytes in [ATOMIC_WRITE + WORD, 4 * ATOMIC_WRITE] {
        let (torn, records) = torn(bytes)?;
        seen.push(format!("{torn} of {records} of {bytes} bytes"));
    }
    Ok(Outcome::seen(seen.join(", ")))
}

/// How many records of so many bytes did not stay whole, of how many.
fn torn(bytes: usize) -> anyhow::Result<(usize, usize)> {
    let (read_end, write_end) = blocking()?;
    let each = (EACH / bytes).max(16) as u32;
    let tally = thread::scope(|scope| {
        // In here: whatever happens it is closed before the writers are waited
        // for, and so ends them.
        let read_end = read_end;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            // A descriptor each, as processes have that inherited them.
            let end = write_end.try_clone().context("dup")?;
            let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                (0..each).try_for_each(|number| write_record(&end, writer, number, bytes))
            });
            writers.push(spawned.context(NoThread)?);
        }
        drop(write_end);
        let tally = read_all(&read_end)?;
        for writer in writers {
            writer.join().expect("it does not panic")?;
        }
        anyhow::Ok(tally)
    })?;
    let records = (WRITERS * each) as usize;
    ensure!(
        tally.bytes == records * bytes && tally.runs.len() == records,
        "{} bytes of {} came out",
        tally.bytes,
        records * bytes
    );
    Ok((
        tally.runs.values().filter(|runs| **runs > 1).count(),
        records,
    ))
}

fn write_record(end: &OwnedFd, writer: u32, number: u32, bytes: usize) -> anyhow::Result<()> {
    let record = (writer << 24 | number).to_ne_bytes().repeat(bytes / WORD);
    let written = rustix::io::write(end, &record).context("write")?;
    ensure!(written == bytes, "write(2) took {written} of {bytes} bytes");
    Ok(())
}

/// What came out of a pipe: in how many runs the words of each record did.
#[derive(Default)]
struct Tally {
    bytes: usize,
    runs: BTreeMap<u32, usize>,
    last: Option<u32>,
    /// The beginning of a word whose rest is still to come.
    rest: Vec<u8>,
}

impl Tally {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.rest.extend_from_slice(bytes);
        let words = self.rest.chunks_exact(WORD);
        let rest = words.remainder().to_vec();
        for word in words {
            let word = u32::from_ne_bytes(word.try_into().expect("four bytes"));
            if self.last.replace(word) != Some(word) {
                *self.runs.entry(word).or_default() += 1;
            }
        }
        self.rest = rest;
    }
}

/// Reads a page at a time, so that the pipe is full most of the time.
fn read_all(end: &OwnedFd) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut buffer = [0; ATOMIC_WRITE];
    loop {
        if !readable_within(end, QUIET)? {
            bail!("the writers have written nothing for {QUIET} s");
        }
        match rustix::io::read(end, &mut buffer).context("read")? {
            0 => return Ok(tally),
            some => tally.add(&buffer[..some]),
        }
    }
}

fn nonblocking_atomic() -> anyhow::Result<Outcome> {
    const ROOM: usize = 100;
    let ends = Ends::full()?;
    // All slots are in use, and the last page has a little room.
    ends.read(page_size())?;
    ends.write(page_size() - ROOM)?;
    let before = ends.unread()?;
    let more = ends.write(2 * ROOM)?;
    let between = ends.unread()?;
    let fits = ends.write(ROOM)?;
    let seen = format!(
        "room for {ROOM}: {more} for {}, {fits} for {ROOM}",
        2 * ROOM
    );
    // The room at a page's end may be left unused, but never used in part.
    let whole = more == Moved::WouldWait && between == before;
    Ok(match (whole, fits) {
        (true, Moved::Bytes(ROOM) | Moved::WouldWait) => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn nonblocking_partial() -> anyhow::Result<Outcome> {
    let ends = Ends::full()?;
    ends.read(page_size())?;
    let asked = 2 * page_size() + 100;
    let taken = ends.write(asked)?;
    let seen = format!("{taken} of {asked} bytes, with room for {}", page_size());
    Ok(match taken {
        Moved::Bytes(bytes) if bytes == 0 || bytes > page_size() => Outcome::fail(seen),
        _ => Outcome::seen(seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(records: &[u32], at_once: usize) -> Vec<usize> {
        let bytes: Vec<u8> = records.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut tally = Tally::default();
        bytes.chunks(at_once).for_each(|chunk| tally.add(chunk));
        tally.runs.into_values().collect()
    }

    #[test]
    fn an_interrupted_record_is_counted_however_it_is_read() {
        for at_once in 1..20 {
            assert_eq!(runs(&[7, 7, 7, 1, 1, 1], at_once), [1, 1]);
            assert_eq!(runs(&[7, 7, 1, 1, 1, 7], at_once), [1, 2]);
            assert_eq!(runs(&[7, 1, 7, 1, 7, 1], at_once), [3, 3]);
        }
    }

    #[test]
    fn writers_are_ended_by_a_reader_that_gives_up() {
        // A reader that leaves is what ends them in `torn`.
        let (read_end, write_end) = fastpipe::pipe::create().unwrap();
        drop(read_end);
        let error = write_record(&write_end, 0, 0, 1000).unwrap_err();
        let errno = error.downcast_ref();
        assert_eq!(errno, Some(&rustix::io::Errno::PIPE));
    }
}
