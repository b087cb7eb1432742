//! `pipespeed costs`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::CostsArgs;
use crate::costs::{self, Cost};
use crate::failure::to_stdout;
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root};
use crate::report::{self, Style};
use crate::results::{is_stdout, save};

/// What is saved.
#[derive(Serialize)]
struct Record<'a> {
    /// Of this record's form.
    version: u32,
    rounds: u32,
    page_bytes: usize,
    machine: &'a Machine,
    costs: &'a [Cost],
}

/// Measures the elementary costs and shows them.
///
/// # Errors
/// When a step fails, or the record can't be saved.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    if args.pinning.pinning {
        return super::pinning::run(args);
    }
    let machine = Machine::read(None, None);
    let topology = Topology::read(&Root::default());
    let bar = bar(args);
    let costs = costs::measure(args.rounds as usize, &machine, &topology, |done| {
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let costs = costs?;
    if let Some(path) = &args.json {
        let record = Record {
            version: 1,
            rounds: args.rounds,
            page_bytes: fastpipe::pipe::page_size(),
            machine: &machine,
            costs: &costs,
        };
        let mut json = serde_json::to_string_pretty(&record)?;
        json.push('\n');
        save(path, json.as_bytes())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = Style::for_terminal(io::stdout().is_terminal());
    let text = report::costs_table(&costs, style);
    to_stdout(io::stdout().write_all(text.as_bytes()))
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
