//! Round trips measured in rounds, in each of which every case is launched
//! once.

use std::time::Instant;

use super::record::{CaseRecord, LatencyRecord};
use super::spec::{ExchangeMode, Length, Spec};
use super::trial::Measured;
use crate::failure::TrialError;
use crate::record::NotRun;
use crate::rounds::{
    Rounds, RunObserver, TimeBudget, TrialPlace, Work, by_case, waiting_for_processor,
};
use pipespeed_base::{signal_name, text::pluralize};
use pipespeed_host::{NoiseDelta, Warning, WarningKind, warnings};

/// The shortest and longest timed part of a launch, in seconds.
pub const MIN_TIMED_S: f64 = 0.02;
const MAX_TIMED_S: f64 = 30.0;

/// An open loop with fewer messages per launch causes a warning.
const MIN_MESSAGES: f64 = 10.0;

/// The cases of a run of round trips; `T` runs a launch.
#[derive(Debug)]
pub struct RoundTrips<T> {
    record: LatencyRecord,
    /// Whether each process has a processor of its own.
    apart: bool,
    launch: T,
    noise: Vec<NoiseDelta>,
    /// The time of a launch outside its timed part, by case, in seconds.
    overhead_s: Vec<f64>,
}

impl<T: FnMut(&Spec) -> Result<Measured, TrialError>> RoundTrips<T> {
    fn launch(
        &mut self,
        case: usize,
        mode: ExchangeMode,
        length: Length,
    ) -> Result<Option<Measured>, TrialError> {
        let settings = &self.record.settings;
        let case = &mut self.record.results.cases[case];
        let spec = Spec {
            channel: case.channel,
            size: case.size,
            pipe_bytes: settings.pipe_bytes,
            mode,
            length,
            wait: settings.wait,
            apart: self.apart,
        };
        match (self.launch)(&spec) {
            Ok(measured) => Ok(Some(measured)),
            Err(TrialError::Deadlock(deadlock)) => {
                case.deadlock = Some(*deadlock);
                Ok(None)
            }
            Err(error) => {
                case.failed += usize::from(matches!(error, TrialError::Failed(_)));
                Err(error)
            }
        }
    }
}

impl<T: FnMut(&Spec) -> Result<Measured, TrialError>> Work for RoundTrips<T> {
    type Record = LatencyRecord;

    fn record(&self) -> Option<&LatencyRecord> {
        self.record.has_results().then_some(&self.record)
    }

    fn names(&self) -> Vec<String> {
        self.record.cases.iter().map(CaseRecord::name).collect()
    }

    fn is_open(&self, case: usize) -> bool {
        let case = &self.record.cases[case];
        case.not_run.is_none() && case.deadlock.is_none()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.record.cases[case].not_run = Some(why);
    }

    fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
        // At a low rate one message would take long.
        let mode = match self.record.cases[case].mode {
            ExchangeMode::Open(_) => ExchangeMode::Closed,
            mode => mode,
        };
        let started = Instant::now();
        let length = Length::Time((MIN_TIMED_S * 1e9) as u64);
        if let Some(measured) = self.launch(case, mode, length)? {
            let launch_s = started.elapsed().as_secs_f64();
            self.overhead_s[case] = (launch_s - MIN_TIMED_S).max(0.0);
            self.noise.push(measured.noise);
        }
        Ok(())
    }

    fn trial(&mut self, case: usize, place: TrialPlace) -> Result<(), TrialError> {
        let (mode, length) = (self.record.cases[case].mode, self.record.settings.length);
        if let Some(measured) = self.launch(case, mode, length)? {
            self.record.cases[case].add(place, &measured, self.apart);
            self.noise.push(measured.noise);
        }
        Ok(())
    }

    fn summarise(&mut self, _: usize) {
        self.record.header.machine.during = NoiseDelta::overall(&self.noise);
    }
}

impl<T: FnMut(&Spec) -> Result<Measured, TrialError>> Rounds<RoundTrips<T>> {
    /// Creates a run of the cases of `record` with its settings. `apart`: whether each
    /// process has a processor of its own.
    pub fn of_round_trips(record: LatencyRecord, apart: bool, launch: T) -> Self {
        let seed = record.settings.seed;
        let work = RoundTrips {
            overhead_s: vec![0.0; record.cases.len()],
            record,
            apart,
            launch,
            noise: Vec::new(),
        };
        Rounds::begin(work, seed)
    }

    /// Runs all rounds. The timed parts of launches share the time of `budget`, unless
    /// their length is a number of round trips.
    ///
    /// # Errors
    /// On a signal, or if the given time is too short.
    pub fn measure(
        &mut self,
        budget: &TimeBudget,
        observer: &mut impl RunObserver<LatencyRecord>,
    ) -> anyhow::Result<()> {
        let rounds = self.work.record.settings.rounds;
        let is_timed = matches!(self.work.record.settings.length, Length::Time(_));
        if is_timed {
            self.pilot(observer)?;
            self.share_time(rounds, budget)?;
        }
        let few = few_messages(&self.work.record);
        self.work.record.warnings.extend(few);
        self.rounds(rounds, is_timed.then_some(budget), observer)?;
        Ok(())
    }

    /// Sets the length of launches so that all of them fit into the time.
    fn share_time(&mut self, rounds: usize, budget: &TimeBudget) -> anyhow::Result<()> {
        let launches = rounds * self.runnable();
        let overhead_s: f64 = self.open().map(|case| self.work.overhead_s[case]).sum();
        let overhead_s = overhead_s * rounds as f64;
        let rate = self.work.record.rate();
        let min_s = rate.map_or(MIN_TIMED_S, |rate| MIN_TIMED_S.max(1.0 / rate));
        let needed_s = launches as f64 * min_s + overhead_s;
        require(budget, launches, needed_s)?;
        let timed_s = (budget.remaining_s() - overhead_s) / launches.max(1) as f64;
        let timed_s = timed_s.clamp(MIN_TIMED_S, MAX_TIMED_S);
        self.work.record.settings.length = Length::Time((timed_s * 1e9) as u64);
        Ok(())
    }

    /// Ends the run and returns its record. `interrupted` is the signal that ended it
    /// early, if any.
    pub fn finish(self, interrupted: Option<i32>) -> LatencyRecord {
        let missing = self.missing();
        let RoundTrips {
            mut record, noise, ..
        } = self.work;
        record.interrupted = interrupted.map(signal_name);
        record.header.machine.during = NoiseDelta::overall(&noise);
        record.warnings.extend(missing);
        record.warnings.extend(warnings::of_noise(&noise));
        let measured = record.cases.iter().filter(|case| !case.samples.is_empty());
        let flags = measured.map(|case| (case.name(), case.samples.iter().map(|one| &*one.flags)));
        let waiting = waiting_for_processor(&by_case(flags));
        record.warnings.extend(waiting);
        record
    }
}

/// Checks that this many launches fit into the time, if it is given.
///
/// # Errors
/// Bad usage, with the time needed.
pub fn require(budget: &TimeBudget, launches: usize, needed_s: f64) -> anyhow::Result<()> {
    let what = format!("trials ({launches} in all)");
    budget.require(needed_s, &what, "take fewer channels, sizes or --rounds")
}

/// Warns about a rate at which a launch has too few messages.
fn few_messages(record: &LatencyRecord) -> Option<Warning> {
    let (Some(rate), Length::Time(ns)) = (record.rate(), record.settings.length) else {
        return None;
    };
    let launch_s = ns as f64 / 1e9;
    let messages = (rate * launch_s).round().max(1.0);
    (messages < MIN_MESSAGES).then(|| {
        let message = format!(
            "--rate {rate}: a launch of {launch_s:.2} s has {}, too few for percentiles: allow more --time, use \
             fewer --rounds, or set --count",
            pluralize(messages as usize, "message")
        );
        Warning::new(WarningKind::Quick, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{deadlock, latency_record};
    use crate::latency::spec::RoundTripOutcome;
    use crate::record::Flag;
    use crate::spec::Channel;

    fn record(length: Length) -> LatencyRecord {
        let mut record = latency_record(ExchangeMode::Closed);
        let kinds = [Channel::PIPE, Channel::Tcp, Channel::Eventfd, Channel::Unix];
        record.cases = kinds
            .map(|kind| CaseRecord::new(kind, 9, ExchangeMode::Closed))
            .to_vec();
        record.warnings.clear();
        record.settings.length = length;
        record.settings.rounds = 6;
        record
    }

    fn measured() -> Measured {
        Measured {
            outcome: RoundTripOutcome {
                counts: vec![(1000, 3)],
                seconds: 1.0,
                ..RoundTripOutcome::default()
            },
            waited_s: [Some(0.5), None],
            ..Measured::default()
        }
    }

    #[test]
    fn refused_and_deadlocked_cases_are_launched_only_once() {
        let mut refusals = 0;
        let launch = |spec: &Spec| match spec.channel {
            Channel::Eventfd => {
                refusals += 1;
                Err(NotRun::limit("too long").into())
            }
            Channel::Unix => Err(TrialError::Deadlock(Box::new(deadlock()))),
            _ => Ok(measured()),
        };
        let mut run = Rounds::of_round_trips(record(Length::Count(3)), true, launch);
        run.measure(&TimeBudget::new(1.0, false), &mut ()).unwrap();
        let record = run.finish(Some(15));
        let launches: Vec<usize> = record.cases.iter().map(|case| case.samples.len()).collect();
        assert_eq!((launches, refusals), (vec![6, 6, 0, 0], 1));
        assert_eq!(record.cases[2].not_run, Some(NotRun::limit("too long")));
        assert_eq!(record.cases[3].deadlock, Some(deadlock()));
        assert_eq!(record.interrupted.as_deref(), Some("SIGTERM"));
        assert_eq!(record.cases[0].samples[0].flags, [Flag::RunDelay]);
        let [waiting] = &record.warnings[..] else {
            panic!("{:?}", record.warnings);
        };
        assert!(
            waiting
                .message
                .contains("pipe of 9B, tcp of 9B, an end was ready"),
            "{waiting}"
        );
    }

    #[test]
    fn launches_share_the_time_or_the_time_is_refused() {
        let run = |budget: TimeBudget| {
            let launch = |_: &Spec| Ok(measured());
            let mut run = Rounds::of_round_trips(record(Length::Time(0)), true, launch);
            let outcome = run.measure(&budget, &mut ());
            outcome.map(|()| run.finish(None).settings.length)
        };
        let Length::Time(ns) = run(TimeBudget::new(100.0, true)).unwrap() else {
            panic!("counted");
        };
        // 24 launches; the pilot is over at once.
        assert!((3_500_000_000..4_170_000_000).contains(&ns), "{ns}");
        // 24 launches of at least 20 ms fit, but not 400.
        let budget = TimeBudget::new(1e-3, true);
        assert!(require(&budget, 24, 0.48).is_ok());
        let error = require(&budget, 400, 8.0).unwrap_err().to_string();
        assert!(
            error.starts_with("--time 0.001: trials (400 in all) take about 9 s"),
            "{error}"
        );
        // A time that nobody has asked for may be exceeded, however long the pilot took.
        let budget = TimeBudget::new(0.4, false);
        assert_eq!(run(budget).unwrap(), Length::Time(20_000_000));
    }

    #[test]
    fn a_rate_too_low_for_the_launch_length_gives_a_warning() {
        let warning = |mode, length| {
            let mut record = record(length);
            record.cases.iter_mut().for_each(|case| case.mode = mode);
            few_messages(&record)
        };
        let launch = Length::Time(420_000_000);
        assert_eq!(warning(ExchangeMode::Closed, launch), None);
        assert_eq!(warning(ExchangeMode::Open(24.0), launch), None);
        assert_eq!(warning(ExchangeMode::Open(1.0), Length::Count(3)), None);
        let warning = warning(ExchangeMode::Open(1.0), launch).unwrap().message;
        assert!(warning.contains("0.42 s has 1 message,"), "{warning}");
    }
}
