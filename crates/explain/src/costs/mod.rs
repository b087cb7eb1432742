//! Elementary costs of moving data on this machine, in nanoseconds. Measuring them
//! needs no privileges.
//!
//! A probe repeats one step, times it and restores the state of its pipe. All probes
//! except those of wake-ups run in one thread, so nothing waits. They are the cases of
//! a run in rounds ([`pipespeed_measure::rounds`]); a cost is the median over the
//! rounds with its exact confidence interval.

pub mod echo;
pub(crate) mod parts;
pub mod pinning;
pub(crate) mod probes;
mod wake_up;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use self::pinning::BenchmarkCalls;
use self::probes::{Drain, Fill};
use fastpipe::buffer::Pages;
use pipespeed_base::failure::Interrupted;
use pipespeed_host::Warning;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::{NotRun, RecordHeader};
use pipespeed_measure::rounds::{Rounds, TrialPlace, Work};
use pipespeed_stats::Estimate;

/// Bytes moved by each call whose cost is given per page; they fill the pipe.
pub const PIECE: usize = 256 << 10;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The cost of one step in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// `None` if the probe was not run or no round was completed.
    pub estimate: Option<Estimate>,
    /// Why there is no estimate.
    pub not_run: Option<NotRun>,
}

impl Cost {
    /// The median in nanoseconds.
    pub fn median(&self) -> Option<f64> {
        self.estimate.map(|estimate| estimate.median)
    }

    /// An invented cost with this median.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn new(median: f64) -> Cost {
        Cost {
            estimate: Estimate::new(&[median], CONFIDENCE),
            ..Cost::default()
        }
    }
}

/// The elementary costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Completed rounds.
    pub rounds: usize,
    /// The processors on which wake-ups were measured.
    pub places: Places,
    /// A system call that does nothing: getppid(2).
    pub call: Cost,
    /// A read(2) of an empty pipe.
    pub would_block: Cost,
    /// Writing a page to a pipe by write(2).
    pub write: Cost,
    /// Reading a written page by read(2).
    pub read: Cost,
    /// Adding a base page to a pipe by vmsplice(2).
    pub vmsplice_base: Cost,
    /// Adding 4 KiB of a huge page to a pipe by vmsplice(2).
    pub vmsplice_huge: Cost,
    /// Reading a vmspliced page by read(2).
    pub read_vmspliced: Cost,
    /// Splicing a base page to /dev/null.
    pub splice_base: Cost,
    /// Splicing 4 KiB of a huge page to /dev/null.
    pub splice_huge: Cost,
    /// Duplicating a page into another pipe by tee(2).
    pub tee: Cost,
    /// Moving a page to another pipe by splice(2).
    pub move_page: Cost,
    /// Pinning a base page: the estimate of [`pinning`].
    pub pin_base: Cost,
    /// Pinning 4 KiB of a huge page.
    pub pin_huge: Cost,
    /// The first write to a base page.
    pub fault_base: Cost,
    /// The first write to a huge page.
    pub fault_huge: Cost,
    /// Wake-up latency on one processor: from the waking call until the process runs.
    pub wake_up_same: Cost,
    /// Wake-up latency of a process on another processor.
    pub wake_up_other: Cost,
    /// Time that waking a process on another processor adds to the waker's call.
    pub wake_call_other: Cost,
}

impl Costs {
    /// All costs with the names of their fields.
    pub fn named(&self) -> [(&'static str, &Cost); 18] {
        [
            ("call", &self.call),
            ("would_block", &self.would_block),
            ("write", &self.write),
            ("read", &self.read),
            ("vmsplice_base", &self.vmsplice_base),
            ("vmsplice_huge", &self.vmsplice_huge),
            ("read_vmspliced", &self.read_vmspliced),
            ("splice_base", &self.splice_base),
            ("splice_huge", &self.splice_huge),
            ("tee", &self.tee),
            ("move_page", &self.move_page),
            ("pin_base", &self.pin_base),
            ("pin_huge", &self.pin_huge),
            ("fault_base", &self.fault_base),
            ("fault_huge", &self.fault_huge),
            ("wake_up_same", &self.wake_up_same),
            ("wake_up_other", &self.wake_up_other),
            ("wake_call_other", &self.wake_call_other),
        ]
    }
}

/// The settings of a measurement of costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostsSettings {
    /// The number of rounds planned.
    pub rounds: usize,
    /// The seed of the probes' order.
    pub seed: u64,
    /// The size of a base page.
    pub page_bytes: usize,
}

/// The saved record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostsRecord {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// How the costs were measured.
    pub settings: CostsSettings,
    /// Warnings about the figures.
    pub warnings: Vec<Warning>,
    /// The signal that interrupted the run; null if it was completed.
    pub interrupted: Option<String>,
    /// The costs in nanoseconds.
    pub costs_ns: Costs,
}

/// Processors on which wake-ups are measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The processor that the waking and the sleeping process share.
    pub same: Option<usize>,
    /// The processors of the waking and the sleeping process if they differ.
    pub other: Option<(usize, usize)>,
    /// The relation of those two: `different cores sharing L3`.
    pub relation: String,
}

impl Places {
    /// Chooses processors as for the two ends of a trial.
    pub fn choose(topology: &Topology) -> Places {
        let chosen = |placement| placement::choose(placement, topology).ok();
        let mut places = chosen(Placement::Different)
            .map(|chosen| Places::new(&chosen))
            .unwrap_or_default();
        if let Some(same) = chosen(Placement::Same).and_then(|chosen| chosen.writer) {
            places.same = Some(same);
        }
        places
    }

    /// The processors of a trial's ends.
    pub fn new(chosen: &Chosen) -> Places {
        let both = chosen.writer.zip(chosen.reader);
        Places {
            same: chosen.writer,
            other: both.filter(|(writer, reader)| writer != reader),
            relation: chosen.relation.clone(),
        }
    }
}

/// Measures the values of one round, in nanoseconds.
trait Probe {
    /// Runs once before the first round. An error is a refusal, for example by a seccomp
    /// filter, unless its kind is that of a broken pipe.
    fn prepare(&mut self) -> io::Result<()> {
        self.run().map(drop)
    }

    fn run(&mut self) -> io::Result<Vec<f64>>;

    /// The calls of the kernel's benchmark that make up a sample, if it is used.
    fn benchmark_calls(&self) -> Option<BenchmarkCalls> {
        None
    }
}

/// A probe that needs no preparation.
type Sampler = Box<dyn FnMut() -> io::Result<Vec<f64>>>;

impl Probe for Sampler {
    fn run(&mut self) -> io::Result<Vec<f64>> {
        self()
    }
}

/// A probe with its samples.
struct SampledProbe<T> {
    name: String,
    /// The costs or figures that the probe's values belong to.
    targets: T,
    /// The probe, or why it is not run.
    probe: Result<Box<dyn Probe>, NotRun>,
    /// The values by round.
    samples: BTreeMap<usize, Vec<f64>>,
}

impl<T> SampledProbe<T> {
    fn new(name: impl Into<String>, probe: io::Result<impl Probe + 'static>, targets: T) -> Self {
        let refused = |error: io::Error| NotRun::refused(error.to_string());
        SampledProbe {
            name: name.into(),
            targets,
            probe: probe
                .map(|probe| Box::new(probe) as Box<dyn Probe>)
                .map_err(refused),
            samples: BTreeMap::new(),
        }
    }

    /// The values with index `at`, of all rounds.
    fn values(&self, at: usize) -> Vec<f64> {
        let values = self.samples.values();
        values
            .filter_map(|values| values.get(at).copied())
            .collect()
    }
}

/// Probes as the cases of a run in rounds. `S` returns the signal that interrupts it,
/// if any.
pub struct Probes<T, S> {
    cases: Vec<SampledProbe<T>>,
    complete_rounds: usize,
    signal: S,
}

impl<T, S: FnMut() -> Option<i32>> Probes<T, S> {
    fn from_cases(cases: Vec<SampledProbe<T>>, signal: S) -> Self {
        Probes {
            cases,
            complete_rounds: 0,
            signal,
        }
    }

    /// The probe of a case, unless the run was interrupted or the case closed.
    fn probe(&mut self, case: usize) -> Result<&mut dyn Probe, TrialError> {
        match ((self.signal)(), &mut self.cases[case].probe) {
            (Some(signal), _) => Err(Interrupted(signal).into()),
            (None, Ok(probe)) => Ok(&mut **probe),
            (None, Err(why)) => Err(why.clone().into()),
        }
    }

    /// The failure of a probe, unless a signal made it fail.
    fn unless_interrupted(&mut self, failure: TrialError) -> TrialError {
        (self.signal)().map_or(failure, |signal| Interrupted(signal).into())
    }
}

impl<T, S: FnMut() -> Option<i32>> Work for Probes<T, S> {
    type Record = Self;

    fn record(&self) -> Option<&Self> {
        let has_samples = self.cases.iter().any(|case| !case.samples.is_empty());
        has_samples.then_some(self)
    }

    fn names(&self) -> Vec<String> {
        self.cases.iter().map(|case| case.name.clone()).collect()
    }

    fn is_open(&self, case: usize) -> bool {
        self.cases[case].probe.is_ok()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.cases[case].probe = Err(why);
    }

    fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
        let prepared = self.probe(case)?.prepare();
        prepared.map_err(|error| {
            self.unless_interrupted(match error.kind() {
                // A process was killed, which nobody refused.
                io::ErrorKind::BrokenPipe => TrialError::Failed(error.into()),
                _ => NotRun::refused(error.to_string()).into(),
            })
        })
    }

    fn trial(&mut self, case: usize, place: TrialPlace) -> Result<(), TrialError> {
        let values = self.probe(case)?.run();
        let values =
            values.map_err(|error| self.unless_interrupted(TrialError::Failed(error.into())))?;
        self.cases[case].samples.insert(place.round, values);
        Ok(())
    }

    fn summarise(&mut self, complete: usize) {
        self.complete_rounds = complete;
    }
}

/// Selects the costs that a probe's values belong to, in the order of the values.
pub type CostTargets = fn(&mut Costs) -> Vec<&mut Cost>;

fn probes(places: &Places) -> Vec<SampledProbe<CostTargets>> {
    let fill_and_drain = probes::fill_and_drain;
    vec![
        SampledProbe::new("call", probes::call(), |c| vec![&mut c.call]),
        SampledProbe::new("would_block", probes::would_block(), |c| {
            vec![&mut c.would_block]
        }),
        SampledProbe::new(
            "write, read",
            fill_and_drain(Fill::Write, Pages::Base, Drain::Read),
            |c| vec![&mut c.write, &mut c.read],
        ),
        SampledProbe::new(
            "vmsplice, base pages",
            fill_and_drain(Fill::Vmsplice, Pages::Base, Drain::Splice),
            |c| vec![&mut c.vmsplice_base, &mut c.splice_base],
        ),
        SampledProbe::new(
            "vmsplice, huge pages",
            fill_and_drain(Fill::Vmsplice, Pages::Huge, Drain::Splice),
            |c| vec![&mut c.vmsplice_huge, &mut c.splice_huge],
        ),
        SampledProbe::new("read_vmspliced", probes::read_vmspliced(), |c| {
            vec![&mut c.read_vmspliced]
        }),
        SampledProbe::new(
            "tee",
            fill_and_drain(Fill::Tee, Pages::Base, Drain::Splice),
            |c| vec![&mut c.tee],
        ),
        SampledProbe::new("pin, base pages", probes::pinned(Pages::Base), |c| {
            vec![&mut c.pin_base, &mut c.move_page]
        }),
        SampledProbe::new("pin, huge pages", probes::pinned(Pages::Huge), |c| {
            vec![&mut c.pin_huge]
        }),
        SampledProbe::new("fault, base pages", probes::fault(Pages::Base), |c| {
            vec![&mut c.fault_base]
        }),
        SampledProbe::new("fault, huge pages", probes::fault(Pages::Huge), |c| {
            vec![&mut c.fault_huge]
        }),
        SampledProbe::new(
            "wake-up, same processor",
            wake_up::probe(places.same.map(|cpu| (cpu, cpu))),
            |c| vec![&mut c.wake_up_same],
        ),
        SampledProbe::new(
            "wake-up, other processor",
            wake_up::probe(places.other),
            |c| vec![&mut c.wake_up_other, &mut c.wake_call_other],
        ),
    ]
}

impl<S: FnMut() -> Option<i32>> Probes<CostTargets, S> {
    /// The probes of all costs. Wake-ups are measured on `places`.
    pub fn of_costs(places: &Places, signal: S) -> Self {
        Probes::from_cases(probes(places), signal)
    }

    /// The costs measured so far.
    pub fn costs(&self, places: &Places) -> Costs {
        let mut costs = Costs {
            rounds: self.complete_rounds,
            places: places.clone(),
            ..Costs::default()
        };
        for case in &self.cases {
            for (at, cost) in (case.targets)(&mut costs).into_iter().enumerate() {
                cost.estimate = Estimate::new(&case.values(at), CONFIDENCE);
                cost.not_run = case.probe.as_ref().err().cloned();
            }
        }
        costs
    }
}

/// Measures all costs in a pilot and `rounds` rounds.
///
/// # Errors
/// `signal` returned a signal.
pub fn measure(
    places: Places,
    rounds: usize,
    signal: impl FnMut() -> Option<i32>,
) -> Result<Costs, Interrupted> {
    let mut run = Rounds::begin(Probes::of_costs(&places, signal), 0);
    run.pilot(&mut ())?;
    run.rounds(rounds, None, &mut ())?;
    Ok(run.work.costs(&places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(
        probe: io::Result<Sampler>,
        rounds: usize,
    ) -> (
        Probes<CostTargets, impl FnMut() -> Option<i32>>,
        Vec<Warning>,
    ) {
        let targets: CostTargets = |c| vec![&mut c.write, &mut c.read];
        let case = SampledProbe::new("write", probe, targets);
        let mut run = Rounds::begin(Probes::from_cases(vec![case], || None), 1);
        run.pilot(&mut ()).unwrap();
        run.rounds(rounds, None, &mut ()).unwrap();
        let missing = run.missing();
        (run.work, missing)
    }

    #[test]
    fn cost_is_median_of_its_own_samples_without_the_pilot() {
        let mut value = -1000.0;
        let probe: Sampler = Box::new(move || {
            value = f64::max(value + 1.0, 0.0);
            Ok(vec![value, 2.0 * value])
        });
        let costs = measured(Ok(probe), 7).0.costs(&Places::default());
        assert_eq!(costs.write.median(), Some(4.0));
        assert_eq!(costs.read.median(), Some(8.0));
        let interval = costs.read.estimate.unwrap().interval.unwrap();
        assert!(interval.low < 8.0 && 8.0 < interval.high);
        assert!(costs.call.estimate.is_none());
    }

    #[test]
    fn early_failure_gives_reason_and_a_late_one_a_warning() {
        let failing = |from: usize| -> io::Result<Sampler> {
            let mut calls = 0;
            Ok(Box::new(move || {
                calls += 1;
                if calls < from {
                    Ok(vec![1.0, 2.0])
                } else {
                    Err(io::ErrorKind::PermissionDenied.into())
                }
            }))
        };
        let not_created = measured(Err(io::ErrorKind::Unsupported.into()), 7);
        let at_first = measured(failing(1), 7);
        for (probes, missing) in [not_created, at_first] {
            let costs = probes.costs(&Places::default());
            for cost in [costs.write, costs.read] {
                assert!(cost.estimate.is_none() && cost.not_run.is_some());
            }
            assert!(missing.is_empty());
        }
        let (probes, missing) = measured(failing(4), 7);
        assert_eq!(probes.cases[0].samples.len(), 2);
        let costs = probes.costs(&Places::default());
        assert!(costs.write.estimate.is_some());
        assert!(missing[0].message.starts_with("3 trials failed: "));
    }

    #[test]
    fn a_process_that_is_killed_in_the_pilot_is_a_failed_trial() {
        let mut killed = true;
        let probe: Sampler = Box::new(move || {
            if std::mem::take(&mut killed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(vec![1.0, 2.0])
        });
        let (probes, missing) = measured(Ok(probe), 7);
        assert_eq!(probes.cases[0].samples.len(), 7);
        assert!(missing[0].message.starts_with("1 trial failed: "));
    }

    #[test]
    fn a_sample_that_a_signal_ends_is_no_failure() {
        // In the pilot, and in a round.
        for before in [0, 3] {
            let signalled = std::rc::Rc::new(std::cell::Cell::new(None));
            let arrives = signalled.clone();
            let mut samples = 0;
            let probe: Sampler = Box::new(move || {
                samples += 1;
                if samples <= before {
                    return Ok(vec![1.0, 2.0]);
                }
                arrives.set(Some(2));
                Err(io::ErrorKind::BrokenPipe.into())
            });
            let targets: CostTargets = |c| vec![&mut c.write, &mut c.read];
            let case = SampledProbe::new("write", Ok(probe), targets);
            let probes = Probes::from_cases(vec![case], move || signalled.get());
            let mut run = Rounds::begin(probes, 1);
            let pilot = run.pilot(&mut ());
            assert_eq!(pilot.is_err(), before == 0);
            assert!(pilot.and_then(|()| run.rounds(7, None, &mut ())).is_err());
            assert!(run.missing().is_empty(), "{:?}", run.missing());
        }
    }

    #[test]
    fn an_interrupted_measurement_keeps_its_completed_rounds() {
        let mut trials = 0;
        let signal = || {
            trials += 1;
            (trials > 40).then_some(2)
        };
        let places = Places::default();
        let mut run = Rounds::begin(Probes::of_costs(&places, signal), 1);
        run.pilot(&mut ()).unwrap();
        assert!(run.rounds(100, None, &mut ()).is_err());
        let probes = run.work;
        let costs = probes.costs(&places);
        // The 40 trials cover the pilot and two rounds.
        assert!(costs.rounds >= 2, "{}", costs.rounds);
        assert!((costs.rounds..=costs.rounds + 1).contains(&probes.cases[0].samples.len()));
        assert!(costs.call.median().unwrap() > 0.0);
        assert!(costs.wake_up_other.not_run.is_some());
        assert!(measure(Places::default(), 100, || Some(2)).is_err());
    }
}
