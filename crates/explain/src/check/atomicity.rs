//! Writes by several writers to one pipe: which ones stay whole.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::thread;

use anyhow::{bail, ensure};
use fastpipe::pipe::{PIPE_BUF, page_size};

use pipespeed_host::refusals::RefusableCall;

use super::pipes::{MoveOutcome, PipePair, at, readable_within};
use super::{CheckGroup, CheckResult};

checks! {
    CHECKS, CheckGroup::Semantics;

    /// Four threads write records of 1000 and of 4096 bytes (PIPE_BUF on Linux) to one full pipe,
    /// each through its own descriptor. Every word of a record contains the writer's and the
    /// record's number. The reader counts records that another record interrupts; there must be
    /// none.
    "atomic-writes" => atomic_writes {
        statement: "writes up to PIPE_BUF stay whole among several writers",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
    }

    /// The same as atomic-writes, with longer records. A writer that waits for room in the middle
    /// of a record lets others write. Programs that share a pipe must write lines of at most 4096
    /// bytes by one write(2) each, or use a lock.
    "torn-writes" => torn_writes {
        statement: "how many longer writes are interrupted by other writers",
        reference: "pipe(7), PIPE_BUF; pipe_write() in fs/pipe.c",
    }

    /// Writes 200 bytes to a pipe with room for 100: it must fail with EAGAIN and write nothing.
    /// Then writes a little more than two pages to a pipe with room for one: only what fits is
    /// written. Always check the value that write(2) returns.
    "nonblocking-writes" => nonblocking_writes {
        statement: "with O_NONBLOCK only writes above PIPE_BUF may be partial",
        reference: "POSIX.1-2024, write(); pipe(7), PIPE_BUF",
    }
}

/// Number of concurrent writers.
const WRITERS: u32 = 4;

/// Approximate number of bytes written by each.
const BYTES_EACH: usize = 1 << 20;

/// The reader gives up after this many seconds without a byte.
const MAX_SILENCE_S: u32 = 2;

/// Bytes of a word, which contains the writer's number and the record's.
const WORD: usize = 4;

fn atomic_writes() -> anyhow::Result<CheckResult> {
    let (torn, seen) = torn_of([1000, PIPE_BUF])?;
    Ok(CheckResult::pass_if(torn == 0, seen))
}

fn torn_writes() -> anyhow::Result<CheckResult> {
    let (_, seen) = torn_of([PIPE_BUF + WORD, 4 * PIPE_BUF])?;
    Ok(CheckResult::seen(seen))
}

/// The number of torn records of these sizes, and the same in words.
fn torn_of(sizes: [usize; 2]) -> anyhow::Result<(usize, String)> {
    let (mut all, mut seen) = (0, Vec::new());
    for bytes in sizes {
        let (torn, records) = count_torn(bytes)?;
        all += torn;
        seen.push(format!("{torn} of {records} writes of {bytes} bytes torn"));
    }
    Ok((all, seen.join(", ")))
}

/// The number of torn records of this size, and of all.
fn count_torn(bytes: usize) -> anyhow::Result<(usize, usize)> {
    let PipePair { read, write } = PipePair::blocking()?;
    let each = (BYTES_EACH / bytes).max(16) as u32;
    let bytes_read = thread::scope(|scope| {
        // Moved into the scope: an error closes it, which ends the writers.
        let read = read;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            // A descriptor each, like processes that inherited them.
            let end = at("dup(2)", write.try_clone())?;
            let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                (0..each).try_for_each(|number| write_record(&end, writer, number, bytes))
            });
            writers.push(at(RefusableCall::Clone, spawned)?);
        }
        drop(write);
        let bytes_read = read_all(&read)?;
        for writer in writers {
            writer.join().expect("it does not panic")?;
        }
        anyhow::Ok(bytes_read)
    })?;
    let records = (WRITERS * each) as usize;
    let parts = count_parts(&bytes_read);
    let (read, written) = (bytes_read.len(), records * bytes);
    ensure!(
        read == written && parts.len() == records,
        "{read} bytes of {written} were read"
    );
    let torn = parts.values().filter(|parts| **parts > 1).count();
    Ok((torn, records))
}

fn write_record(end: &OwnedFd, writer: u32, number: u32, bytes: usize) -> anyhow::Result<()> {
    let record = (writer << 24 | number).to_ne_bytes().repeat(bytes / WORD);
    let written = at("write(2)", rustix::io::write(end, &record))?;
    ensure!(written == bytes, "write(2) took {written} of {bytes} bytes");
    Ok(())
}

/// Reads until the end, a page at a time, so that the pipe is full most of the time.
fn read_all(end: &OwnedFd) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = [0; PIPE_BUF];
    loop {
        if !readable_within(end, MAX_SILENCE_S)? {
            bail!("the writers have written nothing for {MAX_SILENCE_S} s");
        }
        match at("read(2)", rustix::io::read(end, &mut buffer))? {
            0 => return Ok(all),
            bytes => all.extend_from_slice(&buffer[..bytes]),
        }
    }
}

/// The number of parts in which each record was read.
fn count_parts(bytes: &[u8]) -> BTreeMap<&[u8], usize> {
    let mut parts = BTreeMap::new();
    let mut last = None;
    for word in bytes.chunks(WORD) {
        if last != Some(word) {
            *parts.entry(word).or_default() += 1;
        }
        last = Some(word);
    }
    parts
}

fn nonblocking_writes() -> anyhow::Result<CheckResult> {
    const ROOM: usize = 100;
    let pipe = PipePair::full()?;
    // All slots stay in use; the last page has a little room.
    pipe.read(page_size())?;
    pipe.write(page_size() - ROOM)?;
    let before = pipe.unread()?;
    let short = pipe.write(2 * ROOM)?;
    let whole = short == MoveOutcome::WouldBlock && pipe.unread()? == before;

    let pipe = PipePair::full()?;
    pipe.read(page_size())?;
    let asked = 2 * page_size() + ROOM;
    let long = pipe.write(asked)?;
    let partly = matches!(long, MoveOutcome::Bytes(bytes) if (1..=page_size()).contains(&bytes));
    Ok(CheckResult::pass_if(
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

    #[test]
    fn the_parts_of_interrupted_records_are_counted() {
        let parts = |records: &[u32]| -> Vec<usize> {
            let words = records.iter().flat_map(|word| word.to_ne_bytes());
            count_parts(&words.collect::<Vec<u8>>())
                .into_values()
                .collect()
        };
        assert_eq!(parts(&[7, 7, 7, 1, 1, 1]), [1, 1]);
        assert_eq!(parts(&[7, 7, 1, 1, 1, 7]), [1, 2]);
        assert_eq!(parts(&[7, 1, 7, 1, 7, 1]), [3, 3]);
    }

    #[test]
    fn a_reader_that_gives_up_ends_the_writers() {
        let PipePair { read, write } = PipePair::blocking().unwrap();
        drop(read);
        crate::check::pipes::wait_for_last_close(&write).unwrap();
        let error = write_record(&write, 0, 0, 1000).unwrap_err();
        assert!(error.to_string().contains("Broken pipe"), "{error}");
    }
}
