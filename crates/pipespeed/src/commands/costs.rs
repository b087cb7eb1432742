//! `pipespeed costs`.

use std::time::Instant;

use crate::cli::CostsArgs;
use crate::commands::files::{RECORD, SavedFiles};
use crate::commands::progress::ProgressDisplay;
use crate::commands::{
    UNFINISHED, first_error, header, interrupted_by, load, nothing_measured, place, seed,
};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_explain::costs::{Costs, CostsRecord, CostsSettings, Places, Probes};
use pipespeed_host::noise::{NoiseDelta, NoiseProbe};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, Warning, WarningKind, warnings};
use pipespeed_measure::record::{Kind, to_json};
use pipespeed_measure::rounds::{Rounds, RunObserver, TimeBudget, Work, check};
use pipespeed_measure::session::own_processor_time;
use pipespeed_report as report;
use pipespeed_stats::MIN_SAMPLES;
use pipespeed_stats::schedule::rounds_for_budget;

/// Measures and shows the elementary costs; after a signal, those of the completed
/// rounds.
///
/// # Errors
/// A trial failed, the record can't be saved, or a signal arrived.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    let budget = budget(args);
    let files = SavedFiles::new([("--json", &args.json), ("--prometheus", &args.prometheus)])?;
    let interrupt = Interrupt::install()?;
    let places = places(args)?;
    let files = files.or_by_default(args.no_save, "costs", RECORD);
    let cpus: Vec<usize> = match places.other {
        Some((waker, sleeper)) => vec![waker, sleeper],
        None => places.same.into_iter().collect(),
    };
    let machine = Machine::read(cpus.first().copied(), cpus.last().copied());
    let mut record = CostsRecord {
        header: header(Kind::Costs, machine),
        settings: CostsSettings {
            rounds: 0,
            seed: seed(args.seed),
            page_bytes: fastpipe::pipe::page_size(),
        },
        warnings: Vec::new(),
        interrupted: None,
        costs_ns: Costs::default(),
    };
    let busy = load::look(&cpus, args.quiet);
    let noise = NoiseProbe::default();
    let (before, used_before) = (noise.take(), own_processor_time());
    let signal_of_run = || interrupt.signal();
    let probes = Probes::of_costs(&places, signal_of_run);
    let mut probes = Rounds::begin(probes, record.settings.seed);
    let mut unfinished = record.clone();
    unfinished.interrupted = Some(UNFINISHED.to_owned());
    let mut progress = ProgressDisplay::new(args.quiet, |probes: &Probes<_, _>| {
        unfinished.costs_ns = probes.costs(&places);
        if unfinished.costs_ns.rounds > 0 {
            files.save_round(|_| Ok(to_json(&unfinished)));
        }
    });
    let outcome = measure(
        &mut probes,
        args,
        &budget,
        &mut progress,
        &mut record.settings.rounds,
    );
    progress.finish();
    let missing = probes.missing();
    record.costs_ns = probes.work.costs(&places);
    // Reaps the processes of the wake-up probes, so that their CPU time counts as ours.
    drop(probes);
    let used = own_processor_time().saturating_sub(used_before);
    let disturbed = noise.take().since(&before, &cpus, used.as_secs_f64());
    if record.costs_ns.rounds == 0 {
        return Err(nothing_measured(outcome, &missing));
    }
    record.interrupted = interrupted_by(&outcome).map(signal_name);
    record.warnings = warnings_of(&record, disturbed);
    record.warnings.extend(busy);
    record.warnings.extend(missing);
    let saved = files.save(|option| {
        Ok(match option {
            "--prometheus" => report::prometheus_of_costs(&record),
            _ => to_json(&record),
        })
    });
    let table = |style| report::costs_table(&record.costs_ns, &record.warnings, style);
    let shown = files.print(args.verbose, table);
    files.say_saved(args.quiet || saved.is_err());
    first_error([outcome, saved, check(&record.warnings), shown])
}

/// Returns the time budget of the run, which is binding only if --time is given.
pub(super) fn budget(args: &CostsArgs) -> TimeBudget {
    TimeBudget::new(args.time.unwrap_or(0.0), args.time.is_some())
}

/// Runs the pilot, and the requested rounds or those that fit into the time. Stores the
/// number of rounds in `planned`.
pub(super) fn measure<W: Work>(
    probes: &mut Rounds<W>,
    args: &CostsArgs,
    budget: &TimeBudget,
    observer: &mut impl RunObserver<W::Record>,
    planned: &mut usize,
) -> anyhow::Result<()> {
    let started = Instant::now();
    probes.pilot(observer)?;
    let round_s = started.elapsed().as_secs_f64();
    let mut rounds = args.rounds();
    if budget.is_given {
        let what = format!("{MIN_SAMPLES} rounds");
        let needed_s = MIN_SAMPLES as f64 * round_s;
        budget.require(needed_s, &what, "use --rounds instead")?;
        let (cases, remaining_s) = (probes.runnable(), budget.remaining_s());
        rounds = rounds_for_budget(round_s, remaining_s, cases, MIN_SAMPLES);
    }
    *planned = rounds;
    probes.rounds(rounds, budget.is_given.then_some(budget), observer)?;
    Ok(())
}

/// Returns the processors for the wake-up costs.
fn places(args: &CostsArgs) -> anyhow::Result<Places> {
    let topology = Topology::read(&Root::default());
    if args.cpus.is_none() && args.placement.is_none() {
        return Ok(Places::choose(&topology));
    }
    let placement = args.placement.unwrap_or_default();
    Ok(Places::new(&place(args.cpus, placement, &topology)?))
}

/// Returns warnings about the validity of the results.
fn warnings_of(record: &CostsRecord, disturbed: NoiseDelta) -> Vec<Warning> {
    let (costs, planned) = (&record.costs_ns, record.settings.rounds);
    let interrupted = record.interrupted.is_some();
    let mut found = Vec::new();
    if costs.rounds < planned {
        let message = if interrupted {
            let rounds = report::pluralize(costs.rounds, "round");
            format!("interrupted after {rounds} of {planned}")
        } else {
            format!("{} of {planned} rounds are complete", costs.rounds)
        };
        found.push(Warning::new(WarningKind::FewRounds, message));
    }
    if costs.rounds < MIN_SAMPLES {
        let message = "no intervals are shown, since they need 6 or more rounds (--rounds)";
        found.push(Warning::new(WarningKind::Quick, message));
    }
    let warnings = warnings::of_noise(&[disturbed]).into_iter();
    found.extend(warnings.map(|mut warning| {
        // The original message recommends options that this command lacks.
        if warning.kind == WarningKind::OtherLoad {
            let load = disturbed.other_load.unwrap_or(0.0);
            warning.message =
                format!("other processes used {load:.2} processors on average during the run");
        }
        warning
    }));
    found
}
