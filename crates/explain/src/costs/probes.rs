//! Probes that run in one thread: calls, pages through a pipe, page faults.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Pages, huge_page_size};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;
use pipespeed_base::standard::open_null;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::parts::{check_huge_pages, mapped, ns_per, pipe_of};
use super::pinning::Pipes;
use super::{PIECE, Sampler};

/// Number of calls in a sample.
const CALLS: u32 = 2000;

/// A sample fills and drains its pipe this many times.
const FILLS: u32 = 12;

/// Minimum number of bytes touched for a sample of page faults.
const MIN_FAULT_BYTES: usize = 4 << 20;

/// How a pipe is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Write,
    Vmsplice,
    Tee,
}

/// How a pipe is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    Read,
    /// splice(2) to /dev/null.
    Splice,
}

/// A system call that does nothing.
pub(super) fn call() -> io::Result<Sampler> {
    Ok(Box::new(|| {
        let started = Instant::now();
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        Ok(vec![ns_per(started.elapsed(), CALLS.into())])
    }))
}

/// A read of an empty pipe with O_NONBLOCK.
pub(super) fn would_block() -> io::Result<Sampler> {
    let (reader, writer) = pipe::create()?;
    rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    Ok(Box::new(move || {
        // Without an open write end, read(2) would return the end of file.
        let _open = &writer;
        let started = Instant::now();
        for _ in 0..CALLS {
            match rustix::io::read(&reader, &mut [0]) {
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(vec![ns_per(started.elapsed(), CALLS.into())])
    }))
}

/// Fills a pipe from memory in `pages`, and drains it, by one call each. The values are
/// the times per page: of filling, and of draining.
pub(super) fn fill_and_drain(fill: Fill, pages: Pages, drain: Drain) -> io::Result<Sampler> {
    let (reader, writer) = pipe_of(PIECE)?;
    let mut output = Output::new(writer, Wait::Never);
    let mut input = Input::new(reader, Wait::Never);
    let from = mapped(PIECE, pages, true)?;
    let mut to = mapped(PIECE, Pages::Base, true)?;
    let null = open_null()?;
    let mut other = None;
    if fill == Fill::Tee {
        let (reader, writer) = pipe_of(PIECE)?;
        let piece = from.slice(..);
        Output::new(&writer, Wait::Never).vmsplice(&[piece], VmspliceOptions::default())?;
        // The pipe stays open and full: tee(2) consumes nothing.
        other = Some((reader, writer));
    }
    Ok(Box::new(move || {
        let (mut filling, mut draining) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..FILLS {
            let started = Instant::now();
            match (fill, &other) {
                (Fill::Write, _) => output.write(&from)?,
                (_, Some((reader, _))) => {
                    Input::new(reader, Wait::Never).tee(&output, PIECE)?;
                }
                (_, None) => output.vmsplice(&[from.slice(..)], VmspliceOptions::default())?,
            }
            let filled = Instant::now();
            match drain {
                Drain::Read => {
                    input.read(&mut to)?;
                }
                Drain::Splice => {
                    input.splice(&null, PIECE as u64, SpliceOptions::default())?;
                }
            }
            draining += filled.elapsed();
            filling += filled - started;
        }
        let pages = f64::from(FILLS) * (PIECE / page_size()) as f64;
        Ok(vec![ns_per(filling, pages), ns_per(draining, pages)])
    }))
}

/// A read(2) of vmspliced base pages. The value is the time per page.
pub(super) fn read_vmspliced() -> io::Result<Sampler> {
    let mut both = fill_and_drain(Fill::Vmsplice, Pages::Base, Drain::Read)?;
    Ok(Box::new(move || Ok(both()?.split_off(1))))
}

/// Pinning and moving pages. The values are times per page: the estimate of
/// [`pinning`](super::pinning), and of splice(2) from pipe to pipe.
pub(super) fn pinned(pages: Pages) -> io::Result<Sampler> {
    let pipes = Pipes::new(pages, false)?;
    Ok(Box::new(move || {
        let sample = pipes.sample()?;
        Ok(vec![sample.estimate_ns, sample.splice_ns])
    }))
}

/// First writes to pages. The value is the time per page fault.
pub(super) fn fault(pages: Pages) -> io::Result<Sampler> {
    let step = match pages {
        Pages::Base => page_size(),
        _ => huge_page_size(),
    };
    let mut buffer = mapped(MIN_FAULT_BYTES.max(step), pages, true)?;
    Ok(Box::new(move || {
        buffer.renew()?;
        let started = Instant::now();
        for at in (0..buffer.len()).step_by(step) {
            buffer[at] = 1;
        }
        black_box(&mut *buffer);
        let elapsed = started.elapsed();
        // Huge pages may have run out meanwhile.
        check_huge_pages(&buffer)?;
        Ok(vec![ns_per(elapsed, (buffer.len() / step) as f64)])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_through_a_pipe_can_be_repeated() {
        for fill in [Fill::Write, Fill::Vmsplice, Fill::Tee] {
            for drain in [Drain::Read, Drain::Splice] {
                let mut probe = fill_and_drain(fill, Pages::Base, drain).unwrap();
                for _ in 0..2 {
                    let values = probe().unwrap();
                    assert_eq!(values.len(), 2);
                    assert!(values.iter().all(|ns| *ns > 0.0), "{fill:?} {drain:?}");
                }
            }
        }
    }
}
