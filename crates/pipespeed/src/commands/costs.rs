//! `pipespeed costs`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::cli::CostsArgs;
use crate::costs::advice::{self, Advice, GoOn, advise};
use crate::costs::cells::{self, Cell, Measuring};
use crate::costs::predict::Basis;
use crate::costs::prediction::{Prediction, prediction};
use crate::costs::{self, Cost, Plan, check, interruptions};
use crate::failure::{Interrupted, to_stdout, usage};
use crate::interrupt::Interrupt;
use crate::machine::placement::{self, Chosen, Placement};
use crate::machine::topology::{Relation, Topology};
use crate::machine::{Machine, Root};
use crate::report::{self, Style};
use crate::results::{check_place, is_stdout, save};
use crate::size;

/// The ladder as it is, is measured in every round of the costs, the other
/// sizes and placements in every so many.
const ALL_EVERY: usize = 4;

/// If interruptions take a larger share of the time, something else runs.
/// The clock's tick and a host's own doings take 1 to 4 %.
const DISTURBED: f64 = 0.08;

/// The largest piece that advice is given on, in bytes.
const MOST_PIECE: usize = 4 << 20;

/// Enough for all probes.
const DESCRIPTORS: u64 = 1024;

/// What is saved.
#[derive(Serialize)]
struct Record<'a> {
    /// What it is.
    kind: &'static str,
    /// Of this record's form.
    version: u32,
    rounds: u32,
    page_bytes: usize,
    machine: &'a Machine,
    costs: &'a [Cost],
    predictions: &'a [Prediction],
    advice: &'a [Advice],
}

/// Measures the elementary costs, the rungs beside what they predict, and says
/// what would help.
///
/// # Errors
/// When a step fails, or the record can't be saved.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    if args.pinning.pinning {
        return super::pinning::run(args);
    }
    let page_bytes = fastpipe::pipe::page_size();
    if !args.piece.is_multiple_of(page_bytes) || args.piece > MOST_PIECE {
        return Err(usage(format!(
            "--piece {}: whole pages of {} only, up to {}",
            args.piece,
            size::format(page_bytes as u64),
            size::format(MOST_PIECE as u64),
        )));
    }
    if let Some(path) = &args.json {
        check_place(path)?;
    }
    allow_descriptors();
    let topology = Topology::read(&Root::default());
    let places = places(&topology);
    let machine = Machine::read(None, None);
    let mut cells = match args.no_model {
        true => Vec::new(),
        false => cells::all(&places, &topology),
    };
    // Nothing is saved when it is interrupted.
    let interrupt = Interrupt::install_without_thread()?;
    let mut measuring = Measuring::new(&places, 1, &interrupt);
    let bar = bar(args);
    let go_on = || match interrupt.signal() {
        Some(signal) => Err(Interrupted(signal).into()),
        None => Ok(()),
    };
    let costs = measure(args, &machine, &topology, &places, go_on, |round| {
        bar.set_position(round as u64);
        let all = round % ALL_EVERY == 0;
        measuring.round(round, &mut cells, |cell| all || cell.is_default)
    });
    bar.finish_and_clear();
    let costs = costs?;
    let thinking = thinking(args);
    let go_on_thinking = || {
        thinking.tick();
        go_on()
    };
    let relation = relation(&places, &topology).filter(|_| !args.no_model);
    let predicted = predicted(args, &costs, &cells, relation, &go_on_thinking);
    thinking.finish_and_clear();
    let (predictions, mut advice) = predicted?;
    if args.check {
        bar.reset();
        let rounds = check::MOST_ROUNDS.min(args.rounds as usize);
        bar.set_length(rounds as u64);
        let progress = |round| bar.set_position(round as u64);
        let checked = check::check(
            &mut advice,
            &mut measuring,
            &places,
            &topology,
            rounds,
            progress,
        );
        bar.finish_and_clear();
        checked?;
    }
    go_on()?;
    let record = Record {
        kind: "costs",
        version: 1,
        rounds: args.rounds,
        page_bytes,
        machine: &machine,
        costs: &costs,
        predictions: &predictions,
        advice: &advice,
    };
    if let Some(path) = &args.json {
        let mut json = serde_json::to_string_pretty(&record)?;
        json.push('\n');
        save(path, json.as_bytes())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = Style::for_terminal(io::stdout().is_terminal());
    to_stdout(io::stdout().write_all(text(&record, style).as_bytes()))
}

/// What the costs let expect, of cells that were measured and of what might help.
fn predicted(
    args: &CostsArgs,
    costs: &[Cost],
    cells: &[Cell],
    relation: Option<Relation>,
    go_on: GoOn<'_>,
) -> anyhow::Result<(Vec<Prediction>, Vec<Advice>)> {
    let basis = Basis::new(costs);
    let each = cells.iter().map(|cell| prediction(cell, &basis, go_on));
    let predictions = each.collect::<anyhow::Result<Vec<Prediction>>>()?;
    let advice = match relation {
        Some(relation) => advise(&basis, relation, args.piece, go_on)?,
        None => Vec::new(),
    };
    Ok((predictions, advice))
}

fn text(record: &Record<'_>, style: Style) -> String {
    let mut parts = vec![report::costs_table(record.costs, style)];
    parts.extend(report::wake_ups_table(record.costs, style));
    parts.extend(report::through_table(record.costs, style));
    if !record.predictions.is_empty() {
        parts.push(report::predictions_table(record.predictions, style));
    }
    if !record.predictions.is_empty() {
        parts.push(report::advice_text(
            record.advice,
            record.predictions,
            style,
        ));
    }
    let few = record.costs.iter().all(|cost| cost.low.is_none());
    let few = few.then(|| "no intervals, which take 6 rounds or more (--rounds)".to_owned());
    let disturbed = disturbed(&interruptions::shares(record.costs));
    let notes: Vec<String> = few.into_iter().chain(disturbed).collect();
    parts.extend(report::notes(&notes, style));
    parts.join("\n")
}

/// That something else ran, and where.
fn disturbed(shares: &[(usize, f64)]) -> Option<String> {
    let much = shares.iter().filter(|(_, share)| *share > DISTURBED);
    let each: Vec<String> = much
        .map(|(cpu, share)| format!("{:.0} % of processor {cpu}'s time", 100.0 * share))
        .collect();
    (!each.is_empty()).then(|| {
        format!(
            "{} went elsewhere, to other processes or the host: expect little of these figures",
            each.join(" and ")
        )
    })
}

/// Probes hold many pipes; the soft limit may be too low, the hard one seldom
/// is.
fn allow_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = hard.min(DESCRIPTORS);
        if soft < wanted {
            // Where it fails, what lacks them says so.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}

/// How the processors of two ends lie to each other.
fn relation(places: &[(Placement, Chosen)], topology: &Topology) -> Option<Relation> {
    let (_, chosen) = places.first()?;
    Some(topology.relation(chosen.writer?, chosen.reader?))
}

/// Where the ends run on two processors, if there are two, and where on one.
fn places(topology: &Topology) -> Vec<(Placement, Chosen)> {
    let mut places = Vec::new();
    for placement in [Placement::Different, Placement::Same] {
        if let Ok(chosen) = placement::choose(placement, topology)
            && (placement == Placement::Same || chosen.writer != chosen.reader)
        {
            places.push((placement, chosen));
        }
    }
    places
}

fn measure(
    args: &CostsArgs,
    machine: &Machine,
    topology: &Topology,
    places: &[(Placement, Chosen)],
    go_on: impl FnMut() -> anyhow::Result<()>,
    each_round: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Cost>> {
    let at = |wanted| {
        let (_, chosen) = places.iter().find(|(placement, _)| *placement == wanted)?;
        Some((chosen.writer?, chosen.reader?))
    };
    let mut sizes = Vec::new();
    if !args.no_model {
        sizes = cells::sizes();
        for size in advice::sizes(args.piece) {
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
    }
    let plan = Plan {
        rounds: args.rounds as usize,
        machine,
        topology,
        one: at(Placement::Same).map(|(cpu, _)| cpu),
        two: at(Placement::Different),
        sizes: &sizes,
    };
    costs::measure(&plan, go_on, each_round)
}

fn target(args: &CostsArgs) -> ProgressDrawTarget {
    match args.quiet || !io::stderr().is_terminal() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    }
}

/// While nothing is measured.
fn thinking(args: &CostsArgs) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target(args));
    if let Ok(style) = ProgressStyle::with_template("{spinner} playing pipelines with these costs")
    {
        bar.set_style(style);
    }
    bar
}

/// Moves between rounds only.
pub(super) fn bar(args: &CostsArgs) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(args.rounds.into()), target(args));
    if let Ok(style) = ProgressStyle::with_template("round {pos} of {len} {wide_bar}") {
        bar.set_style(style);
    }
    bar
}
