//! Does the method say what it should? On real trials.
//!
//! `cargo bench -p pipespeed --bench method [-- --runs N] [--rounds N] [--case NAME] [--slow-down PERCENT]`
//!
//! Each run measures one case of the ladder three times a round, in an order
//! that changes: as it is, as it is under another name, and slowed down by
//! pauses injected into the reader. Printed is in how many runs the null
//! control was called faster or slower (which must not be more than the
//! interval promises), and in how many the slow-down was found.

#[path = "common.rs"]
mod common;
mod options;

use std::process::ExitCode;

use anyhow::{Context, bail};
use pipespeed_measure::record::{GIB, Verdict};
use pipespeed_measure::spec::{Case, Durations, Suite};
use pipespeed_measure::suite::Overrides;
use pipespeed_measure::trial::Runner;
use pipespeed_stats as stats;
use pipespeed_stats::schedule::Schedule;

const DURATIONS: Durations = Durations {
    warm_up_s: 0.008,
    timed_s: 0.050,
};

struct Options {
    runs: usize,
    rounds: usize,
    case: String,
    slow_down: f64,
}

fn main() -> ExitCode {
    options::exit_code("method", run())
}

fn run() -> anyhow::Result<()> {
    let options = asked_for()?;
    let (mut runner, _) = common::runner(DURATIONS)?;
    let case = Suite::Ladder
        .cases(&Overrides::default())
        .into_iter()
        .find(|case| case.name == options.case)
        .with_context(|| format!("--case {}: no such case in the ladder", options.case))?;
    let slowed = Case {
        // A rate lower by the share asked for takes so much more time.
        slow_down: options.slow_down / (1.0 - options.slow_down),
        ..case.clone()
    };
    let arms = [&case, &case, &slowed];

    let mut of_null = [0usize; 4];
    let mut of_slowed = [0usize; 4];
    let mut slowed_ratios = Vec::new();
    for run in 0..options.runs {
        let mut rates: [Vec<(usize, f64)>; 3] = Default::default();
        let schedule = Schedule::new(arms.len(), options.rounds, run as u64);
        for (round, order) in schedule.orders.iter().enumerate() {
            for &arm in order {
                let trial = runner
                    .run(arms[arm])
                    .map_err(|error| anyhow::anyhow!("{error}"))?;
                let reader = trial.reader.context("no reader")?.counters;
                rates[arm].push((round, reader.bytes as f64 / GIB / reader.seconds));
            }
        }
        let [plain, again, slowed] = rates;
        for (rates, verdicts) in [(&again, &mut of_null), (&slowed, &mut of_slowed)] {
            // Each question on its own: there is one null control in a run.
            let ratio = stats::holm_ratios(&[stats::paired_ratios(rates, &plain)], 0.95);
            if let [Some(ratio)] = ratio.as_slice() {
                verdicts[ratio.verdict as usize] += 1;
            }
        }
        slowed_ratios.extend(stats::paired_ratios(&slowed, &plain));
        eprint!("\rrun {} of {}", run + 1, options.runs);
    }
    eprintln!();
    println!(
        "{}: {} runs of {} rounds, trials of {:.0} ms",
        options.case,
        options.runs,
        options.rounds,
        DURATIONS.timed_s * 1e3
    );
    let line = |name: &str, counts: [usize; 4]| {
        let count = |verdict: Verdict| counts[verdict as usize];
        println!(
            "{name}: faster {}, slower {}, same {}, undecided {}",
            count(Verdict::Faster),
            count(Verdict::Slower),
            count(Verdict::Same),
            count(Verdict::Undecided)
        );
    };
    line("null control", of_null);
    line(
        &format!("slowed by {:.0} %", options.slow_down * 100.0),
        of_slowed,
    );
    if let Some(median) = stats::median(&slowed_ratios) {
        println!("median ratio of the slowed case over all rounds: x{median:.3}");
    }
    Ok(())
}

fn asked_for() -> anyhow::Result<Options> {
    let mut options = Options {
        runs: 200,
        rounds: 10,
        case: "write_read".to_owned(),
        slow_down: 0.10,
    };
    options::each(|word, value| {
        match word {
            "--runs" => options.runs = value()?.parse()?,
            "--rounds" => options.rounds = value()?.parse()?,
            "--case" => options.case = value()?,
            "--slow-down" => options.slow_down = value()?.parse::<f64>()? / 100.0,
            _ => bail!("unknown option {word}"),
        }
        Ok(())
    })?;
    Ok(options)
}
