//! The options of `pipespeed bench`: which suites they apply to, and the request
//! made of them.

use crate::cli::BenchArgs;
use crate::commands::seed;
use pipespeed_base::failure::usage;
use pipespeed_measure::plan::Request;
use pipespeed_measure::record::Warning;
use pipespeed_measure::spec::DataUse;
use pipespeed_measure::suite::{DataRule, Overrides, Selection};

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
    let (suite, definition) = (args.suite.name(), args.suite.definition());
    let given = [
        ("--volume", !args.volumes.volume.is_empty()),
        ("--pages", args.memory.pages.is_some()),
        ("--channel", !args.channels.channel.is_empty()),
        ("--all", args.channels.all),
        ("--size", !args.channels.size.is_empty()),
    ];
    let mut given = given.iter().filter(|(_, is_given)| *is_given);
    if let Some((option, _)) = given.find(|(option, _)| !definition.options.contains(option)) {
        return Err(usage(match *option {
            "--volume" => format!(
                "--volume: trials of the suite {suite} end by time, not by volume: use `bench volumes`"
            ),
            "--pages" => format!(
                "--pages: the cases of the suite {suite} fix the kind of pages: use `bench memory`"
            ),
            _ => format!("{option} is not available in the suite {suite}: use `bench channels`"),
        }));
    }
    if let Some(rule) = &definition.sizes {
        let refusal = |bytes: &usize| Some((*bytes, (rule.refusal)(*bytes)?));
        if let Some((bytes, reason)) = args.channels.size.iter().find_map(refusal) {
            return Err(usage(format!("--size {bytes}: {reason}")));
        }
        if args.measure.setup.buffer_size.is_some() {
            let what = rule.what;
            return Err(usage(format!(
                "--buffer-size: in the suite {suite} a buffer is a {what}: use --size"
            )));
        }
    }
    check_data(args)
}

/// Checks that the suite allows the requested use of the data.
fn check_data(args: &BenchArgs) -> anyhow::Result<()> {
    let suite = args.suite.name();
    let is_given = args.measure.data.is_some() || args.work > 0;
    let unused = |data: &DataUse| matches!(data, DataUse::Discard | DataUse::Read);
    match (
        args.suite.definition().data_rule,
        args.measure.data.filter(unused),
    ) {
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
        _ => Ok(()),
    }
}
