//! Measuring afresh what a search found, in the time that is left.

use super::budget::Budget;
use crate::measure::{Measurement, Observer, Stopped};
use crate::results::{Warning, WarningKind};
use crate::runner::Timed;

/// Runs a pilot and as many rounds as the time allows, none where it allows
/// none. The search began at `started_s` by the runner's clock, and its trials
/// took `overhead_s` besides their parts. `begin` is told how many rounds of
/// how many cases there will be, before the first.
///
/// # Errors
/// When a signal comes, a trial fails, or the record can't be saved.
pub fn measure<R: Timed, O: Observer>(
    measurement: &mut Measurement<R>,
    budget: &Budget,
    (started_s, overhead_s): (f64, f64),
    observer: &mut O,
    begin: impl FnOnce(&mut O, usize, usize),
) -> Result<(), Stopped> {
    let left_s = |now_s: f64| budget.whole_s - (now_s - started_s);
    let begun_s = measurement.runner_mut().now_s();
    let cases = measurement.runnable();
    if !budget.affords_rounds(left_s(begun_s), cases, overhead_s) {
        measurement.run_mut().warnings.push(Warning {
            kind: WarningKind::Quick,
            case: None,
            message: "no time was left to measure afresh what the search found: allow more by \
                      --time, name fewer panels by --case, or fix a size by --buffer-size or \
                      --pipe-size"
                .to_owned(),
        });
        return Ok(());
    }
    measurement.pilot(observer)?;
    let now_s = measurement.runner_mut().now_s();
    let cases = measurement.runnable();
    let rounds = budget.rounds(left_s(now_s), now_s - begun_s, cases);
    begin(observer, rounds, cases);
    measurement.rounds(rounds, observer)
}

#[cfg(test)]
#[path = "afresh_tests.rs"]
mod tests;
