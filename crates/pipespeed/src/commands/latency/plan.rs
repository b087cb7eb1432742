//! Plans the cases of a latency run from the options.

use crate::cli::LatencyArgs;
use crate::commands::{header, memory_suffices, pipe_size_allowed, seed};
use pipespeed_base::failure::usage;
use pipespeed_host::placement::Chosen;
use pipespeed_host::{Machine, Warning, WarningKind, warnings};
use pipespeed_measure::channel::transport::Transport;
use pipespeed_measure::latency::channels::{EVENTFD_BYTES, USUAL};
use pipespeed_measure::latency::record::{CaseRecord, Record, Settings};
use pipespeed_measure::latency::spec::{Length, Mode};
use pipespeed_measure::record::Kind as RecordKind;

/// Default message sizes.
const DEFAULT_SIZES: [usize; 3] = [8, 1 << 10, 64 << 10];

/// Returns a case for each channel and size. The default for an eventfd is one size.
fn cases(args: &LatencyArgs) -> anyhow::Result<Vec<CaseRecord>> {
    let requested = || args.channels.iter().chain(&args.channel);
    let mut channels: Vec<Transport> = match (args.all, requested().next()) {
        (true, _) => Transport::with_round_trips(),
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
    let sizes_of = |channel: Transport| match (channel, sizes.is_empty()) {
        (Transport::Eventfd, true) => vec![EVENTFD_BYTES],
        (_, true) => DEFAULT_SIZES.to_vec(),
        (_, false) => sizes.clone(),
    };
    Ok(channels
        .iter()
        .flat_map(|channel| {
            sizes_of(*channel)
                .into_iter()
                .map(|size| CaseRecord::new(*channel, size))
        })
        .collect())
}

/// Returns the record before the first measurement.
pub(super) fn record(args: &LatencyArgs, chosen: &Chosen) -> anyhow::Result<Record> {
    let machine = Machine::read(chosen.writer, chosen.reader);
    let mut warnings = warnings::of_machine(&machine);
    let placement = chosen.warning.iter();
    warnings.extend(placement.map(|message| Warning::new(WarningKind::Placement, message)));
    Ok(Record {
        header: header(RecordKind::Latency, machine),
        interrupted: None,
        settings: Settings {
            mode: match (args.naive, args.rate) {
                (true, _) => Mode::Naive,
                (false, Some(rate)) => Mode::Open(rate),
                (false, None) => Mode::Closed,
            },
            // The pilot determines the time.
            length: args.count.map_or(Length::Time(0), Length::Count),
            wait: args.wait,
            cpus: [chosen.writer, chosen.reader],
            relation: chosen.relation.clone(),
            pipe_bytes: args.pipe_size,
            rounds: args.rounds(),
            seed: seed(args.seed),
        },
        cases: cases(args)?,
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

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
            Transport::with_round_trips().len()
        );
        assert_eq!(sizes("pipe --channel pipe,tcp --size 64").len(), 2);
        assert_eq!(sizes("eventfd"), [8]);
        assert_eq!(sizes("eventfd eventfd --size 1K,8"), [8, 1024]);
    }
}
