//! Checks that options and cases fit together, and chooses the null control.

use std::collections::BTreeMap;

use crate::cli::BenchArgs;
use crate::commands::pipe_size_allowed;
use pipespeed_base::failure::usage;
use pipespeed_base::size;
use pipespeed_measure::case::Case;
use pipespeed_measure::endpoint::spec::SinkTechnique;
use pipespeed_measure::record::DataUse;
use pipespeed_measure::suite::Suite;
use pipespeed_measure::suite::channels::MAX_BYTES;
use pipespeed_report::pluralize;

use super::memory;

/// Rejects options that the suite does not have.
pub(super) fn check_suite(args: &BenchArgs) -> anyhow::Result<()> {
    let channels = args.suite == Suite::Channels;
    if args.suite != Suite::Volumes && !args.volumes.volume.is_empty() {
        return Err(usage(format!(
            "--volume: trials of the suite {} end by time, not by volume: use `bench volumes`",
            args.suite.name()
        )));
    }
    if args.suite == Suite::Memory {
        return memory::check(args);
    }
    if args.memory.pages.is_some() {
        return Err(usage(format!(
            "--pages: the cases of the suite {} fix the kind of pages: use `bench memory`",
            args.suite.name()
        )));
    }
    if let (false, Some(option)) = (channels, args.channels.given()) {
        return Err(usage(format!(
            "{option} is not available in the suite {}: use `bench channels`",
            args.suite.name()
        )));
    }
    if let (true, Some(bytes)) = (channels, args.channels.oversized()) {
        return Err(usage(format!(
            "--size {bytes}: a message must have from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )));
    }
    if args.suite == Suite::Sizes && (args.measure.data.is_some() || args.work > 0) {
        return Err(usage(
            "--data, --work: the suite sizes moves constant data, as the ladder does; for data \
             that is used, run `bench touched --pipe-size SIZE --buffer-size SIZE` with the best \
             sizes",
        ));
    }
    if channels && args.measure.setup.buffer_size.is_some() {
        return Err(usage(
            "--buffer-size: in the suite channels a buffer is a message: use --size",
        ));
    }
    Ok(())
}

/// Checks that the options are valid for these cases.
pub(super) fn check(cases: &[Case], args: &BenchArgs) -> anyhow::Result<()> {
    let measure = &args.measure;
    let discards = |case: &&Case| case.data == DataUse::Discard;
    if let (true, Some(case)) = (args.work > 0, cases.iter().find(discards)) {
        return Err(usage(format!(
            "--work: the reader of {} splices the data without reading it, so it can't compute \
             over it: add --data touch, or use the suite touched",
            case.name
        )));
    }
    if measure.setup.pipe_size.is_some()
        && cases.iter().all(|case| case.subject.pipe_bytes().is_none())
    {
        return Err(usage(
            "--pipe-size: none of these cases has a pipe: omit the option or choose such a case",
        ));
    }
    // A published pipe has half of the buffer's size; those of a search any.
    let pages = if args.suite == Suite::Sizes { 1 } else { 2 };
    let unit = pages * fastpipe::pipe::page_size();
    let splices = cases.iter().any(|case| {
        case.subject
            .writer()
            .is_some_and(|writer| writer.technique == SinkTechnique::Vmsplice)
    });
    if let Some(bytes) = measure.setup.buffer_size
        && splices
        && !bytes.is_multiple_of(unit)
    {
        return Err(usage(format!(
            "--buffer-size {bytes}: vmsplice needs a multiple of {unit} bytes ({})",
            pluralize(pages, "page")
        )));
    }
    match measure.setup.pipe_size {
        Some(bytes) => pipe_size_allowed(bytes),
        None => Ok(()),
    }
}

/// Cases that make no sense with what was asked to become of their data.
pub(super) fn contradictions(cases: &[Case]) -> impl Iterator<Item = (String, String)> {
    let reason = |case: &Case| Some((case.name.clone(), case.contradiction()?));
    cases.iter().filter_map(reason)
}

/// The case that is measured twice: the suite's own if it can be run, else the
/// first that can, which is the smallest of volumes. None where that would take
/// minutes.
pub(super) fn null_control(
    suite: Suite,
    cases: &[Case],
    refused: &BTreeMap<String, String>,
) -> Option<String> {
    const MAX: u64 = 1 << 30;
    let mut able = cases
        .iter()
        .filter(|case| !refused.contains_key(&case.name));
    let first = able.clone().next();
    let usual = able.find(|case| suite != Suite::Volumes && case.name == suite.null_control());
    usual
        .or(first)
        .filter(|case| case.volume_bytes.is_none_or(|bytes| bytes <= MAX))
        .map(|case| case.name.clone())
}
