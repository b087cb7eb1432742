//! Plans the number of trials of each volume.
//!
//! A large volume takes a hundred times as long as a small one, and one trial of
//! it may take most of the available time. So a volume that can't run in every
//! round runs in at least one.

use std::collections::BTreeMap;

use super::lengths::trial_s;
use super::{RunPlan, in_words};
use crate::record::{CaseResult, Run};
use crate::spec::pilot_bytes;
use pipespeed_base::text::pluralize;

/// Maximum number of rounds; more would not improve the results.
const MAX_ROUNDS: usize = 60;

/// VolumeTrials longer than this are announced.
const LONG_S: f64 = 3.0;

impl RunPlan {
    /// Plans the trials of each volume from the pilot's time.
    ///
    /// # Errors
    /// Bad usage, if they don't fit into a requested time.
    pub fn volumes(&self, run: &Run, pilot_s: f64) -> anyhow::Result<VolumeTrials> {
        let min_rounds = self.lengths.min_rounds;
        let times = TrialTime::estimate(run, pilot_s, trial_s(self.lengths.durations));
        let limits = VolumeLimits {
            rounds: self.rounds,
            remaining_s: self.budget.remaining_s(),
            min_rounds,
        };
        let trials = VolumeTrials::plan(times, &limits);
        let what = format!("one trial of the largest volume and {min_rounds} rounds of the others");
        let way_out = "choose smaller volumes with --volume";
        self.budget.require(trials.seconds, &what, way_out)?;
        Ok(trials)
    }
}

/// Duration of one trial of a case.
#[derive(Debug, Clone, PartialEq)]
struct TrialTime {
    case: String,
    seconds: f64,
}

impl TrialTime {
    /// Estimates the durations from the rate of the pilot, which only transfers the
    /// start of a large volume. `overhead_s` is what a trial takes besides.
    fn estimate(run: &Run, pilot_s: f64, overhead_s: f64) -> Vec<TrialTime> {
        let runnable = || run.cases.iter().filter(|case| case.not_run.is_none());
        let volume = |case: &CaseResult| case.configuration.volume_bytes;
        let piloted: u64 = runnable().filter_map(volume).map(pilot_bytes).sum();
        let moving_s = (pilot_s - runnable().count() as f64 * overhead_s).max(pilot_s / 2.0);
        let seconds_per_byte = moving_s / piloted.max(1) as f64;
        let time = |case: &CaseResult| TrialTime {
            case: case.name.clone(),
            seconds: overhead_s + volume(case).unwrap_or(0) as f64 * seconds_per_byte,
        };
        runnable().map(time).collect()
    }
}

/// Limits of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VolumeLimits {
    /// Requested rounds; every volume then runs in each round.
    rounds: Option<usize>,
    /// Time limit in seconds.
    remaining_s: f64,
    /// Minimum number of rounds.
    min_rounds: usize,
}

/// Number of rounds, and trials of each case in them.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeTrials {
    /// Number of rounds.
    pub rounds: usize,
    /// VolumeTrials of the cases that don't run in every round.
    pub limited: BTreeMap<String, usize>,
    /// Total duration of all trials, in seconds.
    seconds: f64,
    times: Vec<TrialTime>,
}

impl VolumeTrials {
    /// Plans the trials. Requested rounds run every volume. Otherwise the smallest
    /// volumes run in every round, as far as time remains for one trial of each larger
    /// volume; the remaining time goes to larger volumes and to more rounds. A
    /// volume for which one trial is too long is skipped. The smallest volume, which
    /// the null control repeats, always runs in every round.
    fn plan(times: Vec<TrialTime>, limits: &VolumeLimits) -> VolumeTrials {
        let sum = |times: &[TrialTime]| times.iter().map(|time| time.seconds).sum::<f64>();
        let mut ascending = times.clone();
        ascending.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        // `split` of the smallest volumes run in every round, the others in some.
        let needed_s = |split: usize| {
            let (every_round, some_rounds) = ascending.split_at(split);
            let fitting = some_rounds
                .iter()
                .filter(|time| time.seconds <= limits.remaining_s);
            let once_s: f64 = fitting.map(|time| time.seconds).sum();
            limits.min_rounds as f64 * sum(every_round) + once_s
        };
        let fits = |split: &usize| needed_s(*split) <= limits.remaining_s;
        // VolumeTrials that take equally long run equally often: a case and its twin.
        let keeps_twins = |split: &usize| {
            let seconds = |at: usize| ascending.get(at).map(|time| time.seconds);
            seconds(*split) != seconds(*split - 1)
        };
        let splits = || (1..=times.len()).filter(keeps_twins);
        let split = match limits.rounds {
            Some(_) => times.len(),
            None => splits().rev().find(fits).or(splits().next()).unwrap_or(0),
        };
        // What takes too long all by itself leaves nothing to share.
        let needed_s = match ascending.last() {
            Some(largest) if split < times.len() => largest.seconds.max(needed_s(split)),
            _ => needed_s(split),
        };
        let spare_s = (limits.remaining_s - needed_s).max(0.0) / 2.0;
        let (every_round, some_rounds) = ascending.split_at(split);
        let share_s = spare_s / some_rounds.len().max(1) as f64;
        let trials = |time: &TrialTime| 1 + (share_s / time.seconds) as usize;
        let some_rounds_s: f64 = some_rounds
            .iter()
            .map(|time| trials(time) as f64 * time.seconds)
            .sum();
        let fitting = (limits.remaining_s - some_rounds_s).max(0.0) / sum(every_round);
        let max_rounds = MAX_ROUNDS.max(limits.min_rounds);
        let rounds = limits
            .rounds
            .unwrap_or((fitting as usize).clamp(limits.min_rounds, max_rounds));
        let limited: BTreeMap<String, usize> = some_rounds
            .iter()
            .map(|time| (time.case.clone(), trials(time).min(rounds)))
            .collect();
        let seconds = |time: &TrialTime| {
            let trials = limited.get(&time.case).copied().unwrap_or(rounds);
            trials as f64 * time.seconds
        };
        VolumeTrials {
            rounds,
            seconds: times.iter().map(seconds).sum(),
            times,
            limited,
        }
    }

    /// Returns the seconds of one trial of each case with long trials.
    pub fn long(&self) -> BTreeMap<String, f64> {
        let mut long = self.expected();
        long.retain(|_, seconds| *seconds >= LONG_S);
        long
    }

    /// Returns the seconds of one trial of each case.
    pub fn expected(&self) -> BTreeMap<String, f64> {
        let seconds = |time: &TrialTime| (time.case.clone(), time.seconds);
        self.times.iter().map(seconds).collect()
    }

    /// Describes the duration in one line.
    pub fn announcement(&self) -> String {
        let limited = self.limited.iter();
        let limited = limited.map(|(case, trials)| format!("{case} in {trials} of them"));
        let limited = match &limited.collect::<Vec<_>>()[..] {
            [] => String::new(),
            limited => format!(" ({})", limited.join(", ")),
        };
        let longest_s = self.times.iter().map(|time| time.seconds);
        let longest_s = longest_s.fold(0.0, f64::max);
        format!(
            "pipespeed: {}{limited}, about {}; the longest trial takes about {}, and nothing is \
             drawn while it runs",
            pluralize(self.rounds, "round"),
            in_words(self.seconds),
            in_words(longest_s)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(seconds: &[f64]) -> Vec<TrialTime> {
        let time = |(at, &seconds): (usize, &f64)| TrialTime {
            case: at.to_string(),
            seconds,
        };
        seconds.iter().enumerate().map(time).collect()
    }

    fn limits(remaining_s: f64) -> VolumeLimits {
        VolumeLimits {
            rounds: None,
            remaining_s,
            min_rounds: 9,
        }
    }

    #[test]
    fn a_volume_too_long_for_every_round_runs_in_some() {
        // As on a guest where 64 KiB pipes do 0.7 GiB/s.
        let trials = VolumeTrials::plan(times(&[0.4, 0.4, 3.6, 36.0]), &limits(160.0));
        assert_eq!(trials.limited, BTreeMap::from([("3".to_owned(), 2)]));
        assert_eq!(trials.rounds, 20);
        assert!(trials.seconds <= 160.0, "{trials:?}");
        assert_eq!(trials.long().len(), 2);
    }

    #[test]
    fn volumes_that_fit_run_in_every_round() {
        let trials = VolumeTrials::plan(times(&[0.08, 0.08, 0.6, 5.6]), &limits(160.0));
        assert!(trials.limited.is_empty());
        assert_eq!(trials.rounds, 25);
        let trials = VolumeTrials::plan(times(&[0.01]), &limits(160.0));
        assert_eq!(trials.rounds, MAX_ROUNDS);
    }

    #[test]
    fn requested_rounds_run_every_volume() {
        let requested = VolumeLimits {
            rounds: Some(7),
            ..limits(1.0)
        };
        let trials = VolumeTrials::plan(times(&[0.4, 36.0]), &requested);
        assert!(trials.limited.is_empty());
        assert_eq!(trials.rounds, 7);
        assert!((trials.seconds - 7.0 * 36.4).abs() < 1e-9);
    }

    #[test]
    fn each_volume_has_at_least_one_trial() {
        let trials = VolumeTrials::plan(times(&[0.4, 360.0]), &limits(160.0));
        assert_eq!(trials.limited, BTreeMap::from([("1".to_owned(), 1)]));
        assert_eq!(trials.rounds, 9);
    }

    #[test]
    fn a_volume_too_long_for_one_trial_limits_no_other() {
        // 0.25 GiB, its twin and 250 GiB; then with 2.5 GiB between them.
        let trials = VolumeTrials::plan(times(&[0.3, 0.3, 300.0]), &limits(160.0));
        assert_eq!(trials.limited, BTreeMap::from([("2".to_owned(), 1)]));
        assert_eq!(trials.rounds, 9);
        let trials = VolumeTrials::plan(times(&[0.3, 0.3, 3.0, 300.0]), &limits(160.0));
        assert_eq!(trials.limited, BTreeMap::from([("3".to_owned(), 1)]));
        assert_eq!(trials.rounds, 9);
    }

    proptest! {
        #[test]
        fn the_smallest_and_its_twin_run_in_every_round(
            smallest in 0.01f64..50.0,
            mut larger in prop::collection::vec(1.001f64..1000.0, 0..4),
            remaining_s in -5.0f64..200.0,
        ) {
            larger.iter_mut().for_each(|factor| *factor *= smallest);
            let seconds = [vec![smallest, smallest], larger].concat();
            let trials = VolumeTrials::plan(times(&seconds), &limits(remaining_s));
            prop_assert!(!trials.limited.contains_key("0") && !trials.limited.contains_key("1"));
            prop_assert!(trials.limited.values().all(|trials| *trials >= 1));
            prop_assert!(trials.rounds >= 9);
        }
    }
}
