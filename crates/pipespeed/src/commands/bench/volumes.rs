//! Plans the number of trials of each volume.
//!
//! A large volume takes a hundred times as long as a small one, and one trial of
//! it may take most of the available time. So a volume that can't run in every
//! round runs in at least one.

use std::collections::BTreeMap;

use pipespeed_measure::record::Run;
use pipespeed_report::pluralize;

use super::lengths::TRIAL_OVERHEAD_S;
use super::plan::{Plan, in_words};

/// Maximum number of rounds; more would not improve the results.
const MAX_ROUNDS: usize = 60;

/// Trials longer than this are announced.
const LONG_S: f64 = 3.0;

impl Plan {
    /// Plans the trials of each volume from the pilot's time.
    pub(super) fn volumes(&self, run: &Run, pilot_s: f64) -> anyhow::Result<Trials> {
        let warm_up_s = self.lengths.durations.warm_up_s;
        let paces = Pace::of_run(run, pilot_s, warm_up_s);
        let allowed = Allowed {
            rounds: self.rounds,
            remaining_s: self.budget.remaining_s(),
            min_rounds: self.lengths.min_rounds,
        };
        let trials = Trials::plan(&paces, &allowed);
        let what = format!(
            "one trial of the largest volume and {} rounds of the others",
            self.lengths.min_rounds
        );
        let way_out = "choose smaller volumes with --volume";
        self.budget.require(trials.seconds, &what, way_out)?;
        Ok(trials)
    }
}

/// Duration of one trial of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    case: String,
    seconds: f64,
}

impl Pace {
    /// Estimates the duration from the rate of the pilot, which only transfers the start
    /// of a large volume.
    pub(super) fn of_run(run: &Run, pilot_s: f64, warm_up_s: f64) -> Vec<Pace> {
        let able = || run.cases.iter().filter(|case| case.not_run.is_none());
        let volume = |case: &pipespeed_measure::record::CaseResult| case.configuration.volume_bytes;
        let begun = able()
            .filter_map(volume)
            .map(pipespeed_measure::case::pilot_bytes);
        let overhead = warm_up_s + TRIAL_OVERHEAD_S;
        let moving_s = (pilot_s - able().count() as f64 * overhead).max(pilot_s / 2.0);
        let seconds_per_byte = moving_s / begun.sum::<u64>().max(1) as f64;
        able()
            .map(|case| Pace {
                case: case.name.clone(),
                seconds: overhead + volume(case).unwrap_or(0) as f64 * seconds_per_byte,
            })
            .collect()
    }
}

/// Limits of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allowed {
    /// Requested rounds; every volume then runs in each round.
    pub(super) rounds: Option<usize>,
    /// Time limit in seconds.
    pub(super) remaining_s: f64,
    /// Minimum number of rounds.
    pub(super) min_rounds: usize,
}

/// Number of rounds, and trials of each case in them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trials {
    pub(super) rounds: usize,
    /// Trials of the cases that don't run in every round.
    pub(super) of: BTreeMap<String, usize>,
    /// Total duration of all trials, in seconds.
    pub(super) seconds: f64,
    paces: Vec<Pace>,
}

impl Trials {
    /// Plans the trials. Requested rounds run every volume. Otherwise the smallest
    /// volumes run in every round, as far as time remains for one trial of each larger
    /// volume; the remaining time goes to larger volumes and to more rounds. A
    /// volume for which one trial is too long is skipped. The smallest volume, which
    /// the null control repeats, always runs in every round.
    pub(super) fn plan(paces: &[Pace], allowed: &Allowed) -> Trials {
        let sum = |paces: &[Pace]| paces.iter().map(|pace| pace.seconds).sum::<f64>();
        let mut ascending = paces.to_vec();
        ascending.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let needed_for = |often: usize| {
            let (often, rare) = ascending.split_at(often);
            let fitting = rare
                .iter()
                .filter(|pace| pace.seconds <= allowed.remaining_s);
            let rare_s: f64 = fitting.map(|pace| pace.seconds).sum();
            allowed.min_rounds as f64 * sum(often) + rare_s
        };
        let fits = |often: &usize| needed_for(*often) <= allowed.remaining_s;
        // Trials that take equally long run equally often: a case and its twin.
        let parts = |often: &usize| {
            let seconds = |at: usize| ascending.get(at).map(|pace| pace.seconds);
            seconds(*often) != seconds(*often - 1)
        };
        let candidates = || (1..=paces.len()).filter(parts);
        let often = match allowed.rounds {
            Some(_) => paces.len(),
            None => candidates()
                .rev()
                .find(fits)
                .or(candidates().next())
                .unwrap_or(0),
        };
        // What takes too long all by itself leaves nothing to share.
        let needed_s = match ascending.last() {
            Some(largest) if often < paces.len() => largest.seconds.max(needed_for(often)),
            _ => needed_for(often),
        };
        let spare_s = (allowed.remaining_s - needed_s).max(0.0) / 2.0;
        let (often, rare) = ascending.split_at(often);
        let share_s = spare_s / rare.len().max(1) as f64;
        let more = |pace: &Pace| (share_s / pace.seconds) as usize;
        let rare_s: f64 = rare
            .iter()
            .map(|pace| (1 + more(pace)) as f64 * pace.seconds)
            .sum();
        let fitting = ((allowed.remaining_s - rare_s).max(0.0) / sum(often)) as usize;
        let most = MAX_ROUNDS.max(allowed.min_rounds);
        let rounds = allowed
            .rounds
            .unwrap_or(fitting.clamp(allowed.min_rounds, most));
        let of: BTreeMap<String, usize> = rare
            .iter()
            .map(|pace| (pace.case.clone(), (1 + more(pace)).min(rounds)))
            .collect();
        let trials = |pace: &Pace| of.get(&pace.case).copied().unwrap_or(rounds);
        let seconds = |pace: &Pace| trials(pace) as f64 * pace.seconds;
        Trials {
            rounds,
            seconds: paces.iter().map(seconds).sum(),
            paces: paces.to_vec(),
            of,
        }
    }

    /// Returns the cases with long trials, and the seconds of one trial.
    pub(super) fn long(&self) -> BTreeMap<String, f64> {
        let long = self.paces.iter().filter(|pace| pace.seconds >= LONG_S);
        long.map(|pace| (pace.case.clone(), pace.seconds)).collect()
    }

    /// Returns the duration of a trial of each case, in seconds.
    pub(super) fn expected(&self) -> BTreeMap<String, f64> {
        let seconds = |pace: &Pace| (pace.case.clone(), pace.seconds);
        self.paces.iter().map(seconds).collect()
    }

    /// Describes the duration in one line.
    pub(super) fn announcement(&self) -> String {
        let rare: Vec<String> = self
            .of
            .iter()
            .map(|(case, trials)| format!("{case} in {trials} of them"))
            .collect();
        let rare = if rare.is_empty() {
            String::new()
        } else {
            format!(" ({})", rare.join(", "))
        };
        let longest = self.paces.iter().map(|pace| pace.seconds);
        let longest = longest.fold(0.0, f64::max);
        format!(
            "pipespeed: {}{rare}, about {}; the longest trial takes about {}, and nothing is \
             drawn while it runs",
            pluralize(self.rounds, "round"),
            in_words(self.seconds),
            in_words(longest)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paces(seconds: &[f64]) -> Vec<Pace> {
        let pace = |(at, &seconds): (usize, &f64)| Pace {
            case: at.to_string(),
            seconds,
        };
        seconds.iter().enumerate().map(pace).collect()
    }

    fn allowed(remaining_s: f64) -> Allowed {
        Allowed {
            rounds: None,
            remaining_s,
            min_rounds: 9,
        }
    }

    #[test]
    fn what_takes_too_long_for_every_round_runs_in_some() {
        // As on a guest where 64 KiB pipes do 0.7 GiB/s.
        let trials = Trials::plan(&paces(&[0.4, 0.4, 3.6, 36.0]), &allowed(160.0));
        assert_eq!(trials.of, BTreeMap::from([("3".to_owned(), 2)]));
        assert_eq!(trials.rounds, 20);
        assert!(trials.seconds <= 160.0, "{trials:?}");
        assert_eq!(trials.long().len(), 2);
    }

    #[test]
    fn where_all_fit_all_run_in_every_round() {
        let trials = Trials::plan(&paces(&[0.08, 0.08, 0.6, 5.6]), &allowed(160.0));
        assert!(trials.of.is_empty());
        assert_eq!(trials.rounds, 25);
        let trials = Trials::plan(&paces(&[0.01]), &allowed(160.0));
        assert_eq!(trials.rounds, MAX_ROUNDS);
    }

    #[test]
    fn rounds_asked_for_run_everything() {
        let asked = Allowed {
            rounds: Some(7),
            ..allowed(1.0)
        };
        let trials = Trials::plan(&paces(&[0.4, 36.0]), &asked);
        assert!(trials.of.is_empty());
        assert_eq!(trials.rounds, 7);
        assert!((trials.seconds - 7.0 * 36.4).abs() < 1e-9);
    }

    #[test]
    fn one_trial_of_each_is_the_least() {
        let trials = Trials::plan(&paces(&[0.4, 360.0]), &allowed(160.0));
        assert_eq!(trials.of, BTreeMap::from([("1".to_owned(), 1)]));
        assert_eq!(trials.rounds, 9);
    }

    #[test]
    fn what_is_too_long_itself_makes_nothing_else_rare() {
        // 0.25 GiB, its twin and 250 GiB; then with 2.5 GiB between them.
        let trials = Trials::plan(&paces(&[0.3, 0.3, 300.0]), &allowed(160.0));
        assert_eq!(trials.of, BTreeMap::from([("2".to_owned(), 1)]));
        assert_eq!(trials.rounds, 9);
        let trials = Trials::plan(&paces(&[0.3, 0.3, 3.0, 300.0]), &allowed(160.0));
        assert_eq!(trials.of, BTreeMap::from([("3".to_owned(), 1)]));
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
            let trials = Trials::plan(&paces(&seconds), &allowed(remaining_s));
            prop_assert!(!trials.of.contains_key("0") && !trials.of.contains_key("1"));
            prop_assert!(trials.of.values().all(|trials| *trials >= 1));
            prop_assert!(trials.rounds >= 9);
        }
    }
}
