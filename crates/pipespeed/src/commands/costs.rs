//! `pipespeed costs`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::CostsArgs;
use pipespeed_base::failure::{Interrupted, to_stdout};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_explain::costs::{Costs, Places, measure};
use pipespeed_host::noise::{NoiseDelta, NoiseProbe};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, warnings};
use pipespeed_measure::record::{WarningKind, check_place, is_stdout, save};
use pipespeed_measure::trial::own_processor_time;
use pipespeed_report::{self as report, Style};
use pipespeed_stats::MIN_SAMPLES;

/// What is saved.
#[derive(Serialize)]
struct Record<'a> {
    kind: &'static str,
    /// Of this record's form.
    version: u32,
    page_bytes: usize,
    /// The signal that ended the run before its last round.
    interrupted: Option<i32>,
    machine: &'a Machine,
    costs_ns: &'a Costs,
    notes: &'a [String],
}

/// Measures the elementary costs and shows them; after a signal those of the
/// rounds that were completed.
///
/// # Errors
/// When the record can't be saved; the signal.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    if args.pinning.pinning {
        return super::pinning::run(args);
    }
    if let Some(path) = &args.json {
        check_place(path)?;
    }
    let interrupt = Interrupt::install_without_thread()?;
    let places = Places::choose(&Topology::read(&Root::default()));
    let cpus: Vec<usize> = match places.other {
        Some((waker, sleeper)) => vec![waker, sleeper],
        None => places.same.into_iter().collect(),
    };
    let machine = Machine::read(cpus.first().copied(), cpus.last().copied());
    let bar = bar(args);
    let noise = NoiseProbe::new();
    let (before, used_before) = (noise.take(), own_processor_time());
    let costs = measure(places, args.rounds() as usize, |done| {
        if done as u64 > bar.position() {
            bar.set_position(done as u64);
        }
        interrupt.signal().is_none()
    });
    // The processes of the wake-ups have been reaped.
    let used = own_processor_time().saturating_sub(used_before);
    let disturbed = noise.take().since(&before, &cpus, used.as_secs_f64());
    bar.finish_and_clear();
    let interrupted = interrupt.signal();
    if let Some(signal) = interrupted.filter(|_| costs.rounds == 0) {
        return Err(Interrupted(signal).into());
    }
    let notes = notes(&costs, args, disturbed);
    let record = Record {
        kind: "costs",
        version: 2,
        page_bytes: fastpipe::pipe::page_size(),
        interrupted,
        machine: &machine,
        costs_ns: &costs,
        notes: &notes,
    };
    if let Some(path) = &args.json {
        let mut json = serde_json::to_string_pretty(&record)?;
        json.push('\n');
        save(path, json.as_bytes())?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        let style = Style::for_terminal(io::stdout().is_terminal());
        let text = report::costs_table(&costs, style) + &report::notes(&notes, style);
        to_stdout(io::stdout().write_all(text.as_bytes()))?;
    }
    interrupted.map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

fn notes(costs: &Costs, args: &CostsArgs, disturbed: NoiseDelta) -> Vec<String> {
    let planned = args.rounds() as usize;
    let mut notes = Vec::new();
    if costs.rounds < planned {
        notes.push(format!(
            "interrupted after {} of {planned}",
            report::counted(costs.rounds, "round")
        ));
    }
    if costs.rounds < MIN_SAMPLES {
        notes.push("no intervals, which take 6 rounds or more (--rounds)".to_owned());
    }
    let warnings = warnings::of_noise(&[disturbed]).into_iter();
    notes.extend(warnings.map(|warning| match warning.kind {
        // Its own message recommends options that are not here.
        WarningKind::OtherLoad => format!(
            "other processes used {:.2} processors meanwhile",
            disturbed.other_load.unwrap_or(0.0)
        ),
        _ => warning.message,
    }));
    notes
}

/// Moves between rounds only.
pub(super) fn bar(args: &CostsArgs) -> ProgressBar {
    let target = if args.quiet || !io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(args.rounds().into()), target);
    if let Ok(style) = ProgressStyle::with_template("round {pos} of {len} {wide_bar}") {
        bar.set_style(style);
    }
    bar
}
