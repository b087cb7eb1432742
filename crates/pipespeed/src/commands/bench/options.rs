//! The options of `pipespeed bench`: which suites they apply to, and the request
//! made of them.

use crate::cli::BenchArgs;
use crate::commands::seed;
use pipespeed_base::failure::usage;
use pipespeed_base::size;
use pipespeed_measure::plan::Request;
use pipespeed_measure::record::Warning;
use pipespeed_measure::spec::DataUse;
use pipespeed_measure::spec::Suite::{
    Changes, Channels, Ladder, Memory, Options, Pages, Sizes, Touched, Volumes,
};
use pipespeed_measure::suite::channels::MAX_BYTES;
use pipespeed_measure::suite::{DataRule, Overrides, Selection, memory};

/// Returns the request; `rounded` is a warning about its pipe size.
pub(super) fn request(args: &BenchArgs, rounded: Option<Warning>) -> Request {
    let measure = &args.measure;
    Request {
        suite: args.suite,
        cases: args.case.clone(),
        overrides: Overrides {
            pipe_bytes: measure.setup.pipe_size,
            buffer_bytes: measure.setup.buffer_size,
            data: measure.data,
            work: args.work,
            selection: Selection {
                channels: args.channels.channel.clone(),
                sizes: args.channels.size.clone(),
                all: args.channels.all,
            },
            volumes: args.volumes.volume.iter().map(|&n| n as u64).collect(),
            pages: args.memory.pages,
            one_cpu: None,
            quick: measure.quick,
        },
        time_s: measure.time,
        rounds: measure.rounds.map(|rounds| rounds as usize),
        seed: seed(measure.seed),
        cpus: measure.setup.cpus,
        placement: measure.setup.placement,
        warnings: rounded.into_iter().collect(),
    }
}

/// Rejects options that don't apply to the suite, and sizes that it can't have.
pub(super) fn check(args: &BenchArgs) -> anyhow::Result<()> {
    let suite = args.suite.name();
    if args.suite != Volumes && !args.volumes.volume.is_empty() {
        return Err(usage(format!(
            "--volume: trials of the suite {suite} end by time, not by volume: use `bench volumes`"
        )));
    }
    if args.suite != Memory && args.memory.pages.is_some() {
        return Err(usage(format!(
            "--pages: the cases of the suite {suite} fix the kind of pages: use `bench memory`"
        )));
    }
    let has_sizes = matches!(args.suite, Channels | Memory);
    let given = [
        (
            "--channel",
            args.suite == Channels,
            !args.channels.channel.is_empty(),
        ),
        ("--all", args.suite == Channels, args.channels.all),
        ("--size", has_sizes, !args.channels.size.is_empty()),
    ];
    if let Some((option, ..)) = given.iter().find(|(_, has, is_given)| *is_given && !has) {
        return Err(usage(format!(
            "{option} is not available in the suite {suite}: use `bench channels`"
        )));
    }
    match args.suite {
        Channels => check_messages(args)?,
        Memory => check_blocks(args)?,
        Ladder | Touched | Changes | Sizes | Options | Pages | Volumes => {}
    }
    check_data(args)
}

/// Checks the sizes of the suite channels.
fn check_messages(args: &BenchArgs) -> anyhow::Result<()> {
    let is_oversized = |bytes: &&usize| **bytes > MAX_BYTES;
    if let Some(bytes) = args.channels.size.iter().find(is_oversized) {
        return Err(usage(format!(
            "--size {bytes}: a message must have from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )));
    }
    if args.measure.setup.buffer_size.is_some() {
        return Err(usage(
            "--buffer-size: in the suite channels a buffer is a message: use --size",
        ));
    }
    Ok(())
}

/// Checks the sizes of the suite memory.
fn check_blocks(args: &BenchArgs) -> anyhow::Result<()> {
    if args.measure.setup.buffer_size.is_some() {
        return Err(usage(
            "--buffer-size: in the suite memory a buffer is a block: use --size",
        ));
    }
    let is_broken = |bytes: &&usize| !bytes.is_multiple_of(memory::LINE);
    if let Some(bytes) = args.channels.size.iter().find(is_broken) {
        return Err(usage(format!(
            "--size {bytes}: a block must be a multiple of {} bytes",
            memory::LINE
        )));
    }
    Ok(())
}

/// Checks that the suite allows the requested use of the data.
fn check_data(args: &BenchArgs) -> anyhow::Result<()> {
    let suite = args.suite.name();
    let is_given = args.measure.data.is_some() || args.work > 0;
    let unused = |data: &DataUse| matches!(data, DataUse::Discard | DataUse::Read);
    match (args.suite.data_rule(), args.measure.data.filter(unused)) {
        (DataRule::Used, Some(data)) => Err(usage(format!(
            "--data {}: in the suite {suite} every byte is used: use touch or verify, or the \
             suite ladder",
            data.name()
        ))),
        (DataRule::Constant, _) if is_given => Err(usage(format!(
            "--data, --work: the suite {suite} moves constant data, as the ladder does; for data \
             that is used, run `bench touched --pipe-size SIZE --buffer-size SIZE` with the best \
             sizes"
        ))),
        (DataRule::OfCases, _) if is_given => Err(usage(format!(
            "{}: the suite {suite} fixes this for each case: choose cases with --case, or use the \
             suite touched",
            match args.work {
                0 => "--data",
                _ => "--work",
            }
        ))),
        (DataRule::Used | DataRule::UsedByDefault | DataRule::Free, _)
        | (DataRule::Constant | DataRule::OfCases, _) => Ok(()),
    }
}
