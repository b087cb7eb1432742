//! Plans the cases of a latency run from the options.

use crate::cli::LatencyArgs;
use crate::commands::{header, memory_suffices, pipe_size_allowed, seed};
use pipespeed_base::failure::usage;
use pipespeed_host::placement::Chosen;
use pipespeed_host::{Machine, Warning, WarningKind, warnings};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::latency::channels::{EVENTFD_BYTES, USUAL, open};
use pipespeed_measure::latency::record::{
    CaseRecord, LatencyRecord, LatencyResults, LatencySettings,
};
use pipespeed_measure::latency::spec::{ExchangeMode, Length, Naive};
use pipespeed_measure::record::{Kind as RecordKind, NotRunKind};
use pipespeed_measure::spec::Channel;

/// Default message sizes.
const DEFAULT_SIZES: [usize; 3] = [8, 1 << 10, 64 << 10];

/// Returns the message sizes if none are named. Those of naive exchanges are the capacity of a
/// pipe, and one byte more, which deadlocks.
fn default_sizes(args: &LatencyArgs) -> Vec<usize> {
    if args.naive.is_none() {
        return DEFAULT_SIZES.to_vec();
    }
    let of_new_pipe = || {
        let (_, end) = fastpipe::pipe::create().ok()?;
        fastpipe::pipe::capacity(end).ok()
    };
    let capacity = args.pipe_size.or_else(of_new_pipe);
    let capacity = capacity.unwrap_or(16 * fastpipe::pipe::page_size());
    vec![capacity, capacity + 1]
}

/// Returns a case for each exchange, channel and size. The default for an eventfd is one
/// size. Channels without short reads have no such exchange.
fn cases(args: &LatencyArgs) -> anyhow::Result<Vec<CaseRecord>> {
    let requested = || args.channels.iter().chain(&args.channel);
    let mut channels: Vec<Channel> = match (args.all, requested().next()) {
        (true, _) => Channel::with_round_trips(),
        (false, None) if args.naive.is_some() => vec![Channel::PIPE],
        (false, None) => USUAL.to_vec(),
        (false, Some(_)) => Vec::new(),
    };
    for channel in requested() {
        if !channels.contains(channel) {
            channels.push(*channel);
        }
    }
    if let Some(bytes) = args.pipe_size {
        if !channels.iter().any(|channel| channel.is_pipe()) {
            return Err(usage(
                "--pipe-size: none of these channels uses pipes; pipe, vmsplice, uring and fifo do",
            ));
        }
        pipe_size_allowed(bytes)?;
    }
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(&largest) = sizes.last() {
        // Each process has a message to send and one to receive.
        memory_suffices("--size", largest, (largest as u64).saturating_mul(4))?;
    }
    let sizes_of = |channel: Channel| match (channel, sizes.is_empty()) {
        (Channel::Eventfd, true) => vec![EVENTFD_BYTES],
        (_, true) => default_sizes(args),
        (_, false) => sizes.clone(),
    };
    let short = Channel::with_short_reads();
    if args.naive == Some(Some(Naive::ShortReads))
        && let Some(channel) = requested().find(|channel| !short.contains(channel))
    {
        let names: Vec<&str> = short.iter().map(|channel| channel.name()).collect();
        return Err(usage(format!(
            "--naive=short-reads: not available over {channel}: take {}, or --naive=write-first",
            names.join(", ")
        )));
    }
    let mut cases = Vec::new();
    for mode in args.modes() {
        let is_possible = |channel: &&Channel| {
            mode != ExchangeMode::Naive(Naive::ShortReads) || short.contains(channel)
        };
        for &channel in channels.iter().filter(is_possible) {
            let sizes = sizes_of(channel).into_iter();
            cases.extend(sizes.map(|size| CaseRecord::new(channel, size, mode)));
        }
    }
    check_sizes(&cases, args.pipe_size)?;
    Ok(cases)
}

/// Checks that a message fits its channel in any of the cases.
fn check_sizes(cases: &[CaseRecord], pipe_bytes: Option<usize>) -> anyhow::Result<()> {
    let limit = |case: &CaseRecord| match open(case.channel, case.size, pipe_bytes) {
        Err(TrialError::NotRun(not_run)) if not_run.kind == NotRunKind::Limit => {
            Some(format!("{}: {}", case.channel, not_run.reason))
        }
        _ => None,
    };
    // Stops at the first that fits.
    match cases.iter().map(limit).collect::<Option<Vec<String>>>() {
        Some(mut limits) if !limits.is_empty() => {
            limits.dedup();
            Err(usage(format!("--size: {}", limits.join("; "))))
        }
        _ => Ok(()),
    }
}

/// Returns the record before the first measurement.
pub(super) fn record(args: &LatencyArgs, chosen: &Chosen) -> anyhow::Result<LatencyRecord> {
    let machine = Machine::read(chosen.writer, chosen.reader);
    let mut warnings = warnings::of_machine(&machine);
    let placement = chosen.warning.iter();
    warnings.extend(placement.map(|message| Warning::new(WarningKind::Placement, message)));
    let settings = LatencySettings {
        // The pilot determines the time.
        length: args.count.map_or(Length::Time(0), Length::Count),
        wait: args.wait,
        cpus: [chosen.writer, chosen.reader],
        relation: chosen.relation.clone(),
        pipe_bytes: args.pipe_size,
        rounds: args.rounds(),
        seed: seed(args.seed),
    };
    let cases = cases(args)?;
    let header = header(RecordKind::Latency, machine);
    let mut record = LatencyRecord::new(header, settings, LatencyResults { cases });
    record.warnings = warnings;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pipespeed_testing::says;

    fn args(words: &str) -> LatencyArgs {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            args: LatencyArgs,
        }
        Only::try_parse_from(["x"].into_iter().chain(words.split_whitespace()))
            .map_err(|error| error.to_string())
            .unwrap()
            .args
    }

    #[test]
    fn an_eventfd_is_measured_once_unless_sizes_are_named() {
        let sizes = |words: &str| -> Vec<usize> {
            let cases = cases(&args(words)).unwrap().into_iter();
            cases.map(|case| case.size).collect()
        };
        assert_eq!(sizes("").len(), 13);
        assert_eq!(
            sizes("--all --size 64").len(),
            Channel::with_round_trips().len()
        );
        assert_eq!(sizes("pipe --channel pipe,tcp --size 64").len(), 2);
        assert_eq!(sizes("eventfd"), [8]);
        assert_eq!(sizes("eventfd eventfd --size 1K,8"), [8, 1024]);
    }

    #[test]
    fn naive_runs_both_exchanges_where_reads_can_be_short() {
        let names = |words: &str| -> Vec<String> {
            let cases = cases(&args(words)).unwrap().into_iter();
            cases.map(|case| case.name()).collect()
        };
        assert_eq!(
            names("pipe ring --size 8 --naive"),
            [
                "pipe of 8B, short-reads",
                "pipe of 8B, write-first",
                "ring of 8B, write-first"
            ]
        );
        assert_eq!(names("pipe tcp fifo --size 8 --naive=short-reads").len(), 3);
        assert_eq!(
            names("ring --size 8 --naive=write-first"),
            ["ring of 8B, write-first"]
        );
        let error = cases(&args("pipe ring --naive=short-reads")).unwrap_err();
        says(error.to_string(), &["not available over ring"]);
    }
}
