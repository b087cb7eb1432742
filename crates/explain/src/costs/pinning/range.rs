//! Samples from the kernel's own benchmark, which repeatedly pins a range of many MiB.

use std::io;

use fastpipe::buffer::{Buffer, Pages, huge_page_size};
use fastpipe::pipe::page_size;
use serde::Serialize;

use super::PinningPlan;
use super::ioctl::Reply;
use super::kernel::GupBenchmark;
use crate::costs::Probe;
use crate::costs::parts::mapped;

/// Minimum duration of a sample: the kernel reports whole microseconds.
const MIN_SAMPLE_US: u64 = 1000;
/// Maximum number of calls in a sample, even if it is shorter than that.
const MAX_CALLS: u32 = 256;

/// The calls of the kernel's benchmark that make up a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchmarkCalls {
    /// Bytes that each call was requested to pin.
    pub asked_bytes: u64,
    /// Bytes that each call pinned, as reported by the kernel: the minimum.
    pub pinned_bytes: u64,
    /// Number of calls in a sample.
    pub calls: u32,
    /// Maximum error of the figures for pinning and for releasing, in percent: the
    /// kernel truncates times to whole microseconds.
    pub rounding_percent: [f64; 2],
}

/// The range, and how often it is pinned for a sample.
pub(super) struct Range {
    kernel: GupBenchmark,
    buffer: Buffer,
    pages_per_call: u32,
    sample: BenchmarkCalls,
}

impl Range {
    pub(super) fn new(kernel: GupBenchmark, plan: &PinningPlan, pages: Pages) -> io::Result<Range> {
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
            sample: BenchmarkCalls {
                asked_bytes: len as u64,
                pinned_bytes: len as u64,
                calls: 1,
                rounding_percent: [0.0; 2],
            },
        })
    }
}

impl Probe for Range {
    /// Pins the range once, which faults in untouched pages, then chooses the number of
    /// calls in a sample by the duration of a second call.
    fn prepare(&mut self) -> io::Result<()> {
        self.kernel.pin(&self.buffer, self.pages_per_call)?;
        let once = self.kernel.pin(&self.buffer, self.pages_per_call)?;
        let shorter = once.get_us.min(once.put_us).max(1);
        let calls = MIN_SAMPLE_US.div_ceil(shorter).min(MAX_CALLS.into());
        self.sample.calls = calls as u32;
        Ok(())
    }

    /// Takes one sample: nanoseconds per page for pinning and for releasing.
    fn run(&mut self) -> io::Result<Vec<f64>> {
        let calls = u64::from(self.sample.calls);
        let mut sum = Reply::default();
        for _ in 0..calls {
            let once = self.kernel.pin(&self.buffer, self.pages_per_call)?;
            self.sample.pinned_bytes = self.sample.pinned_bytes.min(once.bytes);
            sum.bytes += once.bytes;
            sum.get_us += once.get_us;
            sum.put_us += once.put_us;
        }
        let pages = sum.bytes as f64 / page_size() as f64;
        let mut values = Vec::new();
        for (at, us) in [sum.get_us, sum.put_us].into_iter().enumerate() {
            // Truncation loses up to a microsecond per call, half of one on average.
            let lost_us = 0.5 * calls as f64;
            let us = us as f64 + lost_us;
            let rounding = &mut self.sample.rounding_percent[at];
            *rounding = rounding.max(100.0 * lost_us / us);
            values.push(us * 1000.0 / pages);
        }
        Ok(values)
    }

    fn benchmark_calls(&self) -> Option<BenchmarkCalls> {
        Some(self.sample)
    }
}
