//! `pipespeed bench`: plan a run, watch over it, save and show it.

mod able;
mod enough;
mod lengths;
mod memory;
mod plan;
mod progress;
mod saving;
mod sizes;
mod volumes;

use std::io::{self, IsTerminal, Write};

use crate::cli::{BenchArgs, OutputArgs};
use crate::commands::settle_pipe_size;
use pipespeed_base::failure::{Interrupted, say, to_stdout};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::size;
use pipespeed_measure::record::Run;
use pipespeed_measure::rounds::{Measurement, Observer, Stopped};
use pipespeed_measure::runner::Timed as _;
use pipespeed_measure::search;
use pipespeed_measure::suite::Suite;
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_report as report;

use self::plan::Plan;
use self::progress::Progress;
use self::saving::Saving;

/// Measures a suite.
///
/// # Errors
/// What went wrong. What was measured until then has been saved and shown.
pub fn run(mut args: BenchArgs) -> anyhow::Result<()> {
    let rounded = settle_pipe_size(&mut args.measure.setup.pipe_size);
    let mut plan = Plan::new(&args)?;
    plan.warnings.extend(rounded);
    if args.list {
        return list(&plan);
    }
    plan.enough_time()?;
    let mut saving = Saving::new(&args, plan.suite)?;
    let interrupt = Interrupt::install()?;
    let mut runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        plan.chosen.writer,
        plan.chosen.reader,
        plan.lengths.durations,
        interrupt,
    );
    let mut progress = Progress::new(args.output.quiet);
    progress.say(&plan.announcement());

    let mut watch = Watch {
        progress: &mut progress,
        saving: &mut saving,
    };
    let (mut run, mut cases, mut stopped) = (plan.empty_run(), plan.cases.clone(), None);
    let search = plan.search();
    if let Some(search) = &search {
        watch.progress.start(1, 1);
        match search::search(search, &mut runner, &mut run, &mut watch) {
            Ok(found) => {
                cases.retain(|case| plan.refused.contains_key(&case.name));
                cases.splice(0..0, found);
            }
            Err(reason) => stopped = Some(reason),
        }
    }
    let null_control = plan.null_control.as_deref();
    let mut measurement = Measurement::new(runner, cases, null_control, run, &plan.refused);
    if plan.suite == Suite::Channels {
        measurement = measurement.keep_going();
    }
    if stopped.is_none() {
        stopped = match &search {
            Some(search) => {
                watch.progress.doing("pilot");
                let begin = |watch: &Watch<'_>, rounds, cases| watch.progress.start(rounds, cases);
                search::confirm(search, &mut measurement, &mut watch, begin).err()
            }
            None => measure(&mut measurement, &plan, &mut watch).err(),
        };
    }
    progress.finish();
    let failures = measurement.failures();
    let mut run = measurement.finish(stopped.as_ref());
    run.findings = report::findings(&run);
    let searched = run.search.as_ref().is_some_and(|it| it.trials() > 0);
    if run.settings.rounds_done == 0
        && !searched
        && run.cases.iter().all(|case| case.samples.is_empty())
    {
        return Err(match stopped {
            Some(stopped) => into_error(stopped),
            None => anyhow::anyhow!("nothing was measured"),
        });
    }
    let saved = saving.finish(&run);
    show(&run, &saving, &args.output)?;
    saved?;
    match (stopped, failures) {
        (Some(stopped), _) => Err(into_error(stopped)),
        (None, Some(failures)) => Err(anyhow::anyhow!("{failures}; all else was measured")),
        (None, None) => Ok(()),
    }
}

fn measure(
    measurement: &mut Measurement<ProcessRunner>,
    plan: &Plan,
    watch: &mut Watch<'_>,
) -> Result<(), Stopped> {
    let begun = std::time::Instant::now();
    if let Some(durations) = plan.lengths.verifying {
        watch.progress.doing("verifying");
        measurement.runner_mut().set_durations(durations);
        measurement.verify(watch)?;
        measurement
            .runner_mut()
            .set_durations(plan.lengths.durations);
        watch.progress.doing("pilot");
    }
    let verifying = begun.elapsed().as_secs_f64();
    let started = std::time::Instant::now();
    measurement.pilot(watch)?;
    let pilot = started.elapsed().as_secs_f64();
    let started = std::time::Instant::now();
    if plan.suite == Suite::Changes {
        watch.progress.doing("choosing what to combine");
        measurement.put_together(watch)?;
        if let Some(case) = measurement.run_mut().cases.last() {
            let not_run = case.not_run.as_ref();
            let made = not_run.map_or(&case.description, |not_run| &not_run.reason);
            watch
                .progress
                .say(&format!("pipespeed: {}: {made}", case.name));
        }
    }
    let choosing = started.elapsed().as_secs_f64();
    if measurement.runnable() == 0 {
        let cases = &measurement.run_mut().cases;
        return Err(Stopped::Error(
            match cases.iter().find_map(|case| case.not_run.as_ref()) {
                Some(first) => anyhow::anyhow!("no case could be run: {first}"),
                None => anyhow::anyhow!("no case could be run"),
            },
        ));
    }
    let rounds = match plan.suite {
        Suite::Volumes => {
            let trials = plan
                .volumes(measurement.run_mut(), pilot)
                .map_err(Stopped::Error)?;
            watch.progress.say(&trials.announcement());
            watch.progress.expect(trials.long());
            measurement.expect(&trials.expected());
            let rounds = trials.rounds;
            measurement.rarely(trials.of);
            rounds
        }
        _ => plan
            .rounds(measurement.runnable(), pilot, verifying + choosing)
            .map_err(Stopped::Error)?,
    };
    watch.progress.start(rounds, measurement.runnable());
    measurement.rounds(rounds, watch)
}

fn into_error(stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Signal(signal) => Interrupted(signal).into(),
        Stopped::Error(error) => error,
    }
}

/// Draws progress between trials, and saves between rounds.
struct Watch<'a> {
    progress: &'a mut Progress,
    saving: &'a mut Saving,
}

impl Observer for Watch<'_> {
    fn before_trial(&mut self, case: &str, done: usize, all: usize) {
        self.progress.before_trial(case, done, all);
    }

    fn after_round(&mut self, run: &Run) -> anyhow::Result<()> {
        self.saving.after_round(run)
    }

    fn trial_failed(&mut self, error: &anyhow::Error) {
        self.progress
            .complain(&format!("pipespeed: {error:#}; the other cases go on"));
    }
}

/// The table goes to standard output, unless that is taken by a file.
fn show(run: &Run, saving: &Saving, output: &OutputArgs) -> anyhow::Result<()> {
    let quiet = output.quiet;
    let on_stdout = !saving.uses_stdout();
    if !on_stdout && quiet {
        return Ok(());
    }
    let terminal = if on_stdout {
        io::stdout().is_terminal()
    } else {
        io::stderr().is_terminal()
    };
    let style = report::Style::for_terminal(terminal, output.verbose);
    let table = report::table(run, style);
    let written = if on_stdout {
        writeln!(io::stdout(), "{table}")
    } else {
        writeln!(io::stderr(), "{table}")
    };
    if !quiet {
        for line in saving.said() {
            say(line);
        }
    }
    if on_stdout {
        to_stdout(written)
    } else {
        // Like all that is said there: see `say`.
        Ok(())
    }
}

fn list(plan: &Plan) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let width = plan
        .cases
        .iter()
        .map(|case| case.name.len())
        .max()
        .unwrap_or(0);
    for case in &plan.cases {
        let size = match (case.subject.pipe_bytes(), case.subject.message_bytes()) {
            (Some(bytes), None) => format!("pipe {}", size::format(bytes as u64)),
            (None, None) => "no pipe".to_owned(),
            (_, Some(bytes)) => format!(
                "messages of {}, {}",
                size::format(bytes as u64),
                if case.spins() { "spinning" } else { "blocking" }
            ),
        };
        to_stdout(writeln!(
            out,
            "{:width$}  {} ({size})",
            case.name, case.description
        ))?;
    }
    Ok(())
}
