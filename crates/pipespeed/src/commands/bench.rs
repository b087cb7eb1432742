//! `pipespeed bench`: runs, saves and shows a measurement.

mod options;

use std::io::{self, IsTerminal};
use std::time::Instant;

use crate::cli::BenchArgs;
use crate::commands::files::{RECORD_SAMPLES_CHART, SavedFiles};
use crate::commands::progress::ProgressDisplay;
use crate::commands::{
    UNFINISHED, cases_fit, first_error, header, load, nothing_measured, pipe_size_allowed, place,
    settle_pipe_size,
};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::output::print;
use pipespeed_base::size;
use pipespeed_base::text::wrap;
use pipespeed_host::Root;
use pipespeed_host::topology::Topology;
use pipespeed_measure::plan::RunPlan;
use pipespeed_measure::record::{Kind, Run, to_csv, to_json};
use pipespeed_measure::rounds::{Measurement, check};
use pipespeed_measure::search::{self, SearchPurpose};
use pipespeed_measure::spec::Case;
use pipespeed_measure::suite::Preparation;
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_measure::trial::Timed as _;
use pipespeed_report::{self as report, Style};

/// Measures a suite.
///
/// # Errors
/// The reason of the failure. The results so far have been saved and shown.
pub fn run(mut args: BenchArgs) -> anyhow::Result<()> {
    let rounded = settle_pipe_size(&mut args.measure.setup.pipe_size);
    options::check(&args)?;
    let topology = Topology::read(&Root::default());
    let setup = &args.measure.setup;
    let chosen = place(setup.cpus, setup.placement.unwrap_or_default(), &topology)?;
    let plan = RunPlan::new(&options::request(&args, rounded), chosen, &topology)?;
    if let Some(bytes) = setup.pipe_size {
        pipe_size_allowed(bytes)?;
    }
    if args.list {
        return list(&plan);
    }
    let largest = args.channels.size.iter().max().copied();
    let sizes = [
        ("--size", largest),
        ("--buffer-size", setup.buffer_size),
        ("--pipe-size", setup.pipe_size),
    ];
    cases_fit(&plan.sized_cases(), &sizes)?;
    plan.check_time()?;
    let files = SavedFiles::new(args.output.files())?.or_by_default(
        args.output.no_save,
        args.suite.name(),
        RECORD_SAMPLES_CHART,
    );
    let mut runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        plan.chosen.writer,
        plan.chosen.reader,
        plan.lengths.durations,
        Interrupt::install()?,
    );
    let save = |run: &Run| {
        let mut run = run.clone();
        run.interrupted = Some(UNFINISHED.to_owned());
        files.save_round(|option| text(option, &run));
    };
    let mut progress = ProgressDisplay::new(args.output.quiet, save);
    progress.say(&plan.announcement());

    let mut run = plan.empty_run(header(Kind::Bench, plan.machine.clone()));
    run.warnings.extend(load::look(
        &load::processors(&plan.chosen),
        args.output.quiet,
    ));
    let (mut cases, mut outcome) = (plan.cases.clone(), Ok(()));
    let search = plan.search();
    if let Some(search) = &search {
        progress.start();
        match search::search(search, &mut runner, &mut run, &mut progress) {
            Ok(found) => cases = search.with_found(cases, found),
            Err(error) => outcome = Err(error),
        }
        progress.set_purpose("pilot");
    }
    let null_control = plan.null_control.as_deref();
    let mut measurement = Measurement::new(runner, cases, null_control, run, &plan.refused);
    if outcome.is_ok() {
        outcome = match &search {
            Some(search) if search.purpose == SearchPurpose::Sizes => {
                let begin = |progress: &ProgressDisplay<_>| progress.start();
                let confirmed = search::confirm(search, &mut measurement, &mut progress, begin);
                confirmed.map_err(Into::into)
            }
            _ => measure(&mut measurement, &plan, &mut progress),
        };
    }
    progress.finish();
    let mut run = measurement.finish(outcome.as_ref().err());
    run.findings = report::findings(&run);
    if !run.has_results() {
        return Err(nothing_measured(outcome, &run.warnings));
    }
    let saved = files.save(|option| text(option, &run));
    let table = |style| report::table(&run, style) + "\n";
    let shown = files.show(&args.output, table, table);
    files.say_saved(args.output.quiet || saved.is_err());
    first_error([outcome, saved, check(&run.warnings), shown])
}

fn measure<S: FnMut(&Run)>(
    measurement: &mut Measurement<ProcessRunner>,
    plan: &RunPlan,
    progress: &mut ProgressDisplay<S>,
) -> anyhow::Result<()> {
    if let Some(durations) = plan.lengths.verifying {
        progress.set_purpose("verifying");
        measurement.work.runner.set_durations(durations);
        measurement.verify(progress)?;
        let runner = &mut measurement.work.runner;
        runner.set_durations(plan.lengths.durations);
        progress.set_purpose("pilot");
    }
    let mut pilot_s = timed_pilot(measurement, progress)?;
    if plan.has_time_for_second_pilot(pilot_s) {
        pilot_s = pilot_s.min(timed_pilot(measurement, progress)?);
    }
    if plan.preparation == Preparation::Combination {
        progress.set_purpose("choosing the changes to combine");
        measurement.choose_combination(progress)?;
        if let Some(case) = measurement.work.run.cases.last() {
            let not_run = case.not_run.as_ref();
            let text = not_run.map_or(&case.description, |not_run| &not_run.reason);
            progress.say(&format!("pipespeed: {}: {text}", case.name));
        }
    }
    if measurement.runnable() == 0 {
        let cases = &measurement.work.run.cases;
        let reason = cases.iter().find_map(|case| case.not_run.as_ref());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        anyhow::bail!("no case could be run{reason}");
    }
    let rounds = match plan.preparation {
        Preparation::Volumes => {
            let trials = plan.volumes(&measurement.work.run, pilot_s)?;
            progress.say(&trials.announcement());
            progress.long = trials.long();
            measurement.expect(&trials.expected());
            measurement.work.limited = trials.limited;
            trials.rounds
        }
        Preparation::Pilot
        | Preparation::Combination
        | Preparation::Search(_)
        | Preparation::Baseline(_) => plan.rounds(measurement.runnable(), pilot_s)?,
    };
    progress.start();
    measurement.rounds(rounds, plan.limit().as_ref(), progress)?;
    Ok(())
}

/// Runs the pilot and returns the seconds it took.
fn timed_pilot<S: FnMut(&Run)>(
    measurement: &mut Measurement<ProcessRunner>,
    progress: &mut ProgressDisplay<S>,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    measurement.pilot(progress)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Returns the text to save for an option.
fn text(option: &str, run: &Run) -> anyhow::Result<String> {
    match option {
        "--json" => Ok(to_json(run)),
        "--csv" => to_csv(run),
        "--prometheus" => Ok(report::prometheus_of_run(run)),
        _ => Ok(report::chart(run)),
    }
}

fn list(plan: &RunPlan) -> anyhow::Result<()> {
    let mut lines = String::new();
    let widths = plan.cases.iter().map(|case| case.name.len());
    let names = widths.max().unwrap_or(0);
    // In a file lines are not wrapped, so that they can be searched for.
    let style = Style::for_terminal(io::stdout().is_terminal(), false);
    let columns = style.width.unwrap_or(usize::MAX);
    let search = plan
        .search()
        .filter(|search| search.purpose == SearchPurpose::Baseline);
    let is_searched = |case: &Case| {
        search
            .as_ref()
            .is_some_and(|search| search.cases.contains(case))
    };
    for case in &plan.cases {
        let size = match (case.subject.pipe_bytes(), case.subject.message_bytes()) {
            (Some(_), None) if is_searched(case) => {
                "or faster sizes that a search finds first".to_owned()
            }
            (Some(bytes), None) => format!("pipe {}", size::format(bytes as u64)),
            (None, None) => "no pipe".to_owned(),
            (_, Some(bytes)) => format!(
                "messages of {}, {}",
                size::format(bytes as u64),
                if case.spins() { "spinning" } else { "blocking" }
            ),
        };
        let line = format!("{:names$}  {} ({size})", case.name, case.description);
        lines.push_str(&wrap(&line, columns, &" ".repeat(names + 2)));
        lines.push('\n');
    }
    print(lines)
}
