//! `pipespeed latency`.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::LatencyArgs;
use crate::commands::settle_pipe_size;
use pipespeed_base::failure::{Interrupted, say, to_stdout, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_host::placement;
use pipespeed_host::topology::Topology;
use pipespeed_host::{NoiseDelta, NoiseProbe, Root, spinning_refused};
use pipespeed_measure::latency::record::{CaseRecord, Record};
use pipespeed_measure::latency::rounds;
use pipespeed_measure::latency::spec::Wait;
use pipespeed_measure::latency::trial::Trials;
use pipespeed_measure::record::{check_place, is_replaceable, is_stdout, save, to_json};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_report::{self as report, Style};

mod plan;

/// Measures round trips.
///
/// # Errors
/// When a deadlock was found, a trial failed, or a file can't be saved. What
/// was measured until then has been shown and saved.
pub fn run(args: &LatencyArgs) -> anyhow::Result<()> {
    check(args)?;
    let mut args = args.clone();
    let rounded = settle_pipe_size(&mut args.pipe_size);
    let args = &args;
    let topology = Topology::read(&Root::default());
    let chosen = match args.cpus {
        Some((sender, echo)) => placement::pin_to(sender, echo, &topology),
        None => placement::choose(args.placement, &topology),
    }
    .map_err(|error| usage(error.to_string()))?;
    if let Some(wait) = spins(args.wait)
        && let Some(reason) = spinning_refused(&chosen, &topology)
    {
        return Err(usage(format!("--wait {wait}: {reason}")));
    }
    let mut cases = plan::cases(args)?;
    let plan = plan::plan(args, &topology, &chosen, cases.len());
    let mut record = plan::record(&plan, &chosen);
    let announced = plan::overtime(args, cases.len());
    record.warnings.extend(rounded);
    record.warnings.extend(announced.clone());
    record.warnings.extend(plan::few_messages(&plan));
    let interrupt = Interrupt::install()?;
    let trials = Trials {
        program: ProcessRunner::this_program(),
        cpus: [chosen.writer, chosen.reader],
        limit: Duration::from_secs_f64(args.limit),
        interrupt,
        noise: NoiseProbe::new(),
    };
    let bar = bar(args, plan.rounds * cases.len());
    let started = Instant::now();
    let ended = rounds::run(
        &plan,
        &mut cases,
        |spec| trials.run(spec),
        |line| bar.suspend(|| say(&format!("pipespeed: {line}; the other cases go on"))),
        |now| {
            bar.inc(1);
            if now.round_over {
                collect(&mut record, now.cases, now.ended);
                save_round(args, &record)?;
            }
            Ok(())
        },
    );
    bar.finish_and_clear();
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            // It could not be saved: then it is shown at least.
            show(args, &record)?;
            return Err(error);
        }
    };
    collect(&mut record, &cases, &ended);
    record.warnings.extend(plan::disturbances(&record, &ended));
    if let Some(told) = plan::overrun(args, started.elapsed().as_secs_f64()) {
        // Instead of what was foreseen.
        record
            .warnings
            .retain(|line| Some(line) != announced.as_ref());
        record.warnings.push(told);
    }
    for (option, path) in args.files() {
        save(path, text_for(option, &record)?.as_bytes())?;
    }
    show(args, &record)?;
    match ended.interrupted {
        Some(signal) => Err(Interrupted(signal).into()),
        None => verdict(&record, plan.rounds),
    }
}

fn check(args: &LatencyArgs) -> anyhow::Result<()> {
    let to_stdout = args.files().filter(|(_, path)| is_stdout(path));
    let options: Vec<&str> = to_stdout.map(|(option, _)| option).collect();
    if let [first, second, ..] = options.as_slice() {
        return Err(usage(format!(
            "{second} -: standard output is taken by {first}; name a file"
        )));
    }
    for (option, path) in args.files() {
        check_place(path).map_err(|error| usage(format!("{option}: {error}")))?;
    }
    Ok(())
}

/// The word for a way of waiting that needs a processor for each process.
fn spins(wait: Wait) -> Option<&'static str> {
    match wait {
        Wait::Block => None,
        Wait::Spin => Some("spin"),
        Wait::Adaptive => Some("adaptive"),
    }
}

/// What was measured so far.
fn collect(record: &mut Record, cases: &[CaseRecord], ended: &rounds::Ended) {
    record.cases = cases.to_vec();
    record.failures.clone_from(&ended.failures);
    record.header.machine.during = NoiseDelta::overall(&ended.noise);
    record.interrupted = ended.interrupted.map(signal_name);
}

/// What is saved under an option.
fn text_for(option: &str, record: &Record) -> anyhow::Result<String> {
    Ok(match option {
        "--json" => to_json(record),
        "--csv" => record.csv()?,
        _ => report::latency_chart(record),
    })
}

/// Saves what can be replaced later, but for the chart.
fn save_round(args: &LatencyArgs, record: &Record) -> anyhow::Result<()> {
    let replaceable = |(_, path): &(&str, &PathBuf)| is_replaceable(path);
    for (option, path) in args.files().filter(replaceable) {
        if option != "--chart" {
            save(path, text_for(option, record)?.as_bytes())?;
        }
    }
    Ok(())
}

fn show(args: &LatencyArgs, record: &Record) -> anyhow::Result<()> {
    let taken = args.files().any(|(_, path)| is_stdout(path));
    if let [only] = record.cases.as_slice()
        && only.not_run.is_some()
    {
        // The error says all.
        return Ok(());
    }
    let is_terminal = !taken && io::stdout().is_terminal();
    let style = Style::for_terminal(is_terminal, args.output.verbose);
    match (taken, args.output.quiet) {
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

/// Whether all went well.
fn verdict(record: &Record, rounds: usize) -> anyhow::Result<()> {
    let cases = &record.cases;
    let deadlocks = cases.iter().filter(|case| case.deadlock.is_some()).count();
    if deadlocks > 0 {
        let of = cases.len();
        return Err(anyhow!("--naive: {deadlocks} of {of} cases deadlocked"));
    }
    if !record.failures.is_empty() && cases.iter().all(|case| case.launches.is_empty()) {
        return Err(anyhow!("nothing was measured: every trial failed"));
    }
    if !record.failures.is_empty() {
        return Err(anyhow!(
            "{} of {} trials failed; all else was measured",
            record.failures.len(),
            rounds * cases.len()
        ));
    }
    if let [only] = cases.as_slice()
        && let Some(not_run) = &only.not_run
    {
        return Err(anyhow!("{}: {not_run}", only.channel.name()));
    }
    if cases.iter().all(|case| case.not_run.is_some()) {
        Err(anyhow!("no case could be run, as shown"))
    } else {
        Ok(())
    }
}

/// Moves between trials only.
fn bar(args: &LatencyArgs, trials: usize) -> ProgressBar {
    let target = if args.output.quiet {
        ProgressDrawTarget::hidden()
    } else {
        // Hidden by itself where standard error is no terminal.
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(trials as u64), target);
    let style = ProgressStyle::with_template("  {bar:32} {pos}/{len} trials  {eta:>4} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
