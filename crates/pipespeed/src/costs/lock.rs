//! How often an end that has let the pipe's lock go gets it again although the
//! other end waits for it.
//!
//! Both spin, so that neither ever sleeps, and move a pipeful by each call: who
//! comes back too soon finds the pipe as it left it, and would block. An end
//! that may sleep would go to sleep then, and the other would have to wake it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastpipe::pipe;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::clock::now_ns;
use super::processors::on_processor;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};

/// The name of the share.
pub const NAME: &str = "lock_kept";

/// One sample takes so long.
const SAMPLE_NS: u64 = 4_000_000;

/// A pipeful: the usual capacity.
const PIECE: usize = 64 << 10;

pub(super) fn probes(pair: Option<(usize, usize)>) -> Vec<Prepared> {
    let Some(cpus) = pair else {
        return Vec::new();
    };
    let what = "the pipe's lock got again before the other end, %";
    let kinds = vec![Kind::new(Group::Sleeps, Per::Percent, NAME, what)];
    vec![prepared(kinds.clone(), Contended::new(kinds, cpus))]
}

struct Contended {
    kinds: Vec<Kind>,
    cpus: (usize, usize),
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Contended {
    fn new(kinds: Vec<Kind>, cpus: (usize, usize)) -> io::Result<Self> {
        let (reader, writer) = pipe::create()?;
        pipe::set_capacity(&writer, PIECE)?;
        for end in [&reader, &writer] {
            // They are our own.
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK)?;
        }
        Ok(Contended {
            kinds,
            cpus,
            reader,
            writer,
        })
    }
}

impl Probe for Contended {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let (here, there) = self.cpus;
        let (reader, writer) = (&self.reader, &self.writer);
        let over = &AtomicBool::new(false);
        let (from, mut to) = (vec![0; PIECE], vec![0; PIECE]);
        let (writes, reads) = thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let read = || rustix::io::read(reader, &mut to[..]);
                on_processor(there, || calls(over, read))
            });
            let end = now_ns() + SAMPLE_NS;
            let write = || {
                if now_ns() > end {
                    over.store(true, Ordering::Relaxed);
                }
                rustix::io::write(writer, &from[..])
            };
            let writes = on_processor(here, || calls(over, write));
            over.store(true, Ordering::Relaxed);
            let reads = reading.join();
            let died = |_| Err(io::Error::other("a thread of a probe has died"));
            Ok::<_, io::Error>((writes?, reads.unwrap_or_else(died)?))
        })?;
        let (moved, back) = (writes.moved + reads.moved, writes.back + reads.back);
        Ok(vec![(100.0 * back as f64 / moved.max(1) as f64).into()])
    }
}

/// What calls came to.
#[derive(Default)]
struct Calls {
    /// They moved something.
    moved: u64,
    /// They came right after one that did, and found nothing to move.
    back: u64,
}

fn calls(
    over: &AtomicBool,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> io::Result<Calls> {
    let mut calls = Calls::default();
    let mut has_moved = false;
    while !over.load(Ordering::Relaxed) {
        match call() {
            Ok(_) => {
                calls.moved += 1;
                has_moved = true;
            }
            Err(Errno::AGAIN) => {
                calls.back += u64::from(has_moved);
                has_moved = false;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(calls)
}
