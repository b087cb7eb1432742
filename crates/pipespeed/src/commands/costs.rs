//! `pipespeed costs`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::CostsArgs;
use crate::costs::cells::{self, Cell, Measuring};
use crate::costs::prediction::{Prediction, predictions};
use crate::costs::{self, Cost, Plan};
use crate::failure::{Interrupted, to_stdout};
use crate::interrupt::Interrupt;
use crate::machine::placement::{self, Chosen, Placement};
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root};
use crate::report::{self, Style};
use crate::results::{is_stdout, save};

/// Rungs are measured in every so many rounds of the costs.
const CELLS_EVERY: usize = 3;

/// What is saved.
#[derive(Serialize)]
struct Record<'a> {
    /// Of this record's form.
    version: u32,
    rounds: u32,
    page_bytes: usize,
    machine: &'a Machine,
    costs: &'a [Cost],
    predictions: &'a [Prediction],
}

/// Measures the elementary costs, and the rungs beside what they predict.
///
/// # Errors
/// When a step fails, or the record can't be saved.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    if args.pinning.pinning {
        return super::pinning::run(args);
    }
    let topology = Topology::read(&Root::default());
    let places = places(&topology);
    let machine = Machine::read(None, None);
    let mut cells = match args.no_model {
        true => Vec::new(),
        false => cells::all(&places, &topology),
    };
    let bar = bar(args);
    let costs = measure(args, &machine, &topology, &places, &mut cells, &bar);
    bar.finish_and_clear();
    let costs = costs?;
    let predictions = predictions(&cells, &costs);
    if let Some(path) = &args.json {
        let record = Record {
            version: 1,
            rounds: args.rounds,
            page_bytes: fastpipe::pipe::page_size(),
            machine: &machine,
            costs: &costs,
            predictions: &predictions,
        };
        let mut json = serde_json::to_string_pretty(&record)?;
        json.push('\n');
        save(path, json.as_bytes())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = Style::for_terminal(io::stdout().is_terminal());
    let mut text = report::costs_table(&costs, style);
    if !predictions.is_empty() {
        text.push('\n');
        text.push_str(&report::predictions_table(&predictions, style));
    }
    to_stdout(io::stdout().write_all(text.as_bytes()))
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
    cells: &mut [Cell],
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Cost>> {
    let at = |wanted| {
        let (_, chosen) = places.iter().find(|(placement, _)| *placement == wanted)?;
        Some((chosen.writer?, chosen.reader?))
    };
    let interrupt = Interrupt::install()?;
    let mut measuring = Measuring::new(places, 1, &interrupt);
    let sizes = match args.no_model {
        true => Vec::new(),
        false => cells::sizes(),
    };
    let plan = Plan {
        rounds: args.rounds as usize,
        machine,
        topology,
        one: at(Placement::Same).map(|(cpu, _)| cpu),
        two: at(Placement::Different),
        sizes: &sizes,
    };
    costs::measure(&plan, |round| {
        bar.set_position(round as u64);
        if let Some(signal) = interrupt.signal() {
            return Err(Interrupted(signal).into());
        }
        match round % CELLS_EVERY {
            0 => measuring.round(round, cells),
            _ => Ok(()),
        }
    })
}

/// Moves between rounds only.
pub(super) fn bar(args: &CostsArgs) -> ProgressBar {
    let target = match args.quiet || !io::stderr().is_terminal() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    };
    let bar = ProgressBar::with_draw_target(Some(args.rounds.into()), target);
    if let Ok(style) = ProgressStyle::with_template("round {pos} of {len} {wide_bar}") {
        bar.set_style(style);
    }
    bar
}
