//! Whether a splice to /dev/null looks at the bytes.
//!
//! No count tells who reads a page. But who looks at bytes takes longer for
//! more of them; so slots of one byte and slots of a page are timed.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, PageSlice};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use super::steps::{Pipe, Step, at, found};
use crate::check::{Outcome, refusal};
use crate::report::counted;

/// Slots that are filled and emptied at a time, if the pipe may be so large.
const SLOTS: usize = 256;

/// How often. The fastest counts: whatever else runs can only slow it down.
const TIMES: usize = 100;

/// The least that looking costs, if a ratio is to say anything.
const LOOKING: f64 = 1.3;

/// A pipe of fewer slots may be too small for its pages to count.
const FEW: usize = 64;

pub(super) fn run() -> anyhow::Result<Outcome> {
    const NULL: &str = "/dev/null";
    let null = match File::options().write(true).open(NULL) {
        Ok(null) => null,
        // As in a bare change of root.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Outcome::refused(format!("{NULL}: {error}"))
                .noting("have the devices that every program counts on under /dev"));
        }
        Err(error) => return refusal::or_error("open(2) of /dev/null", error),
    };
    found(|| Ok(verdict(&ratios(&null)?)))
}

/// How much longer a page takes than a byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratios {
    /// To /dev/null, by splice.
    pub(super) splice: f64,
    /// Into memory, by read.
    pub(super) read: f64,
    /// The slots of the pipe.
    pub(super) slots: usize,
}

pub(super) fn verdict(ratios: &Ratios) -> Outcome {
    let Ratios {
        splice,
        read,
        slots,
    } = ratios;
    let figures = format!("a page takes {splice:.2} times as long as a byte (read: {read:.2})");
    // Nearer to not looking than to reading.
    let unlooked = splice - 1.0 < (read - 1.0) / 3.0;
    match (*read < LOOKING, unlooked) {
        (true, _) if *slots < FEW => {
            Outcome::seen(format!("can't be told, {figures}")).noting(format!(
                "the pipe has only {}, too few to tell a page's cost from a call's: this user's \
                 pipes hold as many pages as /proc/sys/fs/pipe-user-pages-soft allows, or \
                 pipe-max-size is low",
                counted(*slots, "slot")
            ))
        }
        (true, _) => Outcome::seen(format!("can't be told, {figures}")).noting(
            "reading costs no time here either, or the machine was busy; by the kernel's source \
             nobody looks",
        ),
        (false, true) => Outcome::seen(format!("yes, {figures}")),
        (false, false) => Outcome::seen(format!("no, {figures}")),
    }
}

fn ratios(null: &File) -> Step<Ratios> {
    let pipe = Pipe::new()?;
    let granted = at(
        "fcntl(2) F_SETPIPE_SZ",
        pipe::set_capacity_up_to(&pipe.writer, SLOTS * page_size()),
    )?;
    let slots = (granted / page_size()).min(SLOTS);
    let len = slots * page_size();
    let from = at("mmap(2)", Buffer::builder().len(len).map())?;
    let mut to = at("mmap(2)", Buffer::builder().len(len).map())?;

    let mut fastest = [Duration::MAX; 4];
    for _ in 0..TIMES {
        let mut next = fastest.iter_mut();
        for bytes in [1, page_size()] {
            let pieces: Vec<PageSlice<'_>> = (0..slots)
                .map(|slot| slot * page_size())
                .map(|start| from.slice(start..start + bytes))
                .collect();
            let total = slots * bytes;
            let mut timed = |empty: &mut dyn FnMut(&Pipe) -> Step<()>| -> Step<()> {
                let mut output = Output::new(&pipe.writer, Wait::Never);
                at(
                    "vmsplice(2)",
                    output.vmsplice(&pieces, VmspliceOptions::default()),
                )?;
                let started = Instant::now();
                empty(&pipe)?;
                let took = started.elapsed();
                if let Some(fastest) = next.next() {
                    *fastest = took.min(*fastest);
                }
                Ok(())
            };
            timed(&mut |pipe| {
                let mut input = Input::new(&pipe.reader, Wait::Never);
                let spliced = input.splice(null, total as u64, SpliceOptions::default());
                at("splice(2)", spliced).map(drop)
            })?;
            timed(&mut |pipe| {
                let mut input = Input::new(&pipe.reader, Wait::Never);
                at("read(2)", input.read(&mut to[..total])).map(drop)
            })?;
        }
    }
    let [splice_byte, read_byte, splice_page, read_page] = fastest.map(|time| time.as_secs_f64());
    Ok(Ratios {
        splice: splice_page / splice_byte,
        read: read_page / read_byte,
        slots,
    })
}
