//! What a new page costs: the fault, finding memory, zeroing it.

use std::io;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages, huge_page_size};
use fastpipe::pipe::page_size;

use super::mapped::mapped;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};

/// How many huge pages, and base pages for as much, make a sample.
const BYTES: usize = 4 << 20;

pub(super) fn probes() -> Vec<Prepared> {
    [
        (
            Pages::Base,
            "fault_base",
            "first write to a base page",
            "release_base",
            "a base page let go (MADV_DONTNEED)",
        ),
        (
            Pages::Huge,
            "fault_huge",
            "first write to a huge page, for each 4 KiB of it",
            "release_huge",
            "a huge page let go, for each 4 KiB of it",
        ),
    ]
    .into_iter()
    .map(|(pages, fault, what, release, what_released)| {
        let kinds = vec![
            Kind::new(Group::Pages, Per::Page, fault, what),
            Kind::new(Group::Pages, Per::Page, release, what_released),
        ];
        prepared(kinds.clone(), Fresh::new(kinds, pages))
    })
    .collect()
}

struct Fresh {
    kinds: Vec<Kind>,
    buffer: Buffer,
    step: usize,
}

impl Fresh {
    fn new(kinds: Vec<Kind>, pages: Pages) -> io::Result<Self> {
        let (step, len) = match pages {
            Pages::Base => (page_size(), BYTES),
            _ => (huge_page_size(), BYTES.max(huge_page_size())),
        };
        let buffer = mapped(len, pages, true)?;
        Ok(Fresh {
            kinds,
            buffer,
            step,
        })
    }
}

impl Probe for Fresh {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let started = Instant::now();
        self.buffer.renew()?;
        let released = started.elapsed();
        let started = Instant::now();
        for at in (0..self.buffer.len()).step_by(self.step) {
            self.buffer[at] = 1;
        }
        std::hint::black_box(&mut *self.buffer);
        let faulted = started.elapsed();
        let pages = (self.buffer.len() / page_size()) as f64;
        let each = |time: Duration| time.as_nanos() as f64 / pages;
        Ok(vec![each(faulted).into(), each(released).into()])
    }
}
