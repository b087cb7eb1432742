//! `pipespeed latency`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::LatencyArgs;
use crate::failure::{Interrupted, say, to_stdout, usage};
use crate::interrupt::Interrupt;
use crate::latency::channels::{EVENTFD_BYTES, Kind};
use crate::latency::record::{CaseRecord, Record, Settings};
use crate::latency::rounds::{self, Plan};
use crate::latency::spec::{Length, Mode, Wait};
use crate::latency::trial::Trials;
use crate::machine::placement::{self, Chosen};
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root, spinning_refused, standing};
use crate::report::{self, Style};
use crate::results::{is_stdout, save};
use crate::trial::ProcessRunner;

/// Sizes of a run that names none.
const USUAL_SIZES: [usize; 3] = [8, 1 << 10, 64 << 10];
/// What starting and ending a trial takes beside its timed part, in seconds.
const AROUND_S: f64 = 0.025;
/// The longest and shortest timed part, in seconds.
const SHORTEST_S: f64 = 0.02;
const LONGEST_S: f64 = 30.0;

/// Measures round trips.
///
/// # Errors
/// When a deadlock was found, a trial failed, or a file can't be saved. What
/// was measured until then has been shown and saved.
pub fn run(args: &LatencyArgs) -> anyhow::Result<()> {
    check(args)?;
    let topology = Topology::read(&Root::default());
    let chosen = match args.cpus {
        Some((sender, echo)) => placement::explicit(sender, echo, &topology),
        None => placement::choose(args.placement, &topology),
    }
    .map_err(|error| usage(error.to_string()))?;
    if args.wait == Wait::Spin
        && let Some(reason) = spinning_refused(&chosen, &topology)
    {
        return Err(usage(format!("--wait spin: {reason}")));
    }
    let mut cases = cases(args);
    let plan = plan(args, &topology, &chosen, cases.len());
    let mut record = record(&plan, &chosen);
    let interrupt = Interrupt::install()?;
    let trials = Trials {
        program: ProcessRunner::this_program(),
        cpus: [chosen.writer, chosen.reader],
        limit: Duration::from_secs_f64(args.limit),
        interrupt,
    };
    let bar = bar(args, plan.rounds * cases.len());
    let ended = rounds::run(
        &plan,
        &mut cases,
        |spec| trials.run(spec),
        |line| bar.suspend(|| say(&format!("pipespeed: {line}; the other cases go on"))),
        || bar.inc(1),
    );
    bar.finish_and_clear();
    record.cases = cases;
    record.failures.clone_from(&ended.failures);
    let shown = show(args, &record);
    match ended.interrupted {
        Some(signal) => {
            shown?;
            Err(Interrupted(signal).into())
        }
        None => {
            shown?;
            verdict(&record, plan.rounds)
        }
    }
}

fn check(args: &LatencyArgs) -> anyhow::Result<()> {
    let to_stdout = args.files().filter(|(_, path)| is_stdout(path));
    let options: Vec<&str> = to_stdout.map(|(option, _)| option).collect();
    match options.as_slice() {
        [first, second, ..] => Err(usage(format!(
            "{second} -: standard output is taken by {first}; name a file"
        ))),
        _ => Ok(()),
    }
}

/// Each channel with each size; those of an eventfd are all alike.
fn cases(args: &LatencyArgs) -> Vec<CaseRecord> {
    let mut kinds: Vec<Kind> = match args.channels.is_empty() {
        true => Kind::USUAL.to_vec(),
        false => Vec::new(),
    };
    for kind in &args.channels {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |kind: Kind| match (kind, sizes.is_empty()) {
        (Kind::Eventfd, true) => vec![EVENTFD_BYTES],
        (_, true) => USUAL_SIZES.to_vec(),
        (_, false) => sizes.clone(),
    };
    kinds
        .iter()
        .flat_map(|kind| {
            of(*kind)
                .into_iter()
                .map(|size| CaseRecord::new(*kind, size))
        })
        .collect()
}

fn plan(args: &LatencyArgs, topology: &Topology, chosen: &Chosen, cases: usize) -> Plan {
    let trials = f64::from(args.rounds) * cases as f64;
    let timed_s = (args.time / trials - AROUND_S).clamp(SHORTEST_S, LONGEST_S);
    Plan {
        mode: match (args.naive, args.rate) {
            (true, _) => Mode::Naive,
            (false, Some(rate)) => Mode::Open(rate),
            (false, None) => Mode::Closed,
        },
        length: match args.count {
            Some(count) => Length::Count(count),
            None => Length::Time((timed_s * 1e9) as u64),
        },
        wait: args.wait,
        apart: spinning_refused(chosen, topology).is_none(),
        rounds: args.rounds as usize,
        seed: args.seed.unwrap_or_else(new_seed),
    }
}

/// From the clock: it only has to differ from run to run, and is recorded.
fn new_seed() -> u64 {
    (jiff::Timestamp::now().as_nanosecond() as u64 / 1000) % 1_000_000_000
}

fn record(plan: &Plan, chosen: &Chosen) -> Record {
    let machine = Machine::read(chosen.writer, chosen.reader);
    let mut warnings: Vec<String> = standing(&machine)
        .into_iter()
        .map(|warning| warning.message)
        .collect();
    warnings.extend(chosen.warning.clone());
    Record {
        version: 1,
        started_at: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
        machine,
        settings: Settings {
            mode: plan.mode,
            length: plan.length,
            wait: plan.wait,
            cpus: [chosen.writer, chosen.reader],
            relation: chosen.relation.clone(),
            rounds: plan.rounds,
            seed: plan.seed,
        },
        cases: Vec::new(),
        failures: Vec::new(),
        warnings,
    }
}

fn show(args: &LatencyArgs, record: &Record) -> anyhow::Result<()> {
    if let [only] = record.cases.as_slice()
        && only.refused.is_some()
    {
        return Ok(());
    }
    let mut taken = false;
    for (option, path) in args.files() {
        let bytes = match option {
            "--json" => serde_json::to_string_pretty(record)? + "\n",
            "--csv" => record.csv()?,
            _ => report::latency_chart(record),
        };
        save(path, bytes.as_bytes())?;
        taken |= is_stdout(path);
    }
    let style = Style::for_terminal(io::stdout().is_terminal());
    match (taken, args.output.quiet) {
        (false, _) => {
            let text = report::latency_table(record, style);
            to_stdout(io::stdout().write_all(text.as_bytes()))?;
        }
        // The figures went there; what happened is told all the same.
        (true, false) => say(report::latency_notes(record, Style::default()).trim_end()),
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
    if !record.failures.is_empty() {
        return Err(anyhow!(
            "{} of {} trials failed; all else was measured",
            record.failures.len(),
            rounds * cases.len()
        ));
    }
    if let [only] = cases.as_slice()
        && let Some(reason) = &only.refused
    {
        return Err(anyhow!("{}: {reason}", only.channel.name()));
    }
    match cases.iter().all(|case| case.refused.is_some()) {
        true => Err(anyhow!("every case is refused here, as shown")),
        false => Ok(()),
    }
}

/// Moves between trials only.
fn bar(args: &LatencyArgs, trials: usize) -> ProgressBar {
    let target = match args.output.quiet {
        true => ProgressDrawTarget::hidden(),
        // Hidden by itself where standard error is no terminal.
        false => ProgressDrawTarget::stderr(),
    };
    let bar = ProgressBar::with_draw_target(Some(trials as u64), target);
    let style = ProgressStyle::with_template("  {bar:32} {pos}/{len} trials  {eta:>4} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn args(words: &str) -> LatencyArgs {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            args: LatencyArgs,
        }
        Only::try_parse_from(["x"].into_iter().chain(words.split_whitespace()))
            .map_err(|error| error.to_string())
            .unwrap()
            .args
    }

    #[test]
    fn an_eventfd_is_measured_once_unless_sizes_are_named() {
        let sizes = |words: &str| -> Vec<usize> {
            let cases = cases(&args(words)).into_iter();
            cases.map(|case| case.size).collect()
        };
        assert_eq!(cases(&args("")).len(), 10);
        assert_eq!(sizes("eventfd"), [8]);
        assert_eq!(sizes("eventfd eventfd --size 1K,8"), [8, 1024]);
    }
}
