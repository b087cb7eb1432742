//! `pipespeed costs`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::CostsArgs;
use crate::commands::header;
use pipespeed_base::failure::{Interrupted, to_stdout};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_explain::costs::{Costs, Places, Record, Settings, measure};
use pipespeed_host::noise::{NoiseDelta, NoiseProbe};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, Warning, WarningKind, warnings};
use pipespeed_measure::record::{Kind, check_place, is_stdout, save, to_json};
use pipespeed_measure::session::own_processor_time;
use pipespeed_report::{self as report, Style};
use pipespeed_stats::MIN_SAMPLES;

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
    let header = header(Kind::Costs, machine);
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
    let record = Record {
        header,
        settings: Settings {
            rounds: args.rounds() as usize,
            page_bytes: fastpipe::pipe::page_size(),
        },
        warnings: found(&costs, args, disturbed),
        interrupted: interrupted.map(signal_name),
        costs_ns: costs,
    };
    if let Some(path) = &args.json {
        save(path, to_json(&record).as_bytes())?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        let style = Style::for_terminal(io::stdout().is_terminal(), args.verbose);
        let text = report::costs_table(&record.costs_ns, &record.warnings, style);
        to_stdout(io::stdout().write_all(text.as_bytes()))?;
    }
    interrupted.map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

/// What limits what the figures say.
fn found(costs: &Costs, args: &CostsArgs, disturbed: NoiseDelta) -> Vec<Warning> {
    let planned = args.rounds() as usize;
    let mut found = Vec::new();
    if costs.rounds < planned {
        let rounds = report::pluralize(costs.rounds, "round");
        let message = format!("interrupted after {rounds} of {planned}");
        found.push(Warning::new(WarningKind::Quick, message));
    }
    if costs.rounds < MIN_SAMPLES {
        let message = "no intervals, which take 6 rounds or more (--rounds)";
        found.push(Warning::new(WarningKind::Quick, message));
    }
    let warnings = warnings::of_noise(&[disturbed]).into_iter();
    found.extend(warnings.map(|mut warning| {
        // Its own message recommends options that are not here.
        if warning.kind == WarningKind::OtherLoad {
            let load = disturbed.other_load.unwrap_or(0.0);
            warning.message = format!("other processes used {load:.2} processors meanwhile");
        }
        warning
    }));
    found
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
