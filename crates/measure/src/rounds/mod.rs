//! Measuring cases in rounds: one loop for every command that measures.
//!
//! A round runs every case once, in a balanced order from a recorded seed. The
//! number of rounds is fixed before the first. A trial that fails is a missing
//! sample: the run goes on, up to three rounds are added in place of incomplete
//! ones, and after three failures a case is no longer tried.

mod bench;
mod budget;
mod disturbances;
mod sample;

use std::time::Instant;

use anyhow::anyhow;

use crate::failure::TrialError;
use crate::record::{NotRun, Warning, WarningKind};
use pipespeed_base::failure::{Interrupted, full_message};
use pipespeed_base::text::pluralize;
use pipespeed_stats::schedule::Schedule;

pub(crate) use self::bench::unmeasured;
pub use self::bench::{Bench, Measurement};
pub use self::budget::TimeBudget;
pub use self::disturbances::rounds_for_verdicts;
pub(crate) use self::disturbances::{by_case, waiting_for_processor};
pub(crate) use self::sample::{RUN_DELAY, from_outside, sample_of};

/// After this many failed trials a case is no longer tried.
const MAX_FAILURES: usize = 3;

/// At most this many rounds are added in place of incomplete ones.
const MAX_EXTRA_ROUNDS: usize = 3;

/// The place of a trial in its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialPlace {
    /// The round, from 0.
    pub round: usize,
    /// The position within the round, from 0.
    pub position: usize,
}

/// Cases to be measured in rounds, with the record of what was measured.
pub trait Work {
    /// The record, saved after each round.
    type Record;

    /// The record so far. `None` if nothing was measured: then it must not replace an old one.
    fn record(&self) -> Option<&Self::Record>;

    /// The names of the cases, which don't change.
    fn names(&self) -> Vec<String>;

    /// Whether a case can be run: it was not refused.
    fn is_open(&self, case: usize) -> bool;

    /// Records why a case is not run.
    fn close(&mut self, case: usize, why: NotRun);

    /// Whether a case has a trial in round `round` of `rounds`.
    fn takes_part(&self, _case: usize, _round: usize, _rounds: usize) -> bool {
        true
    }

    /// Whether the time for trials is over. This is checked before each trial.
    fn is_over(&self) -> bool {
        false
    }

    /// Runs a trial before the first round. Its sample is not kept.
    ///
    /// # Errors
    /// [`TrialError`].
    fn pilot(&mut self, _case: usize) -> Result<(), TrialError> {
        Ok(())
    }

    /// Runs a trial and keeps its sample.
    ///
    /// # Errors
    /// [`TrialError`].
    fn trial(&mut self, case: usize, place: TrialPlace) -> Result<(), TrialError>;

    /// Records the planned number of rounds and a description of their order.
    fn record_plan(&mut self, _rounds: usize, _order: String) {}

    /// Updates the record after a round. `complete` is the number of rounds without a
    /// missing sample.
    fn summarise(&mut self, complete: usize);
}

/// Receives the progress of a run.
pub trait RunObserver<R> {
    /// A trial is about to begin: number `done` (from 0) of `all`.
    fn before_trial(&mut self, case: &str, done: usize, all: usize);

    /// A trial failed, for a reason that is new for its case; the run goes on.
    fn trial_failed(&mut self, _failure: &str) {}

    /// A round is over: the record so far, which has results, can be saved.
    fn after_round(&mut self, record: &R);
}

/// Ignores the progress.
impl<R> RunObserver<R> for () {
    fn before_trial(&mut self, _: &str, _: usize, _: usize) {}

    fn after_round(&mut self, _: &R) {}
}

/// A run in progress.
#[derive(Debug)]
pub struct Rounds<W> {
    /// The cases and their record.
    pub work: W,
    seed: u64,
    /// The trials of each case.
    trials: Vec<CaseTrials>,
}

/// The trials of a case so far.
#[derive(Debug, Clone, Default)]
struct CaseTrials {
    name: String,
    succeeded: bool,
    failed: usize,
    /// Trials refused after one had succeeded, for example because huge pages ran out.
    refused: usize,
    /// Why the first of these failed or was refused.
    reason: String,
    /// The number of its samples.
    samples: usize,
    /// The rounds that lack its sample.
    missing_rounds: Vec<usize>,
}

impl<W: Work> Rounds<W> {
    /// A run without any trial yet. The seed determines the order of the trials.
    pub fn begin(work: W, seed: u64) -> Self {
        let names = work.names().into_iter();
        let trials = names.map(|name| CaseTrials {
            name,
            ..CaseTrials::default()
        });
        Rounds {
            trials: trials.collect(),
            work,
            seed,
        }
    }

    /// The number of cases that can be run.
    pub fn runnable(&self) -> usize {
        self.open().count()
    }

    /// The indices of these.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.trials.len()).filter(|case| self.is_open(*case))
    }

    fn is_open(&self, case: usize) -> bool {
        let trials = &self.trials[case];
        self.work.is_open(case) && trials.failed + trials.refused < MAX_FAILURES
    }

    /// Runs each case once, to find which cases are refused and to warm up the machine.
    /// No sample is kept.
    ///
    /// # Errors
    /// On a signal.
    pub fn pilot(&mut self, observer: &mut impl RunObserver<W::Record>) -> Result<(), Interrupted> {
        self.pass(observer, W::pilot)
    }

    /// Runs a trial of each case until one succeeds, or the case is given up.
    fn pass(
        &mut self,
        observer: &mut impl RunObserver<W::Record>,
        mut trial: impl FnMut(&mut W, usize) -> Result<(), TrialError>,
    ) -> Result<(), Interrupted> {
        let all = self.trials.len();
        for case in 0..all {
            let mut succeeded = false;
            while !succeeded && self.is_open(case) {
                observer.before_trial(&self.trials[case].name, case, all);
                succeeded = self.attempt(case, observer, &mut trial)?;
            }
        }
        Ok(())
    }

    /// Runs `rounds` rounds of all cases that can be run, and as many additional ones
    /// in place of incomplete ones as `budget` allows.
    ///
    /// # Errors
    /// On a signal.
    pub fn rounds(
        &mut self,
        rounds: usize,
        budget: Option<&TimeBudget>,
        observer: &mut impl RunObserver<W::Record>,
    ) -> Result<(), Interrupted> {
        let open: Vec<usize> = self.open().collect();
        let order = Schedule::new(open.len(), rounds, self.seed).description();
        self.work.record_plan(rounds, order);
        let schedule = Schedule::new(open.len(), rounds + MAX_EXTRA_ROUNDS, self.seed);
        // An additional round has the cases of the round that it replaces.
        let row = |work: &W, round: usize, replaced: usize| -> Vec<usize> {
            let cases = schedule.orders[round].iter().map(|at| open[*at]);
            let cases = cases.filter(|case| work.takes_part(*case, replaced, rounds));
            cases.collect()
        };
        let mut rows: Vec<Vec<usize>> = (0..rounds).map(|at| row(&self.work, at, at)).collect();
        let mut replaced: Vec<usize> = (0..rounds).collect();
        let (mut done, mut round) = (0, 0);
        while round < rows.len() && self.runnable() > 0 && !self.work.is_over() {
            let started = Instant::now();
            for (position, case) in rows[round].clone().into_iter().enumerate() {
                if self.is_open(case) && !self.work.is_over() {
                    let all = rows.iter().map(Vec::len).sum();
                    observer.before_trial(&self.trials[case].name, done, all);
                    let place = TrialPlace { round, position };
                    let trial = |work: &mut W, case| work.trial(case, place);
                    if self.attempt(case, observer, trial)? {
                        self.trials[case].samples += 1;
                    } else {
                        self.trials[case].missing_rounds.push(round);
                    }
                }
                done += 1;
            }
            round += 1;
            let incomplete: Vec<usize> = (0..round).filter(|at| self.lacks_sample(*at)).collect();
            // A case that was closed may have lost rounds that count as complete by now.
            self.work.summarise(rounds.min(round - incomplete.len()));
            if let Some(record) = self.work.record() {
                observer.after_round(record);
            }
            let round_s = started.elapsed().as_secs_f64();
            let fits = budget.is_none_or(|budget| budget.remaining_s() >= round_s);
            if round >= rounds
                && round < rounds + MAX_EXTRA_ROUNDS
                && fits
                && let Some(&next) = incomplete.get(round - rounds)
            {
                replaced.push(replaced[next]);
                rows.push(row(&self.work, round, replaced[next]));
            }
        }
        Ok(())
    }

    /// Whether a round lacks the sample of a case that is still run.
    fn lacks_sample(&self, round: usize) -> bool {
        self.open()
            .any(|case| self.trials[case].missing_rounds.contains(&round))
    }

    /// Runs a trial and returns whether it succeeded. Failures are counted; the last
    /// one allowed closes a case that has no sample.
    fn attempt(
        &mut self,
        case: usize,
        observer: &mut impl RunObserver<W::Record>,
        trial: impl FnOnce(&mut W, usize) -> Result<(), TrialError>,
    ) -> Result<bool, Interrupted> {
        let outcome = trial(&mut self.work, case);
        let trials = &mut self.trials[case];
        let reason = match outcome {
            Ok(()) => {
                trials.succeeded = true;
                return Ok(true);
            }
            Err(TrialError::Interrupted(signal)) => return Err(signal),
            Err(TrialError::NotRun(why)) if !trials.succeeded => {
                self.work.close(case, why);
                return Ok(false);
            }
            Err(TrialError::NotRun(why)) => {
                trials.refused += 1;
                why.reason
            }
            Err(error) => {
                trials.failed += 1;
                let reason = full_message(&error.into_failure());
                // Once, however often it happens.
                if reason != trials.reason {
                    observer.trial_failed(&format!("{}: {reason}", trials.name));
                }
                reason
            }
        };
        if trials.reason.is_empty() {
            trials.reason = reason;
        }
        if !trials.succeeded && trials.failed >= MAX_FAILURES {
            let why = NotRun::failed(trials.reason.clone());
            self.work.close(case, why);
        }
        Ok(false)
    }

    /// Warnings about the trials that failed or were refused.
    pub fn missing(&self) -> Vec<Warning> {
        let warning = |trials: &CaseTrials| {
            let CaseTrials {
                name,
                failed,
                refused,
                reason,
                samples,
                ..
            } = trials;
            let (kind, message) = match (failed, refused) {
                (0, 0) => return None,
                (0, refused) => (
                    WarningKind::Configuration,
                    format!("{refused} trials after the pilot were refused: {reason}"),
                ),
                (failed, 0) => (
                    WarningKind::Failed,
                    format!("{} failed: {reason}", pluralize(*failed, "trial")),
                ),
                (failed, refused) => (
                    WarningKind::Failed,
                    format!(
                        "{} failed, {refused} refused: {reason}",
                        pluralize(*failed, "trial")
                    ),
                ),
            };
            let message = if failed + refused >= MAX_FAILURES && *samples > 0 {
                format!(
                    "{message}; it was given up with {}",
                    pluralize(*samples, "sample")
                )
            } else {
                message
            };
            Some(Warning::for_case(kind, name, message))
        };
        self.trials.iter().filter_map(warning).collect()
    }
}

/// Checks that no trial failed, by the warnings of a run.
///
/// # Errors
/// What failed, in a line.
pub fn check(warnings: &[Warning]) -> anyhow::Result<()> {
    match missing_trials(warnings, WarningKind::Failed, "failed") {
        None => Ok(()),
        Some(failed) => Err(anyhow!(failed)),
    }
}

/// Returns why nothing was measured, by the warnings of a run: trials failed, or all of them were
/// refused after the pilot. `None` if no trial was missing.
pub fn why_nothing_measured(warnings: &[Warning]) -> Option<anyhow::Error> {
    let why = missing_trials(warnings, WarningKind::Failed, "failed")
        .or_else(|| missing_trials(warnings, WarningKind::Configuration, "were refused"))?;
    Some(anyhow!("nothing was measured: {why}"))
}

/// Describes the warnings of a kind that are about the trials of a case.
fn missing_trials(warnings: &[Warning], kind: WarningKind, what: &str) -> Option<String> {
    let is_wanted = |warning: &&Warning| warning.kind == kind && warning.case.is_some();
    let mut missing = warnings.iter().filter(is_wanted);
    let first = missing.next()?;
    Some(match missing.count() {
        0 => first.to_string(),
        others => {
            let others = pluralize(others, "other case");
            format!("{first}; trials of {others} {what} too")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials with invented outcomes.
    struct Invented<F> {
        outcome: F,
        closed: Vec<Option<NotRun>>,
        /// Case and round of each sample.
        samples: Vec<(usize, usize)>,
        complete: Vec<usize>,
    }

    impl<F: FnMut(usize, usize) -> Result<(), TrialError>> Work for Invented<F> {
        type Record = Vec<usize>;

        fn record(&self) -> Option<&Vec<usize>> {
            (!self.samples.is_empty()).then_some(&self.complete)
        }

        fn names(&self) -> Vec<String> {
            let cases = 0..self.closed.len();
            cases.map(|case| format!("case {case}")).collect()
        }

        fn is_open(&self, case: usize) -> bool {
            self.closed[case].is_none()
        }

        fn close(&mut self, case: usize, why: NotRun) {
            self.closed[case] = Some(why);
        }

        fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
            (self.outcome)(case, 99)
        }

        fn trial(&mut self, case: usize, place: TrialPlace) -> Result<(), TrialError> {
            (self.outcome)(case, place.round)?;
            self.samples.push((case, place.round));
            Ok(())
        }

        fn summarise(&mut self, complete: usize) {
            self.complete.push(complete);
        }
    }

    /// What went wrong, and the number of rounds after which the record could be saved.
    #[derive(Default)]
    struct Notes(Vec<String>, usize);

    impl<R> RunObserver<R> for Notes {
        fn before_trial(&mut self, _: &str, done: usize, all: usize) {
            assert!(done < all);
        }

        fn trial_failed(&mut self, failure: &str) {
            self.0.push(failure.to_owned());
        }

        fn after_round(&mut self, _: &R) {
            self.1 += 1;
        }
    }

    fn run<F: FnMut(usize, usize) -> Result<(), TrialError>>(
        outcome: F,
        rounds: usize,
        budget: Option<&TimeBudget>,
    ) -> (Rounds<Invented<F>>, Vec<String>, Result<(), Interrupted>) {
        let work = Invented {
            outcome,
            closed: vec![None; 3],
            samples: Vec::new(),
            complete: Vec::new(),
        };
        let mut run = Rounds::begin(work, 7);
        let mut notes = Notes::default();
        let ended = run.rounds(rounds, budget, &mut notes);
        (run, notes.0, ended)
    }

    fn broken() -> TrialError {
        TrialError::Failed(anyhow::anyhow!("it broke"))
    }

    fn rounds_of<F>(run: &Rounds<Invented<F>>, case: usize) -> Vec<usize> {
        let samples = run.work.samples.iter().filter(|(of, _)| *of == case);
        samples.map(|(_, round)| *round).collect()
    }

    #[test]
    fn failed_trial_is_missing_and_round_is_added_for_it() {
        let fails = |case, round| match (case, round) {
            (1, 2) => Err(broken()),
            _ => Ok(()),
        };
        let (run, notes, ended) = run(fails, 5, None);
        assert!(ended.is_ok());
        assert_eq!(run.work.complete, [1, 2, 2, 3, 4, 5]);
        assert_eq!(rounds_of(&run, 1), [0, 1, 3, 4, 5]);
        assert_eq!(rounds_of(&run, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(notes, ["case 1: it broke"]);
        let [warning] = &run.missing()[..] else {
            panic!("{:?}", run.missing());
        };
        assert_eq!(warning.kind, WarningKind::Failed);
        let error = check(&run.missing()).unwrap_err().to_string();
        assert_eq!(error, "case 1: 1 trial failed: it broke");
    }

    #[test]
    fn three_rounds_are_added_at_most_none_without_time() {
        // Each case fails twice, in rounds of their own.
        let fails = |case, round| {
            if round / 2 == case {
                Err(broken())
            } else {
                Ok(())
            }
        };
        let (all, notes, _) = run(fails, 6, None);
        assert_eq!(all.work.complete.last(), Some(&3));
        assert_eq!((all.work.complete.len(), notes.len()), (9, 3));
        let message = all.missing()[0].message.clone();
        assert!(message.starts_with("2 trials failed"), "{message}");
        let (none, ..) = run(fails, 6, Some(&TimeBudget::new(1e-9, true)));
        assert_eq!(none.work.complete.len(), 6);
    }

    #[test]
    fn after_three_failures_a_case_is_no_longer_tried() {
        let mut tried = 0;
        let fails = |case, round| {
            tried += usize::from(case == 2);
            match (case, round) {
                (2, 1..) => Err(broken()),
                _ => Ok(()),
            }
        };
        let (run, notes, _) = run(fails, 8, None);
        assert_eq!((notes.len(), rounds_of(&run, 2)), (1, vec![0]));
        // It counts no longer, so no round is incomplete.
        assert_eq!(run.work.complete.last(), Some(&8));
        assert!(run.work.closed[2].is_none());
        let message = run.missing()[0].message.clone();
        assert!(
            message.ends_with("; it was given up with 1 sample"),
            "{message}"
        );
        drop(run);
        assert_eq!(tried, 4);
    }

    #[test]
    fn a_case_without_any_sample_is_closed_with_the_reason() {
        let fails = |case, _| match case {
            0 => Err(NotRun::limit("too long").into()),
            _ => Err(broken()),
        };
        let (run, notes, _) = run(fails, 8, None);
        assert_eq!(run.work.closed[0], Some(NotRun::limit("too long")));
        assert_eq!(run.work.closed[1], Some(NotRun::failed("it broke")));
        // With no case left the run ends.
        assert_eq!((notes.len(), run.work.complete.len()), (2, 3));
        let error = why_nothing_measured(&run.missing()).unwrap().to_string();
        let expected = "nothing was measured: case 1: 3 trials failed: it broke; trials of 1 other case \
                    failed too";
        assert_eq!(error, expected);
    }

    #[test]
    fn refusal_after_the_first_sample_is_missing_but_no_failure() {
        let refuses = |case, round| match (case, round) {
            (0, 1) => Err(NotRun::refused("no more huge pages").into()),
            _ => Ok(()),
        };
        let (run, notes, _) = run(refuses, 3, None);
        assert!(notes.is_empty() && check(&run.missing()).is_ok());
        assert_eq!(rounds_of(&run, 0).len(), 3);
        assert_eq!(run.missing()[0].kind, WarningKind::Configuration);
    }

    #[test]
    fn rounds_without_samples_are_not_saved_but_explained() {
        for (trouble, saved, why) in [
            (
                (|| NotRun::refused("no more huge pages").into()) as fn() -> TrialError,
                0,
                Some("case 0: 3 trials after the pilot were refused: no more huge pages"),
            ),
            (broken, 0, Some("case 0: 3 trials failed: it broke")),
            // Both cases have a sample of the first round.
            (broken, 4, None),
        ] {
            let outcome = |_, round: usize| match round {
                99 => Ok(()),
                0 if saved > 0 => Ok(()),
                _ => Err(trouble()),
            };
            let work = Invented {
                outcome,
                closed: vec![None; 2],
                samples: Vec::new(),
                complete: Vec::new(),
            };
            let mut run = Rounds::begin(work, 7);
            let mut notes = Notes::default();
            run.pilot(&mut notes).unwrap();
            run.rounds(3, None, &mut notes).unwrap();
            assert_eq!(notes.1, saved);
            let found = why_nothing_measured(&run.missing()).unwrap().to_string();
            if let Some(why) = why {
                assert!(
                    found.starts_with(&format!("nothing was measured: {why}")),
                    "{found}"
                );
                assert!(found.contains("; trials of 1 other case "), "{found}");
            }
        }
    }

    #[test]
    fn a_failed_pilot_is_repeated() {
        let mut pilots = 0;
        let fails = |case, _| {
            pilots += usize::from(case == 1);
            match (case, pilots) {
                (1, 1) => Err(broken()),
                _ => Ok(()),
            }
        };
        let (mut run, ..) = run(fails, 0, None);
        run.pilot(&mut Notes::default()).unwrap();
        assert_eq!((run.runnable(), run.work.samples.len()), (3, 0));
        drop(run);
        assert_eq!(pilots, 2);
    }

    #[test]
    fn a_signal_ends_a_run_within_a_round() {
        let mut trials = 0;
        let signal = |_, _| {
            trials += 1;
            match trials {
                5 => Err(Interrupted(15).into()),
                _ => Ok(()),
            }
        };
        let (run, _, ended) = run(signal, 9, None);
        assert_eq!(ended.unwrap_err().0, 15);
        assert_eq!((run.work.samples.len(), &*run.work.complete), (4, &[1][..]));
    }
}
