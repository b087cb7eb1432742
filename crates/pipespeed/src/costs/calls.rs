//! System calls that do next to nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use fastpipe::pipe;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};

const CALLS: u32 = 2000;

pub(super) fn probes() -> Vec<Prepared> {
    vec![
        prepared(Empty::kinds(), Ok(Empty(Empty::kinds()))),
        prepared(WouldBlock::kinds(), WouldBlock::new()),
    ]
}

/// getppid(2): in and out of the kernel.
struct Empty(Vec<Kind>);

impl Empty {
    fn kinds() -> Vec<Kind> {
        let what = "a call that does nothing (getppid)";
        vec![Kind::new(Group::Calls, Per::Call, "empty_call", what)]
    }
}

impl Probe for Empty {
    fn kinds(&self) -> &[Kind] {
        &self.0
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let started = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        Ok(vec![each(started, CALLS).into()])
    }
}

/// A read that finds the pipe empty.
struct WouldBlock {
    kinds: Vec<Kind>,
    reader: OwnedFd,
    /// So that it is not at its end.
    _writer: OwnedFd,
}

impl WouldBlock {
    fn kinds() -> Vec<Kind> {
        let what = "a read that finds nothing (would block)";
        vec![Kind::new(Group::Calls, Per::Call, "would_block", what)]
    }

    fn new() -> io::Result<Self> {
        let (reader, writer) = pipe::create()?;
        // It is our own.
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok(WouldBlock {
            kinds: Self::kinds(),
            reader,
            _writer: writer,
        })
    }
}

impl Probe for WouldBlock {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let started = Instant::now();
        let mut byte = [0];
        for _ in 0..CALLS {
            match rustix::io::read(&self.reader, &mut byte) {
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(vec![each(started, CALLS).into()])
    }
}

/// Nanoseconds for each of so many, since then.
pub(super) fn each(started: Instant, count: u32) -> f64 {
    started.elapsed().as_nanos() as f64 / f64::from(count)
}
