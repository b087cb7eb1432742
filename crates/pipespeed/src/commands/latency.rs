//! `pipespeed latency`.

use std::time::Duration;

use anyhow::anyhow;

use crate::cli::LatencyArgs;
use crate::commands::files::{RECORD_SAMPLES_CHART, SavedFiles};
use crate::commands::progress::ProgressDisplay;
use crate::commands::{
    UNFINISHED, first_error, interrupted_by, load, nothing_measured, place, settle_pipe_size,
};
use pipespeed_base::failure::usage;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::process::require_own_proc;
use pipespeed_host::topology::Topology;
use pipespeed_host::{Root, spinning_refused};
use pipespeed_measure::latency::record::LatencyRecord;
use pipespeed_measure::latency::rounds::{self, MIN_TIMED_S};
use pipespeed_measure::latency::spec::Spec;
use pipespeed_measure::record::{Sleep, to_csv, to_json};
use pipespeed_measure::rounds::{Rounds, TimeBudget, check, why_nothing_measured};
use pipespeed_measure::spec::{Durations, Waiting};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_pipeline::proc::Proc;
use pipespeed_report as report;

mod plan;

/// Measures round trips.
///
/// # Errors
/// A deadlock was found, a trial failed, or a file can't be saved. The results so
/// far have been shown and saved.
pub fn run(args: &LatencyArgs) -> anyhow::Result<()> {
    let budget = TimeBudget::new(args.time_s(), args.time.is_some());
    let files = SavedFiles::new(args.output.files())?;
    let mut args = args.clone();
    let rounded = settle_pipe_size(&mut args.pipe_size);
    let args = &args;
    let topology = Topology::read(&Root::default());
    let chosen = place(args.cpus, args.placement, &topology)?;
    let no_spinning = spinning_refused(&chosen, &topology);
    if args.wait != Waiting::Block
        && let Some(reason) = &no_spinning
    {
        return Err(usage(format!("--wait {}: {reason}", args.wait)));
    }
    let mut record = plan::record(args, &chosen)?;
    record.warnings.extend(rounded);
    let launches = record.settings.rounds * record.cases.len();
    if args.count.is_none() {
        rounds::require(&budget, launches, launches as f64 * MIN_TIMED_S)?;
    }
    let runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        chosen.writer,
        chosen.reader,
        Durations::default(),
        Interrupt::install()?,
    );
    let limit = Duration::from_secs_f64(args.limit);
    let files = files.or_by_default(args.output.no_save, "latency", RECORD_SAMPLES_CHART);
    let save = |record: &LatencyRecord| {
        let mut record = record.clone();
        record.interrupted = Some(UNFINISHED.to_owned());
        files.save_round(|option| text(option, &record));
    };
    let mut progress = ProgressDisplay::new(args.output.quiet, save);
    record
        .warnings
        .extend(load::look(&load::processors(&chosen), args.output.quiet));
    progress.start();
    let launch = |spec: &Spec| runner.run_round_trips(spec, limit, read_sleep);
    let mut measured = Rounds::of_round_trips(record, no_spinning.is_none(), launch);
    let outcome = measured.measure(&budget, &mut progress);
    progress.finish();
    let interrupted = interrupted_by(&outcome);
    if outcome.is_err() && interrupted.is_none() {
        return outcome;
    }
    let record = measured.finish(interrupted);
    let has_results = record.has_results();
    if !has_results && interrupted.is_some() {
        return Err(nothing_measured(outcome, &record.warnings));
    }
    let saved = if has_results {
        files.save(|option| text(option, &record))
    } else {
        Ok(())
    };
    // If the only case was not run, the error says everything.
    let shown = if matches!(record.cases.as_slice(), [only] if only.not_run.is_some()) {
        Ok(())
    } else {
        let table = |style| report::latency_table(&record, style);
        files.show(&args.output, table, |style| {
            report::latency_notes(&record, style)
        })
    };
    files.say_saved(args.output.quiet || saved.is_err() || !has_results);
    // Deadlocks at the default sizes are what the naive exchanges are to show.
    let are_wanted = args.naive.is_some() && args.size.is_empty();
    let verdict = outcome.and_then(|()| verdict(&record, are_wanted));
    first_error([verdict, saved, shown])
}

/// Reads what the kernel shows of a process of one thread.
fn read_sleep(pid: u32) -> Sleep {
    // Another process may have this number in another PID namespace.
    if require_own_proc().is_err() {
        return Sleep::default();
    }
    let (proc, pid) = (Proc::default(), pid as i32);
    Sleep {
        letter: proc.stat(pid).map(|stat| stat.state),
        wait_channel: proc.sleeps_in(pid, pid),
    }
}

/// Returns the text to save for an option.
fn text(option: &str, record: &LatencyRecord) -> anyhow::Result<String> {
    Ok(match option {
        "--json" => to_json(record),
        "--csv" => to_csv(record)?,
        "--prometheus" => report::prometheus_of_latency(record),
        _ => report::latency_chart(record),
    })
}

/// Returns an error if a trial failed, no case could be run, or, unless they are wanted, one
/// deadlocked.
fn verdict(record: &LatencyRecord, deadlocks_are_wanted: bool) -> anyhow::Result<()> {
    let cases = &record.cases;
    let deadlocks = cases.iter().filter(|case| case.deadlock.is_some()).count();
    if deadlocks > 0 && deadlocks_are_wanted {
        return check(&record.warnings);
    }
    if deadlocks > 0 {
        let all = cases.len();
        return Err(anyhow!("--naive: {deadlocks} of {all} cases deadlocked"));
    }
    if record.has_results() {
        return check(&record.warnings);
    }
    if let Some(why) = why_nothing_measured(&record.warnings) {
        return Err(why);
    }
    let only = cases.first().filter(|_| cases.len() == 1);
    match only.and_then(|case| Some((case, case.not_run.as_ref()?))) {
        Some((case, not_run)) => Err(anyhow!("{}: {not_run}", case.channel.name())),
        None => Err(anyhow!(
            "no case could be run (the reasons are listed above)"
        )),
    }
}
