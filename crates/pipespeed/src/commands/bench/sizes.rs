//! `pipespeed bench sizes`: a search, and a fresh measurement of what it found.

mod axes;
mod plan;

use crate::cli::BenchArgs;
use crate::failure::to_stdout;
use crate::interrupt::Interrupt;
use crate::measure::{Measurement, Observer, Stopped};
use crate::results::{Run, Warning};
use crate::runner::Timed as _;
use crate::search::{afresh, judge, walk};
use crate::trial::ProcessRunner;

use self::plan::Plan;
use super::progress::Progress;
use super::saving::Saving;
use super::{Watch, into_error, show};

/// Searches, measures afresh, saves and shows.
///
/// # Errors
/// What went wrong. What was measured until then has been saved and shown.
pub(super) fn run(args: &BenchArgs, rounded: Option<Warning>) -> anyhow::Result<()> {
    let mut plan = Plan::new(args)?;
    plan.warnings.extend(rounded);
    if args.list {
        return list(&plan);
    }
    let mut saving = Saving::new(args, args.suite)?;
    let interrupt = Interrupt::install()?;
    let mut runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        None,
        None,
        plan.lengths.durations,
        interrupt,
    );
    let mut progress = Progress::new(args.output.quiet);
    progress.say(&plan.announcement());

    let started_s = runner.now_s();
    let mut run = plan.empty_run();
    let mut watch = Watch {
        progress: &mut progress,
        saving: &mut saving,
    };
    let mut searching = Searching {
        watch: &mut watch,
        counting: false,
    };
    let searched = walk::walk(
        &mut runner,
        &plan.panels,
        &mut run,
        &plan.budget(),
        &mut searching,
    );
    let (run, stopped) = match searched {
        Err(stopped) => {
            run.interrupted = Some(stopped.reason());
            (run, Some(stopped))
        }
        Ok(overhead_s) => {
            runner.set_durations(plan.lengths.durations);
            measure_afresh(runner, run, &plan, (started_s, overhead_s), &mut watch)
        }
    };
    progress.finish();
    let search = run.search.iter();
    let cells = search.flat_map(|search| search.panels.iter().flat_map(|panel| &panel.cells));
    if cells.clone().all(|cell| cell.trials.is_empty()) {
        let reason = cells.clone().find_map(|cell| cell.refused.clone());
        return Err(match (stopped, reason) {
            (Some(stopped), _) => into_error(stopped),
            (None, Some(reason)) => anyhow::anyhow!("nothing could be run: {reason}"),
            (None, None) => anyhow::anyhow!("nothing was measured"),
        });
    }
    let failed = cells
        .filter(|cell| {
            let refused = cell.refused.as_deref();
            refused.is_some_and(|reason| reason.starts_with("failed: "))
        })
        .count();
    let saved = saving.finish(&run);
    show(&run, &saving, args.output.quiet)?;
    saved?;
    match (stopped, failed) {
        (Some(stopped), _) => Err(into_error(stopped)),
        (None, 0) => Ok(()),
        (None, failed) => Err(anyhow::anyhow!(
            "{} of the search failed; all else was measured",
            crate::report::counted(failed, "trial")
        )),
    }
}

/// Measures what the search found beside the published sizes, in rounds.
fn measure_afresh(
    runner: ProcessRunner,
    run: Run,
    plan: &Plan,
    begun: (f64, f64),
    watch: &mut Watch<'_>,
) -> (Run, Option<Stopped>) {
    let cases = run
        .search
        .as_ref()
        .map(|search| judge::candidates(search, &plan.panels))
        .unwrap_or_default();
    let null_control = cases.first().map(|case| case.name.clone());
    let mut measurement = Measurement::new(
        runner,
        cases,
        null_control.as_deref(),
        run,
        &std::collections::BTreeMap::new(),
    );
    watch.progress.doing("pilot");
    let begin = |watch: &mut Watch<'_>, rounds, cases| watch.progress.start(rounds, cases);
    let measured = afresh::measure(&mut measurement, &plan.budget(), begun, watch, begin);
    let stopped = measured.err();
    (measurement.finish(stopped.as_ref()), stopped)
}

/// Counts trials of the search once their number is known.
struct Searching<'a, 'b> {
    watch: &'a mut Watch<'b>,
    counting: bool,
}

impl Observer for Searching<'_, '_> {
    fn before_trial(&mut self, case: &str, done: usize, all: usize) {
        if all > 0 && !self.counting {
            self.counting = true;
            self.watch.progress.start(1, all);
        }
        self.watch.before_trial(case, done, all);
    }

    fn after_round(&mut self, run: &Run) -> anyhow::Result<()> {
        self.watch.after_round(run)
    }

    fn trial_failed(&mut self, error: &anyhow::Error) {
        self.watch.trial_failed(error);
    }
}

fn list(plan: &Plan) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let width = plan.panels.iter().map(|panel| panel.name().len()).max();
    let width = width.unwrap_or(0);
    let pairs = crate::report::counted(plan.axes.runnable(), "pair");
    for panel in &plan.panels {
        let what = match &panel.refused {
            Some(reason) => format!("refused: {reason}"),
            None => format!("{pairs} of sizes"),
        };
        to_stdout(writeln!(
            out,
            "{:width$}  {} ({what})",
            panel.name(),
            panel.description()
        ))?;
    }
    Ok(())
}
