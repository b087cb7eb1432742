//! A range of many MiB that is pinned again and again by the kernel's own
//! benchmark.

use std::io;

use fastpipe::buffer::{Buffer, Pages, huge_page_size};
use fastpipe::pipe::page_size;
use serde::Serialize;

use super::Plan;
use super::kernel::Kernel;
use super::layout::Reply;
use crate::costs::Probe;
use crate::costs::probes::mapped;

/// The least that a sample is to take on the kernel's clock of whole
/// microseconds, and the most calls it may take for that.
const SAMPLE_US: u64 = 1000;
const MAX_CALLS: u32 = 256;

/// How a sample came about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counted {
    /// Bytes that each call was asked to pin.
    pub asked_bytes: u64,
    /// Bytes that each call pinned, as the kernel tells: the least seen.
    pub pinned_bytes: u64,
    /// Calls that a sample is made of.
    pub calls: u32,
    /// How far off the figures can be at most since the clock cuts off to
    /// whole microseconds, in percent: for pinning, and for letting go.
    pub rounding_percent: [f64; 2],
}

/// The range and how often it is pinned for one sample.
pub(super) struct Range {
    kernel: Kernel,
    buffer: Buffer,
    pages_per_call: u32,
    counted: Counted,
}

impl Range {
    pub(super) fn new(kernel: Kernel, plan: &Plan, pages: Pages) -> io::Result<Range> {
        let unit = match pages {
            Pages::Base => page_size(),
            _ => huge_page_size(),
        };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = plan
            .size
            .checked_next_multiple_of(unit)
            .ok_or_else(too_large)?;
        let buffer = mapped(len, pages, !plan.untouched)?;
        Ok(Range {
            kernel,
            buffer,
            pages_per_call: plan.pages_per_call,
            counted: Counted {
                asked_bytes: len as u64,
                pinned_bytes: len as u64,
                calls: 1,
                rounding_percent: [0.0; 2],
            },
        })
    }
}

impl Probe for Range {
    /// Pins it once, which brings untouched pages in, and then decides how many
    /// calls make a sample that the clock does not spoil.
    fn prepare(&mut self) -> io::Result<()> {
        self.kernel.pin(&self.buffer, self.pages_per_call)?;
        let once = self.kernel.pin(&self.buffer, self.pages_per_call)?;
        let shorter = once.get_us.min(once.put_us.unwrap_or(u64::MAX)).max(1);
        let calls = SAMPLE_US.div_ceil(shorter).min(MAX_CALLS.into());
        self.counted.calls = calls as u32;
        Ok(())
    }

    /// One sample: nanoseconds a page for pinning and, where the kernel tells,
    /// for letting go.
    fn run(&mut self) -> io::Result<Vec<f64>> {
        let calls = u64::from(self.counted.calls);
        let mut sum = Reply {
            bytes: 0,
            get_us: 0,
            put_us: Some(0),
        };
        for _ in 0..calls {
            let once = self.kernel.pin(&self.buffer, self.pages_per_call)?;
            self.counted.pinned_bytes = self.counted.pinned_bytes.min(once.bytes);
            sum.bytes += once.bytes;
            sum.get_us += once.get_us;
            sum.put_us = sum.put_us.zip(once.put_us).map(|(sum, once)| sum + once);
        }
        let pages = sum.bytes as f64 / page_size() as f64;
        let mut values = Vec::new();
        for (at, us) in std::iter::once(sum.get_us).chain(sum.put_us).enumerate() {
            // What is cut off lies between nothing and a microsecond a call:
            // half of one, on average.
            let cut_off = 0.5 * calls as f64;
            let us = us as f64 + cut_off;
            let rounding = &mut self.counted.rounding_percent[at];
            *rounding = rounding.max(100.0 * cut_off / us);
            values.push(us * 1000.0 / pages);
        }
        Ok(values)
    }

    fn counted(&self) -> Option<Counted> {
        Some(self.counted)
    }
}
