//! `pipespeed profile` where sampling is refused: counts and costs instead.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::{TRIAL, outcome_of, places, trials};
use crate::cli::ProfileArgs;
use pipespeed_base::failure::{Interrupted, say, to_stdout};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_explain::costs::{Costs, Places, measure};
use pipespeed_explain::profile::counted::{CaseAccount, count};
use pipespeed_explain::profile::refusal::Refusal;
use pipespeed_host::placement::{self, Chosen};
use pipespeed_host::topology::Topology;
use pipespeed_measure::case::Case;
use pipespeed_measure::record::{NotRun, is_stdout, save};
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_report as report;

/// Rounds in which the elementary costs are measured: less than a second.
const COST_ROUNDS: usize = 7;

/// What is saved.
#[derive(Serialize)]
struct Record<'a> {
    kind: &'static str,
    schema_version: u32,
    pipespeed_version: &'static str,
    /// Why nothing was sampled.
    refusal: String,
    placement: String,
    notes: &'a [String],
    costs_ns: &'a Costs,
    cases: &'a [CaseAccount],
}

/// Accounts for cases.
///
/// # Errors
/// What went wrong; the refusal itself, where a file is wanted that takes samples.
pub(super) fn run(
    args: &ProfileArgs,
    cases: &[Case],
    refusal: Refusal,
    chosen: &Chosen,
    topology: &Topology,
    mut notes: Vec<String>,
) -> anyhow::Result<()> {
    let output = &args.output;
    let takes_samples = [&output.folded, &output.flame, &output.chart];
    let is_missing_descriptors = matches!(refusal, Refusal::Files(_));
    if is_missing_descriptors || takes_samples.into_iter().any(Option::is_some) {
        return Err(refusal.into());
    }
    let interrupt = Interrupt::install_without_thread()?;
    let costs_places = match chosen.writer.zip(chosen.reader) {
        Some(_) => Places::of(chosen),
        None => Places::choose(topology),
    };
    let costs = measure(costs_places, COST_ROUNDS, |_| interrupt.signal().is_none());
    if let Some(signal) = interrupt.signal() {
        return Err(Interrupted(signal).into());
    }
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
    notes.insert(0, refusal.to_string());
    notes.push(format!("ends: {}", places(chosen)));
    for case in &accounts {
        let disturbed = case.disturbances.iter();
        notes.extend(disturbed.map(|what| format!("{}: {what}", case.name)));
    }
    if let Some(path) = &output.json {
        let record = Record {
            kind: "profile_counted",
            schema_version: 1,
            pipespeed_version: env!("CARGO_PKG_VERSION"),
            refusal: refusal.to_string(),
            placement: places(chosen),
            notes: &notes,
            costs_ns: &costs,
            cases: &accounts,
        };
        let mut json = serde_json::to_vec_pretty(&record)?;
        json.push(b'\n');
        save(path, &json)?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = report::Style::for_terminal(io::stdout().is_terminal());
    let text = report::counted_cases(&accounts, &notes, style);
    to_stdout(io::stdout().write_all(text.as_bytes()))
}
