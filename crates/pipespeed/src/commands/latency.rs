//! `pipespeed latency`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;

use crate::cli::{LatencyArgs, OutputArgs};
use crate::commands::files::Files;
use crate::commands::progress::Progress;
use crate::commands::{first_error, settle_pipe_size};
use pipespeed_base::failure::{Interrupted, say, to_stdout, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::placement;
use pipespeed_host::topology::Topology;
use pipespeed_host::{NoiseProbe, Root, spinning_refused};
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::latency::record::Record;
use pipespeed_measure::latency::rounds::{self, MIN_TIMED_S};
use pipespeed_measure::latency::spec::Spec;
use pipespeed_measure::latency::trial::Trials;
use pipespeed_measure::record::to_json;
use pipespeed_measure::rounds::{Budget, Rounds, check};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_report::{self as report, Style};

mod plan;

/// Measures round trips.
///
/// # Errors
/// When a deadlock was found, a trial failed, or a file can't be saved. What
/// was measured until then has been shown and saved.
pub fn run(args: &LatencyArgs) -> anyhow::Result<()> {
    let budget = Budget::new(args.time_s(), args.time.is_some());
    let files = Files::new(args.output.files())?;
    let mut args = args.clone();
    let rounded = settle_pipe_size(&mut args.pipe_size);
    let args = &args;
    let topology = Topology::read(&Root::default());
    let chosen = match args.cpus {
        Some((sender, echo)) => placement::pin_to(sender, echo, &topology),
        None => placement::choose(args.placement, &topology),
    }
    .map_err(|error| usage(error.to_string()))?;
    let no_spinning = spinning_refused(&chosen, &topology);
    if let (Some(wait), Some(reason)) = (spins(args.wait), &no_spinning) {
        return Err(usage(format!("--wait {wait}: {reason}")));
    }
    let mut record = plan::record(args, &chosen)?;
    record.warnings.extend(rounded);
    let launches = record.settings.rounds * record.cases.len();
    if args.count.is_none() {
        rounds::require(&budget, launches, launches as f64 * MIN_TIMED_S)?;
    }
    let trials = Trials {
        program: ProcessRunner::this_program(),
        cpus: [chosen.writer, chosen.reader],
        limit: Duration::from_secs_f64(args.limit),
        interrupt: Interrupt::install()?,
        noise: NoiseProbe::new(),
    };
    let save = |record: &Record| files.save_round(|option| text(option, record));
    let mut progress = Progress::new(args.output.quiet, save);
    progress.start();
    let launch = |spec: &Spec| trials.run(spec);
    let mut measured = Rounds::of_round_trips(record, no_spinning.is_none(), launch);
    let outcome = measured.measure(&budget, &mut progress);
    progress.finish();
    let interrupted = match &outcome {
        Ok(()) => None,
        Err(error) => match error.downcast_ref() {
            Some(Interrupted(signal)) => Some(*signal),
            None => return outcome,
        },
    };
    let record = measured.finish(interrupted);
    let saved = files.save(|option| text(option, &record));
    show(&record, files.take_stdout(), &args.output)?;
    let verdict = outcome.and_then(|()| verdict(&record));
    first_error([verdict, saved])
}

/// The word for a way of waiting that needs a processor for each process.
fn spins(wait: Waiting) -> Option<&'static str> {
    match wait {
        Waiting::Block | Waiting::Poll => None,
        Waiting::Spin => Some("spin"),
        Waiting::Adaptive => Some("adaptive"),
    }
}

/// What is saved under an option.
fn text(option: &str, record: &Record) -> anyhow::Result<String> {
    Ok(match option {
        "--json" => to_json(record),
        "--csv" => record.csv()?,
        _ => report::latency_chart(record),
    })
}

/// Prints the table, or only the notes where standard output is taken.
fn show(record: &Record, taken: bool, output: &OutputArgs) -> anyhow::Result<()> {
    if let [only] = record.cases.as_slice()
        && only.not_run.is_some()
    {
        // The error says all.
        return Ok(());
    }
    let is_terminal = !taken && io::stdout().is_terminal();
    let style = Style::for_terminal(is_terminal, output.verbose);
    match (taken, output.quiet) {
        (false, _) => {
            let text = report::latency_table(record, style);
            to_stdout(io::stdout().write_all(text.as_bytes()))?;
        }
        // The figures went there; what happened is told all the same.
        (true, false) => say(report::latency_notes(record, style).trim_end()),
        (true, true) => {}
    }
    Ok(())
}

/// Checks that all went well.
fn verdict(record: &Record) -> anyhow::Result<()> {
    let cases = &record.cases;
    let deadlocks = cases.iter().filter(|case| case.deadlock.is_some()).count();
    if deadlocks > 0 {
        let of = cases.len();
        return Err(anyhow!("--naive: {deadlocks} of {of} cases deadlocked"));
    }
    let is_any_measured = cases.iter().any(|case| !case.launches.is_empty());
    check(&record.warnings, is_any_measured)?;
    match cases.as_slice() {
        _ if is_any_measured => Ok(()),
        [only] if let Some(not_run) = &only.not_run => {
            Err(anyhow!("{}: {not_run}", only.channel.name()))
        }
        _ => Err(anyhow!("no case could be run, as shown")),
    }
}
