//! What pinning costs, estimated without any privilege.
//!
//! vmsplice(2) of a page finds it in the page table, takes a reference to it
//! and fills in a slot of the pipe. splice(2) from another pipe that holds the
//! same pages fills in the slot too, but moves the reference there is. So the
//! difference is about what pinning costs, and rather more: what vmsplice does
//! besides for each page counts too. What base pages cost more than huge ones
//! is free of that.
//!
//! tee(2) would be no baseline: it takes a reference too, one page at a time,
//! where pinning takes those of a huge page all at once. Here that alone makes
//! tee dearer than vmsplice of huge pages.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use crate::costs::PIECE;
use crate::costs::probes::{dev_null, each, mapped, pipe_of};

/// How often the pipe is filled and drained in each way for one sample.
const TIMES: u32 = 48;

/// The pages that vmsplice(2) asks for at a time (`iter_to_pipe` of fs/splice.c).
pub const PAGES_PER_CALL: u32 = 16;

/// Nanoseconds a page.
pub(in crate::costs) struct Sample {
    pub(super) vmsplice_ns: f64,
    pub(in crate::costs) splice_ns: f64,
    /// The difference of the two.
    pub(in crate::costs) estimate_ns: f64,
}

/// A pipe that is filled and drained, and another one that it can be filled
/// from.
pub(in crate::costs) struct Pipes {
    reader: OwnedFd,
    writer: OwnedFd,
    other: (OwnedFd, OwnedFd),
    pages: Buffer,
    null: std::fs::File,
}

impl Pipes {
    pub(in crate::costs) fn new(pages: Pages, untouched: bool) -> io::Result<Pipes> {
        let (reader, writer) = pipe_of(PIECE)?;
        let pages = mapped(PIECE, pages, !untouched)?;
        Ok(Pipes {
            reader,
            writer,
            other: pipe_of(PIECE)?,
            pages,
            null: dev_null()?,
        })
    }

    fn vmsplice(&self, into: &OwnedFd) -> io::Result<Duration> {
        let mut out = Output::new(into, Wait::Never);
        let started = Instant::now();
        out.vmsplice(&[self.pages.slice(..)], VmspliceOptions::default())?;
        Ok(started.elapsed())
    }

    fn splice(&self) -> io::Result<Duration> {
        let mut other = Input::new(&self.other.0, Wait::Never);
        let started = Instant::now();
        other.splice(&self.writer, PIECE as u64, SpliceOptions::default())?;
        Ok(started.elapsed())
    }

    fn drain(&self) -> io::Result<()> {
        let mut input = Input::new(&self.reader, Wait::Never);
        input.splice(&self.null, PIECE as u64, SpliceOptions::default())?;
        Ok(())
    }

    pub(in crate::costs) fn sample(&self) -> io::Result<Sample> {
        let (mut pinning, mut moving) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..TIMES {
            pinning += self.vmsplice(&self.writer)?;
            self.drain()?;
            self.vmsplice(&self.other.1)?;
            moving += self.splice()?;
            self.drain()?;
        }
        let pages = f64::from(TIMES) * (PIECE / page_size()) as f64;
        let [vmsplice_ns, splice_ns] = [pinning, moving].map(|time| each(time, pages));
        Ok(Sample {
            vmsplice_ns,
            splice_ns,
            estimate_ns: vmsplice_ns - splice_ns,
        })
    }
}
