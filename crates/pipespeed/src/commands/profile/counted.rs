//! `pipespeed profile` where sampling is refused: counts and costs instead.

use std::io::{self, IsTerminal, Write};

use super::{TRIAL, outcome_of, places, trials};
use crate::cli::ProfileArgs;
use crate::commands::header;
use pipespeed_base::failure::{say, to_stdout};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_explain::costs::{Places, measure};
use pipespeed_explain::profile::counted::{CaseAccount, Record, Settings, count};
use pipespeed_explain::profile::perf::SamplingError;
use pipespeed_host::placement::{self, Chosen};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Warning};
use pipespeed_measure::case::Case;
use pipespeed_measure::record::{Kind, NotRun, is_stdout, save, to_json};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_report as report;

/// Rounds in which the elementary costs are measured: less than a second.
const COST_ROUNDS: usize = 7;

/// Accounts for cases.
///
/// # Errors
/// What went wrong; the refusal itself, where a file is wanted that takes samples.
pub(super) fn run(
    args: &ProfileArgs,
    cases: &[Case],
    refusal: SamplingError,
    chosen: &Chosen,
    topology: &Topology,
    mut warnings: Vec<Warning>,
) -> anyhow::Result<()> {
    let output = &args.output;
    let takes_samples = [&output.folded, &output.flame, &output.chart];
    let is_missing_descriptors = matches!(refusal, SamplingError::Descriptors(_));
    if is_missing_descriptors || takes_samples.into_iter().any(Option::is_some) {
        return Err(refusal.into());
    }
    let machine = Machine::read(chosen.writer, chosen.reader);
    let header = header(Kind::ProfileCounted, machine);
    let interrupt = Interrupt::install_without_thread()?;
    let costs_places = match chosen.writer.zip(chosen.reader) {
        Some(_) => Places::of(chosen),
        None => Places::choose(topology),
    };
    let costs = measure(costs_places, COST_ROUNDS, || interrupt.signal())?;
    let mut runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        chosen.writer,
        chosen.reader,
        TRIAL,
        interrupt,
    );
    let on_one_processor = chosen.writer.is_some() && chosen.writer == chosen.reader;
    let no_spinning = placement::spinning_refused(chosen, topology);
    let mut accounts = Vec::new();
    for case in cases {
        if !output.quiet {
            say(&format!("pipespeed: counting {}", case.name));
        }
        let refused = no_spinning.clone().filter(|_| case.spins_in_pairs());
        let counted = match refused {
            Some(reason) => Err(NotRun::refused(reason).into()),
            None => count(&mut runner, case, &costs, on_one_processor, trials(args)),
        };
        accounts.push(outcome_of(counted, case, args.all, CaseAccount::not_run)?);
    }
    for case in &accounts {
        warnings.extend(case.disturbances.iter().cloned());
    }
    let record = Record {
        header,
        settings: Settings {
            placement: places(chosen),
        },
        warnings,
        refusal: refusal.to_string(),
        costs_ns: costs,
        cases: accounts,
    };
    if let Some(path) = &output.json {
        save(path, to_json(&record).as_bytes())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = report::Style::for_terminal(io::stdout().is_terminal(), output.verbose);
    let text = report::counted_cases(&record, style);
    to_stdout(io::stdout().write_all(text.as_bytes()))
}
