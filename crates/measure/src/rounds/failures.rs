//! Trials that verify, and what becomes of a run whose trials fail.

use super::{Measurement, Observer, Stopped};
use crate::record::{DataUse, NotRun, Warning, WarningKind};
use crate::runner::{Runner, TrialError};

/// So many failed trials of a case are enough of them.
const MAX_FAILURES: usize = 3;

impl<R: Runner> Measurement<R> {
    /// Runs each case once with every byte compared with what it has to be.
    /// One that fails is not measured.
    ///
    /// # Errors
    /// When a trial fails and the run does not go on without it, or a signal
    /// comes.
    pub fn verify(&mut self, observer: &mut impl Observer) -> Result<(), Stopped> {
        for at in 0..self.cases.len() {
            let name = &self.cases[at].name;
            let twin = self.run.null_control.as_ref().map(|control| &control.twin);
            if self.run.cases[at].not_run.is_some() || twin == Some(name) {
                continue;
            }
            observer.before_trial(name, at, self.cases.len());
            let case = self.cases[at].clone().with_data(DataUse::Verify);
            match self.runner.run(&case) {
                Ok(trial) => {
                    let compared = trial.reader.map(|end| end.counters.bytes);
                    self.run.cases[at].verified_bytes = compared;
                }
                Err(error) => self.not_run(at, "verified pass", error, observer)?,
            }
        }
        Ok(())
    }

    /// A case that could not be run before the first round is out.
    pub(super) fn not_run(
        &mut self,
        at: usize,
        when: &str,
        error: TrialError,
        observer: &mut impl Observer,
    ) -> Result<(), Stopped> {
        let not_run = match error {
            TrialError::NotRun(not_run) => not_run,
            TrialError::Interrupted(signal) => return Err(Stopped::Signal(signal)),
            error => {
                let error = error.into_failure();
                let not_run = NotRun::failed(format!("{error:#}"));
                self.failed(at, when, error, observer)?;
                not_run
            }
        };
        self.run.cases[at].not_run = Some(not_run);
        Ok(())
    }

    /// A failed trial ends the run, unless the others go on.
    pub(super) fn failed(
        &mut self,
        at: usize,
        when: &str,
        error: anyhow::Error,
        observer: &mut impl Observer,
    ) -> Result<(), Stopped> {
        let name = &self.cases[at].name;
        let reason = format!("{error:#}");
        let error = error.context(match when {
            "" => format!("case {name}"),
            when => format!("case {name}, {when}"),
        });
        if !self.keeps_going {
            return Err(Stopped::Error(error));
        }
        observer.trial_failed(&error);
        let noted = self.failed.entry(name.clone()).or_insert((0, reason));
        noted.0 += 1;
        Ok(())
    }

    /// What failed although the run went on, in a line; none if nothing did.
    pub fn failures(&self) -> Option<String> {
        let (case, (_, reason)) = self.failed.first_key_value()?;
        let trials: usize = self.failed.values().map(|(trials, _)| trials).sum();
        Some(format!(
            "{} of {} failed ({case}: {reason})",
            pipespeed_base::text::pluralize(trials, "trial"),
            pipespeed_base::text::pluralize(self.failed.len(), "case"),
        ))
    }

    /// Whether a case has failed so often that it is let be.
    pub(super) fn failed_enough(&self, at: usize) -> bool {
        let failures = self.failed.get(&self.cases[at].name);
        failures.is_some_and(|(trials, _)| *trials >= MAX_FAILURES)
    }

    /// What failed, as warnings.
    pub(super) fn failure_warnings(&mut self) -> Vec<Warning> {
        let failed = std::mem::take(&mut self.failed);
        failed
            .into_iter()
            .map(|(case, (trials, reason))| Warning {
                kind: WarningKind::Failed,
                case: Some(case),
                message: format!(
                    "{} failed and are missing: {reason}",
                    pipespeed_base::text::pluralize(trials, "trial")
                ),
            })
            .collect()
    }
}
