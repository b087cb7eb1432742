//! `pipespeed profile` from counts and costs, used if sampling is refused.

use super::{ProfileSetting, trial_count};
use crate::commands::files::SavedFiles;
use crate::commands::{first_error, header};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_explain::costs::{Places, measure};
use pipespeed_explain::profile::counted::{CaseAccount, CountedRecord, CountedSettings, count};
use pipespeed_explain::profile::perf::SamplingError;
use pipespeed_host::{Machine, Warning};
use pipespeed_measure::record::{Kind, to_json};
use pipespeed_measure::spec::Case;
use pipespeed_report as report;

/// Number of rounds to measure the elementary costs: less than a second.
const COST_ROUNDS: usize = 7;

/// Explains the time of cases by counts and costs.
///
/// # Errors
/// `refusal`, if a requested file needs samples; or a trial failed, a file can't be
/// saved, or a signal arrived.
pub(super) fn run(
    setting: &ProfileSetting<'_>,
    cases: &[Case],
    refusal: SamplingError,
    files: &SavedFiles,
    mut warnings: Vec<Warning>,
) -> anyhow::Result<()> {
    let (output, chosen) = (&setting.args.output, setting.chosen);
    let files_of_samples = [&output.folded, &output.flame, &output.chart];
    if refusal.is_final() || files_of_samples.into_iter().any(Option::is_some) {
        return Err(refusal.into());
    }
    let machine = Machine::read(chosen.writer, chosen.reader);
    let header = header(Kind::ProfileCounted, machine);
    let interrupt = Interrupt::install()?;
    let places = match chosen.writer.zip(chosen.reader) {
        Some(_) => Places::new(chosen),
        None => Places::choose(setting.topology),
    };
    let costs = measure(places, COST_ROUNDS, || interrupt.signal())?;
    let on_one_processor = chosen.writer.is_some() && chosen.writer == chosen.reader;
    let trials = trial_count(setting.args);
    let not_run = CaseAccount::not_run;
    let accounts = setting.each_case(cases, interrupt, "counting", not_run, |runner, case| {
        count(runner, case, &costs, on_one_processor, trials)
    })?;
    for case in &accounts {
        warnings.extend(case.disturbances.iter().cloned());
    }
    let record = CountedRecord {
        header,
        settings: CountedSettings {
            placement: chosen.to_string(),
        },
        warnings,
        refusal: refusal.to_string(),
        costs_ns: costs,
        cases: accounts,
    };
    let saved = files.save(|_| Ok(to_json(&record)));
    let shown = files.print(output.verbose, |style| {
        report::counted_cases(&record, style)
    });
    files.say_saved(output.quiet || saved.is_err());
    first_error([saved, shown])
}
