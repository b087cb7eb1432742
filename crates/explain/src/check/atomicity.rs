//! Which writes stay whole among several writers.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::thread;

use anyhow::{bail, ensure};
use fastpipe::pipe::{ATOMIC_WRITE, page_size};

use pipespeed_host::refusals::Call;

use super::pipes::{Moved, Pipe, at, readable_within};
use super::{Check, Group, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "atomic-writes",
        group: Group::Semantics,
        statement: "writes up to PIPE_BUF stay whole among several writers",
        explanation: "Four threads, each with a descriptor of its own, write records of 1000 and of \
                      4096 bytes (PIPE_BUF on Linux) to one full pipe. Every word of a record names \
                      its writer and its number; the reader counts the records that others \
                      interrupt. None may be.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: atomic_writes,
    },
    Check {
        name: "torn-writes",
        group: Group::Semantics,
        statement: "how many longer writes other writers interrupt",
        explanation: "The same with longer records. A writer that waits for room in the middle of \
                      one lets others write. Programs that share a pipe must write lines of at most \
                      4096 bytes by one write(2) each, or take a lock.",
        reference: "pipe(7), PIPE_BUF; pipe_write() in fs/pipe.c",
        run: torn_writes,
    },
    Check {
        name: "nonblocking-writes",
        group: Group::Semantics,
        statement: "with O_NONBLOCK only writes above PIPE_BUF go in partly",
        explanation: "A pipe has room for 100 bytes: 200 must be EAGAIN and leave no byte. Then it \
                      has room for a page, and of two pages and a bit as much goes in as fits. Look \
                      at what write(2) returns.",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
        run: nonblocking_writes,
    },
];

/// Writers at a time.
const WRITERS: u32 = 4;

/// The bytes that each of them writes, about.
const BYTES_EACH: usize = 1 << 20;

/// The reader gives up after this many seconds without a byte.
const MAX_SILENCE_S: u32 = 2;

/// The bytes of a word: the writer's number and the record's.
const WORD: usize = 4;

fn atomic_writes() -> anyhow::Result<Outcome> {
    let (torn, seen) = torn_of([1000, ATOMIC_WRITE])?;
    Ok(Outcome::pass_if(torn == 0, seen))
}

fn torn_writes() -> anyhow::Result<Outcome> {
    let (_, seen) = torn_of([ATOMIC_WRITE + WORD, 4 * ATOMIC_WRITE])?;
    Ok(Outcome::seen(seen))
}

/// The number of torn records of these sizes, and the same in words.
fn torn_of(sizes: [usize; 2]) -> anyhow::Result<(usize, String)> {
    let (mut all, mut seen) = (0, Vec::new());
    for bytes in sizes {
        let (torn, records) = count_torn(bytes)?;
        all += torn;
        seen.push(format!("{torn} of {records} of {bytes} bytes"));
    }
    Ok((all, seen.join(", ")))
}

/// The number of torn records of this size, and of all.
fn count_torn(bytes: usize) -> anyhow::Result<(usize, usize)> {
    let Pipe { read, write } = Pipe::blocking()?;
    let each = (BYTES_EACH / bytes).max(16) as u32;
    let tally = thread::scope(|scope| {
        // Moved in here, so that an error closes it, which ends the writers.
        let read = read;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            // A descriptor each, like processes that inherited them.
            let end = at("dup(2)", write.try_clone())?;
            let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                (0..each).try_for_each(|number| write_record(&end, writer, number, bytes))
            });
            writers.push(at(Call::Clone, spawned)?);
        }
        drop(write);
        let tally = read_all(&read)?;
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
    let torn = tally.runs.values().filter(|runs| **runs > 1).count();
    Ok((torn, records))
}

fn write_record(end: &OwnedFd, writer: u32, number: u32, bytes: usize) -> anyhow::Result<()> {
    let record = (writer << 24 | number).to_ne_bytes().repeat(bytes / WORD);
    let written = at("write(2)", rustix::io::write(end, &record))?;
    ensure!(written == bytes, "write(2) took {written} of {bytes} bytes");
    Ok(())
}

/// Counts in how many runs the words of each record come out.
#[derive(Default)]
struct Tally {
    bytes: usize,
    runs: BTreeMap<u32, usize>,
    last: Option<u32>,
    /// The beginning of a word that is not complete.
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
        if !readable_within(end, MAX_SILENCE_S)? {
            bail!("the writers have written nothing for {MAX_SILENCE_S} s");
        }
        match at("read(2)", rustix::io::read(end, &mut buffer))? {
            0 => return Ok(tally),
            bytes => tally.add(&buffer[..bytes]),
        }
    }
}

fn nonblocking_writes() -> anyhow::Result<Outcome> {
    const ROOM: usize = 100;
    let pipe = Pipe::full()?;
    // All slots stay in use; the last page has a little room.
    pipe.read(page_size())?;
    pipe.write(page_size() - ROOM)?;
    let before = pipe.unread()?;
    let short = pipe.write(2 * ROOM)?;
    let whole = short == Moved::WouldBlock && pipe.unread()? == before;

    let pipe = Pipe::full()?;
    pipe.read(page_size())?;
    let asked = 2 * page_size() + ROOM;
    let long = pipe.write(asked)?;
    let partly = matches!(long, Moved::Bytes(bytes) if (1..=page_size()).contains(&bytes));
    Ok(Outcome::pass_if(
        whole && partly,
        format!(
            "{short} for {} with room for {ROOM}; {long} of {asked} with room for {}",
            2 * ROOM,
            page_size()
        ),
    ))
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
    fn interrupted_records_are_counted_however_they_are_read() {
        for at_once in 1..20 {
            assert_eq!(runs(&[7, 7, 7, 1, 1, 1], at_once), [1, 1]);
            assert_eq!(runs(&[7, 7, 1, 1, 1, 7], at_once), [1, 2]);
            assert_eq!(runs(&[7, 1, 7, 1, 7, 1], at_once), [3, 3]);
        }
    }

    #[test]
    fn a_reader_that_gives_up_ends_the_writers() {
        let Pipe { read, write } = Pipe::blocking().unwrap();
        drop(read);
        let error = write_record(&write, 0, 0, 1000).unwrap_err();
        assert!(error.to_string().contains("Broken pipe"), "{error}");
    }
}
