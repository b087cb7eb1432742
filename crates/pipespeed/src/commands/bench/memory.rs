//! The options of the suite memory.

use crate::cli::BenchArgs;
use pipespeed_base::failure::usage;
use pipespeed_measure::suite::{Selection, Suite, memory};

/// Checks the sizes, and rejects options that the suite memory does not have.
pub(super) fn check(args: &BenchArgs) -> anyhow::Result<()> {
    if let Some(option @ ("--channel" | "--all")) = args.channels.given() {
        return Err(usage(format!(
            "{option} is not available in the suite memory: use `bench channels`"
        )));
    }
    if args.measure.setup.buffer_size.is_some() {
        return Err(usage(
            "--buffer-size: in the suite memory a buffer is a block: use --size",
        ));
    }
    if args.measure.data.is_some() || args.work > 0 {
        return Err(usage(format!(
            "{}: the suite memory fixes this for each case: choose cases with --case, or use the \
             suite touched",
            match args.work {
                0 => "--data",
                _ => "--work",
            }
        )));
    }
    let broken = |bytes: &&usize| !bytes.is_multiple_of(memory::LINE);
    if let Some(bytes) = args.channels.size.iter().find(broken) {
        return Err(usage(format!(
            "--size {bytes}: a block must be a multiple of {} bytes",
            memory::LINE
        )));
    }
    Ok(())
}

/// Returns the requested channels and sizes; fewer for a quick run of memory.
pub(super) fn selection(args: &BenchArgs) -> Selection {
    let mut selection = args.channels.selection();
    if args.suite == Suite::Memory && args.measure.quick && selection.sizes.is_empty() {
        selection.sizes = memory::quick_sizes();
    }
    selection
}
