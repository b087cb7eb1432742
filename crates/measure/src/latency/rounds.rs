//! A run: rounds in which each case is launched once, in an order that
//! changes.

use super::record::CaseRecord;
use super::spec::{Length, Mode, Spec, Wait};
use super::trial::{Measured, TrialError};
use pipespeed_base::failure::full_message;
use pipespeed_host::NoiseDelta;
use pipespeed_stats::schedule::Schedule;

/// After so many failures a case is not tried again.
const MAX_FAILURES: usize = 3;

/// How all cases are measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The capacity of pipes; none: as it comes.
    pub pipe_bytes: Option<usize>,
    /// Which exchange.
    pub mode: Mode,
    /// How long the timed part of a trial lasts.
    pub length: Length,
    /// How both processes wait.
    pub wait: Wait,
    /// Whether each has a processor of its own.
    pub apart: bool,
    /// Launches of each case.
    pub rounds: usize,
    /// Of the order.
    pub seed: u64,
}

/// What a run came to, besides its cases.
#[derive(Debug, Default)]
pub struct Ended {
    /// Trials that failed, in words.
    pub failures: Vec<String>,
    /// The signal that ended it early.
    pub interrupted: Option<i32>,
    /// What else went on, by trial.
    pub noise: Vec<NoiseDelta>,
}

/// How far a run is, when a trial is over.
#[derive(Debug, Clone, Copy)]
pub struct Passed<'a> {
    /// The cases with what was measured so far.
    pub cases: &'a [CaseRecord],
    /// The rest of it.
    pub ended: &'a Ended,
    /// Whether that was the last trial of a round.
    pub round_over: bool,
}

/// Runs all rounds. `trial` runs one; `told` hears of each that failed at once,
/// and `passed` of each that is over.
///
/// # Errors
/// Those of `passed`, which end the run.
pub fn run(
    plan: &Plan,
    cases: &mut [CaseRecord],
    mut trial: impl FnMut(&Spec) -> Result<Measured, TrialError>,
    mut told: impl FnMut(&str),
    mut passed: impl FnMut(Passed<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Ended> {
    let mut ended = Ended::default();
    let schedule = Schedule::new(cases.len(), plan.rounds, plan.seed);
    for (round, order) in schedule.orders().iter().enumerate() {
        for (place, &at) in order.iter().enumerate() {
            let case = &mut cases[at];
            let open = case.not_run.is_none() && case.deadlock.is_none();
            if open && case.failed < MAX_FAILURES {
                match trial(&spec(plan, case)) {
                    Ok(measured) => {
                        case.add(round, &measured, plan.apart);
                        ended.noise.push(measured.noise);
                    }
                    Err(TrialError::NotRun(not_run)) => case.not_run = Some(not_run),
                    Err(TrialError::Deadlock(how)) => case.deadlock = Some(how),
                    Err(TrialError::Interrupted(signal)) => {
                        ended.interrupted = Some(signal);
                        return Ok(ended);
                    }
                    Err(TrialError::Failed(error)) => {
                        case.failed += 1;
                        let line = format!("{}: {}", case.name(), full_message(&error));
                        told(&line);
                        ended.failures.push(line);
                    }
                }
            }
            passed(Passed {
                cases,
                ended: &ended,
                round_over: place + 1 == order.len(),
            })?;
        }
    }
    Ok(ended)
}

fn spec(plan: &Plan, case: &CaseRecord) -> Spec {
    Spec {
        kind: case.channel,
        size: case.size,
        pipe_bytes: plan.pipe_bytes,
        mode: plan.mode,
        length: plan.length,
        wait: plan.wait,
        apart: plan.apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::channels::Kind;
    use crate::latency::spec::Outcome;
    use crate::record::NotRun;

    #[test]
    fn one_trial_that_fails_costs_that_trial_and_a_refused_case_is_not_tried_again() {
        let plan = Plan {
            pipe_bytes: None,
            mode: Mode::Closed,
            length: Length::Count(1),
            wait: Wait::Block,
            apart: true,
            rounds: 6,
            seed: 1,
        };
        let mut cases = [Kind::Pipe, Kind::Tcp, Kind::Eventfd].map(|kind| CaseRecord::new(kind, 9));
        let (mut refusals, mut failed, mut passed) = (0, 0, 0);
        let (mut lines, mut launches) = (Vec::new(), Vec::new());
        let ended = run(
            &plan,
            &mut cases,
            |spec| match spec.kind {
                Kind::Eventfd => {
                    refusals += 1;
                    Err(NotRun::limit("too long").into())
                }
                Kind::Tcp if failed == 0 => {
                    failed += 1;
                    Err(anyhow::anyhow!("the echo was killed").into())
                }
                _ => Ok(Measured {
                    outcome: Outcome {
                        counts: vec![(1000, 3)],
                        seconds: 1.0,
                        ..Outcome::default()
                    },
                    ..Measured::default()
                }),
            },
            |line| lines.push(line.to_owned()),
            |now| {
                passed += 1;
                if now.round_over {
                    launches.push(now.cases[0].launches.len());
                }
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(launches, [1, 2, 3, 4, 5, 6]);
        assert_eq!(ended.failures, lines);
        assert_eq!(lines, ["tcp of 9B: the echo was killed"]);
        assert_eq!(cases.each_ref().map(|case| case.launches.len()), [6, 5, 0]);
        assert_eq!((refusals, passed, ended.noise.len()), (1, 18, 11));
        assert_eq!(cases[2].not_run, Some(NotRun::limit("too long")));
    }
}
