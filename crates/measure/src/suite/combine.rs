//! Chooses the combination that the suite `changes` measures as its last case.

use super::changes::{BASELINE, COMBINED, Change, combine};
use crate::failure::TrialError;
use crate::record::{NotRun, Run, Warning, WarningKind};
use crate::rounds::{Measurement, RunObserver, TrialPlace, sample_of, unmeasured};
use crate::spec::Case;
use crate::trial::Runner;
use pipespeed_base::Named;
use pipespeed_base::failure::Interrupted;
use pipespeed_stats::EQUIVALENCE;

/// Trials of each configuration; their median counts.
const TRIALS: usize = 3;

impl<R: Runner> Measurement<R> {
    /// Chooses the changes of the case [`COMBINED`], after the pilot.
    ///
    /// The safe changes that are faster than the baseline by more than 5 % are added
    /// one by one, the fastest first. A change is kept if it raises the rate by more
    /// than 5 % again. One processor and spinning exclude each other: if both are
    /// faster, this is done once without each. These trials are not recorded. The case
    /// is not run if fewer than two changes are kept.
    ///
    /// # Errors
    /// On a signal.
    pub fn choose_combination(
        &mut self,
        observer: &mut impl RunObserver<Run>,
    ) -> Result<(), Interrupted> {
        let (Some(place), Some(baseline)) = (self.runs(COMBINED), self.runs(BASELINE)) else {
            return Ok(());
        };
        let baseline = self.work.cases[baseline].clone();
        let one_processor = self.runs(Change::OneProcessor.name());
        let cpu = one_processor.and_then(|at| Some(self.work.cases[at].cpus?.0));
        let make = |changes: &[Change]| combine(&baseline, changes, cpu);

        let is_tried = |change: &Change| change.is_safe() && self.runs(change.name()).is_some();
        let changes: Vec<Change> = Change::values().filter(is_tried).collect();
        let mut tried = vec![baseline.clone()];
        tried.extend(changes.iter().map(|change| Case {
            name: change.name().to_owned(),
            ..make(&[*change])
        }));
        let rates = self.try_out(&tried, observer)?;
        let base = rates[0].unwrap_or(f64::INFINITY);
        let mut faster: Vec<(Change, f64)> = changes
            .into_iter()
            .zip(&rates[1..])
            .filter_map(|(change, rate)| Some((change, (*rate)?)))
            .filter(|(_, rate)| is_faster(*rate, base))
            .collect();
        faster.sort_by(|a, b| b.1.total_cmp(&a.1));

        let splits = [Change::OneProcessor, Change::Spinning];
        let has = |change: &Change| faster.iter().any(|(faster, _)| faster == change);
        let without = if splits.iter().all(has) {
            splits.map(Some).to_vec()
        } else {
            vec![None]
        };
        let mut best = (Vec::new(), base);
        for without in without {
            let mut chosen = Vec::new();
            let mut rate = base;
            for (change, alone) in faster.iter().filter(|(one, _)| Some(*one) != without) {
                if chosen.iter().any(|one: &Change| one.excludes(*change)) {
                    continue;
                }
                let more = [&chosen[..], &[*change]].concat();
                let reached = if chosen.is_empty() {
                    Some(*alone)
                } else {
                    self.try_out(&[make(&more)], observer)?[0]
                };
                if let Some(reached) = reached.filter(|reached| is_faster(*reached, rate)) {
                    (chosen, rate) = (more, reached);
                }
            }
            if rate > best.1 {
                best = (chosen, rate);
            }
        }

        match &best.0[..] {
            chosen @ [_, _, ..] => {
                self.work.cases[place] = make(chosen);
                self.work.run.cases[place] = unmeasured(&self.work.cases[place]);
            }
            few => {
                let why = match few {
                    [one] => format!("no change made {} faster in the pilot", one.name()),
                    _ if tried.len() < 2 => "no change is measured here".to_owned(),
                    _ => "no change that may be combined was faster in the pilot".to_owned(),
                };
                self.work.run.cases[place].not_run =
                    Some(NotRun::refused(format!("nothing to combine: {why}")));
            }
        }
        Ok(())
    }

    /// The index of the case with this name, if it is run.
    fn runs(&self, name: &str) -> Option<usize> {
        let at = self.work.cases.iter().position(|case| case.name == name)?;
        self.work.run.cases[at].not_run.is_none().then_some(at)
    }

    /// The median rate of each case in GiB/s, from trials in turn; `None` if it was not
    /// run.
    fn try_out(
        &mut self,
        cases: &[Case],
        observer: &mut impl RunObserver<Run>,
    ) -> Result<Vec<Option<f64>>, Interrupted> {
        let mut rates = vec![Vec::new(); cases.len()];
        for pass in 0..TRIALS {
            for (at, case) in cases.iter().enumerate() {
                let all = TRIALS * cases.len();
                observer.before_trial(&case.name, pass * cases.len() + at, all);
                match self.work.runner.run(case) {
                    Ok(trial) => {
                        let sample = sample_of(&trial, TrialPlace::default(), true);
                        rates[at].extend(sample.map(|sample| sample.gib_per_s));
                    }
                    Err(TrialError::NotRun(_)) => {}
                    Err(TrialError::Interrupted(signal)) => return Err(signal),
                    Err(error) => {
                        let message = format!("a trial failed: {:#}", error.into_failure());
                        let failed = Warning::for_case(WarningKind::Failed, &case.name, message);
                        observer.trial_failed(&failed.to_string());
                        self.work.run.warnings.push(failed);
                    }
                }
            }
        }
        let medians = rates.iter().map(|rates| pipespeed_stats::median(rates));
        Ok(medians.collect())
    }
}

/// Whether a rate is higher by more than what counts as the same.
fn is_faster(rate: f64, than: f64) -> bool {
    rate > than * (1.0 + EQUIVALENCE)
}
